//! Leaving a healthy connection for another server: on request, or from a read-only server to one that accepts writes.
//!
//! No request fails by a move. The machine sends nothing new, and leaves the connection when every request is answered.
//! Not here: which server is next when a connection is lost (`endpoints`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    Cause, Endpoint,
    machine::{Machine, Output, State},
};

/// From the connection to a read-only server to the first probe of another one.
///
/// Source: `ClientCnxn.java`, `minPingRwTimeout`.
const FIRST_PROBE: Duration = Duration::from_millis(100);
/// The longest pause between two probes. The pause doubles after each.
///
/// Source: `ClientCnxn.java`, `maxPingRwTimeout`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// The search for a server that accepts writes.
#[derive(Debug)]
pub(crate) struct WritableSearch {
    next: Instant,
    pause: Duration,
    /// Whether a probe waits for its answer.
    is_probing: bool,
}

impl WritableSearch {
    /// A search that begins now, if a server in this state is read-only.
    pub(crate) fn after(now: Instant, state: State) -> Option<Self> {
        (state == State::ReadOnly).then(|| Self {
            next: now + FIRST_PROBE,
            pause: FIRST_PROBE,
            is_probing: false,
        })
    }

    /// When the next probe is due.
    pub(crate) fn deadline(&self) -> Option<Instant> {
        (!self.is_probing).then_some(self.next)
    }
}

impl<T> Machine<T> {
    /// Goes on with the next server of the list, in the same session. Without a connection it does nothing: the machine
    /// looks for the next server already.
    pub fn move_to_next_server(&mut self, now: Instant) {
        if self.closing.is_some() {
            return;
        }
        if let Some(open) = self.established_mut() {
            open.is_moving = true;
            self.move_if_idle(now);
        }
    }

    /// Leaves the connection for another one, if that was requested and every request is answered.
    pub(crate) fn move_if_idle(&mut self, now: Instant) {
        let moves = |open: &super::connection::Connection<T>| open.is_moving && open.is_idle();
        if self.established().is_some_and(moves) {
            tracing::debug!(session = %self.session.id, "moving to another server");
            self.give_up(now, Cause::ByClient);
            // No server has failed, so there is nothing to wait for.
            self.retry_at = now;
        }
    }

    /// Asks the next server whether it accepts writes.
    pub(crate) fn probe_next_server(&mut self, now: Instant) {
        let Some(open) = self.connection.as_mut() else {
            return;
        };
        let (Some(search), Some(candidate)) =
            (&mut open.search, self.endpoints.candidate(&open.endpoint))
        else {
            return;
        };
        search.is_probing = true;
        search.pause = (search.pause * 2).min(LONGEST_PAUSE);
        search.next = now + search.pause;
        tracing::debug!(server = %candidate, "asking for a server that accepts writes");
        self.outputs.push_back(Output::Probe(candidate));
    }

    /// A server has answered a probe, or failed to.
    pub(crate) fn probed(&mut self, now: Instant, endpoint: &Arc<Endpoint>, accepts_writes: bool) {
        let Some(open) = self.connection.as_mut() else {
            return;
        };
        let Some(search) = &mut open.search else {
            return;
        };
        search.is_probing = false;
        if accepts_writes {
            open.search = None;
            self.endpoints.prefer(endpoint);
            self.move_to_next_server(now);
        }
    }
}
