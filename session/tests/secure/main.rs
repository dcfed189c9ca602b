//! Encrypted and authenticated connections, without Java. The embedded server knows users; a TLS
//! proxy in front of it, the gate, encrypts.
//!
//! | file | content |
//! |---|---|
//! | `tls` | correct certificates, and each kind of wrong certificate |
//! | `sasl` | DIGEST-MD5 over real connections, repeated on each of them |
//! | `secrets` | no secret is printed or logged |
//!
//! The same tests against real servers: `tests/secure/` of the workspace.

mod sasl;
mod secrets;
mod tls;

use lockkeeper_test_support::{certificates, gate};
