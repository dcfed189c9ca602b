//! The state that handles, watchers and the driver share: the machine behind a lock.
//!
//! The lock is a `std` mutex. It is held only for a short time, and never across an await: guards
//! and watchers also take it in their `Drop`, outside any runtime. A caller takes the lock, submits
//! its requests and wakes the driver. Requests submitted under one lock go out in one write. The
//! driver delivers replies after it has released the lock, so that the tasks that it wakes do not
//! block on the lock.
//!
//! Not here: which caller gets request capacity first (`capacity_queue`), the events of a
//! persistent watch (`watches::event_queue`).

use std::{
    any::{Any, TypeId},
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
    time::{Duration, Instant},
};

use lockkeeper_proto::{Acls, OpCode, Response, SessionId};

use super::{
    capacity_queue::CapacityQueue,
    clock::{Clock, SleepingClock},
    random::Random,
    sync::{
        BoxFuture, Notify,
        changes::Sender,
        oneshot,
        os::{Mutex, MutexGuard, lock},
    },
    timers::Timers,
    watches::{event_queue::EventQueue, group::GroupEvents},
};
use crate::{
    Effect, Error, Peer, Snapshot,
    machine::{
        Auth, ById, Config, Encoded, Event, Machine, Output, Reply, RequestOptions, WatchId,
        earlier,
    },
};

pub(crate) type ReplySender = oneshot::Sender<Result<Reply, Error>>;
pub(crate) type ReplyReceiver = oneshot::Receiver<Result<Reply, Error>>;
pub(crate) type EventReceiver = oneshot::Receiver<Result<Event, Error>>;

/// The pending reply to a request of [`Raw::submit`](super::Raw::submit). Whoever polls it decodes
/// it.
///
/// # Cancel safety
/// Dropping it gives up the reply, not the request.
#[derive(Debug)]
#[must_use = "the reply says whether the request succeeded"]
pub struct PendingReply {
    pub(super) op: OpCode,
    pub(super) receiver: ReplyReceiver,
}

impl PendingReply {
    /// The operation of the request.
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }
}

impl Future for PendingReply {
    type Output = Result<Response, Error>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        match Pin::new(&mut self.receiver).poll(cx) {
            Poll::Ready(Ok(answer)) => Poll::Ready(answer.and_then(Reply::decode)),
            Poll::Ready(Err(_)) => Poll::Ready(Err(driver_gone())),
            Poll::Pending => Poll::Pending,
        }
    }
}

pub(crate) struct Shared {
    core: Mutex<Core>,
    /// The newest state of the session. The driver sends it.
    pub(crate) snapshot: Sender<Snapshot>,
    /// Notifies those who wait for the lease to be valid.
    pub(crate) lease_renewed: Notify,
    pub(crate) default_acl: Acls,
    pub(crate) random: Random,
    /// What layers above keep for this client, one value of each type.
    extensions: Mutex<Vec<Extension>>,
}

type Extension = Arc<dyn Any + Send + Sync>;

pub(crate) struct Core {
    /// Wakes the driver, until it was woken. The driver puts it here when it looks for work, under
    /// the same lock: so no work is left unseen, and a burst of work wakes it once.
    pub(crate) driver: Option<Waker>,
    /// Whether the driver lives. It alone delivers then, so that callers are told in order.
    pub(crate) is_driven: bool,
    pub(crate) machine: Machine<ReplySender>,
    pub(crate) clock: SleepingClock,
    /// Whether the session is being given up. The machine may not know it yet, see
    /// [`Shared::announce_close`].
    is_closing: bool,
    listeners: ById<Listener>,
    /// Futures that the driver runs in its task. The driver takes them from here.
    pub(crate) background: Vec<BoxFuture<'static, ()>>,
    /// Callers that wait for request capacity.
    pub(crate) capacity_queue: CapacityQueue,
    pub(crate) timers: Timers,
}

/// The receiver of a watch's events.
pub(crate) enum Listener {
    /// Gets one event, or the error that ends the watch.
    Once(oneshot::Sender<Result<Event, Error>>),
    /// Gets every event, and the error that ends the watch.
    Always(Arc<EventQueue>),
    /// Gets one event, behind those of other watches.
    Group(Arc<GroupEvents>),
}

impl Shared {
    pub(crate) fn new(
        config: Config,
        clock: Clock,
        default_acl: Acls,
        random: Random,
    ) -> Arc<Self> {
        let mut clock = SleepingClock::new(clock);
        let core = Core {
            driver: None,
            is_driven: true,
            machine: Machine::new(config, clock.now()),
            clock,
            is_closing: false,
            listeners: ById::default(),
            background: Vec::new(),
            capacity_queue: CapacityQueue::default(),
            timers: Timers::default(),
        };
        let snapshot = Sender::new(core.machine.link().snapshot());
        Arc::new(Self {
            core: Mutex::new(core),
            snapshot,
            lease_renewed: Notify::new(),
            default_acl,
            random,
            extensions: Mutex::default(),
        })
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        lock(&self.core)
    }

    /// The value of this type; made at the first call.
    pub(crate) fn extension<T: Any + Default + Send + Sync>(&self) -> Arc<T> {
        let of_type = self.extension_of(TypeId::of::<T>(), || Arc::<T>::default());
        of_type.downcast().unwrap_or_default()
    }

    /// The value of a type, for [`extension`](Self::extension): compiled once, and not for each
    /// type.
    fn extension_of(&self, of_type: TypeId, make: fn() -> Extension) -> Extension {
        let mut extensions = lock(&self.extensions);
        if let Some(made) = extensions.iter().find(|it| (***it).type_id() == of_type) {
            return made.clone();
        }
        let extension = make();
        extensions.push(extension.clone());
        extension
    }

    /// Lets `act` change the machine, and wakes the driver. When there is no driver any more, this
    /// method delivers the replies itself.
    pub(crate) fn act<R>(&self, act: impl FnOnce(&mut Core) -> R) -> R {
        let mut core = self.lock();
        let result = act(&mut core);
        self.acted(core);
        result
    }

    /// What follows each `act`. It is not generic, so that it is compiled once and not for each
    /// caller.
    pub(crate) fn acted(&self, mut core: MutexGuard<'_, Core>) {
        if !core.is_driven {
            let outputs = mem::take(core.machine.outputs());
            let now = core.clock.now();
            let woken = core.woken(now);
            drop(core);
            for output in outputs {
                self.deliver(output);
            }
            wake(woken);
        } else if let Some(driver) = core.driver.take() {
            drop(core);
            driver.wake();
        }
    }

    /// Ends an action as [`acted`](Self::acted) does, and wakes the callers whose turn has come.
    pub(crate) fn acted_at(&self, mut core: MutexGuard<'_, Core>, now: Instant) {
        let woken = core.woken(now);
        self.acted(core);
        wake(woken);
    }

    /// Ends the session.
    pub(crate) fn close(&self) {
        self.announce_close();
        self.act(|core| core.machine.close(core.clock.now()));
    }

    /// Tells whoever holds a lock in this session. It comes before the machine queues the request:
    /// the driver may run on another thread and send it at once, and then other contenders get the
    /// locks.
    pub(crate) fn announce_close(&self) {
        self.lock().is_closing = true;
        self.snapshot.changed().notify_waiters();
    }

    /// Tells a caller what the machine says. It comes after the lock is released, in the order in
    /// which the frames arrived.
    pub(crate) fn deliver(&self, output: Output<ReplySender>) {
        match output {
            Output::Completed(sender, result) => drop(sender.send(result)),
            Output::Watch(id, result) => {
                let listener = self.lock().listeners.remove(&id);
                match (listener, result) {
                    (Some(Listener::Once(sender)), result) => drop(sender.send(result)),
                    (Some(Listener::Group(group)), result) => {
                        group.tell(|events| events.fired.push_back((id, result)));
                    }
                    (Some(Listener::Always(queue)), Err(error)) => queue.end(error),
                    (Some(Listener::Always(_)), Ok(_)) | (None, _) => {}
                }
            }
            Output::Notice(id, notice) => {
                let queue = match self.lock().listeners.get(&id) {
                    Some(Listener::Always(queue)) => queue.clone(),
                    _ => return,
                };
                queue.push(notice);
            }
            Output::State(snapshot) => {
                let is_last = snapshot.state.is_final();
                self.snapshot.set(snapshot, is_last);
            }
            Output::LeaseRenewed => self.lease_renewed.notify_waiters(),
            // Only the driver connects.
            Output::Connect(_) | Output::Reach(_) | Output::Disconnect => {}
        }
    }
}

impl Core {
    /// Submits a request, also beyond the request capacity.
    ///
    /// `within` names the only session in which it may be sent. The machine never sends a request
    /// that was queued in an earlier session.
    pub(crate) fn submit(
        &mut self,
        within: Option<SessionId>,
        now: Instant,
        request: Encoded,
        options: RequestOptions,
    ) -> PendingReply {
        let (sender, receiver) = oneshot::channel();
        let op = request.op();
        match within {
            Some(session) if session != self.machine.link().session_id() => {
                let server = None;
                let _ = sender.send(Err(Error::expired(Peer { server, session })));
            }
            _ => drop(self.machine.submit(now, sender, request, options)),
        }
        PendingReply { op, receiver }
    }

    /// Like `submit`, for a request that leaves a watch. Its id is `None` when the machine refused
    /// the request.
    pub(crate) fn submit_watching(
        &mut self,
        now: Instant,
        request: Encoded,
        options: RequestOptions,
        listener: Listener,
    ) -> (PendingReply, Option<WatchId>) {
        let (sender, receiver) = oneshot::channel();
        let op = request.op();
        let id = self.machine.submit(now, sender, request, options);
        self.listeners.extend(id.map(|id| (id, listener)));
        (PendingReply { op, receiver }, id)
    }

    /// Watches nodes with one request. The events of all of them go to one queue.
    pub(crate) fn watch_group(
        &mut self,
        paths: impl Iterator<Item = String>,
        events: &Arc<GroupEvents>,
    ) -> Vec<WatchId> {
        let ids = self.machine.watch_nodes(paths);
        for id in &ids {
            self.listeners.insert(*id, Listener::Group(events.clone()));
        }
        ids
    }

    /// Whether the client has ended, or is about to.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing || self.machine.link().is_closing()
    }

    pub(crate) fn add_auth(&mut self, auth: Auth, deadline: Option<Duration>) -> ReplyReceiver {
        let (sender, receiver) = oneshot::channel();
        let now = self.clock.now();
        let options = RequestOptions {
            deadline: deadline.and_then(|deadline| now.checked_add(deadline)),
            ..RequestOptions::at(now)
        };
        self.machine.add_auth(now, sender, auth, options);
        receiver
    }

    pub(crate) fn cancel(&mut self, id: WatchId) {
        self.listeners.remove(&id);
        self.machine.cancel(id);
    }

    /// The callers that should check again whether there is request capacity for them, and those
    /// whose time has come. Inline, as mostly nobody waits.
    #[inline]
    pub(crate) fn woken(&mut self, now: Instant) -> Vec<Waker> {
        if self.capacity_queue.len() == 0 && self.timers.next().is_none() {
            return Vec::new();
        }
        self.all_woken(now)
    }

    fn all_woken(&mut self, now: Instant) -> Vec<Waker> {
        let mut woken = Vec::new();
        self.capacity_queue.woken(now, &self.machine, &mut woken);
        let all = self.machine.link().is_ended();
        self.timers.fire(|due| all || due <= now, &mut woken);
        woken
    }

    /// When the client's task has to run next if nothing else happens.
    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        let (machine, timer) = (self.machine.next_deadline(), self.timers.next());
        machine.map_or(timer, |deadline| Some(earlier(deadline, timer)))
    }
}

/// Wakes these tasks. Mostly there is none.
pub(crate) fn wake(woken: Vec<Waker>) {
    if !woken.is_empty() {
        woken.into_iter().for_each(Waker::wake);
    }
}

/// The error of a caller whose reply will never come, because the driver's runtime is gone.
pub(crate) fn driver_gone() -> Error {
    Error::closed(Effect::Unknown)
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("snapshot", &self.snapshot)
            .finish_non_exhaustive()
    }
}
