//! What goes by itself: sessions that were silent too long, empty containers, nodes whose time is over.
//!
//! Closing a session and expiring it are the same transaction: all its ephemeral nodes go under one zxid.
//! Each reaped node is a transaction of its own.

use std::sync::Arc;

use lockkeeper_proto::{Response, SessionId, Xid, Zxid, records::Empty};

use super::{
    Engine, Now, after,
    changes::Change,
    followers::Mutation,
    txn::{Author, Txn},
};

impl Engine {
    /// Expires the sessions whose time is over.
    pub(super) fn expire_sessions(&mut self, now: Now) {
        for session in self.sessions.expired(now.instant) {
            self.expire_session(session, now);
        }
    }

    /// Ends a session as if it had been silent too long; a connection that it still has is closed without a word.
    pub(super) fn expire_session(&mut self, session: SessionId, now: Now) {
        tracing::debug!(%session, "session expired");
        self.counters.expired = self.counters.expired.saturating_add(1);
        let connection = self.connection_of(session);
        self.end_session(session, Xid(0), now);
        if let Some(connection) = connection.filter(|_| self.followers.is_none()) {
            self.close(connection);
        }
    }

    /// The transaction that ends a session; with the number of the request for it, or 0.
    pub(super) fn end_session(&mut self, session: SessionId, xid: Xid, now: Now) {
        let timeout = self.sessions.get(session).map(|own| own.timeout);
        self.sessions.remove(session);
        let paths = self.live.tree.ephemerals_of(session).cloned().collect();
        let end = Mutation::Remove(paths, timeout);
        self.transact((session, xid), end, now);
    }

    /// Deletes containers and nodes with a time to live, at their intervals.
    pub(super) fn reap(&mut self, now: Now) {
        if now.instant < self.reap_due {
            return;
        }
        self.reap_due = after(now.instant, self.config.container_check_interval);
        for path in self.live.tree.to_reap(now.unix_ms) {
            tracing::debug!(path = &*path, "reaped");
            self.remove(path, now);
        }
    }

    /// Deletes a node that has no children, whoever may do so.
    pub(super) fn remove(&mut self, path: Arc<str>, now: Now) {
        let nobody = (SessionId::NONE, Xid(0));
        self.transact(nobody, Mutation::Remove(vec![path], None), now);
    }

    /// A transaction that deletes nodes, asks for no permission and cannot fail.
    fn transact(&mut self, asked: (SessionId, Xid), deed: Mutation, now: Now) {
        let author = Author {
            zxid: self.next_zxid(),
            unix_ms: now.unix_ms,
            ids: &[],
            knows_sasl: false,
        };
        let mut txn = Txn::new(&mut self.live.tree, author);
        if let Mutation::Remove(paths, _) = &deed {
            for path in paths {
                txn.remove(path);
            }
        }
        let changes = txn.commit();
        self.publish(author.zxid, changes);
        let answer = Ok(Response::CloseSession(Empty {}));
        self.replicate(asked, deed, answer, now);
    }

    /// Takes the next transaction id.
    pub(super) fn next_zxid(&mut self) -> Zxid {
        self.live.zxid = Zxid(self.live.zxid.0.saturating_add(1));
        self.live.zxid
    }

    /// Tells those who watch what a transaction changed.
    pub(super) fn publish(&mut self, zxid: Zxid, changes: Vec<Change>) {
        for change in changes {
            for event in change.trigger(&mut self.live.watches, None) {
                if let Some(connection) = self.connections.get_mut(&event.to) {
                    self.counters.deliver(connection, zxid, &event);
                    self.dirty.insert(event.to);
                }
            }
            for frozen in self.frozen.values_mut() {
                frozen.log.push((zxid, change.clone()));
            }
        }
    }
}
