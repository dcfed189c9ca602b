//! What the server ends by itself: silent sessions, empty containers, and nodes whose time to live is over.
//!
//! Closing and expiring a session are the same transaction: all its ephemeral nodes are deleted under one zxid. Each
//! container or TTL node is deleted in a transaction of its own.
//!
//! Not here: when a session expires (`sessions`).

use std::{sync::Arc, time::Instant};

use lockkeeper_proto::{Response, SessionId, Xid, Zxid, records::Empty};

use super::{
    Engine, Now, after,
    changes::Change,
    followers::Mutation,
    txn::{Author, Txn},
};

impl Engine {
    /// Expires the sessions whose timeout is over.
    pub(super) fn expire_sessions(&mut self, now: Now) {
        for session in self.sessions.expired(now.instant) {
            self.expire_session(session, now);
        }
    }

    /// When a session may expire.
    pub(super) fn next_expiry(&self) -> Option<Instant> {
        if self.has_leader() {
            self.sessions.next_expiry()
        } else {
            None
        }
    }

    /// Expires a session now, and closes its connection without a reply.
    pub(super) fn expire_session(&mut self, session: SessionId, now: Now) {
        tracing::debug!(%session, "session expired");
        self.counters.expired = self.counters.expired.saturating_add(1);
        let connection = self.connection_of(session);
        self.end_session(session, Xid(0), now);
        if let Some(connection) = connection.filter(|_| self.followers.is_none()) {
            self.close(connection);
        }
    }

    /// The transaction that ends a session, with the xid of the close request, or 0.
    pub(super) fn end_session(&mut self, session: SessionId, xid: Xid, now: Now) {
        let timeout = self.sessions.get(session).map(|own| own.timeout);
        self.sessions.remove(session);
        let paths = self.live.tree.ephemerals_of(session).cloned().collect();
        let end = Mutation::Remove(paths, timeout);
        self.transact((session, xid), end, now);
    }

    /// Deletes empty containers and nodes whose time to live is over, once in each interval.
    pub(super) fn reap(&mut self, now: Now) {
        if now.instant < self.reap_due {
            return;
        }
        self.reap_due = after(now.instant, self.config.container_check_interval);
        if !self.has_leader() {
            return;
        }
        for path in self.live.tree.to_reap(now.unix_ms) {
            tracing::debug!(
                path = &*path,
                "node deleted: an empty container, or its time to live is over"
            );
            self.remove(path, now);
        }
    }

    /// Deletes a node that has no children, without a check of permissions.
    pub(super) fn remove(&mut self, path: Arc<str>, now: Now) {
        let nobody = (SessionId::NONE, Xid(0));
        self.transact(nobody, Mutation::Remove(vec![path], None), now);
    }

    /// A transaction that deletes nodes. It checks no permission and cannot fail.
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

    /// Sends the events of a transaction's changes.
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
