//! An in-process `ZooKeeper` server: the real protocol, in memory, on one machine.
//!
//! For tests, so that code which needs ZooKeeper can be tested without Java and Docker, and for
//! services on a single machine. It behaves as Apache ZooKeeper 3.9.3 does. It has
//!
//! - sessions that expire in ticks;
//! - ephemeral and sequential nodes, containers, and nodes with a time to live;
//! - every kind of watch;
//! - ACLs with the schemes `world`, `auth`, `ip` and `digest`;
//! - transactions and four-letter words.
//!
//! It loses all data when it stops. A server that is started again at its old address grants no
//! lock before the sessions of the former server have ended, unless it is [fresh](Builder::fresh).
//!
//! A [`Cluster`] is several servers in one process, with
//! elections, servers that lag, and links that are cut.
//!
//! ```
//! use lockkeeper_server::Server;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::start().await?; // at a free port
//! let connect_string = server.connect_string(); // for any ZooKeeper client
//! assert_eq!(server.report().nodes, 0);
//! let address = server.local_addr();
//! server.shutdown().await;
//!
//! // At a port of your choice, `fresh` says that no client relies on a former server there.
//! let server = Server::builder().listen(address).fresh().start().await?;
//! # server.shutdown().await;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! [`Server::faults`] makes the server misbehave on demand, and [`Server::advance`] moves its
//! clock. [`Server::counters`] says what clients did, and [`Server::report`] and
//! [`Server::assert_no_leaks`] what they left behind. With the feature `unstable`,
//! `engine::Engine` is the whole server without sockets and clocks.
//!
//! The server limits what one client can do to it:
//!
//! - It reads requests only as fast as the client reads replies.
//! - It cuts a connection for which more than 16 MiB are queued, or whose session has more than 8 MiB
//!   of requests that wait for a write.
//! - It closes a connection that does not complete its handshake in time.
//! - After 100 requests of one connection, the other connections have their turn.
//!
//! Nodes, watches and sessions take memory in proportion to what clients have sent; they have no
//! limit. The server has four limits that ZooKeeper does not have:
//!
//! - 256 entries in an ACL;
//! - 32 identities of a connection, with 4 KiB of text together;
//! - 8 MiB in the reply to one `multiRead`;
//! - 10,000 connections ([`Builder::max_connections`]).
//!
//! It always creates nodes with a time to live. ZooKeeper does so only with
//! `zookeeper.extendedTypesEnabled=true`.
//!
//! Not served: quotas, `reconfig` (the reply says that it is disabled), read-only mode, and TLS.
//! Two internal operations are not served either, although the real server accepts them from every
//! client: `deleteContainer` and `createSession`. SASL is answered as by a ZooKeeper without JAAS: the
//! reply to each token is null.

#![cfg_attr(docsrs, feature(doc_cfg))]
#![cfg_attr(
    not(test),
    deny(
        clippy::indexing_slicing,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic
    )
)]

mod builder;
mod clock;
mod cluster;
#[cfg(feature = "unstable")]
#[allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "callers must handle every output, and make the inputs"
)]
pub mod engine;
#[cfg(not(feature = "unstable"))]
#[allow(
    clippy::exhaustive_structs,
    dead_code,
    unreachable_pub,
    reason = "only who has the feature uses all of it"
)]
mod engine;
mod faults;
mod net;
mod outgoing;
mod server;
mod shared;

pub use builder::Builder;
pub use cluster::Cluster;
pub use engine::{Counters, Report, ServerId, SessionReport, When};
pub use faults::Faults;
pub use lockkeeper_proto::{ErrorCode, OpCode, SessionId, Zxid};
pub use server::Server;
