//! Encrypted and authenticated connections, without Java: in front of the embedded server, which knows users, stands a gate
//! that speaks TLS.
//!
//! | file | what |
//! |---|---|
//! | `tls` | certificates that are right, and in every way wrong |
//! | `sasl` | DIGEST-MD5 over real connections, and again on each of them |
//! | `secrets` | what is printed and logged of all that |
//! | `gate` | the gate |
//! | `certificates` | authorities and what they sign |
//!
//! The same against real servers: `tests/secure/` of the workspace.

mod certificates;
mod gate;
mod sasl;
mod secrets;
mod tls;
