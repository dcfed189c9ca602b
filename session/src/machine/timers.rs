//! Every deadline of the machine, in one table.
//!
//! [`Timer`] lists the deadlines in the order in which they are handled. [`Machine::deadline`] says when each is due, and
//! `handle_timer` what happens then. Nothing is stored here: a deadline follows from the state, so it cannot be stale.

use std::time::Instant;

use crate::{
    Cause,
    machine::{Machine, Output, State},
};

/// Why the machine wants to be woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Timer {
    /// The server did not confirm the end of the session in time.
    Close,
    /// No server was heard of for so long that the session counts as expired.
    SessionEnd,
    /// The deadline of a caller has come.
    Caller,
    /// The oldest queued request has waited for a connection for too long.
    Queue,
    /// The server did not accept the connection, or did not complete the handshake.
    Handshake,
    /// The server was silent for too long.
    Silence,
    /// The oldest request was not answered in time.
    Request,
    /// The ping was not answered in time.
    Pong,
    /// Another server is to be asked whether it accepts writes.
    Probe,
    /// A ping is to be sent.
    Ping,
    /// The next server is to be tried.
    Retry,
}

impl Timer {
    const ALL: [Self; 11] = [
        Self::Close,
        Self::SessionEnd,
        Self::Caller,
        Self::Queue,
        Self::Handshake,
        Self::Silence,
        Self::Request,
        Self::Pong,
        Self::Probe,
        Self::Ping,
        Self::Retry,
    ];
}

impl<T> Machine<T> {
    /// When [`Input::Tick`](super::Input::Tick) is due; `None` when the machine waits for the world alone.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let mut next = None;
        for timer in Timer::ALL {
            if let Some(deadline) = self.deadline(timer)
                && next.is_none_or(|next| deadline < next)
            {
                next = Some(deadline);
            }
        }
        next
    }

    /// Handles every deadline that has come.
    pub(crate) fn tick(&mut self, now: Instant) {
        for timer in Timer::ALL {
            if self.is_due(timer, now) {
                self.handle_timer(timer, now);
            }
        }
    }

    /// Whether a deadline has come.
    pub(crate) fn is_due(&self, timer: Timer, now: Instant) -> bool {
        self.deadline(timer).is_some_and(|deadline| deadline <= now)
    }

    /// When a timer is due; `None` while it is not set.
    fn deadline(&self, timer: Timer) -> Option<Instant> {
        if self.is_ended() {
            return None;
        }
        let (timing, open) = (&self.timing, self.established());
        match timer {
            Timer::Close => self.closing,
            Timer::SessionEnd | Timer::Queue if open.is_some() => None,
            Timer::SessionEnd => self.session.heard.map(|heard| heard + timing.session_end),
            Timer::Caller => self.deadlines.first().map(|(deadline, _)| *deadline),
            Timer::Queue => self
                .queue
                .oldest()
                .map(|oldest| oldest.since + timing.queue_wait),
            Timer::Retry => self.connection.is_none().then_some(self.retry_at),
            Timer::Handshake => self.connection.as_ref()?.handshake_deadline(),
            Timer::Silence => Some(open?.last_received + timing.read),
            Timer::Request => Some(open?.oldest_sent()? + timing.request),
            Timer::Pong => Some(open?.ping_sent? + timing.read),
            Timer::Probe => open?.search.as_ref()?.deadline(),
            Timer::Ping if open?.ping_sent.is_some() => None,
            Timer::Ping => Some(open?.last_sent + timing.ping),
        }
    }

    /// Handles a deadline that has come.
    fn handle_timer(&mut self, timer: Timer, now: Instant) {
        match timer {
            Timer::Close => self.end(State::Closed, Cause::RequestTimeout(self.timing.request)),
            Timer::SessionEnd => {
                if self.connection.is_some() {
                    self.outputs.push_back(Output::Disconnect);
                }
                self.expire(now, None);
            }
            Timer::Caller => self.fail_overdue(now),
            Timer::Queue => {
                while self.is_due(Timer::Queue, now) {
                    self.fail_oldest_queued(now);
                }
            }
            Timer::Retry => self.try_next_server(now),
            Timer::Handshake => {
                let connection = self.connection.as_ref();
                if let Some(cause) = connection.and_then(|it| it.pending_failure(now)) {
                    self.give_up(now, cause);
                }
            }
            Timer::Silence => self.give_up(now, Cause::Silent(self.timing.read)),
            Timer::Request => self.give_up(now, Cause::RequestTimeout(self.timing.request)),
            // No other ping is sent meanwhile, so the session is in danger, whatever else the server sends.
            Timer::Pong => self.give_up(now, Cause::RequestTimeout(self.timing.read)),
            Timer::Probe => self.probe_next_server(now),
            Timer::Ping => self.send_ping(now),
        }
    }
}
