//! The thread of a client, with a runtime for the client alone. A blocked or busy runtime of the
//! program does not stop it, so the session lives on.
//!
//! Not here: the task that runs there (`task`).

use std::{
    io,
    sync::Arc,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::runtime::{self, Runtime};

use super::sync::{
    BoxFuture,
    os::{Condvar, Mutex, PoisonError, lock},
};
use crate::{Cause, Error, ErrorKind};

/// How long the drop of the last handle waits for the end of the session: much longer than a round
/// trip, and much shorter than a session timeout.
const DROP_WAITS: Duration = Duration::from_secs(1);

/// The thread of a client.
pub(crate) struct OwnThread {
    thread: JoinHandle<()>,
    end: Arc<End>,
}

/// Whether the thread has ended. A condition, since the channels of `std` would add 30 kB to a
/// program.
#[derive(Default)]
struct End {
    has_come: Mutex<bool>,
    told: Condvar,
}

/// Says that the thread has ended, also if the driver panics.
struct Ending(Arc<End>);

impl Drop for Ending {
    fn drop(&mut self) {
        *lock(&self.0.has_come) = true;
        self.0.told.notify_all();
    }
}

/// The runtime of the thread. Without a thread it is dropped where the client was made, perhaps in
/// a runtime of the program, where nothing may block.
struct Own(Option<Runtime>);

impl Drop for Own {
    fn drop(&mut self) {
        if let Some(runtime) = self.0.take() {
            runtime.shutdown_background();
        }
    }
}

impl OwnThread {
    /// Runs the task of a client on a thread.
    pub(crate) fn spawn(task: BoxFuture<'static, ()>) -> Result<Self, Error> {
        let no_thread = |error: io::Error| Error::from(ErrorKind::NoThread(Cause::from(&error)));
        let runtime = runtime::Builder::new_current_thread().enable_all().build();
        let own = Own(Some(runtime.map_err(no_thread)?));
        let end = Arc::<End>::default();
        let ending = Ending(end.clone());
        let work = move || {
            let _ending = ending;
            if let Some(runtime) = &own.0 {
                runtime.block_on(task);
            }
        };
        let builder = thread::Builder::new().name("lockkeeper".to_owned());
        let thread = builder.spawn(work).map_err(no_thread)?;
        Ok(Self { thread, end })
    }

    /// Waits until the client has ended, for a limited time: a program ends all its threads when
    /// its `main` returns, and the session has to be closed before that.
    pub(crate) fn wait_for_end(self) {
        // The last handle was dropped by a future that runs in the client's task.
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let has_come = lock(&self.end.has_come);
        let waited =
            (self.end.told).wait_timeout_while(has_come, DROP_WAITS, |has_come| !*has_come);
        let (has_come, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *has_come {
            drop(has_come);
            let _ = self.thread.join();
        }
    }
}
