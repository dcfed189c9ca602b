//! Why a request failed, and the question that matters above the wire: was it applied?

use std::{fmt, sync::Arc, time::Duration};

use lockkeeper_proto::{
    ErrorCode, OpCode, SessionId, Xid, frame::FrameError, jute::DecodeError, path::PathError,
};

use crate::{AuthFailure, Endpoint, Peer, TlsFailure, UnsupportedReason, peer::Bracketed};

/// Whether a failed request may have changed anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Effect {
    /// The server refused it, or never saw it: nothing has changed.
    NotApplied,
    /// It was sent and its reply was lost: it may have been applied, or may still be.
    Unknown,
}

/// Why a request failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The server refused the request.
    Refused {
        /// What was asked.
        op: OpCode,
        /// On which node, as the caller named it; empty where the operation has none.
        path: String,
        /// The server's reason.
        code: ErrorCode,
        /// The server, and the session.
        peer: Peer,
    },
    /// The server does not know the operation, and closes the connection on who asks for it. It is not asked again
    /// before the next connection but one: servers are upgraded one by one.
    Unsupported {
        /// What was asked.
        op: OpCode,
        /// What shows it.
        reason: UnsupportedReason,
        /// Whether the request may have been applied all the same: a write that got no answer, and of which only the end of the
        /// connection says that the server does not know it. What was not sent for that was not applied.
        effect: Effect,
        /// The server that did not know it, and the session then.
        peer: Peer,
    },
    /// The server refused a transaction because of one of its operations; none of them was applied.
    TransactionRefused {
        /// Which operation, counted from 0.
        index: usize,
        /// The server's reason.
        code: ErrorCode,
        /// The server, and the session.
        peer: Peer,
    },
    /// The connection was lost after the request was sent and before its reply came.
    ConnectionLost(Lost),
    /// No server could be reached in time, or none will be before somebody changes a setting; the request was never
    /// sent.
    Unreachable {
        /// How long it waited.
        waited: Duration,
        /// The servers that were tried last, and what each said; the newest sixteen of very many.
        tried: Arc<[Lost]>,
        /// How many servers there are in all.
        servers: usize,
    },
    /// The session has expired: its ephemeral nodes are gone or about to go.
    SessionExpired {
        /// The session that is over, and the server that has said so; without a server when the client itself has found that it
        /// must be, or that a request belongs to a former session.
        peer: Peer,
        /// Whether the request may have been applied before.
        effect: Effect,
    },
    /// The watch was taken back with [`remove_watches`](crate::machine::Machine::remove_watches).
    WatchRemoved,
    /// Authentication failed; the client has ended.
    AuthFailed {
        /// The server that refused, or was refused, and the session.
        peer: Peer,
        /// Why.
        reason: AuthFailure,
    },
    /// The client was closed.
    Closed(Effect),
    /// The path breaks a rule; nothing was sent.
    BadPath(PathError),
    /// The request is longer than servers accept; nothing was sent.
    TooLarge {
        /// Bytes of the request.
        length: usize,
        /// The most that may be sent.
        limit: usize,
    },
    /// The reply is longer than this client takes ([`Builder::frame_limit`](crate::Builder::frame_limit)), and was not read. The
    /// request has succeeded; asked again, the reply is as long.
    ReplyTooLarge {
        /// What was asked.
        op: OpCode,
        /// Bytes of the reply.
        length: usize,
        /// The most that is taken.
        limit: usize,
        /// The server, and the session.
        peer: Peer,
    },
    /// So much waits already that not even a request that cannot wait for room is taken; nothing was sent.
    TooManyRequests {
        /// Requests that wait to be sent or answered.
        requests: usize,
        /// Bytes of requests that wait to be sent.
        bytes: usize,
    },
    /// The deadline that the caller has set has come.
    DeadlineExceeded {
        /// What was asked.
        op: OpCode,
        /// How long the caller was ready to wait.
        waited: Duration,
        /// The server of the connection, if there is one, and the session.
        peer: Peer,
        /// Whether the request may have been applied, or may still be.
        effect: Effect,
    },
    /// There is no connection, and the caller did not want to wait for one; nothing was sent. With what the server said
    /// that was tried last.
    NotConnected(Option<Lost>),
    /// The reply could not be read. The connection is given up.
    Malformed {
        /// What was asked.
        op: OpCode,
        /// What is wrong with the reply.
        error: DecodeError,
        /// The server, and the session.
        peer: Peer,
    },
}

impl Error {
    /// Was the request applied?
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

    /// The server's reason, where a server refused.
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

    /// The server that the error concerns, if it concerns one.
    #[must_use]
    pub fn server(&self) -> Option<&Endpoint> {
        match self {
            Self::Unreachable { tried, .. } => tried.last().map(|lost| &*lost.endpoint),
            Self::ConnectionLost(lost) | Self::NotConnected(Some(lost)) => Some(&lost.endpoint),
            _ => self.peer().and_then(|peer| peer.server.as_deref()),
        }
    }

    /// The session that the error concerns; [`SessionId::NONE`] where there was none.
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
            // The last three concern the client or the request alone.
            Self::ConnectionLost(_)
            | Self::Unreachable { .. }
            | Self::NotConnected(_)
            | Self::WatchRemoved
            | Self::Closed(_)
            | Self::BadPath(_)
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

    /// Whether the same request may succeed on the next connection of this client: the connection or server was at
    /// fault, not the request. Says nothing of whether repeating it is safe: see [`effect`](Self::effect).
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

    /// The same error about a node; for errors that came up where the path was not known.
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
                    UnsupportedReason::Answered => "this server does not know ",
                    UnsupportedReason::ClosedConnection => "this server closes the connection on ",
                })?;
                f.write_str(name)?;
                if let Some(release) = op.since() {
                    write!(f, ", which ZooKeeper knows from {release}")?;
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
                for (index, lost) in tried.iter().enumerate() {
                    write!(f, "{} {lost}", if index == 0 { ":" } else { ";" })?;
                }
                match servers.saturating_sub(tried.len()) {
                    0 => Ok(()),
                    others => write!(f, "; and {others} other servers"),
                }
            }
            Self::SessionExpired { peer, .. } => {
                write!(f, "session {} expired", peer.session)?;
                if let Some(server) = &peer.server {
                    write!(f, ", says {server}")?;
                }
                f.write_str(effect)
            }
            Self::WatchRemoved => f.write_str("the watch was removed"),
            Self::AuthFailed { peer, reason } => {
                write!(f, "authentication failed: {peer}: {reason}")
            }
            Self::Closed(_) => write!(f, "client closed{effect}"),
            Self::BadPath(error) => error.fmt(f),
            Self::TooLarge { length, limit } => {
                write!(f, "request of {length} bytes, servers accept {limit}")
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
                write!(f, "{requests} requests wait already, with {bytes} bytes")
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

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Malformed { error, .. } => Some(error),
            _ => None,
        }
    }
}

/// A connection that ended, or never came about: to which server, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lost {
    /// The server.
    pub endpoint: Arc<Endpoint>,
    /// The session that it was for; [`SessionId::NONE`] where there was none yet.
    pub session: SessionId,
    /// Why.
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

/// Why a connection ended, or never came about.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system's reason: refused, reset, unreachable, a name that does not resolve, ..
    Io(Arc<str>),
    /// The server closed the connection.
    ClosedByServer,
    /// As `ClosedByServer`, or a reset, while this was unanswered, which not every server knows and none has answered yet. Some
    /// servers close the connection in place of saying so; asked for again, it is sent alone, and then told as
    /// [`Error::Unsupported`] if it ends so again.
    ClosedOn(OpCode),
    /// The server closed the connection without answering the handshake: it is not serving, or is behind this client.
    ClosedInHandshake,
    /// The server did not accept a connection in time: its machine is gone, or packets to it are lost.
    ConnectTimeout(Duration),
    /// The server did not complete the handshake in time.
    HandshakeTimeout(Duration),
    /// The server refused a new session.
    SessionRefused,
    /// The server's answer to the handshake could not be read, or makes no sense.
    BadHandshake(Option<DecodeError>),
    /// The server was silent for so long.
    Silent(Duration),
    /// A request was not answered for so long, though the server lives.
    RequestTimeout(Duration),
    /// A frame's length was impossible.
    Frame(FrameError),
    /// A frame could not be read.
    Decode(DecodeError),
    /// A reply that answers no request, or not the oldest one.
    UnexpectedReply {
        /// The oldest request, if there is one.
        expected: Option<Xid>,
        /// What came.
        got: Xid,
    },
    /// The server did not restore the watches of the session.
    WatchesRefused(ErrorCode),
    /// Encryption did not come about.
    Tls(TlsFailure),
    /// The client gave it up itself: it was closed, or asked to move.
    ByClient,
}

impl Cause {
    /// Whether the same server will say the same until somebody changes a setting or a certificate.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        matches!(self, Self::Tls(failure) if failure.is_permanent())
    }
}

/// A connector may fail with an [`io::Error`](std::io::Error) that holds a cause, which is then told as it is.
impl std::error::Error for Cause {}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io(text) => f.write_str(text),
            Self::ClosedByServer => f.write_str("closed by the server"),
            Self::ClosedOn(op) => {
                let name = op.name().unwrap_or("request");
                write!(f, "closed by the server, perhaps because it does not know {name}")
            }
            Self::ClosedInHandshake => f.write_str(
                "closed by the server during the handshake (not serving, no ZooKeeper, or a port that wants TLS)",
            ),
            Self::ConnectTimeout(after) => {
                write!(f, "not accepted within {} ms", after.as_millis())
            }
            Self::HandshakeTimeout(after) => {
                write!(f, "no handshake within {} ms", after.as_millis())
            }
            Self::SessionRefused => f.write_str("the server refused a new session"),
            Self::BadHandshake(None) => f.write_str("senseless answer to the handshake"),
            Self::BadHandshake(Some(error)) => {
                write!(f, "unreadable answer to the handshake: {error}")
            }
            Self::Silent(after) => write!(f, "silent for {} ms", after.as_millis()),
            Self::RequestTimeout(after) => {
                write!(f, "a request was not answered for {} ms", after.as_millis())
            }
            Self::Frame(error) => error.fmt(f),
            Self::Decode(error) => write!(f, "unreadable frame: {error}"),
            Self::UnexpectedReply {
                expected: Some(expected),
                got,
            } => {
                write!(f, "reply to request {got} where {expected} was due")
            }
            Self::UnexpectedReply {
                expected: None,
                got,
            } => {
                write!(f, "reply to request {got}, which was never sent")
            }
            Self::WatchesRefused(code) => write!(f, "watches not restored: {code}"),
            Self::Tls(failure) => failure.fmt(f),
            Self::ByClient => f.write_str("given up by this client"),
        }
    }
}

const _: () = {
    const fn shareable<T: std::error::Error + Send + Sync + 'static>() {}
    shareable::<Error>();
};

#[cfg(test)]
mod tests;
