//! The pauses before a request is repeated that a server has not carried out: throttled, or
//! refused. And the pauses of a loop that waits for events, so that events which come all the time,
//! or lie, do not make it spin.
//!
//! After a lost connection no pause is needed here: the client itself pauses between connections.
//!
//! Not here: waiting for a lock no longer than the caller wants (`queue::timeout`).

use std::{
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use lockkeeper_proto::ErrorCode;
use lockkeeper_session::{
    AsRaw, Client, Endpoint, Error as SessionError, Sleep,
    sync::{BoxFuture, os},
};

use crate::{
    common::Common,
    error::{LockError, Obstacle},
    node::directory::Directory,
};

/// The first pause. Each further one is twice as long.
const FIRST: Duration = Duration::from_millis(20);
/// The longest pause.
const LONGEST: Duration = Duration::from_secs(5);
/// For how long a request of a try is repeated that servers throttle.
const LONGEST_OF_TRY: Duration = Duration::from_secs(1);

/// How many rounds of a loop in a row cost no pause. A contender goes round a few times before its
/// turn.
const FREE_ROUNDS: u32 = 16;
/// The longest pause of a round. A waiter that pauses may hear so much later that its turn has
/// come.
const LONGEST_OF_ROUND: Duration = Duration::from_millis(100);
/// Rounds are in a row if less than this is between them.
const IN_A_ROW: Duration = Duration::from_secs(1);

/// The pauses of a loop, each round of which sends requests that succeed and then waits for an
/// event.
#[derive(Debug, Default)]
pub(crate) struct Rounds {
    in_a_row: u32,
    last: Option<Instant>,
}

impl Rounds {
    /// A round begins now, or after the returned pause.
    pub(crate) fn begin(&mut self, now: Instant) -> Duration {
        let last = self.last.replace(now);
        let is_in_a_row = last.is_some_and(|last| now.saturating_duration_since(last) < IN_A_ROW);
        self.in_a_row = if is_in_a_row { self.in_a_row + 1 } else { 0 };
        match self.in_a_row.checked_sub(FREE_ROUNDS) {
            None => Duration::ZERO,
            Some(paid) => FIRST
                .saturating_mul(1 << paid.min(10))
                .min(LONGEST_OF_ROUND),
        }
    }

    /// Begins a round, and waits for the end of its pause.
    pub(crate) async fn pause(&mut self, client: &Client) {
        let pause = self.begin(client.now());
        if !pause.is_zero() {
            client.raw().sleep(pause).await;
        }
    }

    /// An attempt of a caller that waits has failed. Returns when the next one may begin, or the
    /// error if no waiting mends it. An outage is no reason to end: the next attempt may be in a new
    /// session. In a box, as it is rare.
    pub(crate) fn again<'a>(
        &'a mut self,
        client: &'a Client,
        error: LockError,
    ) -> BoxFuture<'a, Result<(), LockError>> {
        Box::pin(async move {
            if client.is_closed() || !error.ends_with_outage() {
                return Err(error);
            }
            tracing::debug!(%error, "the attempt has failed, trying again");
            self.pause(client).await;
            Ok(())
        })
    }
}

/// Since when servers have throttled requests about a lock, and the newest of these servers. It is
/// there while one of the requests is repeated.
type Throttling = Mutex<Option<(Instant, Option<Arc<Endpoint>>)>>;

/// The name under which it is found.
const THROTTLING: &str = "throttling";

/// The pauses of one request that is repeated.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    pauses: u32,
    /// The pause that comes next.
    pause: Option<Sleep>,
    /// Since when servers have throttled the request, and what callers with a time limit are told.
    throttled: Option<(Instant, Arc<Throttling>)>,
}

impl Backoff {
    /// A pause comes next. A random part of it, up to half, is left out: many clients are throttled
    /// at the same time.
    pub(crate) fn begin(&mut self, client: &Client) {
        let whole = self.longest();
        self.pauses += 1;
        let part = u32::try_from(client.raw().random_u64() % 512).unwrap_or(0);
        let left_out = whole * part / 1024;
        self.pause = Some(client.raw().sleep(whole.saturating_sub(left_out)));
    }

    /// How long the next pause can be.
    fn longest(&self) -> Duration {
        FIRST.saturating_mul(1 << self.pauses.min(10)).min(LONGEST)
    }

    /// Whether a pause comes next.
    pub(crate) fn is_due(&self) -> bool {
        self.pause.is_some()
    }

    /// Waits for the end of the pause.
    ///
    /// # Cancel safety
    /// The rest of the pause comes with the next call.
    pub(crate) async fn pause(&mut self) {
        if let Some(pause) = &mut self.pause {
            pause.await;
            self.pause = None;
        }
    }

    /// A server has throttled a request about a lock: a pause comes next.
    ///
    /// # Errors
    /// The caller only tries, and the pause would last for too long.
    pub(crate) fn throttled(
        &mut self,
        directory: &Directory,
        error: &SessionError,
    ) -> Result<(), LockError> {
        let (client, server) = (&directory.client, &error.peer().server);
        let now = client.now();
        let (since, throttling) = self.throttled.get_or_insert_with(|| {
            let shared = Common::at(client, THROTTLING, &directory.server_path);
            (now, shared)
        });
        let mut shared = os::lock(throttling);
        let first = shared.as_ref().map_or(now, |it| it.0);
        *shared = Some((first, server.clone()));
        drop(shared);
        let waited = now.saturating_duration_since(*since);
        self.begin(client);
        if !directory.is_try || waited + self.longest() <= LONGEST_OF_TRY {
            return Ok(());
        }
        Err(LockError::TimedOut {
            path: directory.path.to_string(),
            waited,
            ahead: None,
            obstacle: Some(Box::new(throttled(server.clone(), first, now))),
        })
    }

    /// A request about a lock failed with this error: waits if the server has throttled it.
    ///
    /// # Errors
    /// As [`throttled`](Self::throttled).
    pub(crate) async fn after(
        &mut self,
        directory: &Directory,
        error: &SessionError,
    ) -> Result<(), LockError> {
        if error.code() == Some(ErrorCode::THROTTLED_OP) {
            self.throttled(directory, error)?;
            self.pause().await;
        }
        Ok(())
    }
}

/// The obstacle of a lock at this path whose requests servers throttle.
pub(crate) fn throttling(client: &Client, server_path: &str) -> Option<Obstacle> {
    let all = Common::of_lock::<Throttling>(client, THROTTLING, server_path);
    let (first, server) = os::lock(all.first()?).clone()?;
    Some(throttled(server, first, client.now()))
}

fn throttled(server: Option<Arc<Endpoint>>, first: Instant, now: Instant) -> Obstacle {
    let lasted = now.saturating_duration_since(first);
    Obstacle::Throttled { server, lasted }
}
