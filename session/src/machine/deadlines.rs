//! Everything that the machine does by itself, because the time for it has come.
//!
//! `next_deadline` and a tick know the same kinds, and each kind says both when something is due and
//! what is done then. So no deadline is told that nothing follows, which would be a busy loop, and
//! nothing is due that is not told.

use std::time::Instant;

use super::{Machine, router::Router};
use crate::Cause;

/// A kind of deadline.
#[derive(Clone, Copy)]
enum Deadline {
    /// The session is over.
    Session,
    /// A caller wants to wait no longer.
    Caller,
    /// A request was not sent for too long.
    Unsent,
    /// The server does not answer a request.
    Unanswered,
    /// Another server is reached for.
    Reach,
    /// What the link does otherwise.
    Link,
    /// What proves the lease is due.
    Lease,
}

/// In the order in which they are looked at: the end of a session settles all that waits.
const ALL: [Deadline; 7] = [
    Deadline::Session,
    Deadline::Caller,
    Deadline::Unsent,
    Deadline::Unanswered,
    Deadline::Reach,
    Deadline::Link,
    Deadline::Lease,
];

impl Deadline {
    /// When it is due.
    #[allow(
        clippy::inline_always,
        reason = "each kind that asks is known where it asks"
    )]
    #[inline(always)]
    fn at<T>(self, it: &Machine<T>) -> Option<Instant> {
        match self {
            Self::Session => it.link.session_deadline(),
            Self::Caller => it.requests.next_deadline(),
            Self::Unsent => it.link.unsent_deadline(it.requests.waits_since()?),
            Self::Unanswered => Some(it.requests.unanswered_since()? + it.link.timing().request),
            Self::Reach => it.link.reach_due(|| it.pending()),
            Self::Link => (it.link).deadline(it.lease.ping_interval(it.link.timing())),
            Self::Lease => Some(it.lease.due(it.link.slowest(), it.link.timing())?.0),
        }
    }

    /// What is done then.
    fn act<T>(self, it: &mut Router<'_, T>, now: Instant) {
        match self {
            Self::Session => it.link.end_overdue_session(now),
            Self::Caller => it.fail_overdue(now),
            Self::Unsent => it.fail_unsent(now),
            Self::Unanswered => {
                let cause = Cause::RequestTimeout(it.link.timing().request);
                it.link.give_up(now, cause);
            }
            Self::Reach => it.link.reach(now),
            Self::Link => {
                if it.link.tick(now) {
                    it.shrink_to_fit();
                }
            }
            Self::Lease => it.prove_lease(),
        }
    }

    /// Whether several may be due at once. Each call does one of them.
    fn are_many(self) -> bool {
        matches!(self, Self::Caller | Self::Unsent | Self::Lease)
    }
}

impl<T> Machine<T> {
    /// When [`Input::Tick`](super::Input::Tick) is due; `None` when the machine waits for the world
    /// alone.
    #[must_use]
    pub fn next_deadline(&self) -> Option<Instant> {
        if self.link.is_ended() {
            return None;
        }
        // Not in a loop: every turn of a client asks for all of them.
        let [first, rest @ ..]: [Option<Instant>; ALL.len()] = [
            Deadline::Session.at(self),
            Deadline::Caller.at(self),
            Deadline::Unsent.at(self),
            Deadline::Unanswered.at(self),
            Deadline::Reach.at(self),
            Deadline::Link.at(self),
            Deadline::Lease.at(self),
        ];
        rest.into_iter().fold(first, |first, at| match (first, at) {
            (Some(first), Some(at)) => Some(first.min(at)),
            (first, at) => first.or(at),
        })
    }

    /// Does everything that is due.
    pub(super) fn tick(&mut self, now: Instant) {
        for deadline in ALL {
            while deadline.at(self).is_some_and(|at| at <= now) {
                let mut router = self.router();
                deadline.act(&mut router, now);
                router.hear();
                // The next deadline of the same kind may have come already, with settings of zero.
                if !deadline.are_many() {
                    break;
                }
            }
        }
    }
}
