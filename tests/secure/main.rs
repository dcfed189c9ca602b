//! Real servers that encrypt and demand passwords: what opens them, and what they and we say when something is wrong.
//!
//! | file | what |
//! |---|---|
//! | `encrypted` | TLS with certificates of our own making, the client's included |
//! | `authenticated` | SASL DIGEST-MD5, identities of the digest scheme |
//! | `both` | a lock over both, through a restart of the server |
//! | `server` | the servers, which the tests start themselves |
//!
//! Not here: everything of this that needs no Java (`session/tests/secure/`).

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
