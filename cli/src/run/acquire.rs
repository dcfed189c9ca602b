//! Connecting and acquiring the lock, within the time limit of the command line.
//!
//! Not here: the kinds of locks (`lock`).

use std::{
    fmt,
    future::{Future, pending},
    io::{self, IsTerminal as _},
    pin::pin,
    time::Duration,
};

use lockkeeper::{
    Client, CreateMode, Guard, LockError,
    client::Builder,
    error::Loss,
    locks::inspect,
    proto::{ErrorCode, path},
};
use tokio::time::{Instant, sleep, timeout};

use super::{RunArgs, lock::Lock};
use crate::{
    duration::Human,
    exit::{self, Failure, Level},
    refusal, text,
};

/// After this time a user at a terminal is told that the command waits for the lock.
const SILENCE: Duration = Duration::from_secs(1);

/// The same for a user who wants to hear of each step. A wait that is shorter is no wait.
const VERBOSE_SILENCE: Duration = Duration::from_millis(50);

/// When an attempt that does not wait has no answer yet, it asks for the reason.
const SOON: Duration = Duration::from_millis(300);

/// How long servers may take to answer an attempt that does not wait.
const TRY: Duration = Duration::from_secs(1);

/// How long to wait for the lock.
#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// Not at all.
    Try,
    /// For this time from the start, including the connect.
    Until { whole: Duration, deadline: Instant },
    /// Without a limit.
    Forever,
}

impl Wait {
    /// The wait that the arguments ask for. It starts now.
    pub(super) fn new(args: &RunArgs) -> Self {
        match args.wait {
            _ if args.try_once => Self::Try,
            None => Self::Forever,
            Some(whole) if whole.is_zero() => Self::Try,
            Some(whole) => Self::Until {
                whole,
                deadline: Instant::now() + whole,
            },
        }
    }

    /// Waits for requests that come before or behind the wait for the lock.
    pub(super) async fn bound(
        self,
        path: &str,
        requests: impl Future<Output = Result<(), Failure>>,
    ) -> Result<(), Failure> {
        let Some(left) = self.left() else {
            return requests.await;
        };
        // The grant may have come in the last moment of the wait.
        let left = left.max(TRY);
        match timeout(left, requests).await {
            Ok(done) => done,
            Err(_) => Err(no_answer(path, left)),
        }
    }

    fn left(self) -> Option<Duration> {
        match self {
            Self::Until { deadline, .. } => {
                Some(deadline.saturating_duration_since(Instant::now()))
            }
            Self::Try => Some(TRY),
            Self::Forever => None,
        }
    }
}

/// Connects. The connect timeout is the session timeout, or the remaining wait if that is shorter.
pub(super) async fn connect(
    settings: Builder,
    session_timeout: Duration,
    wait: Wait,
) -> Result<Client, Failure> {
    let connect_timeout = wait
        .left()
        .map_or(session_timeout, |left| left.min(session_timeout));
    settings
        .session_timeout(session_timeout)
        .connect_timeout(connect_timeout)
        .connect()
        .await
        .map_err(|error| Failure::connect(&error))
}

/// Acquires the lock.
///
/// If the session expires during the wait, this function enters the queue again, at its end. Servers may restart during
/// a wait of hours, and that must not end the attempt.
///
/// # Cancel safety
/// The same as for [`Mutex::lock`](lockkeeper::Mutex::lock).
pub(super) async fn acquire(client: &Client, lock: &Lock, wait: Wait) -> Result<Guard, Failure> {
    let path = lock.path();
    loop {
        let acquired = match wait {
            Wait::Try => tokio::select! {
                biased;
                true = async { sleep(SOON).await; grants_none(client, path).await } => {
                    return Err(not_acquired(path, refusal::TOO_EARLY));
                }
                tried = timeout(TRY, lock.try_lock()) => match tried {
                    Ok(tried) => tried,
                    Err(_) => return Err(no_answer(path, TRY)),
                },
            },
            Wait::Forever => wait_for(client, path, lock.lock()).await.map(Some),
            Wait::Until { .. } => {
                let left = wait.left().unwrap_or_default();
                wait_for(client, path, lock.lock_timeout(left))
                    .await
                    .map(Some)
            }
        };
        return match (acquired, wait) {
            (Ok(Some(guard)), _) => Ok(guard),
            (Ok(None), _) => Err(not_acquired(path, "the lock is taken")),
            (
                Err(LockError::Lost {
                    loss: Loss::Expired,
                    ..
                }),
                _,
            ) => {
                say!("{path}: the session expired while waiting; entering the queue again");
                continue;
            }
            (Err(LockError::TimedOut { ahead, .. }), Wait::Until { whole, .. }) => {
                let ahead = ahead.map_or(String::new(), |ahead| format!(", {ahead} ahead"));
                let what = format_args!("lock not acquired in {}{ahead}", Human(whole));
                Err(not_acquired(path, what))
            }
            (Err(error), _) => Err(Failure::lock(path, error)),
        };
    }
}

/// The lock is not acquired in time.
fn not_acquired(path: &str, why: impl fmt::Display) -> Failure {
    failure!(NOT_ACQUIRED, "{path}: {why}")
}

fn no_answer(path: &str, waited: Duration) -> Failure {
    let waited = Human(waited);
    let what = format_args!("{path}: no server has answered in {waited}");
    Failure::new(exit::UNAVAILABLE, what)
}

/// Waits for the lock, and tells the user of a long wait. A user at a terminal hears of it after [`SILENCE`]. A user who wants to hear
/// of each step hears of it soon.
async fn wait_for<T>(client: &Client, path: &str, lock: impl Future<Output = T>) -> T {
    let mut lock = pin!(lock);
    let is_verbose = exit::says(Level::Verbose);
    let silence = if is_verbose { VERBOSE_SILENCE } else { SILENCE };
    if let Ok(result) = timeout(silence, &mut lock).await {
        return result;
    }
    let reason = async {
        if grants_none(client, path).await {
            say!("{path}: waiting for the lock; {}", refusal::TOO_EARLY);
        } else if is_verbose || io::stderr().is_terminal() {
            let place = place(client, path).await;
            say!("{path}: waiting for the lock{place}");
        }
    };
    tokio::select! {
        biased;
        result = &mut lock => result,
        result = async { reason.await; pending().await } => result,
    }
}

/// Whether the server grants no lock to anybody, as `lockkeeper serve` after a restart. The library goes on trying then, and
/// cannot say why. Any other server refuses this create, too, because the node above it is missing.
async fn grants_none(client: &Client, path: &str) -> bool {
    let node = path::join(path, "no-such-node/probe");
    let created = client.create(&node, "", CreateMode::Ephemeral).await;
    created.is_err_and(|error| error.code() == Some(ErrorCode::THROTTLED_OP))
}

/// Our place in the queue, and a holder, as far as they are known.
async fn place(client: &Client, path: &str) -> String {
    let Ok(entries) = inspect(client, path).await else {
        return String::new();
    };
    let session = client.snapshot().session_id;
    let ours = entries
        .iter()
        .find(|it| it.participant.session_id == session);
    let place = ours.map(|ours| format!(", {} ahead", ours.ahead));
    let holder = entries.iter().find(|it| it.holds).map(|holder| {
        match text::data_in_a_line(holder.participant.data.as_deref()) {
            who if who.is_empty() => {
                format!("; session {} holds it", holder.participant.session_id)
            }
            who => format!("; held by {who}"),
        }
    });
    [place, holder].into_iter().flatten().collect()
}
