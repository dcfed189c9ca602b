//! Encrypted and authenticated connections, without Java. A TLS proxy in front of the embedded
//! server, the gate, encrypts.
//!
//! | file | content |
//! |---|---|
//! | `tls` | correct certificates, and each kind of wrong certificate |
//! | `sasl` | a login at a server that knows no SASL |
//! | `secrets` | no secret is printed or logged |
//!
//! Tests of real servers: `tests/secure/` of the workspace.

mod sasl;
mod secrets;
mod tls;

use lockkeeper_test_support::{certificates, gate};
