//! The messages of the ZooKeeper client protocol as plain values: records, operations, error codes,
//! ACLs, paths, frames.
//!
//! Not here: state. Nothing in this crate remembers one message until the next. The client's
//! session machine and the embedded server decide who may send which message when. Both use this
//! crate, and share nothing above it.
//!
//! | module | content |
//! |---|---|
//! | [`frame`] | frames, which are a length of four bytes and a message: splitting a stream, building a frame |
//! | [`connect`] | the two messages of the handshake, which have no header |
//! | [`header`] | the header before every other message |
//! | [`Request`], [`Response`] | the bodies of requests and replies, generated from the table of operations |
//! | [`records`] | the request and reply records |
//! | [`multi`] | transactions and multi-reads |
//! | [`path`] | the rules for paths, and the parts of a path |
//!
//! Wire enumerations ([`ErrorCode`], [`OpCode`], [`EventType`], ..) are newtypes with named
//! constants. A value without a name is kept, and prints as a number.

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "users make and match each message: the protocol says what it consists of"
)]
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
mod error_code;
mod event;
pub mod frame;
pub mod header;
mod ids;
pub mod multi;
mod operation;
pub mod path;
pub mod records;
mod stat;

#[cfg(test)]
use lockkeeper_test_support::cases;

pub use acl::{Acl, Acls, Id, Perms};
pub use create_mode::CreateMode;
pub use error_code::ErrorCode;
pub use event::{AddWatchMode, EventType, KeeperState, WatcherEvent, WatcherType};
pub use ids::{SessionId, Version, Xid, Zxid};
pub use lockkeeper_jute as jute;
pub use operation::{Class, OpCode, Request, Response};
pub use stat::Stat;
