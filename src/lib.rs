//! A ZooKeeper client written from the wire up, and the distributed locks built on it.
//!
//! ```
//! # use lockkeeper_server::Server;
//! use lockkeeper::{Client, CreateMode, Mutex, Version};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let server = Server::builder().start().await?;
//! # let servers = server.connect_string();
//! let client = Client::connect(&servers).await?;
//! client.create("/orders", "0", CreateMode::Persistent).await?;
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
//! async fn take(servers: &str) -> Result<Guard, LockError> {
//!     let client = Client::builder(servers)?.own_thread().connect().await?;
//!     Mutex::new(&client, "/locks/orders")?.lock().await
//! }
//! ```
//!
//! What a first program needs is here at the root. The rest lies in modules by subject:
//!
//! | module | what |
//! |---|---|
//! | [`guide`] | the guide: from the first lock to the operator's runbook |
//! | [`locks`] | the other locks: [`PlainMutex`](locks::PlainMutex), [`ReentrantMutex`](locks::ReentrantMutex), [`MultiLock`](locks::MultiLock); guards, tickets and meters; tools that look at a lock from outside |
//! | [`election`] | leader election |
//! | [`client`] | settings, the session, transactions |
//! | [`watch`] | watches |
//! | [`node`] | access control, statistics |
//! | [`error`] | all errors, and what they consist of |
//! | `raw` | the layer below, for recipes of your own; with the feature `unstable` |
//! | `proto` | every record, operation and error code of the protocol; with the feature `unstable` |
//!
//! The futures of clients and locks may be polled on any executor, and code without async waits for
//! them by `futures::executor::block_on`. Without a tokio runtime the client's own task gets a
//! thread: see [`Client`].
//!
//! Code that uses it is tested without Java and without containers on the embedded server,
//! `lockkeeper-server`.
//!
//! Optional features, none of them on by default:
//!
//! | feature | what |
//! |---|---|
//! | `tls` | encryption by rustls: `client::tls::TlsConfig` |
//! | `digest-md5` | a login with a user and a password: `client::sasl::DigestMd5` |
//! | `gssapi` | a login with Kerberos, by the system's library: `client::sasl::Kerberos` |
//! | `digest` | ids of the `digest` scheme for ACLs: `digest::id`, `digest::acl` |
//! | `unstable` | `raw` and `proto`, which any release may change |
//!
//! What is promised is this crate without `unstable`. The crates `lockkeeper-*` of the library are
//! parts of it, which any release may change: depend on this one.

// On docs.rs, each item of an optional feature names it.
#![cfg_attr(docsrs, feature(doc_cfg))]

#[cfg(feature = "unstable")]
#[doc(inline)]
pub use lockkeeper_proto as proto;
#[doc(inline)]
pub use lockkeeper_proto::{CreateMode, Version, path::PathError};
#[doc(inline)]
pub use lockkeeper_recipes::{Election, FencingToken, Guard, LockError, Mutex, RwLock, Semaphore};
#[doc(inline)]
pub use lockkeeper_session::{Client, Error};

/// The client: its settings, its session, and operations on several nodes at once.
pub mod client {
    #[doc(no_inline)]
    pub use crate::Client;
    #[doc(inline)]
    pub use lockkeeper_proto::{SessionId, Zxid};
    #[cfg(feature = "digest")]
    #[doc(inline)]
    pub use lockkeeper_session::digest;
    #[doc(inline)]
    pub use lockkeeper_session::{
        Builder, Changes, Clock, ConnectString, Connector, DurationHistogram, Endpoint, Identity,
        Lease, LeasePolicy, Metrics, OpResult, Read, ReadResult, SessionTicket, Snapshot, State,
        Transaction, Transport,
    };

    /// SASL: logs in on each new connection. A mechanism is an
    /// [`Authenticator`](sasl::Authenticator).
    pub mod sasl {
        #[cfg(feature = "digest-md5")]
        #[doc(inline)]
        pub use lockkeeper_sasl::DigestMd5;
        #[cfg(feature = "gssapi")]
        #[doc(inline)]
        pub use lockkeeper_sasl::Kerberos;
        #[doc(inline)]
        pub use lockkeeper_session::sasl::{Authenticator, Exchange, Step};
    }

    /// TLS with rustls: encrypts the byte stream of a connector. Start with
    /// [`TlsConfig`](tls::TlsConfig).
    // A module of its own: otherwise the documentation has every page of rustls.
    #[cfg(feature = "tls")]
    pub mod tls {
        #[doc(no_inline)]
        pub use lockkeeper_tls::rustls;
        #[doc(inline)]
        pub use lockkeeper_tls::{TlsConfig, TlsConfigError};
    }
}

/// The locks, their guards, tickets and meters, and tools that look at a lock from outside.
pub mod locks {
    #[doc(no_inline)]
    pub use crate::{FencingToken, Guard, Mutex, RwLock, Semaphore};
    #[doc(inline)]
    pub use lockkeeper_recipes::{
        GuardView, GuardedTransaction, Kind, LockMeter, LockMetrics, LockState, LockTicket, Member,
        MultiGuard, MultiLock, PlainMutex, QueueEntry, REVOKE, ReentrantGuard, ReentrantMutex,
        Ticket, WriteGuard, break_lock, inspect, revoke,
    };
}

/// Leader election: for one piece of work, or in the background for as long as the client lives.
pub mod election {
    #[doc(no_inline)]
    pub use crate::Election;
    #[doc(inline)]
    pub use lockkeeper_recipes::Latch;
}

/// Watches: being told of the next change of a node, or of every change.
pub mod watch {
    #[doc(inline)]
    pub use lockkeeper_proto::{AddWatchMode, EventType, WatcherType};
    #[doc(inline)]
    pub use lockkeeper_session::{Missed, PersistentWatcher, WatchNotice, WatchedEvent, Watcher};
}

/// What a node has besides its data: its statistics, and who may do what with it.
pub mod node {
    #[doc(no_inline)]
    pub use crate::{CreateMode, Version};
    #[doc(inline)]
    pub use lockkeeper_proto::jute::Names;
    #[doc(inline)]
    pub use lockkeeper_proto::{Acl, Acls, Id, Perms, Stat};
    #[doc(inline)]
    pub use lockkeeper_session::{Children, Created, NodeAcl, NodeData};
}

/// All errors, and what they consist of.
pub mod error {
    #[doc(no_inline)]
    pub use crate::{Error, LockError, PathError};
    #[doc(inline)]
    pub use lockkeeper_proto::ErrorCode;
    #[doc(inline)]
    pub use lockkeeper_recipes::{Loss, NotHandedOver, Obstacle};
    #[doc(inline)]
    pub use lockkeeper_session::{
        AuthFailure, Cause, ConnectStringError, Effect, ErrorKind, Lost, Peer, Slow,
    };
}

#[cfg(any(doc, doctest))]
pub mod guide;

/// The layers below the methods of a client: [`AsRaw::raw`](raw::AsRaw::raw) for programs that write
/// a recipe of their own, and the [state machine](raw::machine) of a session for programs that have
/// an I/O layer of their own.
#[cfg(feature = "unstable")]
pub mod raw {
    #[doc(inline)]
    pub use lockkeeper_session::machine;
    #[doc(inline)]
    pub use lockkeeper_session::{
        AsRaw, GroupEvent, LeaseKeeper, PendingReply, Raw, Sleep, WatchGroup,
    };
}

/// The examples of the README run with the documentation tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct ReadmeDoctests;
