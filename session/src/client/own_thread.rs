//! The thread of a client, with a runtime for the client alone. A blocked or busy runtime of the
//! program does not stop it, so the session lives on.
//!
//! Not here: the task that runs there (`task`).

use std::{
    io,
    thread::{self, JoinHandle},
    time::Duration,
};

use tokio::runtime::{self, Runtime};

use super::sync::BoxFuture;
use crate::{Cause, Error, ErrorKind};

/// How often the drop of the last handle looks whether the thread has ended, and how long it waits
/// in between. Together this is much longer than a round trip, and much shorter than a session
/// timeout. `JoinHandle::join` waits without a limit.
const LOOKS: usize = 1000;
const BETWEEN_LOOKS: Duration = Duration::from_millis(1);

/// The thread of a client.
pub(crate) struct OwnThread(JoinHandle<()>);

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
        let work = move || {
            if let Some(runtime) = &own.0 {
                runtime.block_on(task);
            }
        };
        let builder = thread::Builder::new().name("lockkeeper".to_owned());
        builder.spawn(work).map(Self).map_err(no_thread)
    }

    /// Waits until the client has ended, for a limited time: a program ends all its threads when
    /// its `main` returns, and the session has to be closed before that.
    pub(crate) fn wait_for_end(self) {
        // The last handle was dropped by a future that runs in the client's task.
        if self.0.thread().id() == thread::current().id() {
            return;
        }
        for _ in 0..LOOKS {
            if self.0.is_finished() {
                let _ = self.0.join();
                return;
            }
            thread::sleep(BETWEEN_LOOKS);
        }
    }
}
