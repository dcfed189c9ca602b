//! Every deadline of the machine, in one table.
//!
//! `each_timer` says when each is due, and `handle_timer` what happens then. Nothing is stored
//! here: a deadline follows from the state, so it cannot be stale.

use std::time::Instant;

use crate::{
    Cause,
    machine::{Machine, Output, State, link::search::WritableSearch, spare::give_back},
};

/// Why the machine wants to be woken. Timers that are due together are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
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
    /// No request was answered for too long, although some wait.
    Request,
    /// The ping was not answered in time.
    Pong,
    /// A ping is to be sent.
    Ping,
    /// A write is to be sent that keeps the lease proved.
    Proof,
    /// Another server is to be asked whether it accepts writes.
    Probe,
    /// The next server is to be tried.
    Retry,
}

impl<T> Machine<T> {
    /// When [`Input::Tick`](super::Input::Tick) is due; `None` when the machine waits for the world
    /// alone.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        self.each_timer(|_, deadline| {
            next = Some(next.map_or(deadline, |next| next.min(deadline)));
        });
        next
    }

    /// Handles every deadline that has come, each timer at most once.
    pub(crate) fn tick(&mut self, now: Instant) {
        let mut last = None;
        while let Some(timer) = self.next_due(last, now) {
            self.handle_timer(timer, now);
            last = Some(timer);
        }
    }

    /// The first timer behind `last` whose deadline has come.
    fn next_due(&self, last: Option<Timer>, now: Instant) -> Option<Timer> {
        let mut next = None;
        self.each_timer(|timer, deadline| {
            if deadline <= now && Some(timer) > last && next.is_none() {
                next = Some(timer);
            }
        });
        next
    }

    /// The table: visits every timer that is set, in the order in which they are handled.
    fn each_timer(&self, mut visit: impl FnMut(Timer, Instant)) {
        if self.is_ended() {
            return;
        }
        let (timing, established) = (&self.timing, self.established());
        if let Some(closing) = self.closing {
            visit(Timer::Close, closing);
        }
        if established.is_none()
            && let Some(heard) = self.session.heard
        {
            visit(Timer::SessionEnd, heard + timing.session_end);
        }
        if let Some((deadline, _)) = self.deadlines.first() {
            visit(Timer::Caller, *deadline);
        }
        let Some(open) = established else {
            if let Some(deadline) = self.queue_deadline() {
                visit(Timer::Queue, deadline);
            }
            match &self.connection {
                Some(attempt) => visit(Timer::Handshake, attempt.handshake_deadline()),
                None => visit(Timer::Retry, self.retry_at),
            }
            return;
        };
        visit(Timer::Silence, open.last_received + timing.read);
        if let Some(since) = open.waits_since() {
            visit(Timer::Request, since + timing.request);
        }
        match open.ping {
            Some(ping) => visit(Timer::Pong, ping.since + timing.read),
            None => visit(Timer::Ping, self.ping_due(open)),
        }
        if let Some(deadline) = self.proof_due(open) {
            visit(Timer::Proof, deadline);
        }
        if let Some(deadline) = open.search.as_ref().and_then(WritableSearch::deadline) {
            visit(Timer::Probe, deadline);
        }
    }

    /// When the server will have been silent for too long.
    pub(crate) fn silence_deadline(&self) -> Option<Instant> {
        self.established()
            .map(|open| open.last_received + self.timing.read)
    }

    /// When the oldest queued request will have waited for a connection for too long. While there
    /// was one, it waited for the requests ahead of it.
    fn queue_deadline(&self) -> Option<Instant> {
        let oldest = self.queue.oldest().filter(|_| !self.is_connected())?;
        let since = self
            .session
            .heard
            .map_or(oldest.since, |heard| heard.max(oldest.since));
        Some(since + self.timing.queue_wait)
    }

    /// Frees the room that a burst of requests has left: nothing was sent for a while.
    fn give_back_room(&mut self) {
        self.queue.give_back_room();
        give_back(&mut self.outputs);
        if let Some(connection) = &mut self.connection {
            give_back(&mut connection.in_flight);
            connection.early.give_back_room();
        }
    }

    /// Handles a deadline that has come.
    fn handle_timer(&mut self, timer: Timer, now: Instant) {
        if matches!(timer, Timer::Ping | Timer::Proof) {
            self.give_back_room();
        }
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
                while self
                    .queue_deadline()
                    .is_some_and(|deadline| deadline <= now)
                {
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
            // No other ping is sent meanwhile, so the session is in danger, even if the server
            // sends other frames.
            Timer::Pong => self.give_up(now, Cause::RequestTimeout(self.timing.read)),
            Timer::Probe => self.probe_next_server(now),
            Timer::Ping => self.send_ping(now),
            Timer::Proof => self.send_proof(),
        }
    }
}
