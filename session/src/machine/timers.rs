//! Every deadline of the machine, in one table.
//!
//! `each_timer` says when each is due, and `handle_timer` what happens then. Nothing is stored
//! here: a deadline follows from the state, so it cannot be stale.

use std::time::Instant;

use lockkeeper_proto::{Request, Version, multi::MultiRequest, records::CheckVersionRequest};

use super::{Machine, Output, Phase, State, requests::Own};
use crate::Cause;

/// Why the machine wants to be woken. Timers that are due together are handled in this order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
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
        let timing = self.session.timing();
        let mut visit = |timer, deadline: Option<Instant>| {
            if let Some(deadline) = deadline {
                visit(timer, deadline);
            }
        };
        match &self.phase {
            Phase::Ended(_) => {}
            Phase::Open(open) => {
                let link = &open.link;
                visit(Timer::Close, link.closing());
                visit(Timer::Caller, self.queue.next_deadline());
                visit(Timer::Silence, Some(link.silence(timing.read)));
                let waits = open.in_flight.waits_since();
                visit(Timer::Request, waits.map(|since| since + timing.request));
                match link.pinged() {
                    Some(since) => visit(Timer::Pong, Some(since + timing.read)),
                    None => {
                        visit(
                            Timer::Ping,
                            Some(self.lease.ping_due(link.last_ping(), timing)),
                        );
                    }
                }
                if !link.is_moving() {
                    visit(Timer::Proof, self.lease.write_due(&open.proving, timing));
                }
            }
            Phase::Paused(_) | Phase::Trying(_) => {
                let heard = self.session.heard();
                visit(
                    Timer::SessionEnd,
                    heard.map(|heard| heard + timing.session_end),
                );
                visit(Timer::Caller, self.queue.next_deadline());
                visit(Timer::Queue, self.queue_deadline());
                match &self.phase {
                    Phase::Trying(attempt) => visit(Timer::Handshake, Some(attempt.deadline())),
                    Phase::Paused(until) => visit(Timer::Retry, Some(*until)),
                    _ => {}
                }
            }
        }
    }

    /// When the oldest queued request will have waited for a connection for too long. While there
    /// was one, it waited for the requests ahead of it.
    fn queue_deadline(&self) -> Option<Instant> {
        let oldest = self.queue.first().filter(|_| !self.is_connected())?;
        let since = self.session.heard().max(Some(oldest.options.since))?;
        Some(since + self.session.timing().queue_wait)
    }

    /// Frees the room that a burst of requests has left: nothing was sent for a while.
    fn give_back_room(&mut self) {
        self.queue.give_back_room();
        self.out.give_back_room();
        if let Phase::Open(open) = &mut self.phase {
            open.in_flight.give_back_room();
            open.arrivals.give_back_room();
        }
    }

    /// Handles a deadline that has come.
    fn handle_timer(&mut self, timer: Timer, now: Instant) {
        let timing = *self.session.timing();
        if matches!(timer, Timer::Ping | Timer::Proof) {
            self.give_back_room();
        }
        match (timer, &mut self.phase) {
            (Timer::Close, _) => self.end(State::Closed, Cause::RequestTimeout(timing.request)),
            (Timer::SessionEnd, phase) => {
                if let Phase::Trying(_) = phase {
                    *phase = Phase::Paused(now);
                    self.out.push(Output::Disconnect);
                }
                self.expire(now, None);
            }
            (Timer::Caller, _) => self.fail_overdue(now),
            (Timer::Queue, _) => {
                let is_due = |deadline| deadline <= now;
                while self.queue_deadline().is_some_and(is_due) {
                    self.fail_oldest_queued(now);
                }
            }
            (Timer::Retry, _) => self.try_next_server(now),
            (Timer::Handshake, Phase::Trying(attempt)) => {
                let cause = attempt.failure(now);
                self.give_up(now, cause);
            }
            (Timer::Silence, _) => self.give_up(now, Cause::Silent(timing.read)),
            (Timer::Request, _) => self.give_up(now, Cause::RequestTimeout(timing.request)),
            // No other ping is sent meanwhile, so the session is in danger, even if the server
            // sends other frames.
            (Timer::Pong, _) => self.give_up(now, Cause::RequestTimeout(timing.read)),
            (Timer::Ping, Phase::Open(open)) => open.link.ping(now),
            (Timer::Proof, Phase::Open(open)) => {
                // A transaction that changes nothing.
                let check = Request::Check(CheckVersionRequest {
                    path: "/".to_owned(),
                    version: Version::ANY,
                });
                open.proving.writes();
                self.ask(
                    Request::Multi(MultiRequest { ops: vec![check] }),
                    Own::Proof,
                );
            }
            (Timer::Handshake | Timer::Ping | Timer::Proof, _) => {}
        }
    }
}
