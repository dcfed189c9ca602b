//! A thread for the client's task: a runtime that runs this task and nothing else.
//!
//! A blocked or busy runtime of the program does not stop it, so the session lives on. Not here: what the task does (`driver`).

use std::{
    convert::Infallible,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use futures::future::BoxFuture;
use tokio::runtime::{self, Handle};

use crate::Error;

/// How long the drop of the last handle waits for the end of the session: much longer than a round
/// trip, and much shorter than a session timeout.
const DROP_WAITS: Duration = Duration::from_secs(1);

/// Whether this thread belongs to a tokio runtime.
pub(crate) fn is_in_runtime() -> bool {
    Handle::try_current().is_ok()
}

/// The thread of a client.
pub(crate) struct OwnThread {
    thread: JoinHandle<()>,
    /// Receives nothing. It is disconnected when the client has ended.
    ended: Mutex<Receiver<Infallible>>,
}

impl OwnThread {
    /// Runs the task of a client on a thread.
    pub(crate) fn spawn(task: BoxFuture<'static, ()>) -> Result<Self, Error> {
        let (running, ended) = channel();
        let (sender, started) = channel();
        let run = move || {
            let runtime = runtime::Builder::new_current_thread().enable_all().build();
            let result = runtime.as_ref().map(|_| ()).map_err(std::io::Error::kind);
            let _ = sender.send(result);
            if let Ok(runtime) = runtime {
                runtime.block_on(task);
            }
            drop(running);
        };
        let builder = thread::Builder::new().name("lockkeeper".to_owned());
        let thread = builder.spawn(run).map_err(|error| error.kind());
        let started = thread.and_then(|thread| match started.recv() {
            Ok(Err(kind)) => Err(kind),
            _ => Ok(thread),
        });
        Ok(Self {
            thread: started.map_err(Error::NoThread)?,
            ended: Mutex::new(ended),
        })
    }

    /// Waits until the client has ended, for a limited time: a program ends all its threads when its
    /// `main` returns, and the session has to be closed before that.
    pub(crate) fn wait_for_end(self) {
        // The last handle was dropped by a future that runs in the client's task.
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let ended = self.ended.into_inner();
        let ended = ended.unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(DROP_WAITS) == Err(RecvTimeoutError::Disconnected) {
            let _ = self.thread.join();
        }
    }
}
