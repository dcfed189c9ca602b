//! The connection to a server: how it begins, how it ends, and which server is next.
//!
//! | file | what |
//! |---|---|
//! | `connection` | everything that is dropped with a connection |
//! | `handshake` | from the attempt to connect to the first request |
//! | `end` | the end of a connection, of a session, of the machine |
//! | `endpoints` | which server to try next, and after which pause |
//! | `moving` | leaving a healthy connection for another server |
//! | `search` | when to ask another server whether it accepts writes |
//! | `auth` | identities, which each connection sends first |
//! | `sasl`, `authenticate` | the interface of a SASL mechanism; the exchange of a connection |

mod auth;
mod authenticate;
pub(crate) mod connection;
mod end;
pub(crate) mod endpoints;
mod handshake;
mod moving;
pub mod sasl;
pub(crate) mod search;
