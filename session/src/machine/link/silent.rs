//! A server that owes an answer is left for another one, long before it costs the lease.
//!
//! The transport reaches for another server beside the present connection. Only when that server
//! accepts a connection is the present one given up, so where there is no other server nothing is
//! lost. A server is not left while it is only slow: it may owe four times as long as the slowest
//! answer of late has taken. It is left sooner when a lease that somebody keeps is nearly over.
//! Clients that lose the same server do so at different moments, and each reaches for another one
//! once in a session timeout.
//!
//! Not here: the silence that ends a connection without another server (`Link::tick`).

use std::{sync::Arc, time::Instant};

use super::{Change, Link, Stage, connection::Connection, earlier};
use crate::{Cause, Endpoint};

/// How long the server may owe the answer to a ping before the client reaches for another server: this
/// part of the session timeout. With a ping every twelfth, and a little for the next connection, a
/// lease that is kept does not end.
const OWED_PING: u32 = 8;
/// How long it may owe the answer to another request, which a slow disk may hold up.
const OWED_REQUEST: u32 = 5;
/// How long it may owe an answer when the lease is nearly over.
const OWED_SOON: u32 = 16;
/// Clients of one server differ by up to this part, in 16 steps: a server numbers its sessions.
const SCATTER: u32 = 32;

/// Since when the oldest request could have been answered, and from when less is left of a lease that
/// is kept than a grant needs.
type Pending = (Option<Instant>, Option<Instant>);

impl Link {
    /// When the server owes an answer for too long. Pings behind a request wait for its answer.
    fn owed_too_long(&self, open: &Connection, pending: Pending) -> Option<Instant> {
        let (timeout, slow) = (self.timing().queue_wait, self.slowest() * 4);
        let (unanswered, scarce) = pending;
        let is_first = |ping: &Instant| unanswered.is_none_or(|request| *ping <= request);
        let ping = open.pinged().filter(is_first);
        let since = ping.or(unanswered)?;
        let part = if ping.is_some() {
            OWED_PING
        } else {
            OWED_REQUEST
        };
        let owed = |part: u32| since + (timeout / part).max(slow);
        let at = earlier(owed(part), scarce.map(|at| at.max(owed(OWED_SOON))));
        let step = u32::try_from(self.session_id().0 & 15).unwrap_or_default();
        Some(at + timeout / SCATTER / 16 * step)
    }

    /// When the transport is to reach for another server.
    #[inline]
    pub(crate) fn reach_due(&self, pending: impl FnOnce() -> Pending) -> Option<Instant> {
        let open = self.connection().filter(|open| open.closing().is_none())?;
        if !self.servers.has_other(open.endpoint()) {
            return None;
        }
        let at = self.owed_too_long(open, pending())?;
        Some(self.reach_from.map_or(at, |from| at.max(from)))
    }

    /// Reaches for another server.
    pub(crate) fn reach(&mut self, now: Instant) {
        self.reach_from = Some(now + self.timing().queue_wait);
        if let Some(open) = self.connection() {
            if let Some(other) = self.servers.other(open.endpoint()) {
                tracing::debug!(server = %open.endpoint(), %other, "no answer, trying another server");
                self.changes.push_back(Change::Reach(Some(other)));
            }
        }
    }

    /// Another server accepts a connection. Leaves the present one if it still owes an answer.
    pub(crate) fn reached(&mut self, now: Instant, other: &Arc<Endpoint>, pending: Pending) {
        let Stage::Open(open) = &self.stage else {
            return;
        };
        let at = self.owed_too_long(open, pending);
        let since = [pending.0, open.pinged()].into_iter().flatten().min();
        let is_due = at.is_some_and(|at| at <= now) && open.closing().is_none();
        let (Some(since), true) = (since, is_due) else {
            return self.changes.push_back(Change::Reach(None));
        };
        let owed = now.saturating_duration_since(since);
        self.give_up(now, Cause::Silent(owed));
        self.servers.begin_with(other);
        self.try_next_server(now);
    }
}
