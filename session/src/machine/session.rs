//! What is known of the session, and what resuming it takes.

use std::{
    fmt,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{SessionId, Zxid, connect::PASSWORD_LEN};

/// A session, or none yet.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) password: Bytes,
    pub(crate) timeout: Duration,
    pub(crate) last_zxid: Zxid,
    /// When anything was last heard in this session; `None` before the first connection.
    pub(crate) heard: Option<Instant>,
    /// Whether only the read-only server knows it that has made it: no other one can resume it, and it owns nothing.
    pub(crate) is_local: bool,
}

impl Session {
    /// No session yet.
    pub(crate) fn none(timeout: Duration) -> Self {
        Self {
            id: SessionId::NONE,
            password: Bytes::from_static(&[0; PASSWORD_LEN]),
            timeout,
            last_zxid: Zxid::ZERO,
            heard: None,
            is_local: false,
        }
    }
}

/// Without the password, which is all it takes to steal the session.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("timeout", &self.timeout)
            .field("last_zxid", &self.last_zxid)
            .finish_non_exhaustive()
    }
}
