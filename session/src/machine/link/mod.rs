//! The link to the servers: which server is next, how far a connection is, and whether it is alive.
//!
//! | file | what |
//! |---|---|
//! | `servers` | which server to try next, after which pause, and why the last ones failed |
//! | `attempt` | a connection until the server accepts requests |
//! | `established` | a connection that accepts requests: pings, silence, leaving it |
//! | `sasl` | the interface of a SASL mechanism |

mod attempt;
mod established;
pub mod sasl;
mod servers;

pub(crate) use attempt::{Attempt, Stage, Trouble};
pub(crate) use established::Link;
pub(crate) use servers::Servers;
