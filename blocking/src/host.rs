//! The background thread of a client: a runtime that runs the client's task, and nothing else.
//!
//! The thread ends when the client has ended. The drop of the last handle waits for that, for a limited time. A program
//! ends all its threads when its `main` returns, and the session has to be closed before that.

use std::{
    convert::Infallible,
    fmt,
    sync::{
        Mutex, PoisonError,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    thread::{self, JoinHandle},
    time::Duration,
};

use lockkeeper_session::{Builder, Client, Effect, Error};
use tokio::runtime;

use crate::wait::is_in_runtime;

/// How long a drop waits: of a guard for its release, of the last handle of a client for the end of the session.
///
/// Much longer than a round trip, and much shorter than a session timeout.
pub(crate) const DROP_WAITS: Duration = Duration::from_secs(1);

/// The background thread of a client. Dropping it waits for the end of the thread.
pub(crate) struct Host {
    thread: Option<JoinHandle<()>>,
    /// Receives nothing. It is disconnected when the thread ends.
    ended: Mutex<Receiver<Infallible>>,
}

/// Makes a client on a thread of its own.
pub(crate) fn start(
    builder: Builder,
    connect: impl AsyncFnOnce(Builder) -> Result<Client, Error> + Send + 'static,
) -> Result<(Client, Host), Error> {
    if is_in_runtime() {
        return Err(Error::InsideRuntime);
    }
    let (sender, connected) = channel();
    let (running, ended) = channel();
    let thread = thread::Builder::new()
        .name("lockkeeper".to_owned())
        .spawn(move || {
            run(async || connect(builder).await, &sender);
            drop(running);
        })
        .map_err(|error| Error::NoThread(error.kind()))?;
    let host = Host {
        thread: Some(thread),
        ended: Mutex::new(ended),
    };
    let client = connected.recv();
    let client = client.unwrap_or(Err(Error::Closed(Effect::NotApplied)))?;
    Ok((client, host))
}

/// Runs a client until it has ended.
fn run(
    connect: impl AsyncFnOnce() -> Result<Client, Error>,
    connected: &Sender<Result<Client, Error>>,
) {
    let runtime = match runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            let _ = connected.send(Err(Error::NoThread(error.kind())));
            return;
        }
    };
    runtime.block_on(async {
        let connecting = connect().await;
        let snapshots = connecting.as_ref().map(Client::snapshots);
        let mut snapshots = snapshots.ok();
        // Only the receiver keeps the client.
        let _ = connected.send(connecting);
        if let Some(snapshots) = &mut snapshots {
            let _ = snapshots.wait_for(|now| now.state.is_final()).await;
        }
    });
}

impl Drop for Host {
    fn drop(&mut self) {
        if is_in_runtime() {
            return;
        }
        let ended = self.ended.get_mut().unwrap_or_else(PoisonError::into_inner);
        if ended.recv_timeout(DROP_WAITS) == Err(RecvTimeoutError::Disconnected)
            && let Some(thread) = self.thread.take()
        {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Host").finish_non_exhaustive()
    }
}
