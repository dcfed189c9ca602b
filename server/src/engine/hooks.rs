//! Faults that tests switch on while clients run. No client can cause them over the network.
//!
//! Not here: which requests a rule means (`rules`), failures of servers and links (`replication`,
//! `elections`).

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::{SessionId, path};

use super::{
    BATCH_LIMIT, Engine,
    basics::{Now, Received, ServerId},
    rules::{Effect, RuleId, When},
};

impl Engine {
    /// Adds a rule for a future request.
    pub fn add_rule(&mut self, when: When, effect: Effect) -> RuleId {
        self.rules.add(when, effect)
    }

    /// Removes a rule. Returns whether it was still waiting for its request.
    pub fn remove_rule(&mut self, id: RuleId) -> bool {
        self.rules.remove(id)
    }

    /// How many rules wait for their request.
    #[must_use]
    pub fn pending_rules(&self) -> usize {
        self.rules.len()
    }

    /// Removes all rules, ends all stalls and delays, and brings every connection up to date.
    pub fn clear_faults(&mut self, now: Now) {
        self.rules.clear();
        self.thaw();
        self.resume_input(now);
    }

    /// Delays every reply, and everything that follows it on its connection; `None` for no delay.
    pub fn set_delay(&mut self, delay: Option<Duration>) {
        self.rules.delay = delay;
    }

    /// Sets whether the server closes a connection without a reply when it asks for a session.
    pub fn set_refuse_handshakes(&mut self, refuse: bool) {
        self.rules.refuse_handshakes = refuse;
    }

    /// Cuts the connection of a session. Returns whether it had one.
    pub fn cut_session(&mut self, session: SessionId) -> bool {
        let connection = self.sessions.get(session).and_then(|own| own.connection);
        if let Some(connection) = connection {
            self.cut(connection);
        }
        connection.is_some()
    }

    /// Cuts all connections.
    pub fn cut_all(&mut self) {
        for id in self.connections.which(|_| true) {
            self.cut(id);
        }
    }

    /// Cuts all connections of one server.
    pub fn cut_server(&mut self, server: ServerId) {
        for id in self.connections.which(|own| own.server == server) {
            self.cut(id);
        }
    }

    /// Freezes the present state: connections go on reading it, despite later changes, until
    /// [`thaw`](Self::thaw).
    ///
    /// It ends earlier for a connection that writes or syncs, except on a follower: that one gets
    /// no transaction, so it answers no write.
    pub fn freeze_reads(&mut self) {
        self.state.freeze(None, false, &mut self.connections);
    }

    /// Like [`freeze_reads`](Self::freeze_reads), for the connections of one server of an ensemble.
    /// The server refuses clients that have seen a later zxid.
    pub fn freeze_server(&mut self, server: ServerId) {
        self.state.freeze(Some(server), true, &mut self.connections);
    }

    /// Brings every connection up to date and sends the events that were held back.
    pub fn thaw(&mut self) {
        self.state.thaw(None, &mut self.connections);
    }

    /// Like [`thaw`](Self::thaw), for the connections of one server.
    pub fn thaw_server(&mut self, server: ServerId) {
        self.state.thaw(Some(server), &mut self.connections);
    }

    /// The next event about this path, or one below it, is lost on its way.
    pub fn lose_event(&mut self, within: String) {
        self.connections.lose_event(within);
    }

    /// Sets whether a server of an ensemble goes on showing the ephemeral nodes of sessions that end
    /// from now on.
    pub fn set_keeps_ended(&mut self, server: ServerId, keeps: bool) {
        if let Some(follower) = self.state.follower_mut(server) {
            follower.view.keeps_ended = keeps;
        }
    }

    /// Closes the connection of a session, which expires when its client has come back and knows
    /// of the end. Returns whether the session was alive.
    pub fn expire(&mut self, session: SessionId) -> bool {
        let Some(own) = self.sessions.get(session) else {
            return false;
        };
        let connection = own.connection;
        self.sessions.begin_end(session);
        if let Some(connection) = connection {
            self.close(connection);
        }
        true
    }

    /// Expires a session now, although its client may rely on it. Returns whether it was alive.
    pub fn expire_early(&mut self, session: SessionId, now: Now) -> bool {
        let lives = self.sessions.get(session).is_some();
        if lives {
            self.expire_session(session, now);
        }
        lives
    }

    /// The clock has jumped. A session that is over by now, and has a connection, expires as by
    /// [`expire`](Self::expire), since its client was not silent in truth. The rest is a
    /// [`tick`](Self::tick).
    pub fn jump(&mut self, now: Now) {
        for session in self.sessions.expired(now.instant) {
            let own = self.sessions.get(session);
            let is_connected = own.is_some_and(|own| own.connection.is_some());
            if is_connected || self.sessions.is_told(session).is_some() {
                self.sessions.touch(session, now.instant);
                self.expire(session);
            }
        }
        self.tick(now);
    }

    /// Deletes a node as another client would. Returns whether the node existed and had no
    /// children.
    pub fn delete_node(&mut self, path: &str, now: Now) -> bool {
        let node = self.state.live().tree.get(path);
        let is_leaf = node.is_some_and(|node| node.children.is_empty()) && path != path::ROOT;
        if is_leaf {
            self.remove(Arc::from(path), now);
        }
        is_leaf
    }

    /// Starts or ends a stall: the server reads nothing from any client and sends nothing.
    ///
    /// At the end of a stall, some input of a connection may be left. Call
    /// [`received`](Self::received) without bytes for it.
    pub fn set_stalled(&mut self, stalled: bool, now: Now) {
        self.rules.all_stalled = stalled;
        self.resume_input(now);
    }

    /// Like [`set_stalled`](Self::set_stalled), for one session, on each connection that it uses.
    pub fn set_session_stalled(&mut self, session: SessionId, stalled: bool, now: Now) {
        if stalled {
            self.rules.stalled.insert(session);
        } else {
            self.rules.stalled.remove(&session);
        }
        self.resume_input(now);
    }

    /// Sets the number of the next sequential child of a node. Returns whether the node exists.
    pub fn set_sequence(&mut self, path: &str, next: i32) -> bool {
        let mut is_there = false;
        for view in self.state.views_mut() {
            let node = view.tree.get_mut(path);
            is_there = node.map(|node| node.created = next).is_some();
        }
        is_there
    }

    /// Handles the input that came during a stall.
    pub(super) fn resume_input(&mut self, now: Now) {
        for id in self.connections.which(|_| true) {
            loop {
                let received = self.read_input(id, 0, now);
                // It may have something to send that was held back by the stall.
                self.connections.with(id, |_| ());
                // If much output is left to send, the caller of the engine must ask for the rest of
                // the input.
                let is_full = (self.connections.get(id))
                    .is_none_or(|connection| connection.ready_len() > BATCH_LIMIT);
                if received == Received::Wholly || is_full {
                    break;
                }
            }
        }
    }
}
