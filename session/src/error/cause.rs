//! Why a connection ended, or why an attempt to connect failed.
//!
//! Not here: what that means for a request (`error`).

use std::{fmt, io, net::IpAddr, sync::Arc, time::Duration};

use lockkeeper_proto::{ErrorCode, OpCode, SessionId, Xid, frame::FrameError, jute::DecodeError};

use crate::{Endpoint, Peer};

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

impl From<&Lost> for Peer {
    fn from(lost: &Lost) -> Self {
        Self {
            server: Some(lost.endpoint.clone()),
            session: lost.session,
        }
    }
}

impl fmt::Display for Lost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.endpoint)?;
        if self.session != SessionId::NONE {
            write!(f, ", session {}", self.session)?;
        }
        write!(f, ": {}", self.cause)?;
        let is_name = self.endpoint.host.parse::<IpAddr>().is_err();
        if is_name && matches!(self.cause, Cause::ConnectTimeout(_)) {
            f.write_str(" (or the look-up of the name has not ended)")?;
        }
        Ok(())
    }
}

/// Why a connection ended, or why an attempt to connect failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// The operating system's reason: connection refused, connection reset, host unreachable, a
    /// name that does not resolve, ..
    #[non_exhaustive]
    Io {
        /// The kind of the I/O error.
        kind: io::ErrorKind,
        /// The text of the I/O error.
        text: Arc<str>,
    },
    /// The server closed the connection.
    ClosedByServer,
    /// The server closed the connection behind this request, as it or others did several times in a
    /// row: their `jute.maxbuffer` may be smaller than the request.
    #[non_exhaustive]
    ClosedAtRequest {
        /// The operation.
        op: OpCode,
        /// The length of the request, in bytes.
        length: usize,
    },
    /// The server closed the connection during the handshake: it is not serving, or its data are
    /// older than what this client has seen. Or it expects TLS, and may have said so.
    ClosedInHandshake,
    /// The server did not accept the connection in time: its machine is down, or packets to it are
    /// lost.
    ConnectTimeout(Duration),
    /// The server did not complete the handshake in time.
    HandshakeTimeout(Duration),
    /// The server refused a new session.
    SessionRefused,
    /// The server grants a session timeout that leaves no time for a lease, by the
    /// [`LeasePolicy`](crate::LeasePolicy), or less than 60 ms.
    #[non_exhaustive]
    ShortSession {
        /// The session timeout that the server grants.
        granted: Duration,
        /// The session timeout must be longer than this.
        margin: Duration,
    },
    /// The server is not ZooKeeper: it answered the handshake with text. This is the first line,
    /// with everything escaped that is not printable ASCII.
    NotZooKeeper(Arc<str>),
    /// The server's reply to the handshake could not be decoded, or its values are invalid.
    BadHandshake(Option<DecodeError>),
    /// The server has no majority, and answers reads only. It accepted the client although the
    /// client does not accept such servers.
    ReadOnlyServer,
    /// The client received nothing from the server for this time.
    Silent(Duration),
    /// The server did not answer a request for this time, although it sent other frames.
    RequestTimeout(Duration),
    /// A frame had an impossible length.
    Frame(FrameError),
    /// A frame could not be decoded.
    Decode(DecodeError),
    /// A reply came that does not answer the oldest request.
    #[non_exhaustive]
    UnexpectedReply {
        /// The number of the oldest request, if there is one.
        expected: Option<Xid>,
        /// The number in the reply.
        got: Xid,
    },
    /// The SASL login failed in a session that was connected before, for the reason with this text:
    /// see [`AuthFailure`](crate::AuthFailure). The client tries on, for a session timeout.
    LoginFailed(Arc<str>),
    /// The server did not restore the watches of the session.
    WatchesRefused(ErrorCode),
    /// The server sent more events than this while it restored the watches of the session.
    #[non_exhaustive]
    TooManyEvents {
        /// The most events that the client keeps back meanwhile.
        limit: usize,
    },
    /// Encryption failed. Any connector may report it.
    #[non_exhaustive]
    Tls {
        /// The reason, as users read it. It holds no secret.
        reason: Arc<str>,
        /// Whether the failure lasts until somebody changes a setting or a certificate.
        is_permanent: bool,
    },
    /// The client closed the connection itself, because it was closed or had to leave the
    /// server.
    ByClient,
}

impl Cause {
    /// Encryption failed for this reason, for a connector to put into its [`io::Error`].
    ///
    /// Users read the reason, so it must hold no secret. The failure is permanent if it lasts until
    /// somebody changes a setting or a certificate.
    pub fn tls(reason: impl Into<Arc<str>>, is_permanent: bool) -> Self {
        Self::Tls {
            reason: reason.into(),
            is_permanent,
        }
    }

    /// Whether the same server will fail in the same way until somebody changes a setting or a
    /// certificate.
    #[must_use]
    pub fn is_permanent(&self) -> bool {
        match self {
            Self::Tls { is_permanent, .. } => *is_permanent,
            Self::LoginFailed(_) | Self::ShortSession { .. } | Self::NotZooKeeper(_) => true,
            _ => false,
        }
    }
}

/// A connector may put a cause into its [`io::Error`]. The client then reports this cause
/// unchanged.
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
            Self::Io { text, .. } | Self::Tls { reason: text, .. } => f.write_str(text),
            Self::ClosedByServer => f.write_str("closed by the server"),
            Self::ClosedAtRequest { op, length } => {
                let name = op.name().unwrap_or("request");
                write!(
                    f,
                    "closed by the server, again behind a {name} of {length} bytes \
                     (is its jute.maxbuffer smaller?)"
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
                let ms = after.as_millis();
                write!(
                    f,
                    "handshake not answered within {ms} ms (is it ZooKeeper?)"
                )
            }
            Self::SessionRefused => f.write_str("the server refused a new session"),
            Self::ShortSession { granted, margin } => write!(
                f,
                "the server grants a session timeout of {} ms, and the client needs more than {} ms",
                granted.as_millis(),
                margin.as_millis()
            ),
            Self::NotZooKeeper(said) => write!(f, "not ZooKeeper: it said {said}"),
            Self::ReadOnlyServer => f.write_str("the server is read-only: it has no majority"),
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
            Self::UnexpectedReply { expected, got } => {
                write!(f, "reply to request {got}, ")?;
                match expected {
                    Some(expected) => write!(f, "expected the reply to {expected}"),
                    None => f.write_str("but no request was pending"),
                }
            }
            Self::LoginFailed(failure) => write!(f, "login failed: {failure}"),
            Self::WatchesRefused(code) => {
                write!(f, "the server did not restore the watches: {code}")
            }
            Self::TooManyEvents { limit } => {
                write!(
                    f,
                    "more than {limit} events while the watches were restored"
                )
            }
            Self::ByClient => f.write_str("closed by this client"),
        }
    }
}
