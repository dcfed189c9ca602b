//! A thread for the client's task: a runtime that runs this task and nothing else.
//!
//! A blocked or busy runtime of the program does not stop it, so the session lives on. Not here:
//! what the task does (`driver`).

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
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

/// How far a thread is.
enum Stage {
    Starting,
    Failed(io::ErrorKind),
    Running,
    Ended,
}

/// Where the thread says how far it is. A condition, since the channels of `std` would add 30 kB to
/// a program.
struct Progress {
    stage: Mutex<Stage>,
    changed: Condvar,
}

impl Progress {
    fn enter(&self, stage: Stage) {
        *self.stage.lock().unwrap_or_else(PoisonError::into_inner) = stage;
        self.changed.notify_all();
    }
}

/// The thread of a client.
pub(crate) struct OwnThread {
    thread: JoinHandle<()>,
    progress: Arc<Progress>,
}

impl OwnThread {
    /// Runs the task of a client on a thread.
    pub(crate) fn spawn(task: BoxFuture<'static, ()>) -> Result<Self, Error> {
        let progress = Arc::new(Progress {
            stage: Mutex::new(Stage::Starting),
            changed: Condvar::new(),
        });
        let ending = Ending(progress.clone());
        let run = move || match runtime::Builder::new_current_thread().enable_all().build() {
            Ok(runtime) => {
                ending.0.enter(Stage::Running);
                runtime.block_on(task);
            }
            Err(error) => ending.0.enter(Stage::Failed(error.kind())),
        };
        let builder = thread::Builder::new().name("lockkeeper".to_owned());
        let thread = builder.spawn(run);
        let thread = thread.map_err(|error| Error::NoThread(error.kind()))?;
        let stage = progress
            .stage
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let is_starting = |stage: &mut Stage| matches!(stage, Stage::Starting);
        let stage = progress.changed.wait_while(stage, is_starting);
        if let Stage::Failed(kind) = *stage.unwrap_or_else(PoisonError::into_inner) {
            return Err(Error::NoThread(kind));
        }
        Ok(Self { thread, progress })
    }

    /// Waits until the client has ended, for a limited time: a program ends all its threads when
    /// its `main` returns, and the session has to be closed before that.
    pub(crate) fn wait_for_end(self) {
        // The last handle was dropped by a future that runs in the client's task.
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let stage = self.progress.stage.lock();
        let stage = stage.unwrap_or_else(PoisonError::into_inner);
        let is_running = |stage: &mut Stage| matches!(stage, Stage::Running);
        let waited = (self.progress.changed).wait_timeout_while(stage, DROP_WAITS, is_running);
        let (stage, waited) = waited.unwrap_or_else(PoisonError::into_inner);
        drop(stage);
        if !waited.timed_out() {
            let _ = self.thread.join();
        }
    }
}

/// Says that the thread has ended, also if the task panics. A failure to start is kept.
struct Ending(Arc<Progress>);

impl Drop for Ending {
    fn drop(&mut self) {
        let stage = self.0.stage.lock();
        if !matches!(
            *stage.unwrap_or_else(PoisonError::into_inner),
            Stage::Failed(_)
        ) {
            self.0.enter(Stage::Ended);
        }
    }
}
