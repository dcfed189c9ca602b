//! The watches of a session: who listens to which path, and who hears of an event.
//!
//! A one-shot watch enters the table when its reply arrives, before the next frame is handled. It
//! leaves the table with its event. A lasting watch enters in the same way, and stays. The server
//! has at most one watch of each kind on a path, however many listen: see `watched`.
//!
//! Paths include the chroot. Iteration is in the order of the paths, so that one seed gives one
//! history.

use std::{
    collections::{BTreeMap, HashMap},
    iter, mem,
    sync::Arc,
};

use lockkeeper_proto::{AddWatchMode, ErrorCode, EventType, Request, WatcherType, Zxid, path};

use super::{
    arrivals::{Arrivals, Bounds},
    batches::{self, Batches},
    kinds::{Kinds, WatchId},
    pending::{self, PendingWatch},
    watched::Watched,
};
use crate::{
    Error,
    machine::{Event, Notice},
};

/// How many events are kept back for lasting watches while they are restored. More are a flood.
const MOST_FOR_LASTING: usize = 1 << 16;
/// How many bytes the paths of these events may have together: 64 for each, more than most paths
/// have.
const BYTES_FOR_LASTING: usize = 64 * MOST_FOR_LASTING;
/// A server sends at most this many events for the one-shot watches of a path: one for each kind.
const ONE_SHOT_EVENTS: usize = 3;

#[derive(Debug)]
enum Listener {
    /// The request that leaves the watch is not answered yet.
    Pending,
    /// As `Pending`, and the listener has gone.
    Abandoned,
    /// The watch is in the table, at this path.
    Registered(Arc<str>),
}

/// Takes what listeners hear.
pub(crate) trait Tell {
    /// A one-shot watch has fired, or a watch has ended.
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>);

    /// A lasting watch has something to report, and goes on.
    fn notice(&mut self, id: WatchId, notice: Notice);
}

/// The watches of a session.
#[derive(Debug, Default)]
pub(crate) struct Watches {
    paths: BTreeMap<Arc<str>, Watched>,
    listeners: HashMap<WatchId, Listener>,
    last_id: u64,
    /// How many listeners have lasting watches.
    lasting: usize,
    /// A node whose persistent listeners heard of a child through the recursive watch. A server of
    /// 3.9 will report the same change for the persistent watch next; that event is an echo.
    echo: Option<Arc<str>>,
    /// The oldest point from which a server was asked to report, and did not confirm it; `None` for
    /// the newest transaction that the session has seen.
    unconfirmed: Option<Zxid>,
}

impl Watches {
    /// How many listeners there are.
    pub(crate) fn len(&self) -> usize {
        self.listeners.len()
    }

    /// Whether anybody listens to a lasting watch.
    pub(crate) fn has_lasting(&self) -> bool {
        self.lasting > 0
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

    fn entry(&mut self, path: &str) -> (Arc<str>, &mut Watched) {
        let path = match self.paths.get_key_value(path) {
            Some((known, _)) => known.clone(),
            None => Arc::from(path),
        };
        let watched = self.paths.entry(path.clone()).or_default();
        (path, watched)
    }

    fn register(&mut self, id: WatchId, path: &str, kind: Kinds) {
        let (path, watched) = self.entry(path);
        watched.add(kind, id);
        self.listeners.insert(id, Listener::Registered(path));
        self.lasting += usize::from(kind.has(Kinds::LASTING));
    }

    /// Takes out the listeners to these kinds on a path, and tells them why. Returns how many there
    /// were.
    fn end_at(&mut self, path: &str, kinds: Kinds, error: &Error, out: &mut dyn Tell) -> usize {
        let Some(watched) = self.paths.get_mut(path) else {
            return 0;
        };
        let mut end = |id| {
            self.listeners.remove(&id);
            out.tell(id, Err(error.clone()));
        };
        let one_shot = watched.take(kinds.among(Kinds::ONE_SHOT), &mut end);
        let lasting = watched.take(kinds.among(Kinds::LASTING), &mut end);
        self.lasting = self.lasting.saturating_sub(lasting);
        one_shot + lasting
    }

    fn forget_if_empty(&mut self, path: &str) {
        if self.paths.get(path).is_some_and(Watched::is_empty) {
            self.paths.remove(path);
        }
    }

    /// What to ask of the server about a path after a change.
    fn tidy(&mut self, path: &str, since: Zxid) -> Vec<Request> {
        let Some(watched) = self.paths.get_mut(path) else {
            return Vec::new();
        };
        let requests = watched.tidy(path, since);
        self.forget_if_empty(path);
        requests
    }

    // Watches that requests of callers leave.

    /// The watch of this request, which will be sent, if it leaves one.
    pub(crate) fn announce(&mut self, request: &Request) -> Option<PendingWatch> {
        let (path, kind) = pending::of(request)?;
        let id = self.new_id();
        let (path, watched) = self.entry(path);
        watched.announced();
        self.listeners.insert(id, Listener::Pending);
        Some(PendingWatch {
            id,
            path,
            kind,
            since: Zxid::ZERO,
            is_covered: false,
            asked: None,
        })
    }

    /// Changes the request, before it is sent, so that it ends no other watch of the path. `since`
    /// is the newest transaction that the client has seen. Returns a request that must be sent right
    /// behind it.
    pub(crate) fn prepare(
        &mut self,
        pending: &mut PendingWatch,
        request: &mut Request,
        since: Zxid,
    ) -> Option<Request> {
        pending.since = since;
        let watched = self.paths.get_mut(&pending.path)?;
        pending.is_covered = watched.covers(pending.kind);
        match request {
            Request::AddWatch(add) => {
                pending.is_covered = false;
                let asked = if watched.lasting().has(Kinds::RECURSIVE) {
                    add.mode = AddWatchMode::PERSISTENT_RECURSIVE;
                    Kinds::RECURSIVE
                } else {
                    pending.kind
                };
                watched.asks(asked);
                pending.asked = Some(asked);
                if asked == Kinds::RECURSIVE && watched.may_want_children() {
                    watched.is_set(Kinds::CHILD);
                    let path = pending.path.to_string();
                    return Some(batches::one(since, Kinds::CHILD, path));
                }
            }
            Request::GetData(get) => get.watch = !pending.is_covered,
            Request::Exists(exists) => exists.watch = !pending.is_covered,
            Request::GetChildren(get) | Request::GetChildren2(get) => {
                get.watch = !pending.is_covered;
            }
            _ => {}
        }
        None
    }

    /// The reply has come with this code, or never will. Returns what to ask of the server.
    pub(crate) fn settle(
        &mut self,
        pending: &PendingWatch,
        code: Option<ErrorCode>,
        newest: Zxid,
    ) -> Vec<Request> {
        let (left, path) = (pending.left(code), &*pending.path);
        let listener = self.listeners.remove(&pending.id);
        let mut requests = Vec::new();
        if let Some(watched) = self.paths.get_mut(path) {
            watched.settled();
            match (pending.asked, left) {
                (Some(asked), _) => watched.answered(asked, left.is_some()),
                (None, Some(kind)) if !pending.is_covered => watched.is_set(kind),
                (None, Some(kind)) if !watched.covers(Kinds::DATA) => {
                    // The lasting watch that was to report the change was refused meanwhile.
                    watched.is_set(kind);
                    requests.push(batches::one(pending.since, kind, path.to_owned()));
                }
                (None, _) => {}
            }
        }
        if let (Some(Listener::Pending), Some(kind)) = (listener, left) {
            self.register(pending.id, path, kind);
        }
        requests.extend(self.tidy(path, newest));
        requests
    }

    // Watches that a list of paths sets.

    /// Whether requests for these nodes are sent now, or the next connection restores the watches.
    pub(crate) fn watch_nodes(
        &mut self,
        paths: impl Iterator<Item = String>,
        since: Zxid,
        max_request: usize,
        are_sent: bool,
    ) -> (Vec<WatchId>, Vec<Request>) {
        // A persistent watch on the same node is set again in the same request, which doubles it.
        let shares = if self.has_lasting() { 3 } else { 1 };
        let mut batches = Batches::new(since, max_request / shares);
        let ids = paths.map(|path| {
            let id = self.new_id();
            self.register(id, &path, Kinds::DATA);
            if are_sent {
                self.entry(&path).1.is_set(Kinds::DATA);
                batches.add(Kinds::DATA, path);
            }
            id
        });
        (ids.collect(), batches.finish())
    }

    /// Changes such a request, before it is sent: it also sets the lasting watches again on nodes
    /// that get data watches.
    pub(crate) fn prepare_list(&self, request: &mut Request) {
        let mut lists = match request {
            Request::SetWatches(lists) if self.has_lasting() => batches::widen(lists.clone()),
            _ => return,
        };
        for path in lists.data_watches.iter().chain(&lists.exist_watches) {
            let watched = self.paths.get(path.as_str());
            let lasting = watched.map_or(Kinds::NONE, Watched::lasting);
            if lasting.has(Kinds::PERSISTENT) {
                lists.persistent_watches.push(path.clone());
            }
            if lasting.has(Kinds::RECURSIVE) {
                lists.persistent_recursive_watches.push(path.clone());
            }
        }
        *request = batches::narrow(lists);
    }

    /// A request that sets watches cannot be sent: their listeners get this error.
    pub(crate) fn unset(&mut self, request: Request, error: &Error, out: &mut dyn Tell) {
        let mut lists = match request {
            Request::SetWatches(lists) => batches::widen(lists),
            Request::SetWatches2(lists) => lists,
            _ => return,
        };
        for kind in Kinds::ALL.each() {
            for path in mem::take(batches::list(&mut lists, kind)) {
                // The next connection restores the other watches of the path.
                self.end_at(&path, kind, error, out);
                self.forget_if_empty(&path);
            }
        }
    }

    // The end of listeners.

    /// The listener has gone. Returns what to ask of the server.
    pub(crate) fn cancel(&mut self, id: WatchId, newest: Zxid) -> Vec<Request> {
        match self.listeners.remove(&id) {
            None => Vec::new(),
            Some(Listener::Pending | Listener::Abandoned) => {
                self.listeners.insert(id, Listener::Abandoned);
                Vec::new()
            }
            Some(Listener::Registered(path)) => {
                let watched = self.paths.get_mut(&path);
                let kind = watched.and_then(|watched| watched.remove(id));
                if kind.is_some_and(|kind| kind.has(Kinds::LASTING)) {
                    self.lasting = self.lasting.saturating_sub(1);
                }
                self.tidy(&path, newest)
            }
        }
    }

    /// Ends the watches of these kinds on a path. Returns how many there were, and what to ask of the
    /// server. A watch whose request is not answered yet goes on.
    pub(crate) fn remove(
        &mut self,
        path: &str,
        kinds: Kinds,
        newest: Zxid,
        out: &mut dyn Tell,
    ) -> (usize, Vec<Request>) {
        let ended = self.end_at(path, kinds, &Error::WatchRemoved, out);
        (ended, self.tidy(path, newest))
    }

    /// Ends all watches of these kinds, in the order of the paths: the session is over, or the
    /// servers do not know such watches. Pending requests stay announced.
    pub(crate) fn end(&mut self, kinds: Kinds, error: &Error, out: &mut dyn Tell) {
        for path in self.paths.keys().cloned().collect::<Vec<_>>() {
            self.end_at(&path, kinds, error, out);
            self.forget_if_empty(&path);
        }
        if kinds == Kinds::ALL {
            // A new session has seen nothing.
            self.unconfirmed = None;
        }
    }

    // Events.

    /// A watch has fired. Its listeners are told now, or when what they wait for has come.
    ///
    /// # Errors
    /// There are more events than a correct server may send.
    pub(crate) fn event(
        &mut self,
        arrivals: &mut Arrivals,
        event: Event,
        out: &mut dyn Tell,
    ) -> Result<(), usize> {
        if let Some(event) = arrivals.event(event)? {
            self.fire(arrivals, event, out);
        }
        Ok(())
    }

    /// A request that restores watches is answered. After the last one, the listeners are told what
    /// was kept back. Returns whether it was the last one.
    pub(crate) fn restored(&mut self, arrivals: &mut Arrivals, out: &mut dyn Tell) -> bool {
        let Some(events) = arrivals.restored() else {
            return false;
        };
        for watched in self.paths.values() {
            for id in watched.of(Kinds::LASTING) {
                out.notice(id, Notice::Reconnected);
            }
        }
        for event in events {
            self.fire(arrivals, event, out);
        }
        true
    }

    /// Tells whoever listens. Listeners to one-shot watches are taken out of the table.
    ///
    /// An event of an unknown type goes to every listener on the path.
    fn fire(&mut self, arrivals: &mut Arrivals, event: Event, out: &mut dyn Tell) {
        let echo = self.echo.take();
        let (mut once, mut lasting) = (Vec::new(), Vec::new());
        let of_children = event.event_type == EventType::NODE_CHILDREN_CHANGED;
        if let Some(watched) = self.paths.get_mut(event.path.as_str()) {
            let fired = match event.event_type {
                EventType::NODE_CREATED | EventType::NODE_DATA_CHANGED => Kinds::ABOUT_DATA,
                EventType::NODE_CHILDREN_CHANGED => Kinds::CHILD,
                _ => Kinds::ONE_SHOT,
            };
            watched.is_unset(fired);
            watched.take(fired, |id| {
                self.listeners.remove(&id);
                once.push(id);
            });
            let is_echo = of_children && echo.as_deref() == Some(event.path.as_str());
            if !is_echo {
                lasting.extend(watched.of(Kinds::PERSISTENT));
            }
            self.forget_if_empty(&event.path);
        }
        let mut above = Some(event.path.as_str()).filter(|_| self.has_lasting() && !of_children);
        while let Some(ancestor) = above {
            if let Some(watched) = self.paths.get(ancestor) {
                lasting.extend(watched.of(Kinds::RECURSIVE));
            }
            above = path::parent(ancestor);
        }
        let children = self.children_changed(&event);
        // The last one gets the event itself. Usually there is one.
        let mut events = iter::repeat_n(event, once.len() + lasting.len());
        for (id, event) in once.into_iter().zip(&mut events) {
            if let Some(event) = arrivals.keep_early(id, event) {
                out.tell(id, Ok(event));
            }
        }
        for (id, event) in lasting.into_iter().zip(events) {
            out.notice(id, Notice::Event(event));
        }
        for (id, event) in children {
            out.notice(id, Notice::Event(event));
        }
    }

    /// If a parent has both lasting kinds, its listeners learn from the event of a child that the
    /// list of children has changed.
    fn children_changed(&mut self, event: &Event) -> Vec<(WatchId, Event)> {
        let comes_or_goes = matches!(
            event.event_type,
            EventType::NODE_CREATED | EventType::NODE_DELETED
        );
        let parent = path::parent(&event.path).filter(|_| comes_or_goes && self.has_lasting());
        let Some((parent, watched)) = parent.and_then(|it| self.paths.get_key_value(it)) else {
            return Vec::new();
        };
        if !watched.wanted().has(Kinds::PERSISTENT) || !watched.may_tell_of_children() {
            return Vec::new();
        }
        self.echo = Some(parent.clone());
        let changed = || Event {
            event_type: EventType::NODE_CHILDREN_CHANGED,
            path: parent.to_string(),
        };
        let listeners = watched.of(Kinds::PERSISTENT);
        listeners.map(|id| (id, changed())).collect()
    }

    /// A reply has come. A server sends all events of one transaction without a reply in between,
    /// so no echo will follow.
    pub(crate) fn forget_echo(&mut self) {
        self.echo = None;
    }

    // Connections.

    /// The connection is gone, and the server's watches with it. What was early is told now. What
    /// was kept back is not, because the next connection asks for it again.
    pub(crate) fn disconnected(&mut self, mut arrivals: Arrivals, out: &mut dyn Tell) {
        self.echo = None;
        for (id, event) in arrivals.take_early() {
            out.tell(id, Ok(event));
        }
        for watched in self.paths.values_mut() {
            watched.disconnected();
        }
    }

    /// A server was to report all changes since this point to some watches, and has not confirmed
    /// it.
    pub(crate) fn not_confirmed(&mut self, since: Zxid) {
        self.unconfirmed = Some(self.unconfirmed.map_or(since, |older| older.min(since)));
    }

    /// The requests that restore all watches on a new connection, and the point from which they ask
    /// for changes. `newest` is the newest transaction that the client has seen.
    ///
    /// Servers before 3.9 keep one kind of watch for a path and connection, the last one. So a
    /// recursive watch comes after the kinds that it covers, and before the child watch, which it
    /// does not cover.
    pub(crate) fn restore(
        &mut self,
        arrivals: &mut Arrivals,
        newest: Zxid,
        max_request: usize,
    ) -> (Zxid, Vec<Request>) {
        let unconfirmed = self.unconfirmed.take();
        let since = unconfirmed.map_or(newest, |since| since.min(newest));
        let mut batches = Batches::new(since, max_request);
        let later = |wanted: Kinds| {
            let waits = wanted.has(Kinds::RECURSIVE);
            if waits {
                wanted.among(Kinds::CHILD)
            } else {
                Kinds::NONE
            }
        };
        let rounds: [&dyn Fn(Kinds) -> Kinds; 3] = [
            &|wanted| wanted.among(Kinds::ONE_SHOT).without(later(wanted)),
            &|wanted| wanted.among(Kinds::LASTING),
            &later,
        ];
        for (round, kinds) in rounds.iter().enumerate() {
            if round == 2 {
                batches.cut();
            }
            for (path, watched) in &mut self.paths {
                for kind in kinds(watched.wanted()).each() {
                    watched.is_set(kind);
                    batches.add(kind, path.to_string());
                }
            }
        }
        let path_bytes: usize = self.paths.keys().map(|path| path.len()).sum();
        let mut bounds = Bounds {
            events: ONE_SHOT_EVENTS * self.len(),
            bytes: ONE_SHOT_EVENTS * path_bytes,
        };
        if self.has_lasting() {
            bounds.events += MOST_FOR_LASTING;
            bounds.bytes += BYTES_FOR_LASTING;
        }
        let requests = batches.finish();
        arrivals.restore(requests.len(), bounds);
        (since, requests)
    }
}
