//! Real servers with TLS and passwords: what the client needs to connect, and which errors both
//! sides give.
//!
//! | file | content |
//! |---|---|
//! | `encrypted` | TLS with test certificates for the server and the client |
//! | `authenticated` | SASL, with the mechanism of the example `digest_md5`; identities of the digest scheme |
//! | `both` | a lock over TLS and SASL, through a restart of the server |
//!
//! Not here: everything about TLS that needs no Java (`tls/tests/`), and the states of a SASL exchange
//! (`session/src/machine/tests/sasl.rs`).

use lockkeeper_test_support::{certificates, secure_server as server};

#[allow(dead_code, reason = "an example has a `main`")]
#[path = "../../examples/digest_md5.rs"]
mod digest_md5;

mod needs_java {
    mod authenticated;
    mod both;
    mod encrypted;
}
