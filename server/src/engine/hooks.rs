//! Faults that tests switch on while clients run. No client can cause them over the network.
//!
//! Not here: which requests a rule means (`rules`), failures of servers and links (`replication`,
//! `elections`).

use std::sync::Arc;

use lockkeeper_proto::{SessionId, Xid, path};

use super::{
    Engine,
    basics::{Now, ServerId},
    commit::Deed,
    connection::Connection,
    rules::Rules,
};

impl Engine {
    /// The rules for future requests.
    pub fn rules(&mut self) -> &mut Rules {
        &mut self.rules
    }

    /// Removes all rules, and ends all stalls and delays. No event is lost any more.
    pub fn clear_faults(&mut self) {
        self.rules = Rules::default();
        self.connections.lost_events.clear();
        self.resume_all();
    }

    /// Cuts the connection of a session. Returns whether it had one.
    pub fn cut_session(&mut self, session: SessionId) -> bool {
        let connection = self.sessions.get(session).and_then(|own| own.connection);
        if let Some(connection) = connection {
            self.cut(connection);
        }
        connection.is_some()
    }

    /// Cuts all connections, or those of one server.
    pub fn cut_all(&mut self, server: Option<ServerId>) {
        let is_meant = |own: &Connection| server.is_none_or(|server| own.server == server);
        for id in self.connections.which(is_meant) {
            self.cut(id);
        }
    }

    /// Sets whether a server of an ensemble lags: it gets no transaction. It answers reads from its
    /// old state, and no write, and refuses clients that have seen a later zxid.
    pub fn set_lags(&mut self, server: ServerId, lags: bool) {
        if let Some(member) = self.state.ensemble.members.get_mut(&server) {
            member.lags = lags;
        }
    }

    /// The next event about this path, or one below it, is lost on its way.
    pub fn lose_event(&mut self, within: String) {
        self.connections.lost_events.push(within);
    }

    /// Sets whether a server of an ensemble goes on showing the ephemeral nodes of sessions that end
    /// from now on.
    pub fn set_keeps_ended(&mut self, server: ServerId, keeps: bool) {
        if let Some(member) = self.state.ensemble.members.get_mut(&server) {
            member.view.keeps_ended = keeps;
        }
    }

    /// Closes the connection of a session, which expires when its client has come back and knows
    /// of the end. Returns whether the session was alive.
    pub fn expire(&mut self, session: SessionId) -> bool {
        let Some(own) = self.sessions.get_mut(session) else {
            return false;
        };
        own.is_ending = true;
        if let Some(connection) = own.connection {
            self.close(connection);
        }
        true
    }

    /// Expires a session now, although its client may rely on it. No election undoes that. Returns
    /// whether it was alive.
    pub fn expire_early(&mut self, session: SessionId, now: Now) -> bool {
        let lives = self.sessions.get(session).is_some();
        if lives {
            self.expire_session(session, now);
            self.keep();
        }
        lives
    }

    /// The clock has jumped. A session that is over by now, and has a connection, expires as by
    /// [`expire`](Self::expire), since its client was not silent in truth. The rest is a
    /// [`tick`](Self::tick).
    pub fn jump(&mut self, now: Now) {
        for session in self.sessions.expired(now.instant) {
            let own = self.sessions.get(session);
            let ends_later = own.is_some_and(|own| own.connection.is_some() || own.is_ending);
            if ends_later && self.state.ensemble.has_leader() {
                self.sessions.touch(session, now.instant);
                self.expire(session);
            }
        }
        self.tick(now);
    }

    /// No election loses what has happened so far.
    fn keep(&mut self) {
        self.state.ensemble.kept = self.last_zxid();
    }

    /// Deletes a node as another client would. No election undoes that. Returns whether the node
    /// existed and had no children.
    pub fn delete_node(&mut self, path: &str, now: Now) -> bool {
        let node = self.state.live.tree.get(path);
        let is_leaf = node.is_some_and(|node| node.children.is_empty()) && path != path::ROOT;
        if is_leaf {
            self.remove(Arc::from(path), now);
            self.keep();
        }
        is_leaf
    }

    /// Starts or ends a stall: the server reads nothing from any client and sends nothing; with a
    /// session, on each connection that the session uses.
    pub fn set_stalled(&mut self, session: Option<SessionId>, stalled: bool) {
        match session {
            None => self.rules.all_stalled = stalled,
            Some(session) if stalled => drop(self.rules.stalled.insert(session)),
            Some(session) => drop(self.rules.stalled.remove(&session)),
        }
        self.resume_all();
    }

    /// Sets the number of the next sequential child of a node, in a transaction. No election undoes
    /// that. Returns whether the node exists.
    pub fn set_sequence(&mut self, path: &str, next: i32, now: Now) -> bool {
        let is_there = self.state.live.tree.get(path).is_some();
        if is_there {
            let deed = Deed::Number(Arc::from(path), next);
            let _ = self.transact((SessionId::NONE, Xid(0)), deed, now);
            self.keep();
        }
        is_there
    }

    /// What waited at all connections goes on.
    pub(super) fn resume_all(&mut self) {
        for id in self.connections.which(|_| true) {
            self.connections.resume(id);
        }
    }
}
