//! Faults that tests switch on while clients run. None of them is reachable over the wire.

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::{SessionId, path};

use super::{
    BATCH_LIMIT, ConnId, Engine, Now, Received,
    rules::{Effect, RuleId, When},
};

impl Engine {
    /// Sets a rule for one request to come.
    pub fn add_rule(&mut self, when: When, effect: Effect) -> RuleId {
        self.rules.add(when, effect)
    }

    /// Takes a rule back; whether it was still waiting for its request.
    pub fn remove_rule(&mut self, id: RuleId) -> bool {
        self.rules.remove(id)
    }

    /// How many rules wait for their request.
    #[must_use]
    pub fn pending_rules(&self) -> usize {
        self.rules.len()
    }

    /// Takes all rules back, lets everything through and brings everybody up to date.
    pub fn clear_faults(&mut self, now: Now) {
        self.rules.clear();
        self.thaw();
        self.resume_input(now);
    }

    /// Every reply, and what follows it on its connection, comes later by this much; `None` for no delay.
    pub fn set_delay(&mut self, delay: Option<Duration>) {
        self.rules.delay = delay;
    }

    /// Whether connections are closed without an answer when they ask for a session.
    pub fn set_refuse_handshakes(&mut self, refuse: bool) {
        self.rules.refuse_handshakes = refuse;
    }

    /// Cuts the connection of a session; whether it had one.
    pub fn cut_session(&mut self, session: SessionId) -> bool {
        let connection = self.connection_of(session);
        if let Some(connection) = connection {
            self.cut(connection);
        }
        connection.is_some()
    }

    /// Cuts all connections.
    pub fn cut_all(&mut self) {
        let all: Vec<ConnId> = self.connections.keys().copied().collect();
        for id in all {
            self.cut(id);
        }
    }

    /// Expires a session now; whether it lived.
    pub fn expire(&mut self, session: SessionId, now: Now) -> bool {
        let lives = self.sessions.get(session).is_some();
        if lives {
            self.expire_session(session, now);
        }
        lives
    }

    /// Deletes a node as a third party would; whether it was there, and had no children.
    pub fn delete_node(&mut self, path: &str, now: Now) -> bool {
        let node = self.live.tree.get(path);
        let is_leaf = node.is_some_and(|node| node.children.is_empty()) && path != path::ROOT;
        if is_leaf {
            self.remove(Arc::from(path), now);
        }
        is_leaf
    }

    /// Stops listening to everybody and answering anybody, or begins again.
    ///
    /// When it begins again some may be left of what a connection had sent: see [`received`](Self::received), with no bytes.
    pub fn set_stalled(&mut self, stalled: bool, now: Now) {
        self.rules.all_stalled = stalled;
        self.resume_input(now);
    }

    /// As [`set_stalled`](Self::set_stalled), for one session, whatever connection it comes by.
    pub fn set_session_stalled(&mut self, session: SessionId, stalled: bool, now: Now) {
        if stalled {
            self.rules.stalled.insert(session);
        } else {
            self.rules.stalled.remove(&session);
        }
        self.resume_input(now);
    }

    /// Sets how many children a node is said to have had: the number of the next sequential one. Whether it exists.
    pub fn set_sequence(&mut self, path: &str, next: i32) -> bool {
        let node = self.live.tree.get_mut(path);
        node.map(|node| node.created = next).is_some()
    }

    /// Whether a connection is neither heard nor answered.
    pub(super) fn is_stalled(&self, id: ConnId) -> bool {
        self.rules.all_stalled
            || !self.rules.stalled.is_empty()
                && (self.connections.get(&id))
                    .is_some_and(|connection| self.rules.stalled.contains(&connection.named))
    }

    /// Holds back what a connection is sent from now on.
    pub(super) fn hold(&mut self, id: ConnId, delay: Duration, now: Now) {
        if let Some(connection) = self.connections.get_mut(&id) {
            let had = connection.release_due();
            connection.hold(now.instant, delay);
            if had.is_none() {
                self.held
                    .extend(connection.release_due().map(|due| (due, id)));
            }
        }
    }

    /// Reads what came in while nobody listened.
    fn resume_input(&mut self, now: Now) {
        let all: Vec<ConnId> = self.connections.keys().copied().collect();
        for id in all {
            loop {
                let (received, frames) = self.read_input(id, now);
                self.counters.traffic.note(0, frames);
                self.with(id, |connection| connection.traffic.note(0, frames));
                // What is left because there is much to send is for whoever drives the engine to ask for.
                let is_full = (self.connections.get(&id))
                    .is_none_or(|connection| connection.ready_len() > BATCH_LIMIT);
                if received == Received::Wholly || is_full {
                    break;
                }
            }
        }
    }
}
