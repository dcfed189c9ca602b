//! The errors of requests: why a request failed, and whether the server may have applied it.
//!
//! Not here: why a connection ended (`cause`), why authentication failed (`auth_failure`).

mod cause;
mod exact;

use std::{fmt, sync::Arc, time::Duration};

use lockkeeper_proto::{Class, ErrorCode, OpCode, jute::DecodeError, path::PathError};

use crate::{AuthFailure, ConnectStringError, Peer, peer::Bracketed};

pub use cause::{Cause, Lost};
pub use exact::Exact;

/// Whether a failed request may have changed anything on the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "there is nothing between applied and not applied but not to know"
)]
pub enum Effect {
    /// The server refused the request or never got it: nothing has changed.
    NotApplied,
    /// The client sent the request and got no usable reply: the server may have applied it, or may
    /// still apply it.
    Unknown,
}

/// Why a request failed, the server and the session, and whether the request may have been applied.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// # mod lockkeeper { pub mod error { pub use lockkeeper_session::{Effect, ErrorKind}; } }
/// use lockkeeper::error::{Effect, ErrorKind};
///
/// let error = client.get_data("/none").await.unwrap_err();
/// assert!(error.is_no_node() && error.effect() == Effect::NotApplied);
/// match error.kind() {
///     ErrorKind::Refused { path, .. } => assert_eq!(path, "/none"),
///     kind => panic!("{kind:?}"),
/// }
/// assert_eq!(error.peer().server, client.snapshot().server);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
// Errors are values: all who wait for one connection get clones of its error, a message names
// servers with equal causes together, and tests compare errors whole. So a source that cannot be
// compared, as an `io::Error`, is kept as its kind and its text.
//
// One word, as results are moved several times on their way to the caller. Shared, as the code that
// drops it is then small wherever a result is dropped.
pub struct Error(Arc<Inner>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    peer: Peer,
    effect: Effect,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
// A variant with named fields may get more. One that holds a single value keeps to that.
pub enum ErrorKind {
    /// The server refused the request.
    #[non_exhaustive]
    Refused {
        /// The operation.
        op: OpCode,
        /// The path of the node, as the caller named it. Empty if the operation has none.
        path: String,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The server does not support this operation.
    ///
    /// Such a server closes the connection on the operation. So the client does not send it again
    /// on this connection and the next one. After that it may be sent again, because servers are
    /// upgraded one by one.
    ///
    /// Watches end with this error, too, after eight connections in a row that ended on the request
    /// that sets them.
    Unsupported(OpCode),
    /// The server refused a transaction because of one of its operations. It applied none of them.
    #[non_exhaustive]
    TransactionRefused {
        /// The index of the operation, counted from 0.
        index: usize,
        /// The server's reason.
        code: ErrorCode,
    },
    /// The servers refused to delete some nodes of a tree
    /// ([`Client::delete_all`](crate::Client::delete_all)).
    #[non_exhaustive]
    NotAllDeleted {
        /// Why, for each node that was left because the servers refused it; each error names its
        /// node. Those above such a node were left, too, and are not listed.
        left: Vec<Error>,
    },
    /// The connection was lost after the request was sent and before its reply came. The effect of
    /// a read is [`Effect::NotApplied`].
    ConnectionLost(Cause),
    /// No server could be reached in time. The request was never sent. The server of the error is
    /// the one that was tried last.
    ///
    /// The error comes earlier when no server can be reached until somebody changes a setting.
    #[non_exhaustive]
    Unreachable {
        /// How long the request waited.
        waited: Duration,
        /// The servers that were tried last, and why each failed. For a long list: the newest
        /// sixteen.
        tried: Arc<[Lost]>,
        /// The number of servers in the list.
        servers: usize,
    },
    /// The session has expired. The servers have deleted its ephemeral nodes, or will do so.
    ///
    /// There is no server when the client itself concluded the expiry, or when the request belongs
    /// to an earlier session.
    SessionExpired,
    /// The watch was removed with [`remove_watches`](crate::machine::Machine::remove_watches).
    WatchRemoved,
    /// The client has a watch of another kind on the node.
    ///
    /// One client keeps one kind of watch on a node: one-shot, persistent or recursive, as servers
    /// before 3.9 do. [`Client::add_watch`](crate::Client::add_watch) is refused beside another
    /// kind. A read that leaves a one-shot watch, as locks do, ends the other kinds with this error.
    /// A second client may watch the node in another way.
    WatchConflict,
    /// Authentication failed. The client has ended.
    AuthFailed(AuthFailure),
    /// The client was closed.
    Closed,
    /// The path is invalid. The request was not sent.
    BadPath(PathError),
    /// The list of servers is invalid. There is no client.
    BadConnectString(ConnectStringError),
    /// The request is longer than servers accept. It was not sent.
    #[non_exhaustive]
    TooLarge {
        /// The length of the request in bytes.
        length: usize,
        /// The longest request that the client sends, in bytes.
        limit: usize,
    },
    /// The reply is longer than this client accepts
    /// ([`Builder::frame_limit`](crate::Builder::frame_limit)). The client did not read it.
    ///
    /// The request has succeeded on the server. If you repeat a read, its reply is as long again.
    #[non_exhaustive]
    ReplyTooLarge {
        /// The operation.
        op: OpCode,
        /// The length of the reply in bytes.
        length: usize,
        /// The longest reply that the client accepts, in bytes.
        limit: usize,
    },
    /// Too many requests are pending, and the reserve for requests that cannot wait is used up,
    /// too. The request was not sent.
    #[non_exhaustive]
    TooManyRequests {
        /// The number of pending requests.
        requests: usize,
        /// The bytes of the requests that wait to be sent.
        bytes: usize,
    },
    /// The deadline that the caller has set has passed. The error has a server if there was a
    /// connection.
    #[non_exhaustive]
    DeadlineExceeded {
        /// The operation.
        op: OpCode,
        /// How long the caller was willing to wait.
        waited: Duration,
    },
    /// The reply could not be decoded. The connection goes on.
    #[non_exhaustive]
    Malformed {
        /// The operation.
        op: OpCode,
        /// What is wrong with the reply.
        error: DecodeError,
    },
    /// The system could not start the background thread of a client: it has no thread, no memory or
    /// no file descriptor left for this process. Or the only thread of a runtime is to run the client,
    /// and waits for it in a `block_on`.
    NoThread(Cause),
}

impl Error {
    /// An error of this kind, with this server and session.
    pub(crate) fn new(kind: ErrorKind, peer: Peer, effect: Effect) -> Self {
        Self(Arc::new(Inner { kind, peer, effect }))
    }

    /// Returns why the request failed.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.0.kind
    }

    /// Returns the server and the session that the error concerns, as far as there are any.
    #[must_use]
    pub fn peer(&self) -> &Peer {
        &self.0.peer
    }

    /// Returns whether the request may have been applied. Reads change nothing, so their effect is
    /// always [`Effect::NotApplied`].
    #[must_use]
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// Returns the server's reason, if a server refused the request. Of several reasons the first.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self.kind() {
            ErrorKind::Refused { code, .. } | ErrorKind::TransactionRefused { code, .. } => {
                Some(*code)
            }
            ErrorKind::NotAllDeleted { left } => left.first().and_then(Self::code),
            ErrorKind::Unsupported(_) => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Whether the node, or the parent of a node to create, does not exist.
    #[must_use]
    pub fn is_no_node(&self) -> bool {
        self.code() == Some(ErrorCode::NO_NODE)
    }

    /// Whether the node exists already.
    #[must_use]
    pub fn is_node_exists(&self) -> bool {
        self.code() == Some(ErrorCode::NODE_EXISTS)
    }

    /// Whether the session has expired.
    #[must_use]
    pub fn is_session_expired(&self) -> bool {
        matches!(self.kind(), ErrorKind::SessionExpired)
    }

    /// Whether the same request may succeed later: the connection or the server was at fault, not
    /// the request.
    ///
    /// It does not say whether repeating the request is safe: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.kind() {
            ErrorKind::ConnectionLost(Cause::ClosedAtRequest { .. }) => false,
            ErrorKind::ConnectionLost(_) | ErrorKind::DeadlineExceeded { .. } => true,
            ErrorKind::Unreachable { tried, .. } => {
                tried.is_empty() || !tried.iter().all(|lost| lost.cause.is_permanent())
            }
            _ => self.code() == Some(ErrorCode::THROTTLED_OP),
        }
    }

    pub(crate) fn lost(lost: Lost) -> Self {
        let peer = Peer::from(&lost);
        Self::new(ErrorKind::ConnectionLost(lost.cause), peer, Effect::Unknown)
    }

    pub(crate) fn expired(peer: Peer) -> Self {
        Self::new(ErrorKind::SessionExpired, peer, Effect::NotApplied)
    }

    pub(crate) fn unsupported(op: OpCode, peer: Peer) -> Self {
        Self::new(ErrorKind::Unsupported(op), peer, Effect::NotApplied)
    }

    pub(crate) fn closed(effect: Effect) -> Self {
        Self::new(ErrorKind::Closed, Peer::default(), effect)
    }

    /// Notes that the request had this operation. A read has changed nothing.
    pub(crate) fn note_operation(&mut self, op: OpCode) {
        if op.class() == Some(Class::Read) {
            Arc::make_mut(&mut self.0).effect = Effect::NotApplied;
        }
    }

    /// The error of one of several requests. Earlier ones were applied.
    #[cfg(feature = "tokio")]
    pub(crate) fn in_part(mut self) -> Self {
        Arc::make_mut(&mut self.0).effect = Effect::Unknown;
        self
    }

    /// The error with the path of the node. For errors made where the path was not known.
    #[doc(hidden)] // also for the recipes, whose requests have no path either
    #[must_use]
    pub fn on(mut self, node: &str) -> Self {
        if let ErrorKind::Refused { path, .. } = &mut Arc::make_mut(&mut self.0).kind {
            node.clone_into(path);
        }
        self
    }

    /// The error of a transaction, counted from the operation behind so many `checks`, which
    /// the caller of a recipe has not added.
    #[doc(hidden)]
    #[must_use]
    pub fn behind(mut self, checks: usize) -> Self {
        let kind = &mut Arc::make_mut(&mut self.0).kind;
        if let ErrorKind::TransactionRefused { index, .. } = kind {
            *index = index.saturating_sub(checks);
        }
        self
    }
}

/// An error that concerns no server. Nothing was sent.
impl From<ErrorKind> for Error {
    fn from(kind: ErrorKind) -> Self {
        Self::new(kind, Peer::default(), Effect::NotApplied)
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        ErrorKind::BadPath(error).into()
    }
}

impl From<ConnectStringError> for Error {
    fn from(error: ConnectStringError) -> Self {
        ErrorKind::BadConnectString(error).into()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { kind, peer, effect } = &*self.0;
        let effect = match effect {
            Effect::NotApplied => "",
            Effect::Unknown => "; the request may have been applied",
        };
        let name = |op: &OpCode| op.name().unwrap_or("request");
        let at = Bracketed(peer);
        match kind {
            ErrorKind::Refused { op, path, code } => {
                let space = if path.is_empty() { "" } else { " " };
                write!(f, "{}{space}{path} refused: {code}{at}", name(op))
            }
            ErrorKind::Unsupported(op) => {
                write!(f, "the server does not support {}", name(op))?;
                if let Some(release) = op.since() {
                    write!(f, ", which needs ZooKeeper {release} or later")?;
                }
                write!(f, "{at}")
            }
            ErrorKind::TransactionRefused { index, code } => {
                write!(f, "transaction refused: operation {index}: {code}{at}")
            }
            ErrorKind::NotAllDeleted { left } => {
                left.first().map_or(Ok(()), |first| first.fmt(f))?;
                match left.len() {
                    ..=1 => Ok(()),
                    nodes => write!(f, "; and {} other nodes were left", nodes - 1),
                }
            }
            ErrorKind::ConnectionLost(cause) => {
                write!(f, "connection lost: {peer}: {cause}{effect}")
            }
            ErrorKind::Unreachable {
                waited,
                tried,
                servers,
            } => {
                write!(f, "no server reached in {}", Exact(*waited))?;
                list(f, tried, *servers)
            }
            ErrorKind::SessionExpired => {
                write!(f, "session {} expired", peer.session)?;
                if let Some(server) = &peer.server {
                    write!(f, " (reported by {server})")?;
                }
                f.write_str(effect)
            }
            ErrorKind::WatchRemoved => f.write_str("the watch was removed with remove_watches"),
            ErrorKind::WatchConflict => f.write_str(
                "this client has a watch of another kind on the node, and keeps one kind on each; \
                 watch with a second client",
            ),
            ErrorKind::AuthFailed(reason) => write!(f, "authentication failed: {peer}: {reason}"),
            ErrorKind::Closed => write!(f, "client closed{effect}"),
            ErrorKind::BadPath(error) => error.fmt(f),
            ErrorKind::BadConnectString(error) => error.fmt(f),
            ErrorKind::TooLarge { length, limit } => write!(
                f,
                "request too large: {length} bytes, limit {limit} (max_request, jute.maxbuffer)"
            ),
            ErrorKind::ReplyTooLarge { op, length, limit } => {
                let op = name(op);
                write!(f, "the reply to {op} has {length} bytes, limit {limit}{at}")
            }
            ErrorKind::TooManyRequests { requests, bytes } => write!(
                f,
                "too many pending requests: {requests} ({bytes} bytes); wait for capacity"
            ),
            ErrorKind::DeadlineExceeded { op, waited } => {
                write!(f, "{} not answered within {}", name(op), Exact(*waited))?;
                match peer.server {
                    Some(_) => write!(f, " by {peer}{effect}"),
                    None => write!(f, ", not connected{at}{effect}"),
                }
            }
            ErrorKind::Malformed { op, .. } => {
                write!(f, "the reply to {} cannot be read{at}{effect}", name(op))
            }
            ErrorKind::NoThread(cause) => {
                write!(f, "no thread runs the client: {cause}")
            }
        }
    }
}

/// Lists the failures of servers, those with one reason together, and counts the servers that are not listed.
fn list(f: &mut fmt::Formatter<'_>, tried: &[Lost], servers: usize) -> fmt::Result {
    for (index, lost) in tried.iter().enumerate() {
        let is_same = |other: &&Lost| (other.session, &other.cause) == (lost.session, &lost.cause);
        let (before, behind) = tried.split_at(index);
        if before.iter().any(|it| is_same(&it)) {
            continue;
        }
        f.write_str(if index == 0 { ": " } else { "; " })?;
        let mut last = lost;
        for next in behind.iter().skip(1).filter(is_same) {
            write!(f, "{}, ", last.endpoint)?;
            last = next;
        }
        write!(f, "{last}")?;
    }
    match servers.saturating_sub(tried.len()) {
        0 => Ok(()),
        others => write!(f, "; and {others} other servers"),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self.kind() {
            ErrorKind::Malformed { error, .. } => Some(error),
            _ => None,
        }
    }
}

const _: () = {
    const fn shareable<T: std::error::Error + Send + Sync + 'static>() {}
    shareable::<Error>();
};

#[cfg(test)]
mod tests;
