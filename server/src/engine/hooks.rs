//! Faults that tests switch on while clients run. No client can cause them over the network.
//!
//! Not here: which requests a rule means (`rules`), failures of servers and links (`replication`,
//! `elections`).

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::{SessionId, Xid, path};

use super::{
    Engine,
    basics::{Now, ServerId, round},
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

    /// Before a [`jump`](Self::jump) on the way to `end`: leaves out the reports, and the looks for
    /// nodes to delete, that would change nothing before anything else happens.
    pub fn skip_idle(&mut self, end: Now) {
        let next = self.next_event().unwrap_or(end.instant).min(end.instant);
        let ensemble = &mut self.state.ensemble;
        if !ensemble.has_news() {
            let half = self.config.tick_time / 2;
            ensemble.report_due = ensemble.report_due.map(|due| round(due, half, next));
        }
        if self.reap_due < next {
            let passing = self.state.live.tree.passing().map(|(until, _)| until);
            // Without a leader no node is deleted.
            let first = passing.min().filter(|_| ensemble.has_leader());
            let before_end = end.unix_ms.saturating_sub(first.unwrap_or(end.unix_ms));
            let before_end = Duration::from_millis(u64::try_from(before_end).unwrap_or(0));
            let first = end.instant.checked_sub(before_end).unwrap_or(self.reap_due);
            let interval = self.config.container_check_interval;
            self.reap_due = round(self.reap_due, interval, first.min(next));
        }
    }

    /// The clock jumps, on the way to `end`. A session that is over by now, and has a connection,
    /// expires as by [`expire`](Self::expire), since its client was not silent in truth: it has its
    /// timeout from the end on. The rest is a [`tick`](Self::tick).
    pub fn jump(&mut self, now: Now, end: Now) {
        for session in self.sessions.expired(now.instant) {
            let own = self.sessions.get(session);
            let ends_later = own.is_some_and(|own| own.connection.is_some() || own.is_ending);
            if ends_later && self.state.ensemble.has_leader() {
                self.sessions.touch(session, end.instant);
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
