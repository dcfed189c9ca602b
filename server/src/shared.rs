//! The engine, and everybody's way to it.
//!
//! A std mutex, not tokio's: it is held for as long as one batch of requests takes, and never over an await. What the
//! engine wants sent is queued before the lock is given up, so that every connection gets its frames in the engine's order.

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Instant,
};

use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::{
    clock,
    engine::{Config, ConnId, Engine, Now, Output},
    outgoing::Outgoing,
};

/// What the tasks of a server share.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// The engine wants to be called earlier than the timer thinks. One waits: the timer.
    earlier: Notify,
    /// Cancelled when the server is to stop.
    pub(crate) stop: CancellationToken,
    max_connections: usize,
}

#[derive(Debug)]
struct Core {
    engine: Engine,
    peers: HashMap<ConnId, Arc<Outgoing>>,
    next_connection: u64,
    /// Connections that have a task: those that are being closed, too.
    serving: usize,
    /// When the timer will call next.
    timer: Instant,
}

impl Shared {
    pub(crate) fn new(config: Config, max_connections: usize) -> Self {
        let now = clock::now();
        let core = Core {
            engine: Engine::new(config, now),
            peers: HashMap::new(),
            next_connection: 0,
            serving: 0,
            timer: now.instant,
        };
        Self {
            core: Mutex::new(core),
            earlier: Notify::new(),
            stop: CancellationToken::new(),
            max_connections,
        }
    }

    /// Does something with the engine, after whatever is due, and queues what it wants sent.
    pub(crate) fn with<R>(&self, act: impl FnOnce(&mut Engine, Now) -> R) -> R {
        let mut core = self.lock();
        let now = clock::now();
        if core.engine.next_deadline() <= now.instant {
            core.engine.tick(now);
        }
        let result = act(&mut core.engine, now);
        core.dispatch();
        if core.engine.next_deadline() < core.timer {
            self.earlier.notify_one();
        }
        result
    }

    /// As [`with`](Self::with), for what lets requests through that were held back. Where they have so much to be sent that
    /// some are left, the tasks of their connections ask for them.
    pub(crate) fn resume(&self, act: impl FnOnce(&mut Engine, Now)) {
        self.with(act);
        for peer in self.lock().peers.values() {
            peer.nudge();
        }
    }

    /// Looks at the engine and changes nothing.
    pub(crate) fn look<R>(&self, look: impl FnOnce(&Engine) -> R) -> R {
        look(&self.lock().engine)
    }

    /// Takes a new connection in; `None` when there are too many.
    pub(crate) fn accept(&self, remote: SocketAddr) -> Option<(ConnId, Arc<Outgoing>)> {
        let mut core = self.lock();
        if core.serving >= self.max_connections {
            return None;
        }
        core.serving = core.serving.saturating_add(1);
        let outgoing = Arc::new(Outgoing::new(self.stop.child_token()));
        let id = ConnId(core.next_connection);
        core.next_connection = core.next_connection.saturating_add(1);
        core.peers.insert(id, Arc::clone(&outgoing));
        drop(core);
        self.with(|engine, now| engine.connected(id, remote, now));
        Some((id, outgoing))
    }

    /// A connection that was taken in has no task any more.
    pub(crate) fn ended(&self, id: ConnId) {
        self.forget(id);
        let mut core = self.lock();
        core.serving = core.serving.saturating_sub(1);
    }

    /// Nothing more is heard of a connection.
    pub(crate) fn forget(&self, id: ConnId) {
        self.lock().peers.remove(&id);
        self.with(|engine, _| engine.disconnected(id));
    }

    /// Calls the engine whenever it wants to be called. Never ends.
    pub(crate) async fn keep_time(&self) {
        loop {
            self.with(|_, _| ());
            let due = {
                let mut core = self.lock();
                core.timer = core.engine.next_deadline();
                core.timer
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
    fn dispatch(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    if let Some(peer) = self.peers.get(&id) {
                        peer.push(bytes);
                    }
                }
                Output::Close(id) => {
                    if let Some(peer) = self.peers.remove(&id) {
                        peer.end();
                    }
                }
                Output::Cut(id) => {
                    if let Some(peer) = self.peers.remove(&id) {
                        peer.cut.cancel();
                    }
                }
            }
        }
    }
}
