//! The thread of a client, with a runtime for the client alone. A blocked or busy runtime of the
//! program does not stop it, so the session lives on.
//!
//! Not here: the task that runs there (`task`).

use std::{
    io,
    sync::{Arc, Condvar, Mutex, PoisonError},
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::runtime::{self, Runtime};

use super::sync::BoxFuture;
use crate::{Cause, Error, ErrorKind};

/// How long the drop of the last handle waits for the end of the thread: much longer than a round
/// trip, and much shorter than a session timeout. `JoinHandle::join` waits without a limit.
const LONGEST_DROP: Duration = Duration::from_secs(1);

/// The thread of a client.
pub(crate) struct OwnThread {
    thread: JoinHandle<()>,
    ended: Arc<Ended>,
}

/// Whether the client has ended. A channel of the standard library would add 22 kB to a program.
#[derive(Default)]
struct Ended(Mutex<bool>, Condvar);

/// Says so when it is dropped.
struct Ending(Arc<Ended>);

impl Drop for Ending {
    fn drop(&mut self) {
        let Ended(has_ended, changed) = &*self.0;
        *has_ended.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_one();
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
        let ended = Arc::<Ended>::default();
        let ending = Ending(ended.clone());
        let work = move || {
            if let Some(runtime) = &own.0 {
                runtime.block_on(task);
            }
            drop((own, ending));
        };
        let builder = thread::Builder::new().name("lockkeeper".to_owned());
        let thread = builder.spawn(work).map_err(no_thread)?;
        Ok(Self { thread, ended })
    }

    /// Blocks the present thread until the client has ended, for a limited time: a program ends all
    /// its threads when its `main` returns, and the session has to be closed before that.
    pub(crate) fn block_until_end(self) {
        // The last handle was dropped by a future that runs in the client's task.
        if self.thread.thread().id() == thread::current().id() {
            return;
        }
        let Ended(has_ended, changed) = &*self.ended;
        let has_ended = has_ended.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = changed.wait_timeout_while(has_ended, LONGEST_DROP, |ended| !*ended);
        let (has_ended, _) = waited.unwrap_or_else(PoisonError::into_inner);
        if *has_ended {
            let _ = self.thread.join();
        }
    }
}
