//! From one server to another, of the client's own will: because it was asked to, or from a read-only server to one that
//! takes writes.
//!
//! A move costs no request: nothing new is sent, and the connection is left when all that was sent is answered.
//! Not here: which server is next when a connection is lost (`endpoints`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::machine::{Machine, Output, Phase, State};
use crate::{Cause, Endpoint};

/// From the connection to a read-only server to the first question whether another one takes writes.
///
/// Source: `ClientCnxn.java`, `minPingRwTimeout`.
const FIRST_QUESTION: Duration = Duration::from_millis(100);
/// The time between two questions doubles up to this.
///
/// Source: `ClientCnxn.java`, `maxPingRwTimeout`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The search for a server that takes writes.
#[derive(Debug)]
pub(crate) struct WritableSearch {
    next: Instant,
    pause: Duration,
    /// Whether a question is on its way.
    is_asking: bool,
}

impl WritableSearch {
    /// A search that begins now, where a server in this state gives a reason for one.
    pub(crate) fn after(now: Instant, state: State) -> Option<Self> {
        (state == State::ReadOnly).then(|| Self {
            next: now + FIRST_QUESTION,
            pause: FIRST_QUESTION,
            is_asking: false,
        })
    }
}

impl<T> Machine<T> {
    /// Goes on with the next server of the list, in the same session. Without a connection the next one is being sought
    /// anyhow.
    pub fn move_to_next_server(&mut self, now: Instant) {
        if self.is_connected() && self.closing.is_none() {
            self.is_moving = true;
            self.move_if_idle(now);
        }
    }

    /// Leaves the connection for another one, if that was asked for and nothing is under way on it.
    pub(crate) fn move_if_idle(&mut self, now: Instant) {
        let idle = self.in_flight.is_empty() && self.pending_auth_since().is_none();
        if self.is_moving && idle && self.is_connected() {
            tracing::debug!(session = %self.session.id, "moving to another server");
            self.give_up(now, Cause::ByClient);
            // Nothing has failed: there is nothing to wait for.
            if let Phase::Pausing { until } = &mut self.phase {
                *until = now;
            }
        }
    }

    /// When the next question is due.
    pub(crate) fn search_due(&self) -> Option<Instant> {
        let search = self.search.as_ref().filter(|search| !search.is_asking)?;
        Some(search.next)
    }

    /// Asks the next server whether it takes writes.
    pub(crate) fn probe_next_server(&mut self, now: Instant) {
        let Phase::Connected { endpoint, .. } = &self.phase else {
            return;
        };
        let (Some(search), Some(candidate)) =
            (&mut self.search, self.endpoints.candidate(endpoint))
        else {
            return;
        };
        search.is_asking = true;
        search.pause = (search.pause * 2).min(LONGEST_PAUSE);
        search.next = now + search.pause;
        tracing::debug!(server = %candidate, "asking for a server that takes writes");
        self.outputs.push_back(Output::Probe(candidate));
    }

    /// A server has said whether it takes writes, or nothing.
    pub(crate) fn probed(&mut self, now: Instant, endpoint: &Arc<Endpoint>, takes_writes: bool) {
        let Some(search) = &mut self.search else {
            return;
        };
        search.is_asking = false;
        if takes_writes {
            self.search = None;
            self.endpoints.prefer(endpoint);
            self.move_to_next_server(now);
        }
    }
}
