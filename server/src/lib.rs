//! An in-process `ZooKeeper` server: the real protocol, in memory, on one machine.
//!
//! For tests, so that code which needs ZooKeeper is tested without Java and Docker, and for services that run on a single
//! machine. It behaves as Apache ZooKeeper 3.9.3 does when it runs alone: sessions that expire in ticks, ephemeral and
//! sequential nodes, containers and times to live, every kind of watch, ACLs with the digest scheme, transactions, and
//! four-letter words. It is no cluster, and forgets everything when it stops.
//!
//! ```
//! use lockkeeper_server::Server;
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
//! let server = Server::start().await?;
//! let connect_string = server.connect_string(); // for any ZooKeeper client
//! assert_eq!(server.report().nodes, 0);
//! server.shutdown().await;
//! # Ok::<(), std::io::Error>(())
//! # }).unwrap();
//! ```
//!
//! [`Server::faults`] makes it misbehave on demand; [`Server::report`] and [`Server::counters`] tell what clients left behind
//! and what they did. The whole server without sockets and clocks is [`engine::Engine`].
//!
//! A client can do it no more harm than this: it is read from as fast as it reads, cut off when 16 MiB wait for it, closed when
//! it does not complete its handshake in time, and has its turn like others. Nodes, watches and sessions take memory in
//! proportion to what clients have sent: there is no limit on those. Limits that ZooKeeper does not have: 256 entries of an
//! ACL, 32 identities of a connection (4 KiB of them), 8 MiB in the reply to one `multiRead`, 10,000 connections
//! ([`Builder::max_connections`]).
//!
//! Not served: quotas, `reconfig` (answered as disabled), read-only mode, TLS, and two of the real server's own operations
//! that it takes from anybody (`deleteContainer`, `createSession`). With the feature `sasl-digest-md5` there can be users
//! with passwords (`Builder::user`); SASL is answered as not configured where there are none.

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
pub mod engine;
mod faults;
#[doc(hidden)]
pub mod fuzzing;
mod net;
mod outgoing;
mod server;
mod shared;

pub use builder::Builder;
pub use engine::{Counters, Report, RuleId, SessionReport, Traffic, When};
pub use faults::Faults;
pub use lockkeeper_proto as proto;
pub use server::Server;
