//! Passwords, without Java.
//!
//! | file | content |
//! |---|---|
//! | `sasl` | a login at a server that knows no SASL |
//! | `secrets` | no secret is printed or logged |
//!
//! Not here: TLS (`tls/tests/`), real servers (`tests/real/secure/` of the workspace).

mod sasl;
mod secrets;
