//! The errors of requests: why a request failed, and whether the server may have applied it.
//!
//! Not here: why a connection ended (`cause`), why authentication failed (`auth_failure`), why
//! encryption failed (`tls_failure`).

mod cause;
mod exact;

use std::{fmt, io, sync::Arc, time::Duration};

use lockkeeper_proto::{Class, ErrorCode, OpCode, SessionId, jute::DecodeError, path::PathError};

use crate::{AuthFailure, ConnectStringError, Endpoint, Peer, peer::Bracketed};

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

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request.
    Refused {
        /// The operation.
        op: OpCode,
        /// The path of the node, as the caller named it. Empty if the operation has none.
        path: String,
        /// The server's reason.
        code: ErrorCode,
        /// The server and the session.
        peer: Peer,
    },
    /// The server does not support the operation.
    ///
    /// Such a server closes the connection on the operation. So the client does not send it again
    /// on this connection and the next one. After that it may be sent again, because servers are
    /// upgraded one by one.
    ///
    /// Watches end with this error, too, after eight connections in a row that ended on the request
    /// that sets them.
    Unsupported {
        /// The operation.
        op: OpCode,
        /// The server that does not support the operation, and the session at that time.
        peer: Peer,
    },
    /// The server refused a transaction because of one of its operations. It applied none of them.
    TransactionRefused {
        /// The index of the operation, counted from 0.
        index: usize,
        /// The server's reason.
        code: ErrorCode,
        /// The server and the session.
        peer: Peer,
    },
    /// The connection was lost after the request was sent and before its reply came. The effect of
    /// a read is [`Effect::NotApplied`].
    ConnectionLost(Lost, Effect),
    /// No server could be reached in time. The request was never sent.
    ///
    /// The error comes earlier when no server can be reached until somebody changes a setting.
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
    SessionExpired {
        /// The expired session, and the server that reported it. There is no server when the client
        /// itself concluded the expiry, or when the request belongs to an earlier session.
        peer: Peer,
        /// Whether the request may have been applied before the expiry.
        effect: Effect,
    },
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
    AuthFailed {
        /// The server, and the session.
        peer: Peer,
        /// The reason.
        reason: AuthFailure,
    },
    /// The client was closed.
    Closed(Effect),
    /// The path is invalid. The request was not sent.
    BadPath(PathError),
    /// The list of servers is invalid. There is no client.
    BadConnectString(ConnectStringError),
    /// The request is longer than servers accept. It was not sent.
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
    ReplyTooLarge {
        /// The operation.
        op: OpCode,
        /// The length of the reply in bytes.
        length: usize,
        /// The longest reply that the client accepts, in bytes.
        limit: usize,
        /// The server and the session.
        peer: Peer,
    },
    /// Too many requests are pending, and the reserve for requests that cannot wait is used up,
    /// too. The request was not sent.
    TooManyRequests {
        /// The number of pending requests.
        requests: usize,
        /// The bytes of the requests that wait to be sent.
        bytes: usize,
    },
    /// The deadline that the caller has set has passed.
    DeadlineExceeded {
        /// The operation.
        op: OpCode,
        /// How long the caller was willing to wait.
        waited: Duration,
        /// The server of the connection, if there is one, and the session.
        peer: Peer,
        /// Whether the request may have been applied, or may still be.
        effect: Effect,
    },
    /// The reply could not be decoded. The client closes the connection.
    Malformed {
        /// The operation.
        op: OpCode,
        /// What is wrong with the reply.
        error: DecodeError,
        /// The server and the session.
        peer: Peer,
    },
    /// [`Wait`](crate::Wait) was used on a thread of a tokio runtime, which must not block. Nothing
    /// was sent. Use `.await` there.
    InsideRuntime,
    /// The system could not start the background thread of a client.
    NoThread(io::ErrorKind),
}

impl Error {
    /// Returns whether the request may have been applied. Reads change nothing, so their effect is
    /// always [`Effect::NotApplied`].
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::Malformed { op, .. } | Self::ReplyTooLarge { op, .. } => of_unanswered(*op),
            Self::ConnectionLost(_, effect)
            | Self::SessionExpired { effect, .. }
            | Self::DeadlineExceeded { effect, .. }
            | Self::Closed(effect) => *effect,
            _ => Effect::NotApplied,
        }
    }

    /// Returns the server's reason, if a server refused the request.
    #[must_use]
    pub fn code(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { code, .. } | Self::TransactionRefused { code, .. } => Some(*code),
            Self::Unsupported { .. } => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Returns the server that the error concerns, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Endpoint> {
        match self {
            Self::Unreachable { tried, .. } => tried.last().map(|lost| &*lost.endpoint),
            Self::ConnectionLost(lost, _) => Some(&lost.endpoint),
            _ => self.peer().and_then(|peer| peer.server.as_deref()),
        }
    }

    /// Returns the session that the error concerns, or [`SessionId::NONE`].
    #[must_use]
    pub fn session(&self) -> SessionId {
        match self {
            Self::Unreachable { tried, .. } => {
                tried.last().map_or(SessionId::NONE, |lost| lost.session)
            }
            Self::ConnectionLost(lost, _) => lost.session,
            _ => self.peer().map_or(SessionId::NONE, |peer| peer.session),
        }
    }

    fn peer(&self) -> Option<&Peer> {
        match self {
            Self::Refused { peer, .. }
            | Self::Unsupported { peer, .. }
            | Self::TransactionRefused { peer, .. }
            | Self::SessionExpired { peer, .. }
            | Self::AuthFailed { peer, .. }
            | Self::ReplyTooLarge { peer, .. }
            | Self::DeadlineExceeded { peer, .. }
            | Self::Malformed { peer, .. } => Some(peer),
            // The variants after these two concern only the client or the request.
            Self::ConnectionLost(..)
            | Self::Unreachable { .. }
            | Self::WatchRemoved
            | Self::WatchConflict
            | Self::Closed(_)
            | Self::BadPath(_)
            | Self::BadConnectString(_)
            | Self::TooLarge { .. }
            | Self::TooManyRequests { .. }
            | Self::InsideRuntime
            | Self::NoThread(_) => None,
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

    /// Whether the same request may succeed later: the connection or the server was at fault, not
    /// the request.
    ///
    /// It does not say whether repeating the request is safe: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::ConnectionLost(..) | Self::DeadlineExceeded { .. } => true,
            Self::Unreachable { tried, .. } => {
                tried.is_empty() || !tried.iter().all(|lost| lost.cause.is_permanent())
            }
            _ => self.code() == Some(ErrorCode::THROTTLED_OP),
        }
    }

    /// Whether the request was sent, and the client has no usable reply to it. Asked before
    /// [`of`](Self::of) tells reads apart.
    pub(crate) fn is_unanswered(&self) -> bool {
        let is_unusable = matches!(self, Self::Malformed { .. } | Self::ReplyTooLarge { .. });
        is_unusable || self.effect() == Effect::Unknown
    }

    /// The same error for a request of this operation. A read has changed nothing.
    pub(crate) fn of(mut self, op: OpCode) -> Self {
        if let Self::ConnectionLost(_, effect)
        | Self::SessionExpired { effect, .. }
        | Self::DeadlineExceeded { effect, .. }
        | Self::Closed(effect) = &mut self
            && *effect == Effect::Unknown
        {
            *effect = of_unanswered(op);
        }
        self
    }

    /// The same error with the path of the node. For errors made where the path was not known.
    #[cfg(feature = "thread")]
    pub(crate) fn on(mut self, node: &str) -> Self {
        if let Self::Refused { path, .. } = &mut self {
            node.clone_into(path);
        }
        self
    }
}

impl From<PathError> for Error {
    fn from(error: PathError) -> Self {
        Self::BadPath(error)
    }
}

impl From<ConnectStringError> for Error {
    fn from(error: ConnectStringError) -> Self {
        Self::BadConnectString(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let effect = match self.effect() {
            Effect::NotApplied => "",
            Effect::Unknown => "; the request may have been applied",
        };
        match self {
            Self::Refused {
                op,
                path,
                code,
                peer,
            } => {
                let op = op.name().unwrap_or("request");
                let space = if path.is_empty() { "" } else { " " };
                write!(f, "{op}{space}{path} refused: {code}{}", Bracketed(peer))
            }
            Self::Unsupported { op, peer } => {
                let name = op.name().unwrap_or("request");
                write!(f, "the server does not support {name}")?;
                if let Some(release) = op.since() {
                    write!(f, ", which needs ZooKeeper {release} or later")?;
                }
                write!(f, "{}", Bracketed(peer))
            }
            Self::TransactionRefused { index, code, peer } => {
                let peer = Bracketed(peer);
                write!(f, "transaction refused: operation {index}: {code}{peer}")
            }
            Self::ConnectionLost(lost, _) => write!(f, "connection lost: {lost}{effect}"),
            Self::Unreachable {
                waited,
                tried,
                servers,
            } => {
                write!(f, "no server reached in {}", Exact(*waited))?;
                list(f, tried, *servers)
            }
            Self::SessionExpired { peer, .. } => {
                write!(f, "session {} expired", peer.session)?;
                if let Some(server) = &peer.server {
                    write!(f, " (reported by {server})")?;
                }
                f.write_str(effect)
            }
            Self::WatchRemoved => f.write_str("the watch was removed with remove_watches"),
            Self::WatchConflict => f.write_str(
                "this client has a watch of another kind on the node, and keeps one kind on each; \
                 watch with a second client",
            ),
            Self::AuthFailed { peer, reason } => {
                write!(f, "authentication failed: {peer}: {reason}")
            }
            Self::Closed(_) => write!(f, "client closed{effect}"),
            Self::BadPath(error) => error.fmt(f),
            Self::BadConnectString(error) => error.fmt(f),
            Self::TooLarge { length, limit } => {
                write!(
                    f,
                    "request too large: {length} bytes, limit {limit} (max_request, jute.maxbuffer)"
                )
            }
            Self::ReplyTooLarge {
                op,
                length,
                limit,
                peer,
            } => {
                let (op, peer) = (op.name().unwrap_or("request"), Bracketed(peer));
                write!(
                    f,
                    "the reply to {op} has {length} bytes, limit {limit}{peer}"
                )
            }
            Self::TooManyRequests { requests, bytes } => {
                write!(
                    f,
                    "too many pending requests: {requests} ({bytes} bytes); wait for capacity"
                )
            }
            Self::DeadlineExceeded {
                op, waited, peer, ..
            } => {
                let op = op.name().unwrap_or("request");
                write!(f, "{op} not answered within {}", Exact(*waited))?;
                match peer.server {
                    Some(_) => write!(f, " by {peer}{effect}"),
                    None => write!(f, ", not connected{}{effect}", Bracketed(peer)),
                }
            }
            Self::Malformed { op, peer, .. } => {
                let (op, peer) = (op.name().unwrap_or("request"), Bracketed(peer));
                write!(f, "the reply to {op} cannot be read{peer}{effect}")
            }
            Self::InsideRuntime => f.write_str("wait in a runtime: use .await there"),
            Self::NoThread(kind) => write!(f, "cannot start the thread of the client: {kind}"),
        }
    }
}

/// The effect of a request that was sent, and has no usable reply.
fn of_unanswered(op: OpCode) -> Effect {
    match op.class() {
        Some(Class::Read) => Effect::NotApplied,
        _ => Effect::Unknown,
    }
}

/// Lists the failures of servers, and counts the servers that are not listed.
fn list(f: &mut fmt::Formatter<'_>, tried: &[Lost], servers: usize) -> fmt::Result {
    for (index, lost) in tried.iter().enumerate() {
        write!(f, "{} {lost}", if index == 0 { ":" } else { ";" })?;
    }
    match servers.saturating_sub(tried.len()) {
        0 => Ok(()),
        others => write!(f, "; and {others} other servers"),
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed { error, .. } => Some(error),
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
