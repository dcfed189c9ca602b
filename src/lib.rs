//! A ZooKeeper client written from the wire up, and the distributed locks built on it.
//!
//! ```
//! # use lockkeeper_server::Server;
//! use lockkeeper::{Client, Mutex, Version};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let server = Server::builder().start().await?;
//! # let servers = server.connect_string();
//! let client = Client::connect(&servers).await?;
//! client.create("/orders", "0", Default::default()).await?;
//!
//! let guard = Mutex::new(&client, "/locks/orders")?.lock().await?;
//! println!("held with token {}", guard.fencing_token());
//! // Written only if the lock is still held when the write happens:
//! guard.transaction().set_data("/orders", "1", Version::ANY).commit().await?;
//! // Success says that the lock was held until now:
//! guard.release().await?;
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A function that takes a lock has one error type:
//!
//! ```
//! use lockkeeper::{Client, Guard, LockError, Mutex};
//!
//! async fn take(client: &Client) -> Result<Guard, LockError> {
//!     Mutex::new(client, "/locks/orders")?.lock().await
//! }
//! ```
//!
//! This crate only gathers what the layers below it offer:
//!
//! | layer | crate | what |
//! |---|---|---|
//! | locks | `lockkeeper-recipes` | [`Mutex`], [`RwLock`], [`Semaphore`], [`PlainMutex`], [`ReentrantMutex`], [`MultiLock`], [`Election`]; and what a holder has in hand, [`Guard`] |
//! | session | `lockkeeper-session` | [`Client`]: one session over whichever server takes it |
//! | protocol | `lockkeeper-proto` | [`proto`]: every record, operation and error code |
//!
//! Code that uses it is tested without Java and without containers on the embedded server, `lockkeeper-server`.
//!
//! Optional features, none of them on by default:
//!
//! | feature | what |
//! |---|---|
//! | `tls` | encryption by rustls: `Connector::tls`, `tls::TlsConfig` |
//! | `sasl-digest-md5` | a user and a password for servers that demand SASL: `DigestMd5`, `Builder::sasl` |
//! | `digest` | ids of the `digest` scheme for ACLs: `digest::id`, `digest::acl` |

pub use lockkeeper_proto as proto;
pub use lockkeeper_proto::path::PathError;
pub use lockkeeper_proto::{
    Acl, Acls, AddWatchMode, CreateMode, EnsembleConfig, EnsembleConfigError, EnsembleServer,
    ErrorCode, EventType, Perms, SessionId, Stat, Version, WatcherType, Zxid,
};
pub use lockkeeper_recipes::{
    DurationHistogram, Election, Error as LockError, FencingToken, Guard, GuardedTransaction,
    Latch, LeadOutcome, Leadership, LockMetrics, LockState, Loss, Member, MultiGuard, MultiLock,
    Mutex, Participant, PlainMutex, QueueEntry, REVOKE, Recipe, ReentrantGuard, ReentrantMutex,
    RwLock, Semaphore, SemaphoreTicket, Ticket, WriteGuard, break_lock, inspect, rank, revoke,
};
pub use lockkeeper_session::{
    AuthFailure, Builder, Cause, Client, Clock, ConnectError, ConnectString, ConnectStringError,
    Connector, Effect, Endpoint, Error, Lease, LeasePolicy, Lost, Metrics, Missed, OnExpiry,
    OpResult, Peer, PendingReply, PersistentWatcher, ReadResult, ReadTransaction, Snapshot, State,
    TlsFailure, Transaction, Transport, UnsupportedReason, WatchNotice, WatchedEvent, Watcher,
    WhenDisconnected, sasl,
};

#[cfg(feature = "sasl-digest-md5")]
pub use lockkeeper_session::DigestMd5;
#[cfg(feature = "digest")]
pub use lockkeeper_session::digest;
#[cfg(feature = "tls")]
pub use lockkeeper_session::tls;

/// The examples of the README run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
