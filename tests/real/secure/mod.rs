//! Real servers with TLS and passwords: what the client needs to connect, and which errors both
//! sides give.
//!
//! | file | content |
//! |---|---|
//! | `encrypted` | TLS with test certificates for the server and the client |
//! | `authenticated` | SASL, with DIGEST-MD5; identities of the digest scheme |
//! | `both` | a lock over TLS and SASL, through a restart of the server |
//!
//! Not here: everything about TLS that needs no Java (`tls/tests/`), and the states of a SASL exchange
//! (`session/src/machine/tests/sasl.rs`).

use lockkeeper_test_support::{certificates, secure_server as server};

mod needs_java {
    mod authenticated;
    mod both;
    mod encrypted;
}
