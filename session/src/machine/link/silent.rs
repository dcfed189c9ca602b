//! A server that owes an answer is left for another one, long before it costs the lease.
//!
//! The transport reaches for another server beside the present connection. Only when that server
//! accepts a connection is the present one given up, so where there is no other server nothing is
//! lost. A server is not left while it is only slow: it may owe four times as long as the slowest
//! answer of late has taken. Clients that lose the same server do so at different moments, and each
//! reaches for another one once in a session timeout.
//!
//! Not here: the silence that ends a connection without another server (`Link::tick`).

use std::{sync::Arc, time::Instant};

use super::{Change, Link, Stage, session::Connection};
use crate::{Cause, Endpoint};

impl Link {
    /// When the server owes an answer for too long. `unanswered` says since when the oldest request
    /// could have been answered; pings behind it wait for its answer.
    fn owed_too_long(&self, open: &Connection, unanswered: Option<Instant>) -> Option<Instant> {
        let (timing, slow) = (self.timing(), self.slowest() * 4);
        let is_first = |ping: &Instant| unanswered.is_none_or(|request| *ping <= request);
        let ping = open.pinged().filter(is_first);
        let ping = ping.map(|since| since + timing.owed_ping.max(slow));
        let request = unanswered.map(|since| since + timing.owed_request.max(slow));
        let at = [ping, request].into_iter().flatten().min()?;
        Some(at + self.scatter)
    }

    /// When the transport is to reach for another server.
    pub(crate) fn reach_due(&self, unanswered: Option<Instant>) -> Option<Instant> {
        let open = self.connection().filter(|open| open.closing().is_none())?;
        let at = self.owed_too_long(open, unanswered)?;
        let has_other = self.servers.has_other(open.endpoint());
        has_other.then(|| self.reach_from.map_or(at, |from| at.max(from)))
    }

    /// Reaches for another server, if that is due.
    pub(crate) fn reach(&mut self, now: Instant, unanswered: Option<Instant>) {
        if self.reach_due(unanswered).is_some_and(|at| at <= now) {
            if let Some(open) = self.connection() {
                if let Some(other) = self.servers.other(open.endpoint()) {
                    tracing::debug!(server = %open.endpoint(), %other, "no answer, trying another server");
                    self.reach_from = Some(now + self.timing().queue_wait);
                    self.changes.push_back(Change::Reach(Some(other)));
                }
            }
        }
    }

    /// Another server accepts a connection. Leaves the present one if it still owes an answer.
    pub(crate) fn reached(
        &mut self,
        now: Instant,
        other: &Arc<Endpoint>,
        unanswered: Option<Instant>,
    ) {
        let Stage::Open(open) = &self.stage else {
            return;
        };
        let at = self.owed_too_long(open, unanswered);
        let since = [unanswered, open.pinged()].into_iter().flatten().min();
        let (Some(since), true) = (since, at.is_some_and(|at| at <= now)) else {
            return self.changes.push_back(Change::Reach(None));
        };
        let owed = now.saturating_duration_since(since);
        self.took(now, since);
        self.give_up(now, Cause::Silent(owed));
        self.servers.begin_with(other);
        self.try_next_server(now);
    }
}
