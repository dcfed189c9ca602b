//! Real servers with TLS and passwords: what the client needs to connect, and which errors both sides give.
//!
//! | file | content |
//! |---|---|
//! | `encrypted` | TLS with test certificates for the server and the client |
//! | `authenticated` | SASL DIGEST-MD5, identities of the digest scheme |
//! | `both` | a lock over TLS and SASL, through a restart of the server |
//! | `server` | the servers, which the tests start themselves |
//!
//! Not here: everything about TLS and SASL that needs no Java (`session/tests/secure/`).

#[path = "../../session/tests/secure/certificates.rs"]
mod certificates;
mod server;
#[path = "../support/mod.rs"]
mod support;

mod needs_java {
    mod authenticated;
    mod both;
    mod encrypted;
}
