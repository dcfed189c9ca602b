//! The errors of requests: why a request failed, and whether the server may have applied it.
//!
//! Not here: why authentication failed (`auth_failure`), why encryption failed (`tls_failure`).

use std::{fmt, io, sync::Arc, time::Duration};

use lockkeeper_proto::{
    ErrorCode, OpCode, SessionId, Xid, frame::FrameError, jute::DecodeError, path::PathError,
};

use crate::{
    AuthFailure, ConnectStringError, Endpoint, Peer, TlsFailure, UnsupportedReason, peer::Bracketed,
};

/// Whether a failed request may have changed anything on the servers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(
    clippy::exhaustive_enums,
    reason = "there is nothing between applied and not applied but not to know"
)]
pub enum Effect {
    /// The server refused the request or never got it: nothing has changed.
    NotApplied,
    /// The client sent the request and got no usable reply: the server may have applied it, or may still apply it.
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
    /// Such a server closes the connection on the operation. So the client does not send it again on this connection
    /// and the next one. After that it may be sent again, because servers are upgraded one by one.
    Unsupported {
        /// The operation.
        op: OpCode,
        /// How the client found out.
        reason: UnsupportedReason,
        /// Whether the request may have been applied nevertheless. This is possible for a write that was sent and not
        /// answered, when only the end of the connection shows that the server does not support it.
        effect: Effect,
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
    /// The connection was lost after the request was sent and before its reply came.
    ConnectionLost(Lost),
    /// No server could be reached in time. The request was never sent.
    ///
    /// The error comes earlier when no server can be reached until somebody changes a setting.
    Unreachable {
        /// How long the request waited.
        waited: Duration,
        /// The servers that were tried last, and why each failed. For a long list: the newest sixteen.
        tried: Arc<[Lost]>,
        /// The number of servers in the list.
        servers: usize,
    },
    /// The session has expired. The servers have deleted its ephemeral nodes, or will do so.
    SessionExpired {
        /// The expired session, and the server that reported it. There is no server when the client itself concluded
        /// the expiry, or when the request belongs to an earlier session.
        peer: Peer,
        /// Whether the request may have been applied before the expiry.
        effect: Effect,
    },
    /// The watch was removed with [`remove_watches`](crate::machine::Machine::remove_watches).
    WatchRemoved,
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
    /// The reply is longer than this client accepts ([`Builder::frame_limit`](crate::Builder::frame_limit)). The
    /// client did not read it.
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
    /// Too many requests are pending, and the reserve for requests that cannot wait is used up, too. The request was
    /// not sent.
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
    /// There is no connection, and the caller did not want to wait for one. The request was not sent.
    ///
    /// It contains the newest failure to connect.
    NotConnected(Option<Lost>),
    /// The reply could not be decoded. The client closes the connection.
    Malformed {
        /// The operation.
        op: OpCode,
        /// What is wrong with the reply.
        error: DecodeError,
        /// The server and the session.
        peer: Peer,
    },
}

impl Error {
    /// Returns whether the request may have been applied.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::ConnectionLost(_) | Self::Malformed { .. } | Self::ReplyTooLarge { .. } => {
                Effect::Unknown
            }
            Self::Unsupported { effect, .. }
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
            Self::Unsupported {
                reason: UnsupportedReason::Answered,
                ..
            } => Some(ErrorCode::UNIMPLEMENTED),
            _ => None,
        }
    }

    /// Returns the server that the error concerns, if there is one.
    #[must_use]
    pub fn server(&self) -> Option<&Endpoint> {
        match self {
            Self::Unreachable { tried, .. } => tried.last().map(|lost| &*lost.endpoint),
            Self::ConnectionLost(lost) | Self::NotConnected(Some(lost)) => Some(&lost.endpoint),
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
            Self::ConnectionLost(lost) | Self::NotConnected(Some(lost)) => lost.session,
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
            // The variants after `NotConnected` concern only the client or the request.
            Self::ConnectionLost(_)
            | Self::Unreachable { .. }
            | Self::NotConnected(_)
            | Self::WatchRemoved
            | Self::Closed(_)
            | Self::BadPath(_)
            | Self::BadConnectString(_)
            | Self::TooLarge { .. }
            | Self::TooManyRequests { .. } => None,
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

    /// Whether the same request may succeed later: the connection or the server was at fault, not the request.
    ///
    /// It does not say whether repeating the request is safe: see [`effect`](Self::effect).
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::ConnectionLost(_) | Self::DeadlineExceeded { .. } | Self::NotConnected(_) => true,
            Self::Unreachable { tried, .. } => {
                tried.is_empty() || !tried.iter().all(|lost| lost.cause.is_permanent())
            }
            _ => self.code() == Some(ErrorCode::THROTTLED_OP),
        }
    }

    /// The same error with the path of the node. For errors made where the path was not known.
    #[cfg(feature = "tokio")]
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
            Self::Unsupported {
                op, reason, peer, ..
            } => {
                let name = op.name().unwrap_or("request");
                f.write_str(match reason {
                    UnsupportedReason::Answered => "the server does not support ",
                    UnsupportedReason::ClosedConnection => "the server closes the connection on ",
                })?;
                f.write_str(name)?;
                if let Some(release) = op.since() {
                    write!(f, ", which needs ZooKeeper {release} or later")?;
                }
                write!(f, "{}{effect}", Bracketed(peer))
            }
            Self::TransactionRefused { index, code, peer } => {
                let peer = Bracketed(peer);
                write!(f, "transaction refused: operation {index}: {code}{peer}")
            }
            Self::ConnectionLost(lost) => write!(f, "connection lost: {lost}{effect}"),
            Self::Unreachable {
                waited,
                tried,
                servers,
            } => {
                write!(f, "no server reached in {:.1} s", waited.as_secs_f64())?;
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
                write!(f, "{op} not answered within {} ms", waited.as_millis())?;
                match peer.server {
                    Some(_) => write!(f, " by {peer}{effect}"),
                    None => write!(f, ", not connected{}{effect}", Bracketed(peer)),
                }
            }
            Self::NotConnected(None) => f.write_str("not connected"),
            Self::NotConnected(Some(lost)) => write!(f, "not connected: {lost}"),
            Self::Malformed { op, peer, .. } => {
                let (op, peer) = (op.name().unwrap_or("request"), Bracketed(peer));
                write!(f, "the reply to {op} cannot be read{peer}{effect}")
            }
        }
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

/// A connection that ended, or an attempt to connect that failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lost {
    /// The server.
    pub endpoint: Arc<Endpoint>,
    /// The session of the connection. [`SessionId::NONE`] if there was none yet.
    pub session: SessionId,
    /// The reason.
    pub cause: Cause,
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.endpoint)?;
        if self.session != SessionId::NONE {
            write!(f, ", session {}", self.session)?;
        }
        write!(f, ": {}", self.cause)
    }
}

/// Why a connection ended, or why an attempt to connect failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system's reason: connection refused, connection reset, host unreachable, a name that does not
    /// resolve, ..
    Io {
        /// The kind of the I/O error.
        kind: io::ErrorKind,
        /// The text of the I/O error.
        text: Arc<str>,
    },
    /// The server closed the connection.
    ClosedByServer,
    /// The server closed or reset the connection while it had to answer this operation, which it may not support.
    ///
    /// No server has answered the operation yet, and some servers close the connection on an operation that they do
    /// not support. When a caller asks for it again, the client sends it alone. If the connection ends in the same
    /// way again, the caller gets [`Error::Unsupported`].
    ClosedOn(OpCode),
    /// The server closed the connection during the handshake: it is not serving, or its data are older than what this
    /// client has seen.
    ClosedInHandshake,
    /// The server did not accept the connection in time: its machine is down, or packets to it are lost.
    ConnectTimeout(Duration),
    /// The server did not complete the handshake in time.
    HandshakeTimeout(Duration),
    /// The server refused a new session.
    SessionRefused,
    /// The server grants a session timeout that leaves no time for a lease, by the [`LeasePolicy`](crate::LeasePolicy).
    ShortSession {
        /// The session timeout that the server grants.
        granted: Duration,
        /// The session timeout must be longer than this.
        margin: Duration,
    },
    /// The server's reply to the handshake could not be decoded, or its values are invalid.
    BadHandshake(Option<DecodeError>),
    /// The client received nothing from the server for this time.
    Silent(Duration),
    /// The server did not answer a request for this time, although it sent other frames.
    RequestTimeout(Duration),
    /// A frame had an impossible length.
    Frame(FrameError),
    /// A frame could not be decoded.
    Decode(DecodeError),
    /// A reply came that does not answer the oldest request.
    UnexpectedReply {
        /// The number of the oldest request, if there is one.
        expected: Option<Xid>,
        /// The number in the reply.
        got: Xid,
    },
    /// The server did not restore the watches of the session.
    WatchesRefused(ErrorCode),
    /// The server sent more events than this while it restored the watches of the session.
    TooManyEvents {
        /// The most events that the client keeps back meanwhile.
        limit: usize,
    },
    /// Encryption failed.
    Tls(TlsFailure),
    /// The client closed the connection itself, because it was closed or asked to move to another server.
    ByClient,
}

impl Cause {
    /// Whether the same server will fail in the same way until somebody changes a setting or a certificate.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Tls(failure) => failure.is_permanent(),
            Self::ShortSession { .. } => true,
            _ => false,
        }
    }
}

/// A connector may put a cause into its [`io::Error`]. The client then reports this cause unchanged.
impl std::error::Error for Cause {}

impl From<&io::Error> for Cause {
    /// The cause that the stream has put into the error, or its kind and text.
    fn from(error: &io::Error) -> Self {
        let told = error.get_ref().and_then(|inner| inner.downcast_ref());
        told.cloned().unwrap_or_else(|| Self::Io {
            kind: error.kind(),
            text: error.to_string().into(),
        })
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { text, .. } => f.write_str(text),
            Self::ClosedByServer => f.write_str("closed by the server"),
            Self::ClosedOn(op) => {
                let name = op.name().unwrap_or("request");
                write!(
                    f,
                    "closed by the server, perhaps because it does not support {name}"
                )
            }
            Self::ClosedInHandshake => f.write_str(
                "closed by the server during the handshake \
                 (not serving, not ZooKeeper, or the port expects TLS)",
            ),
            Self::ConnectTimeout(after) => {
                write!(f, "connection not accepted within {} ms", after.as_millis())
            }
            Self::HandshakeTimeout(after) => {
                write!(f, "handshake not answered within {} ms", after.as_millis())
            }
            Self::SessionRefused => f.write_str("the server refused a new session"),
            Self::ShortSession { granted, margin } => write!(
                f,
                "the server grants a session timeout of {} ms, and the lease policy needs more than {} ms",
                granted.as_millis(),
                margin.as_millis()
            ),
            Self::BadHandshake(None) => f.write_str("invalid reply to the handshake"),
            Self::BadHandshake(Some(error)) => {
                write!(f, "the reply to the handshake cannot be decoded: {error}")
            }
            Self::Silent(after) => write!(f, "nothing received for {} ms", after.as_millis()),
            Self::RequestTimeout(after) => {
                write!(f, "a request was not answered for {} ms", after.as_millis())
            }
            Self::Frame(error) => error.fmt(f),
            Self::Decode(error) => write!(f, "a frame cannot be decoded: {error}"),
            Self::UnexpectedReply {
                expected: Some(expected),
                got,
            } => {
                write!(
                    f,
                    "reply to request {got}, expected the reply to {expected}"
                )
            }
            Self::UnexpectedReply {
                expected: None,
                got,
            } => {
                write!(f, "reply to request {got}, but no request was pending")
            }
            Self::WatchesRefused(code) => {
                write!(f, "the server did not restore the watches: {code}")
            }
            Self::TooManyEvents { limit } => {
                write!(
                    f,
                    "more than {limit} events while the watches were restored"
                )
            }
            Self::Tls(failure) => failure.fmt(f),
            Self::ByClient => f.write_str("closed by this client"),
        }
    }
}

const _: () = {
    const fn shareable<T: std::error::Error + Send + Sync + 'static>() {}
    shareable::<Error>();
};

#[cfg(test)]
mod tests;
