//! The server and the session that an error concerns.
//!
//! Not here: why a connection ended (`error::Lost`).

use std::{fmt, sync::Arc};

use lockkeeper_proto::SessionId;

use crate::Endpoint;

/// The server and the session that an error concerns.
///
/// It has the size of two words, and making one allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[allow(
    clippy::exhaustive_structs,
    reason = "users make it, for tests of their handling of errors"
)]
pub struct Peer {
    /// The server. `None` without a connection, or when the server is no longer known.
    pub server: Option<Arc<Endpoint>>,
    /// The session. [`SessionId::NONE`] if there was none.
    pub session: SessionId,
}

/// The server and the session, separated by a comma. Leaves out what is not known.
impl fmt::Display for Peer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.server, self.session) {
            (None, SessionId::NONE) => Ok(()),
            (None, session) => write!(f, "session {session}"),
            (Some(server), SessionId::NONE) => server.fmt(f),
            (Some(server), session) => write!(f, "{server}, session {session}"),
        }
    }
}

/// Like [`Peer`], in brackets after a message.
pub(crate) struct Bracketed<'a>(pub(crate) &'a Peer);

impl fmt::Display for Bracketed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Peer {
                server: None,
                session: SessionId::NONE,
            } => Ok(()),
            peer => write!(f, " ({peer})"),
        }
    }
}
