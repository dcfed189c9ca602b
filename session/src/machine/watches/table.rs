//! The watches of a session: who listens to which path, and who hears of an event.
//!
//! A one-shot watch enters the table when its reply arrives, before the next frame is handled. It
//! leaves the table with its event. A persistent watch enters in the same way, and stays. The
//! server has at most one watch of each kind on a path, however many listen: see `watched`.
//!
//! Paths include the chroot. Iteration is in the order of the paths, so that one seed gives one
//! history.

use std::{collections::BTreeMap, iter, sync::Arc};

use lockkeeper_proto::{ErrorCode, EventType, WatcherType, Zxid, path};

use super::{
    arrivals::{Arrivals, Bounds},
    batches::Batches,
    watched::{Watched, remove},
};
use crate::{
    Error, ErrorKind,
    machine::{
        Event, Notice,
        encoded::{Encoded, Leaves},
        kinds::{ById, Kinds, WatchId},
    },
};

/// How many events are kept back for persistent watches while they are restored. More are a flood.
const MOST_FOR_PERSISTENT: usize = 1 << 16;
/// How many bytes the paths of these events may have together: 64 for each, more than most paths
/// have.
const BYTES_FOR_PERSISTENT: usize = 64 * MOST_FOR_PERSISTENT;
/// A server sends at most this many events for the one-shot watches of a path: one for each kind.
const ONE_SHOT_EVENTS: usize = 3;

#[derive(Debug)]
enum Listener {
    /// The request that leaves the watch is not answered yet.
    Pending,
    /// The request is not answered yet, and the listener has gone.
    Abandoned,
    /// The watch is in the table, at this path.
    Registered(Arc<str>),
}

/// The watch that a request will leave.
#[derive(Debug)]
pub(crate) struct PendingWatch {
    id: WatchId,
    /// What the caller asked for. [`Kinds::EXIST`] for an `exists`, which leaves one of two kinds.
    leaves: Box<Leaves>,
}

impl PendingWatch {
    pub(crate) fn id(&self) -> WatchId {
        self.id
    }

    /// The kind that the server has set, by the code of its reply; `None` if it never comes.
    ///
    /// `exists` leaves a watch on a missing node, too. The others leave one only if they succeed.
    fn left(&self, code: Option<ErrorCode>) -> Option<Kinds> {
        match (code?, self.leaves.kind) {
            (ErrorCode::OK, Kinds::EXIST) => Some(Kinds::DATA),
            (ErrorCode::OK, kind) => Some(kind),
            (ErrorCode::NO_NODE, Kinds::EXIST) => Some(Kinds::EXIST),
            _ => None,
        }
    }
}

/// How many connections in a row may end on a request that sets watches. Many, because a network that
/// fails again and again must not end the wait for a lock.
const MOST_UNSET: u8 = 8;

/// What a request of this part asks of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ask {
    /// To set watches on nodes that exist, and to report changes newer than this.
    Set { since: Zxid },
    /// To set the watches of a former connection again, with changes newer than this.
    Restore { since: Zxid },
    /// To remove a watch without listeners.
    Remove,
}

/// What the part says to others.
pub(crate) trait Tell {
    /// A one-shot watch has fired, or a watch has ended.
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>);

    /// A persistent watch has something to report, and goes on.
    fn notice(&mut self, id: WatchId, notice: Notice);

    /// Sends a request, which must not outlive the connection. Returns its number.
    ///
    /// # Errors
    /// The server does not know the operation.
    fn send(&mut self, request: Encoded, ask: Ask) -> Result<u64, Error>;
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    paths: BTreeMap<Arc<str>, Watched>,
    listeners: ById<Listener>,
    last_id: u64,
    /// How many listeners have persistent watches.
    persistent: usize,
    /// The oldest point from which a server was asked to report, and did not confirm it; `None` for
    /// the newest transaction that the session has seen.
    unconfirmed: Option<Zxid>,
    /// What has come early on the present connection; `None` without one.
    arrivals: Option<Arrivals>,
    /// How many connections in a row have ended on a request that sets watches.
    unset: u8,
}

impl Watches {
    /// How many listeners there are.
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Whether anybody listens to a persistent watch.
    pub(crate) fn has_persistent(&self) -> bool {
        self.persistent > 0
    }

    /// What the servers should have: paths and types, in order.
    pub(crate) fn wanted(&self) -> Vec<(String, WatcherType)> {
        let types = [
            WatcherType::CHILDREN,
            WatcherType::DATA,
            WatcherType::PERSISTENT,
            WatcherType::PERSISTENT_RECURSIVE,
        ];
        let all = self.paths.iter().flat_map(|(path, watched)| {
            let kinds = watched.wanted();
            let wanted = types
                .into_iter()
                .filter(move |it| kinds.has(Kinds::of_type(*it)));
            wanted.map(move |watcher_type| (path.to_string(), watcher_type))
        });
        all.collect()
    }

    fn new_id(&mut self) -> WatchId {
        self.last_id += 1;
        WatchId(self.last_id)
    }

    /// Takes out the listeners to these kinds on a path, and tells them why. Returns how many there
    /// were.
    fn end_at(&mut self, path: &str, kinds: Kinds, error: &Error, out: &mut dyn Tell) -> usize {
        let Some(watched) = self.paths.get_mut(path) else {
            return 0;
        };
        let persistent = watched.of(kinds.among(Kinds::ANY_PERSISTENT)).count();
        self.persistent = self.persistent.saturating_sub(persistent);
        let ended = watched.take(kinds);
        for id in &ended {
            self.listeners.remove(id);
            out.tell(*id, Err(error.clone()));
        }
        ended.len()
    }

    /// Removes what nobody wants on a path any more.
    fn tidy(&mut self, path: &str, out: &mut dyn Tell) {
        if let Some(watched) = self.paths.get_mut(path) {
            watched.tidy(path, out);
            if watched.is_empty() {
                self.paths.remove(path);
            }
        }
    }

    /// Makes room on a path for a watch of this kind, see the module, and enters it by `enter`.
    /// Returns the path.
    ///
    /// # Errors
    /// [`WatchConflict`](crate::ErrorKind::WatchConflict) if the path has watches of a class that
    /// stays.
    fn claim(
        &mut self,
        path: Arc<str>,
        kind: Kinds,
        out: &mut dyn Tell,
        enter: impl FnOnce(&mut Watched),
    ) -> Result<Arc<str>, Error> {
        let entry = self.paths.entry(path);
        let path = entry.key().clone();
        let watched = entry.or_default();
        let had = watched.claim(kind.class());
        if let Some(had) = had.filter(|_| kind.has(Kinds::ANY_PERSISTENT)) {
            watched.claim(had);
            return Err(ErrorKind::WatchConflict.into());
        }
        enter(watched);
        if had.is_some() {
            watched.mark_unset(Kinds::ANY_PERSISTENT);
            let conflict = ErrorKind::WatchConflict.into();
            self.end_at(&path, Kinds::ANY_PERSISTENT, &conflict, out);
            if self.arrivals.is_some() {
                remove(&path, WatcherType::ANY, out);
            }
        }
        Ok(path)
    }

    // Watches that requests of callers leave.

    /// The watch that a request, which will be sent, leaves.
    ///
    /// # Errors
    /// [`WatchConflict`](crate::ErrorKind::WatchConflict): the request must not be sent.
    pub(crate) fn announce(
        &mut self,
        mut leaves: Box<Leaves>,
        out: &mut dyn Tell,
    ) -> Result<PendingWatch, Error> {
        let path = leaves.path.clone();
        leaves.path = self.claim(path, leaves.kind, out, Watched::announced)?;
        let id = self.new_id();
        self.listeners.insert(id, Listener::Pending);
        Ok(PendingWatch { id, leaves })
    }

    /// The reply has come with this code, or never will.
    pub(crate) fn settle(
        &mut self,
        pending: &PendingWatch,
        code: Option<ErrorCode>,
        out: &mut dyn Tell,
    ) {
        let (listener, path) = (self.listeners.remove(&pending.id), &pending.leaves.path);
        let Some(watched) = self.paths.get_mut(path) else {
            return;
        };
        watched.settled();
        if let Some(kind) = pending.left(code) {
            let is_kept = watched.class() == kind.class();
            if is_kept {
                watched.mark_set(kind);
            } else {
                // A one-shot watch was asked for behind it, perhaps before this connection.
                remove(path, kind.persistent_type(), out);
            }
            match listener {
                Some(Listener::Pending) if is_kept => {
                    watched.add(kind, pending.id);
                    let registered = Listener::Registered(path.clone());
                    self.listeners.insert(pending.id, registered);
                    self.persistent += usize::from(kind.has(Kinds::ANY_PERSISTENT));
                }
                Some(Listener::Pending) => {
                    out.tell(pending.id, Err(ErrorKind::WatchConflict.into()));
                }
                _ => {}
            }
        }
        self.tidy(path, out);
    }

    // Watches that a list of paths sets.

    /// Watches these nodes, which exist; without a connection, the next one does. The servers have
    /// seen all transactions up to `newest`.
    pub(crate) fn watch_nodes(
        &mut self,
        paths: impl Iterator<Item = String>,
        newest: Zxid,
        max_request: usize,
        out: &mut dyn Tell,
    ) -> Vec<WatchId> {
        let mut batches = Batches::new(newest, max_request);
        let ids = paths.map(|path| {
            let id = self.new_id();
            let length = Leaves::restored_len(&path);
            if length > max_request {
                let limit = max_request;
                out.tell(id, Err(ErrorKind::TooLarge { length, limit }.into()));
                return id;
            }
            let is_sent = self.arrivals.is_some();
            let enter = |watched: &mut Watched| {
                watched.add(Kinds::DATA, id);
                if is_sent {
                    watched.mark_set(Kinds::DATA);
                }
            };
            // One-shot watches are never refused.
            if let Ok(known) = self.claim(path.as_str().into(), Kinds::DATA, out, enter) {
                self.listeners.insert(id, Listener::Registered(known));
            }
            if is_sent {
                batches.add(Kinds::DATA, path);
            }
            id
        });
        let ids: Vec<_> = ids.collect();
        let sent = batches
            .finish()
            .map(|request| out.send(request, Ask::Set { since: newest }));
        match sent.last() {
            Some(Ok(last)) => {
                if let Some(arrivals) = &mut self.arrivals {
                    arrivals.sent(last, &ids);
                }
            }
            Some(Err(error)) => self.end(Kinds::ONE_SHOT, &error, out),
            None => {}
        }
        ids
    }

    // The end of listeners.

    /// The listener has gone.
    pub(crate) fn cancel(&mut self, id: WatchId, out: &mut dyn Tell) {
        match self.listeners.remove(&id) {
            None => {}
            Some(Listener::Pending | Listener::Abandoned) => {
                self.listeners.insert(id, Listener::Abandoned);
            }
            Some(Listener::Registered(path)) => {
                let kind = self.paths.get_mut(&path).and_then(|it| it.remove(id));
                if kind.is_some_and(|kind| kind.has(Kinds::ANY_PERSISTENT)) {
                    self.persistent = self.persistent.saturating_sub(1);
                }
                self.tidy(&path, out);
            }
        }
    }

    /// Ends the watches of these kinds on a path. Returns how many there were. A watch whose request
    /// is not answered yet goes on.
    pub(crate) fn remove(&mut self, path: &str, kinds: Kinds, out: &mut dyn Tell) -> usize {
        let ended = self.end_at(path, kinds, &ErrorKind::WatchRemoved.into(), out);
        self.tidy(path, out);
        ended
    }

    /// Ends all watches of these kinds, in the order of the paths: the session is over, or the
    /// servers do not know such watches. Pending requests stay announced.
    pub(crate) fn end(&mut self, kinds: Kinds, error: &Error, out: &mut dyn Tell) {
        for path in self.paths.keys().cloned().collect::<Vec<_>>() {
            self.end_at(&path, kinds, error, out);
            if self.paths.get(&path).is_some_and(Watched::is_empty) {
                self.paths.remove(&*path);
            }
        }
    }

    // Events.

    /// A watch has fired. Its listeners are told now, or when what they wait for has come.
    ///
    /// # Errors
    /// There are more events than a correct server may send.
    pub(crate) fn event(&mut self, event: Event, out: &mut dyn Tell) -> Result<(), usize> {
        if let Some(arrivals) = &mut self.arrivals {
            if let Some(event) = arrivals.event(event)? {
                self.fire(event, out);
            }
        }
        Ok(())
    }

    /// The request with this number, which this part has sent, is answered. After the last one that
    /// restores watches, the listeners are told what was kept back.
    pub(crate) fn answered(&mut self, ask: Ask, number: u64, out: &mut dyn Tell) {
        let Some(arrivals) = &mut self.arrivals else {
            return;
        };
        match ask {
            // It does not matter whether the server had such a watch.
            Ask::Remove => return,
            Ask::Set { .. } => arrivals.answered(number, out),
            Ask::Restore { .. } => {
                let Some(events) = arrivals.restored() else {
                    return;
                };
                for watched in self.paths.values() {
                    for id in watched.of(Kinds::ANY_PERSISTENT) {
                        out.notice(id, Notice::Reconnected);
                    }
                }
                for event in events {
                    self.fire(event, out);
                }
            }
        }
        self.unset = 0;
    }

    /// Tells whoever listens. Listeners to one-shot watches are taken out of the table.
    ///
    /// An event of an unknown type goes to every listener on the path.
    fn fire(&mut self, event: Event, out: &mut dyn Tell) {
        let (mut once, mut persistent) = (Vec::new(), Vec::new());
        let of_children = event.event_type == EventType::NODE_CHILDREN_CHANGED;
        if let Some(watched) = self.paths.get_mut(event.path.as_str()) {
            let fired = match event.event_type {
                EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => Kinds::ABOUT_DATA,
                EventType::NODE_CHILDREN_CHANGED => Kinds::CHILD,
                _ => Kinds::ONE_SHOT,
            };
            watched.mark_unset(fired);
            once = watched.take(fired);
            for id in &once {
                self.listeners.remove(id);
            }
            persistent.extend(watched.of(Kinds::PERSISTENT));
            if watched.is_empty() {
                self.paths.remove(event.path.as_str());
            }
        }
        let mut above = Some(event.path.as_str()).filter(|_| self.has_persistent() && !of_children);
        while let Some(ancestor) = above {
            if let Some(watched) = self.paths.get(ancestor) {
                persistent.extend(watched.of(Kinds::RECURSIVE));
            }
            above = path::parent(ancestor);
        }
        // The last one gets the event itself. Usually there is one.
        let mut events = iter::repeat_n(event, once.len() + persistent.len());
        for (id, event) in once.into_iter().zip(&mut events) {
            let event = match &mut self.arrivals {
                Some(arrivals) => arrivals.keep_early(id, event),
                None => Some(event),
            };
            if let Some(event) = event {
                out.tell(id, Ok(event));
            }
        }
        for (id, event) in persistent.into_iter().zip(events) {
            out.notice(id, Notice::Event(event));
        }
    }

    // Connections.

    /// The connection is gone, and the server's watches with it. What was early is told now. What
    /// was kept back is not, because the next connection asks for it again.
    pub(crate) fn disconnected(&mut self, out: &mut dyn Tell) {
        if let Some(mut arrivals) = self.arrivals.take() {
            for (id, event) in arrivals.take_early() {
                out.tell(id, Ok(event));
            }
        }
        for watched in self.paths.values_mut() {
            watched.disconnected();
        }
    }

    /// The server has not confirmed what it was asked.
    pub(crate) fn not_confirmed(&mut self, ask: Ask) {
        if let Ask::Set { since } | Ask::Restore { since } = ask {
            self.unconfirmed = Some(self.unconfirmed.map_or(since, |older| older.min(since)));
        }
    }

    /// A connection ends on a request that sets watches. Returns whether that is once too often.
    pub(crate) fn are_not_set(&mut self) -> bool {
        self.unset = (self.unset + 1) % MOST_UNSET;
        self.unset == 0
    }

    /// The requests that restore all watches on a new connection. `newest` is the newest transaction
    /// that the client has seen.
    pub(crate) fn restore(&mut self, newest: Zxid, max_request: usize) -> Vec<(Encoded, Ask)> {
        let unconfirmed = self.unconfirmed.take();
        let since = unconfirmed.map_or(newest, |since| since.min(newest));
        let mut batches = Batches::new(since, max_request);
        for (path, watched) in &mut self.paths {
            for kind in watched.wanted().each() {
                watched.mark_set(kind);
                batches.add(kind, path.to_string());
            }
        }
        let path_bytes: usize = self.paths.keys().map(|path| path.len()).sum();
        let mut bounds = Bounds {
            events: ONE_SHOT_EVENTS * self.len(),
            bytes: ONE_SHOT_EVENTS * path_bytes,
        };
        if self.has_persistent() {
            bounds.events += MOST_FOR_PERSISTENT;
            bounds.bytes += BYTES_FOR_PERSISTENT;
        }
        let requests = batches.finish();
        self.arrivals = Some(Arrivals::new(requests.len(), bounds));
        let ask = Ask::Restore { since };
        requests.map(|request| (request, ask)).collect()
    }

    /// Frees the capacity that a burst has left.
    pub(crate) fn shrink_to_fit(&mut self) {
        if let Some(arrivals) = &mut self.arrivals {
            arrivals.shrink_to_fit();
        }
    }
}
