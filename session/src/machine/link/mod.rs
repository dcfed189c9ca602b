//! The connection to a server: how it begins, how it ends, and which server comes next.
//!
//! | file | what |
//! |---|---|
//! | `connection` | the handshake, the end of a connection, the expiry of a session |
//! | `endpoints` | which server to try next, and after which pause |
//! | `moving` | leaving a healthy connection for another server |
//! | `auth` | identities that each connection sends first |
//! | `sasl` | the SASL exchange of a connection |

pub(super) mod auth;
pub(super) mod connection;
pub(super) mod endpoints;
pub(super) mod moving;
pub mod sasl;
