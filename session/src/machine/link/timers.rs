//! Every deadline of the link. Nothing is stored here: a deadline follows from the stage, so it
//! cannot be stale.

use std::time::Instant;

use super::{Change, Connection, Link, Stage, State};
use crate::Cause;

/// The earlier of two deadlines, of which the second one may be unset.
pub(crate) fn earlier(deadline: Instant, other: Option<Instant>) -> Instant {
    other.map_or(deadline, |other| deadline.min(other))
}

impl Link {
    /// When [`tick_session`](Self::tick_session) or [`tick`](Self::tick) is due. `is_urgent` says
    /// that somebody waits for the answer to the next ping.
    pub(crate) fn next_deadline(&self, is_urgent: bool) -> Option<Instant> {
        let next = match &self.stage {
            Stage::Ended(_) => return None,
            Stage::Paused { until } => earlier(*until, self.session_end()),
            Stage::Trying(attempt) => earlier(attempt.deadline(), self.session_end()),
            Stage::Open(open) => {
                let ping = match open.pinged() {
                    Some(since) => since + self.timing().read,
                    None => self.ping_due(open, is_urgent),
                };
                earlier(earlier(ping, self.silence()), open.closing())
            }
        };
        Some(next)
    }

    /// When the server will have been silent for too long.
    pub(super) fn silence(&self) -> Option<Instant> {
        Some(self.session.heard()? + self.timing().read)
    }

    /// When no server will have been heard of for so long that the session counts as expired.
    fn session_end(&self) -> Option<Instant> {
        Some(self.session.heard()? + self.timing().session_end)
    }

    fn ping_due(&self, open: &Connection, is_urgent: bool) -> Instant {
        if is_urgent {
            open.last_ping()
        } else {
            open.last_ping() + self.timing().ping
        }
    }

    /// When the next ping is due; `None` without a connection.
    pub(crate) fn next_ping(&self, is_urgent: bool) -> Option<Instant> {
        Some(self.ping_due(self.connection()?, is_urgent))
    }

    /// Ends a session of which no server was heard for too long, and a close that the server does
    /// not confirm.
    pub(crate) fn tick_session(&mut self, now: Instant) {
        let is_over = |deadline: Option<Instant>| deadline.is_some_and(|it| it <= now);
        match &self.stage {
            Stage::Open(open) if is_over(open.closing()) => {
                let cause = Cause::RequestTimeout(self.timing().request);
                self.end(State::Closed, cause);
            }
            Stage::Paused { .. } | Stage::Trying(_) if is_over(self.session_end()) => {
                if let Stage::Trying(_) = self.stage {
                    self.stage = Stage::Paused { until: now };
                    self.changes.push_back(Change::Disconnect);
                }
                self.expire(now, None);
            }
            _ => {}
        }
    }

    /// Does what is due otherwise: gives up a server that does not answer, pings, tries the next
    /// server. Returns whether a ping is to be sent.
    pub(crate) fn tick(&mut self, now: Instant, is_urgent: bool) -> bool {
        let (silence, read) = (self.silence(), self.timing().read);
        let mut pings = false;
        match &self.stage {
            Stage::Trying(attempt) if attempt.deadline() <= now => {
                let cause = attempt.failure(now);
                self.give_up(now, cause);
            }
            Stage::Open(_) if silence.is_some_and(|until| until <= now) => {
                self.give_up(now, Cause::Silent(read));
            }
            // No other ping is sent meanwhile, so the session is in danger, even if the server sends
            // other frames.
            Stage::Open(open) if open.pinged().is_some_and(|since| since + read <= now) => {
                self.give_up(now, Cause::RequestTimeout(read));
            }
            Stage::Open(open) => {
                pings = open.pinged().is_none() && self.ping_due(open, is_urgent) <= now;
            }
            _ => {}
        }
        if let Some(open) = self.connection_mut().filter(|_| pings) {
            open.ping(now);
        }
        if let Stage::Paused { until } = self.stage
            && until <= now
        {
            self.try_next_server(now);
        }
        pings
    }
}
