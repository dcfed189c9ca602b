//! Byte streams to servers.
//!
//! | file | what |
//! |---|---|
//! | `dial` | TCP connections: names and their addresses |
//! | `tls` | encryption of them (feature `tls`) |
//! | `probe` | asking a server whether it accepts writes |
//! | `transport` | byte streams, and how they are cut into frames |

mod dial;
pub(super) mod probe;
#[cfg(feature = "tls")]
pub mod tls;
pub(super) mod transport;
