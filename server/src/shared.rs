//! What the tasks of a server share: the engine behind a mutex, its clock, and the send queue of
//! each connection.
//!
//! It is a std mutex, not tokio's: a task holds it for one batch of requests, and never across an
//! await. A task queues what the engine wants to send before it releases the lock, so each
//! connection gets its frames in the engine's order.
//!
//! Not here: sockets (`net`).

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{Notify, Semaphore};
use tokio_util::{sync::CancellationToken, task::TaskTracker};

use crate::{
    clock,
    engine::{CENTURY, Config, ConnId, Engine, Now, Output, ServerId},
    outgoing::Outgoing,
};

/// The state that the tasks of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Notified when the engine needs a call earlier than the timer will make it. Only the timer
    /// task waits on it.
    earlier: Notify,
    /// Cancelled when the server must stop.
    pub(crate) stop: CancellationToken,
    /// All tasks of the server.
    pub(crate) tasks: TaskTracker,
    /// One permit for each connection that may have a task, including those that are being closed.
    pub(crate) places: Arc<Semaphore>,
}

#[derive(Debug)]
struct Core {
    engine: Engine,
    peers: HashMap<ConnId, Arc<Outgoing>>,
    next_connection: u64,
    /// When the timer task will call the engine next.
    timer: Instant,
    /// How far the engine's clock is ahead of the real one.
    ahead: Duration,
}

impl Shared {
    pub(crate) fn new(config: Config, max_connections: usize) -> Self {
        let now = clock::now();
        let most = max_connections.min(Semaphore::MAX_PERMITS);
        let core = Core {
            engine: Engine::new(config, now),
            peers: HashMap::new(),
            next_connection: 0,
            timer: now.instant,
            ahead: Duration::ZERO,
        };
        Self {
            core: Mutex::new(core),
            earlier: Notify::new(),
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
            places: Arc::new(Semaphore::new(most)),
        }
    }

    /// Runs everything that is due, then calls `act` with the engine, then runs what is due now,
    /// and queues what the engine wants to send.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Engine, Now) -> R) -> R {
        let mut core = self.lock();
        let now = core.now();
        core.tick(now);
        let result = act(&mut core.engine, now);
        let due = core.tick(now);
        core.dispatch();
        if due < core.timer {
            self.earlier.notify_one();
        }
        result
    }

    /// Moves the engine's clock ahead, up to a century before the real one. The engine is called
    /// whenever something happens on the way.
    pub(crate) fn advance(&self, time: Duration) {
        let mut core = self.lock();
        let begin = core.now();
        let ahead = core.ahead.saturating_add(time).min(CENTURY);
        let end = begin.later(ahead.saturating_sub(core.ahead));
        core.ahead = ahead;
        loop {
            core.engine.skip_idle(end);
            let due = core.engine.next_deadline().min(end.instant);
            let now = begin.later(due.saturating_duration_since(begin.instant));
            core.engine.jump(now, end);
            core.dispatch();
            if now.instant == end.instant || core.engine.next_deadline() <= now.instant {
                break;
            }
        }
        drop(core);
        self.earlier.notify_one();
    }

    /// Reads from the engine and changes nothing.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Engine) -> R) -> R {
        look(&self.lock().engine)
    }

    /// Registers a new connection.
    pub(crate) fn accept(&self, server: ServerId, remote: SocketAddr) -> (ConnId, Arc<Outgoing>) {
        let mut core = self.lock();
        let outgoing = Arc::new(Outgoing::new(self.stop.child_token()));
        let id = ConnId(core.next_connection);
        core.next_connection = core.next_connection.saturating_add(1);
        core.peers.insert(id, Arc::clone(&outgoing));
        drop(core);
        self.with(|engine, now| engine.connected(server, id, remote, now));
        (id, outgoing)
    }

    /// The client of a connection sends nothing more, or the task of the connection ends. So the
    /// engine forgets the connection.
    pub(crate) fn forget(&self, id: ConnId) {
        self.lock().peers.remove(&id);
        self.with(|engine, now| engine.disconnected(id, now));
    }

    /// The timer: calls the engine at each of its deadlines. Never ends.
    pub(crate) async fn keep_time(&self) {
        loop {
            self.with(|_, _| ());
            let due = {
                let mut core = self.lock();
                core.timer = core.engine.next_deadline();
                let due = core.timer.checked_sub(core.ahead);
                due.unwrap_or(core.timer)
            };
            let wake = tokio::time::sleep_until(due.into());
            let earlier = self.earlier.notified();
            futures::future::select(std::pin::pin!(wake), std::pin::pin!(earlier)).await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Core {
    /// The present moment on the engine's clock.
    fn now(&self) -> Now {
        clock::now().later(self.ahead)
    }

    /// Runs everything that is due. Returns when something is due next.
    fn tick(&mut self, now: Now) -> Instant {
        let due = self.engine.next_deadline();
        if due > now.instant {
            return due;
        }
        self.engine.tick(now);
        self.engine.next_deadline()
    }

    fn dispatch(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            let peers = &mut self.peers;
            // A connection may be gone by now.
            let _ = match output {
                Output::Send(id, bytes) => peers.get(&id).map(|peer| peer.push(bytes)),
                Output::Close(id) => peers.remove(&id).map(|peer| peer.end()),
                Output::Cut(id) => peers.remove(&id).map(|peer| peer.cut.cancel()),
                Output::Resume(id) => peers.get(&id).map(|peer| peer.resumed.notify_one()),
            };
        }
    }
}
