//! All connections: who has something to send, who takes too long for the handshake, and whose
//! frames are held back.
//!
//! Invariants: a connection in `dirty`, `handshakes`, `held`, `resumed` or `by_session` is in `all`. An
//! open one is in `by_session`.
//! Not here: what belongs to a connection elsewhere, its session and its watches (`Engine::leave`).

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    net::SocketAddr,
    time::{Duration, Instant},
};

use lockkeeper_proto::{
    ErrorCode, EventType, Perms, Response, SessionId, Xid, Zxid, header::ReplyHeader, path,
};

use super::{
    acl,
    basics::{ConnId, Output, ServerId},
    changes::Event,
    connection::{Connection, Phase},
    counters::{Counters, count},
};

/// All connections.
#[derive(Debug, Default)]
pub(super) struct Connections {
    all: BTreeMap<ConnId, Connection>,
    /// Connections for which [`poll_output`](Self::poll_output) may have something.
    dirty: BTreeSet<ConnId>,
    cuts: VecDeque<ConnId>,
    /// Connections that belong to a session, or did until they were closed.
    by_session: BTreeSet<(SessionId, ConnId)>,
    /// Connections whose handshake is pending, with its deadline.
    handshakes: BTreeSet<(Instant, ConnId)>,
    /// Connections that hold frames back: few, since only faults make them.
    held: BTreeSet<ConnId>,
    /// Connections whose input has waited, and can be handled now.
    resumed: BTreeSet<ConnId>,
    /// Paths about which, or below which, the next event for one connection is lost.
    pub(super) lost_events: Vec<String>,
    /// For each server: the frames that it received from connections that are gone, and sent them.
    gone: BTreeMap<ServerId, (u64, u64)>,
    pub(super) counters: Counters,
}

impl Connections {
    pub(super) fn accept(
        &mut self,
        id: ConnId,
        remote: SocketAddr,
        server: ServerId,
        due: Instant,
    ) {
        count(&mut self.counters.connections);
        self.handshakes.insert((due, id));
        self.all.insert(id, Connection::new(remote, server, due));
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    pub(super) fn get(&self, id: ConnId) -> Option<&Connection> {
        self.all.get(&id)
    }

    /// Like [`get`](Self::get), for changes after which the connection has nothing new to send.
    pub(super) fn get_mut(&mut self, id: ConnId) -> Option<&mut Connection> {
        self.all.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (ConnId, &Connection)> {
        self.all.iter().map(|(id, connection)| (*id, connection))
    }

    /// The connections that fit, in the order of their ids.
    pub(super) fn which(&self, fits: impl Fn(&Connection) -> bool) -> Vec<ConnId> {
        let all = self.iter().filter(|(_, connection)| fits(connection));
        all.map(|(id, _)| id).collect()
    }

    /// The open connections of a session.
    pub(super) fn of_session(&self, session: SessionId) -> Vec<ConnId> {
        let own = (session, ConnId(0))..=(session, ConnId(u64::MAX));
        let own = self.by_session.range(own).map(|(_, id)| *id);
        own.filter(|id| self.get(*id).and_then(Connection::session) == Some(session))
            .collect()
    }

    /// The connections of a server.
    pub(super) fn of(&self, server: ServerId) -> impl Iterator<Item = &Connection> {
        self.all.values().filter(move |own| own.server == server)
    }

    /// How many frames a server has received, and sent.
    pub(super) fn frames_of(&self, server: ServerId) -> (u64, u64) {
        let own = self.of(server).map(|own| (own.received, own.sent));
        let all = own.chain(self.gone.get(&server).copied());
        let (received, sent): (Vec<u64>, Vec<u64>) = all.unzip();
        (received.iter().sum(), sent.iter().sum())
    }

    pub(super) fn server_of(&self, id: ConnId) -> ServerId {
        self.get(id).map_or(ServerId::FIRST, |own| own.server)
    }

    /// Changes a connection, and notes that it may now have something to send.
    pub(super) fn with(&mut self, id: ConnId, act: impl FnOnce(&mut Connection)) {
        if let Some(connection) = self.all.get_mut(&id) {
            act(connection);
            self.dirty.insert(id);
        }
    }

    pub(super) fn reply(
        &mut self,
        id: ConnId,
        xid: Xid,
        zxid: Zxid,
        result: &Result<Response, ErrorCode>,
    ) {
        let err = result.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        let header = ReplyHeader { xid, zxid, err };
        self.with(id, |own| own.reply(header, result.as_ref().ok()));
    }

    /// Sends an event that a connection has missed while it was away.
    pub(super) fn notify(&mut self, id: ConnId, what: EventType, path: &str) {
        count(&mut self.counters.notifications);
        self.with(id, |connection| connection.notify(Zxid(-1), what, path));
    }

    /// Sends an event to a connection, if the connection may read the node; otherwise sends
    /// nothing.
    pub(super) fn deliver(&mut self, zxid: Zxid, event: &Event<'_>) {
        let to = self.all.get_mut(&event.to);
        let Some(to) = to.filter(|to| acl::allows(event.acl, Perms::READ, &to.ids)) else {
            return;
        };
        let is_lost = |above: &String| path::is_within(event.path, above);
        if let Some(lost) = self.lost_events.iter().position(is_lost) {
            self.lost_events.swap_remove(lost);
            return;
        }
        count(&mut self.counters.notifications);
        to.notify(zxid, event.what, event.path);
        self.dirty.insert(event.to);
    }

    /// Holds back what is appended to a connection from now on.
    pub(super) fn hold(&mut self, id: ConnId, delay: Duration, now: Instant) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.hold(now, delay);
            self.held.insert(id);
        }
    }

    /// The frames that were held back until now may leave.
    pub(super) fn release(&mut self, now: Instant) {
        self.held.retain(|id| {
            let held = self.all.get_mut(id);
            held.is_some_and(|connection| {
                connection.release(now);
                self.dirty.insert(*id);
                connection.release_due().is_some()
            })
        });
    }

    /// What waited at this connection goes on: its input, and what it has to send.
    pub(super) fn resume(&mut self, id: ConnId) {
        let connection = self.all.get(&id);
        if connection.is_some_and(|own| !own.input.is_empty() || own.unheard.is_some()) {
            self.resumed.insert(id);
        }
        self.with(id, |_| ());
    }

    /// The handshake of a connection is over, one way or the other.
    pub(super) fn end_handshake(&mut self, id: ConnId) {
        if let Some(connection) = self.all.get(&id) {
            self.handshakes.remove(&(connection.handshake_due, id));
        }
    }

    /// Takes a connection whose handshake was due.
    pub(super) fn take_late(&mut self, now: Instant) -> Option<ConnId> {
        self.handshakes.first().filter(|(due, _)| *due <= now)?;
        self.handshakes.pop_first().map(|(_, id)| id)
    }

    /// A connection belongs to a session from now on.
    pub(super) fn open(&mut self, id: ConnId, session: SessionId) {
        if let Some(connection) = self.all.get_mut(&id) {
            connection.phase = Phase::Open(session);
            connection.named = session;
            self.by_session.insert((session, id));
        }
    }

    /// Closes a connection once its whole output is sent.
    pub(super) fn close(&mut self, id: ConnId) {
        self.with(id, |connection| {
            connection.phase = Phase::Closing;
            connection.input.clear();
        });
    }

    /// Closes a connection now.
    pub(super) fn cut(&mut self, id: ConnId) {
        if self.forget(id).is_some() {
            self.cuts.push_back(id);
        }
    }

    pub(super) fn forget(&mut self, id: ConnId) -> Option<Connection> {
        self.dirty.remove(&id);
        self.held.remove(&id);
        self.resumed.remove(&id);
        let connection = self.all.remove(&id)?;
        self.by_session.remove(&(connection.named, id));
        let gone = self.gone.entry(connection.server).or_default();
        gone.0 = gone.0.saturating_add(connection.received);
        gone.1 = gone.1.saturating_add(connection.sent);
        Some(connection)
    }

    /// When a handshake or a frame is due.
    pub(super) fn due(&self) -> Option<Instant> {
        let held = self.held.iter().filter_map(|id| self.all.get(id));
        let held = held.filter_map(Connection::release_due);
        held.chain(self.handshakes.first().map(|(due, _)| *due))
            .min()
    }

    /// The next thing to do; `None` if there is nothing.
    pub(super) fn poll_output(
        &mut self,
        is_stalled: impl Fn(&Connection) -> bool,
    ) -> Option<Output> {
        if let Some(id) = self.cuts.pop_front() {
            return Some(Output::Cut(id));
        }
        let mut from = ConnId(0);
        while let Some(id) = self.dirty.range(from..).next().copied() {
            from = ConnId(id.0.saturating_add(1));
            let Some(connection) = self.all.get_mut(&id).filter(|own| !is_stalled(own)) else {
                continue;
            };
            let bytes = connection.ready.split();
            let is_done = connection.is_done();
            if !bytes.is_empty() {
                if !is_done {
                    self.dirty.remove(&id);
                }
                return Some(Output::Send(id, bytes));
            }
            self.dirty.remove(&id);
            if is_done {
                self.forget(id);
                return Some(Output::Close(id));
            }
        }
        self.resumed.pop_first().map(Output::Resume)
    }

    /// Panics if the tables disagree.
    #[cfg(debug_assertions)]
    pub(super) fn assert_sound(&self) {
        for (id, connection) in &self.all {
            let waits = self.handshakes.contains(&(connection.handshake_due, *id));
            assert_eq!(waits, connection.phase == Phase::Fresh, "{id:?}");
            let has_something = !connection.ready.is_empty() || connection.is_done();
            assert!(!has_something || self.dirty.contains(id), "{id:?} waits");
            let is_held = connection.release_due().is_some();
            assert_eq!(is_held, self.held.contains(id), "{id:?}");
            let opened = connection.session().map(|session| (session, *id));
            assert!(opened.is_none_or(|it| self.by_session.contains(&it)));
        }
        let timed = self.handshakes.iter().map(|(_, id)| id);
        let opened = self.by_session.iter().map(|(_, id)| id);
        let noted = timed.chain(opened).chain(&self.held).chain(&self.resumed);
        let mut noted = noted.chain(&self.dirty);
        assert!(noted.all(|id| self.all.contains_key(id)));
    }
}
