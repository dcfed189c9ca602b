//! Everything that the machine does by itself, because the time for it has come.
//!
//! `next_deadline` and a tick read the same list, whose rows say both when something is due and what
//! is done then. So no deadline is told that nothing follows, which would be a busy loop, and nothing
//! is due that is not told.

use std::time::Instant;

use super::{Machine, router::Router};
use crate::Cause;

/// When it is due, what is done then, and whether several of its kind may be due at once.
type Row<T> = (
    fn(&Machine<T>) -> Option<Instant>,
    fn(&mut Router<'_, T>, Instant),
    bool,
);

const ONE: bool = false;
/// One is done at a time.
const MANY: bool = true;

impl<T> Machine<T> {
    /// In the order in which they are done.
    const DEADLINES: [Row<T>; 7] = [
        // First, as the end of a session settles all that waits.
        (
            |it| it.link.session_deadline(),
            |it, now| it.link.end_overdue_session(now),
            ONE,
        ),
        (
            |it| it.requests.next_deadline(),
            |it, now| it.fail_overdue(now),
            MANY,
        ),
        (
            |it| it.link.unsent_deadline(it.requests.waits_since()?),
            |it, now| it.fail_unsent(now),
            MANY,
        ),
        (
            |it| Some(it.requests.unanswered_since()? + it.link.timing().request),
            |it, now| {
                let cause = Cause::RequestTimeout(it.link.timing().request);
                it.link.give_up(now, cause);
            },
            ONE,
        ),
        (
            |it| it.link.reach_due(|| it.pending()),
            |it, now| it.link.reach(now),
            ONE,
        ),
        (
            |it| it.link.deadline(it.lease.ping_interval(it.link.timing())),
            |it, now| {
                if it.link.tick(now) {
                    it.shrink_to_fit();
                }
            },
            ONE,
        ),
        (
            |it| Some(it.lease.due(it.link.slowest(), it.link.timing())?.0),
            |it, _| it.prove_lease(),
            MANY,
        ),
    ];

    /// When [`Input::Tick`](super::Input::Tick) is due; `None` when the machine waits for the world
    /// alone.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.link.is_ended() {
            return None;
        }
        let deadlines = Self::DEADLINES.iter().filter_map(|(at, ..)| at(self));
        deadlines.min()
    }

    /// Does everything that is due.
    pub(super) fn tick(&mut self, now: Instant) {
        for (at, act, many) in Self::DEADLINES {
            while at(self).is_some_and(|at| at <= now) {
                let mut router = self.router();
                act(&mut router, now);
                router.hear();
                // The next deadline of the same kind may have come already, with settings of zero.
                if !many {
                    break;
                }
            }
        }
    }
}
