//! Real servers with TLS and passwords: what the client needs to connect, and which errors both
//! sides give.
//!
//! | file | content |
//! |---|---|
//! | `encrypted` | TLS with test certificates for the server and the client |
//! | `authenticated` | SASL DIGEST-MD5, identities of the digest scheme |
//! | `both` | a lock over TLS and SASL, through a restart of the server |
//!
//! Not here: everything about TLS and SASL that needs no Java (`session/tests/secure/`).

use lockkeeper_test_support::{certificates, secure_server as server};

mod needs_java {
    mod authenticated;
    mod both;
    mod encrypted;
}
