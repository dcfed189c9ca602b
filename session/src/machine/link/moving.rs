//! Leaving a healthy connection for another server: on request, or from a read-only server to one
//! that accepts writes.
//!
//! No request fails by a move. The machine sends nothing new, and leaves the connection when every
//! request is answered. Not here: which server is next when a connection is lost (`endpoints`).

use std::{sync::Arc, time::Instant};

use super::search::LONGEST_PAUSE;
use crate::{
    Cause, Endpoint,
    machine::{Machine, Output},
};

impl<T> Machine<T> {
    /// Goes on with the next server of the list, in the same session. Without a connection it does
    /// nothing: the machine looks for the next server already.
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
