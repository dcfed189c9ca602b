//! What handles, watchers and the driver share: the machine behind a lock.
//!
//! The lock is a std one: it is held for short, never over an await, and guards and watchers take it in their `Drop`,
//! outside any runtime. Whoever submits takes it, submits, and wakes the driver; requests submitted under one lock go
//! out in one write. Answers are handed out by the driver after it has let go of the lock, so that those whom it wakes
//! do not run into it.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::Waker,
    time::Instant,
};

use futures::{future::BoxFuture, task::AtomicWaker};
use lockkeeper_proto::{Request, Response, SessionId, WatcherType, path};
use tokio::sync::{oneshot, watch};

use super::{
    PendingReply, capacity_queue::CapacityQueue, clock::Clock, random::Random,
    watches::event_queue::EventQueue,
};
use crate::{
    Effect, Endpoint, Error, Peer, Snapshot,
    machine::{Auth, Event, Machine, Notice, Output, RequestOptions, WatchId},
};

pub(crate) type ReplySender = oneshot::Sender<Result<Response, Error>>;
pub(crate) type ReplyReceiver = oneshot::Receiver<Result<Response, Error>>;
pub(crate) type EventReceiver = oneshot::Receiver<Result<Event, Error>>;
type EventSender = oneshot::Sender<Result<Event, Error>>;

pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Woken when there is something for the driver to do.
    pub(crate) driver: AtomicWaker,
    /// Told by the driver; everybody may look.
    pub(crate) snapshot: watch::Sender<Snapshot>,
    pub(crate) chroot: Option<String>,
    pub(crate) random: Random,
}

pub(crate) struct Core {
    pub(crate) machine: Machine<ReplySender>,
    pub(crate) clock: Clock,
    listeners: HashMap<WatchId, Listener>,
    /// Futures that the driver is to run beside the connection; it takes them away.
    pub(crate) background: Vec<BoxFuture<'static, ()>>,
    /// Callers that wait for room.
    pub(crate) capacity_queue: CapacityQueue,
}

/// Who is told of a watch.
enum Listener {
    /// Of its one event, or its end.
    Once(EventSender),
    /// Of every event, until its end.
    Always(Arc<EventQueue>),
}

/// What the driver does with an output that is its own affair.
pub(crate) enum LinkCommand {
    Connect(Arc<Endpoint>),
    Probe(Arc<Endpoint>),
    Disconnect,
}

/// What is handed out once the lock is released, in the order of the wire.
pub(crate) enum Delivery {
    PendingReply(ReplySender, Result<Response, Error>),
    Event(EventSender, Result<Event, Error>),
    Notice(Arc<EventQueue>, Notice),
    End(Arc<EventQueue>, Error),
    State(Snapshot),
}

impl Shared {
    pub(crate) fn new(
        machine: Machine<ReplySender>,
        clock: Clock,
        chroot: Option<String>,
        random: Random,
    ) -> Self {
        let core = Core {
            machine,
            clock,
            listeners: HashMap::new(),
            background: Vec::new(),
            capacity_queue: CapacityQueue::default(),
        };
        let snapshot = watch::Sender::new(core.machine.snapshot());
        Self {
            core: Mutex::new(core),
            driver: AtomicWaker::new(),
            snapshot,
            chroot,
            random,
        }
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        // The machine does not panic; if it did, its callers still need their answers.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets `act` work on the machine and wakes the driver. When the machine has ended there is no driver to hand out
    /// answers: then it is done here.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.lock();
        let result = act(&mut core);
        if core.machine.is_ended() {
            let mut deliveries = Vec::new();
            core.drain(&mut deliveries, &mut |_| {});
            let now = core.clock.now();
            let woken = core.woken(now);
            drop(core);
            self.deliver(deliveries.drain(..));
            woken.into_iter().for_each(Waker::wake);
        } else {
            drop(core);
        }
        self.driver.wake();
        result
    }

    pub(crate) fn deliver(&self, deliveries: impl Iterator<Item = Delivery>) {
        for delivery in deliveries {
            // Who has dropped the receiver does not want to know.
            match delivery {
                Delivery::PendingReply(sender, result) => drop(sender.send(result)),
                Delivery::Event(sender, result) => drop(sender.send(result)),
                Delivery::Notice(queue, notice) => queue.push(notice),
                Delivery::End(queue, error) => queue.end(error),
                Delivery::State(snapshot) => drop(self.snapshot.send_replace(snapshot)),
            }
        }
    }

    /// The server's name for a path of this client.
    pub(crate) fn server_path(&self, path: &str) -> String {
        match self.chroot.as_deref() {
            None => path.to_owned(),
            Some(chroot) if path == path::ROOT => chroot.to_owned(),
            Some(chroot) => format!("{chroot}{path}"),
        }
    }

    /// This client's name for a path of the server; one outside the chroot stays as it is.
    pub(crate) fn client_path(&self, path: String) -> String {
        match self.chroot.as_deref() {
            Some(chroot) if path == chroot => path::ROOT.to_owned(),
            Some(chroot) if path::is_within(&path, chroot) => {
                path.strip_prefix(chroot).map(str::to_owned).unwrap_or(path)
            }
            _ => path,
        }
    }
}

impl Core {
    /// Submits a request, whether there is room for it or not.
    pub(crate) fn reply(
        &mut self,
        now: Instant,
        request: Request,
        options: RequestOptions,
    ) -> PendingReply {
        let (sender, receiver) = oneshot::channel();
        let op = request.op();
        self.machine.submit_with(now, sender, request, options);
        PendingReply { op, receiver }
    }

    /// As `reply`, unless the session is another one. What is queued when a session ends is not sent in the next.
    pub(crate) fn reply_within(
        &mut self,
        session: SessionId,
        now: Instant,
        request: Request,
        options: RequestOptions,
    ) -> PendingReply {
        if self.machine.session_id() == session {
            return self.reply(now, request, options);
        }
        let (sender, receiver) = oneshot::channel();
        let server = None;
        let _ = sender.send(Err(Error::SessionExpired {
            peer: Peer { server, session },
            effect: Effect::NotApplied,
        }));
        let op = request.op();
        PendingReply { op, receiver }
    }

    /// As `reply`, for a request that leaves a watch. `None` when it was refused right away.
    pub(crate) fn reply_and_watch(
        &mut self,
        now: Instant,
        request: Request,
        options: RequestOptions,
    ) -> (PendingReply, Option<(WatchId, EventReceiver)>) {
        let (sender, receiver) = oneshot::channel();
        let op = request.op();
        let id = self.machine.submit_with(now, sender, request, options);
        let watch = id.map(|id| (id, self.listen(id)));
        (PendingReply { op, receiver }, watch)
    }

    pub(crate) fn watch_nodes(&mut self, paths: Vec<String>) -> Vec<(WatchId, EventReceiver)> {
        let ids = self.machine.watch_nodes(self.clock.now(), paths);
        ids.into_iter().map(|id| (id, self.listen(id))).collect()
    }

    pub(crate) fn close(&mut self) {
        self.machine.close(self.clock.now());
    }

    fn listen(&mut self, id: WatchId) -> EventReceiver {
        let (sender, receiver) = oneshot::channel();
        self.listeners.insert(id, Listener::Once(sender));
        receiver
    }

    /// As `reply_and_watch`, for a request that leaves a lasting watch.
    pub(crate) fn add_watch(
        &mut self,
        now: Instant,
        request: Request,
        options: RequestOptions,
        capacity: usize,
    ) -> (PendingReply, Option<(WatchId, Arc<EventQueue>)>) {
        let (sender, receiver) = oneshot::channel();
        let op = request.op();
        let id = self.machine.submit_with(now, sender, request, options);
        let listener = id.map(|id| {
            let queue = Arc::new(EventQueue::new(capacity));
            self.listeners.insert(id, Listener::Always(queue.clone()));
            (id, queue)
        });
        (PendingReply { op, receiver }, listener)
    }

    pub(crate) fn add_auth(&mut self, auth: Auth) -> ReplyReceiver {
        let (sender, receiver) = oneshot::channel();
        self.machine.add_auth(self.clock.now(), sender, auth);
        receiver
    }

    pub(crate) fn remove_watches(&mut self, path: &str, watcher_type: WatcherType) -> usize {
        let now = self.clock.now();
        self.machine.remove_watches(now, path, watcher_type)
    }

    pub(crate) fn cancel(&mut self, id: WatchId) {
        self.listeners.remove(&id);
        self.machine.cancel(self.clock.now(), id);
    }

    /// Which callers are to look again whether there is room for them.
    pub(crate) fn woken(&mut self, now: Instant) -> Vec<Waker> {
        self.capacity_queue.woken(now, &self.machine)
    }

    /// Takes out everything that the machine has to say.
    pub(crate) fn drain(
        &mut self,
        deliveries: &mut Vec<Delivery>,
        command: &mut dyn FnMut(LinkCommand),
    ) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Connect(endpoint) => command(LinkCommand::Connect(endpoint)),
                Output::Probe(endpoint) => command(LinkCommand::Probe(endpoint)),
                Output::Disconnect => command(LinkCommand::Disconnect),
                Output::Completed(sender, result) => {
                    deliveries.push(Delivery::PendingReply(sender, result));
                }
                Output::Watch(id, result) => {
                    let listener = self.listeners.remove(&id);
                    deliveries.extend(listener.and_then(|listener| listener.told(result)));
                }
                Output::Notice(id, notice) => {
                    if let Some(Listener::Always(queue)) = self.listeners.get(&id) {
                        deliveries.push(Delivery::Notice(queue.clone(), notice));
                    }
                }
                Output::State(snapshot) => deliveries.push(Delivery::State(snapshot)),
            }
        }
    }
}

impl Listener {
    /// The last thing that a listener is told.
    fn told(self, result: Result<Event, Error>) -> Option<Delivery> {
        match (self, result) {
            (Self::Once(sender), result) => Some(Delivery::Event(sender, result)),
            (Self::Always(queue), Err(error)) => Some(Delivery::End(queue, error)),
            (Self::Always(_), Ok(_)) => None,
        }
    }
}

/// What a caller gets whose answer will never come: the runtime of the driver is gone.
pub(crate) fn driver_gone() -> Error {
    Error::Closed(Effect::Unknown)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("snapshot", &*self.snapshot.borrow())
            .finish_non_exhaustive()
    }
}
