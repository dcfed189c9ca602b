//! What is known of the session, and what the client needs to resume it.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::config::LeasePolicy;
use bytes::Bytes;
use lockkeeper_proto::{SessionId, Zxid, connect::PASSWORD_LEN};

/// A session, or none yet.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) password: Bytes,
    pub(crate) timeout: Duration,
    /// The newest transaction that a reply of this session has reported.
    pub(crate) last_zxid: Zxid,
    /// The oldest point from which a server was asked to report to watches, and did not confirm it;
    /// `None` for `last_zxid`.
    unconfirmed: Option<Zxid>,
    /// When the client last heard of a server in this session; `None` before the first connection.
    pub(crate) heard: Option<Instant>,
    /// When the newest ping or write that was answered had been sent. A server has heard of the
    /// session since.
    pub(crate) confirmed: Option<Instant>,
    /// The proof shows that the leader counts from this instant, or from a later one.
    pub(crate) proved: Option<Instant>,
    /// Whether a read-only server has made it, and alone knows it. No other server can resume it,
    /// and it owns no node.
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
            unconfirmed: None,
            heard: None,
            confirmed: None,
            proved: None,
            is_local: false,
        }
    }

    /// A server was to report all changes since this point to some watches, and has not confirmed
    /// it.
    pub(crate) fn not_watched(&mut self, since: Zxid) {
        self.unconfirmed = Some(self.unconfirmed.map_or(since, |older| older.min(since)));
    }

    /// The point from which the next connection restores the watches.
    pub(crate) fn watched_since(&mut self) -> Zxid {
        let newest = self.last_zxid;
        self.unconfirmed
            .take()
            .map_or(newest, |since| since.min(newest))
    }

    /// A server has heard of the session since this instant.
    pub(crate) fn confirm(&mut self, sent: Instant) {
        self.confirmed = self.confirmed.max(Some(sent));
    }

    /// The leader counts from this instant, or from a later one.
    pub(crate) fn prove(&mut self, touched: Instant) {
        self.proved = self.proved.max(Some(touched));
    }

    /// From when the lease counts; `None` without a session that all servers know: nothing confirms
    /// or proves a local one.
    pub(crate) fn lease_from(&self, policy: LeasePolicy) -> Option<Instant> {
        match policy {
            LeasePolicy::Proved => self.proved,
            LeasePolicy::Assumed { .. } => self.confirmed,
        }
    }
}

/// Prints no password: the password is all that it takes to steal the session.
impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("timeout", &self.timeout)
            .field("last_zxid", &self.last_zxid)
            .finish_non_exhaustive()
    }
}
