//! A ZooKeeper client in two layers: a pure state machine for the session, and a TCP client that
//! drives it.
//!
//! [`machine`] makes every decision: which server to try, what to send, which request a reply
//! answers, when the session is lost, and how long the lease lasts. It has no socket, clock, task
//! or global randomness. So one seed replays a failure, and a fuzzer can reach reconnect and
//! expiry. The client moves bytes between the machine and the servers: as a task of tokio (feature
//! `tokio`, on by default), of the program's runtime or of one on a thread of its own.
//!
//! ```
//! # use lockkeeper_server::Server;
//! use lockkeeper_session::Client;
//! use lockkeeper_proto::{CreateMode, Version};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let server = Server::builder().start().await?;
//! # let servers = server.connect_string();
//! let client = Client::connect(&servers).await?;
//! client.create("/config", "v1", CreateMode::Persistent).await?;
//! let (node, watcher) = client.get_data_and_watch("/config").await?;
//! client.set_data("/config", "v2", node.stat.version).await?;
//! assert_eq!(watcher.await?.path, "/config");
//! client.close().await;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The feature `digest`, off by default, has ids of the `digest` scheme for ACLs: `digest::id`,
//! `digest::acl`. TLS is a [`Connector`], in the crate `lockkeeper-tls`.

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

mod auth_failure;
#[cfg(feature = "tokio")]
mod client;
mod connect_string;
#[cfg(feature = "digest")]
pub mod digest;
mod error;
mod histogram;
pub mod machine;
mod peer;
mod slow;

pub use auth_failure::AuthFailure;
#[cfg(feature = "tokio")]
pub use client::sync;
#[cfg(feature = "tokio")]
#[doc(inline)]
pub use client::sync::changes::Changes;
#[cfg(feature = "tokio")]
pub use client::{
    AsRaw, Builder, Children, Client, Clock, Connector, Created, GroupEvent, Identity, Lease,
    LeaseKeeper, Missed, NodeAcl, NodeData, OpResult, PendingReply, PersistentWatcher, Raw, Read,
    ReadResult, Sleep, Transaction, Transport, WatchGroup, WatchNotice, Watcher,
};
pub use connect_string::{ConnectString, ConnectStringError, DEFAULT_PORT, Endpoint};
#[doc(hidden)]
pub use error::Exact;
pub use error::{Cause, Effect, Error, ErrorKind, Lost};
pub use histogram::DurationHistogram;
pub use lockkeeper_proto as proto;
pub use machine::{
    Config, Event as WatchedEvent, LeasePolicy, Metrics, SessionTicket, Snapshot, State, sasl,
};
pub use peer::Peer;
pub use slow::Slow;
