//! The ZooKeeper client protocol as values: every record, operation, error code, ACL and path rule, and frame splitting.
//!
//! Nothing here remembers anything between two messages: who may send what when is the business of the client's
//! session machine and of the embedded server, which share this crate and nothing above it.
//!
//! | module | what |
//! |---|---|
//! | [`frame`] | four bytes of length, then a message: splitting a stream, building a frame |
//! | [`connect`] | the two messages of the handshake, which have no header |
//! | [`header`] | what stands before every other message |
//! | [`operation`] | the table of operations: opcode, request record, reply record |
//! | [`records`] | those records |
//! | [`multi`] | transactions and multi-reads |
//! | [`path`] | which paths are legal, and their parts |
//!
//! Wire enumerations ([`ErrorCode`], [`OpCode`], [`EventType`], ..) are newtypes with named constants: a value that
//! nobody has named yet survives and prints.

#![no_std]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::arithmetic_side_effects,
        clippy::as_conversions
    )
)]

extern crate alloc;

mod acl;
pub mod connect;
mod create_mode;
mod ensemble_config;
mod error_code;
mod event;
pub mod frame;
#[doc(hidden)]
pub mod fuzzing;
pub mod header;
mod ids;
pub mod multi;
pub mod operation;
pub mod path;
pub mod records;
mod stat;

#[cfg(test)]
#[path = "../../jute/tests/cases/mod.rs"]
mod cases;

pub use acl::{Acl, Acls, Id, Perms};
pub use create_mode::CreateMode;
pub use ensemble_config::{EnsembleConfig, EnsembleConfigError, EnsembleServer};
pub use error_code::ErrorCode;
pub use event::{AddWatchMode, EventType, KeeperState, WatcherEvent, WatcherType};
pub use ids::{SessionId, Version, Xid, Zxid};
pub use lockkeeper_jute as jute;
pub use operation::{OpCode, Request, Response};
pub use stat::Stat;
