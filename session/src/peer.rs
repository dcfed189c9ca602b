//! Where an error comes from: which server it concerns, and which session.
//!
//! Not here: why a connection ended (`error::Lost`).

use std::{fmt, sync::Arc};

use lockkeeper_proto::SessionId;

use crate::{Endpoint, Lost};

/// The server and the session that an error concerns. Two words: making one allocates nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Peer {
    /// The server; `None` without a connection, and where it is not known any more.
    pub server: Option<Arc<Endpoint>>,
    /// The session; [`SessionId::NONE`] where there was none.
    pub session: SessionId,
}

impl From<&Lost> for Peer {
    fn from(lost: &Lost) -> Self {
        Self {
            server: Some(lost.endpoint.clone()),
            session: lost.session,
        }
    }
}

/// What is known of the two, with a comma between them; nothing where neither is.
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

/// As [`Peer`], in brackets behind a message.
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
