//! Counters of what locks do and cost: [`LockMeter`] adds up one lock or many under one name.
//!
//! Not here: log lines (`guard::lock_guard`).

use std::sync::{Arc, Mutex};

use lockkeeper_session::{DurationHistogram, sync::os::lock};

/// What the locks of a [`LockMeter`] have done in this process so far, and what they do now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetrics {
    /// How often the lock was acquired.
    pub acquired: u64,
    /// How often an attempt had to wait for other contenders. It counts once, however long it waits.
    pub contended: u64,
    /// How often an attempt that does not wait found the lock taken.
    pub refused: u64,
    /// How often an attempt ended without the lock: it was dropped, timed out, or failed.
    pub given_up: u64,
    /// How often a holder lost the lock before it released it.
    pub lost: u64,
    /// Requests that acquire and release the lock, clean-ups included. Transactions, and
    /// requests that watch for a loss, are not counted.
    pub requests: u64,
    /// How many of these requests were listings of the queue.
    pub listings: u64,
    /// How often the client deleted the node of an abandoned attempt.
    pub cleaned_up: u64,
    /// How many nodes a server has refused to delete, for instance because the client may not
    /// delete them. The client repeats the delete while the session lives. Until then such a
    /// node blocks all others.
    pub not_deleted: u64,
    /// How often a contender's turn came while its lease was not valid, so that it had to be
    /// renewed before the grant.
    pub renewals: u64,
    /// Attempts that have not ended now.
    pub waiting: u64,
    /// Guards that are not released now. A lost lock counts until its guard is dropped.
    pub held: u64,
    /// The time from the call to the grant.
    pub wait: DurationHistogram,
    /// The time from the grant to the release.
    pub hold: DurationHistogram,
    /// The time from the event that the contender just ahead is gone to the grant. No contender
    /// holds the lock meanwhile.
    pub hand_over: DurationHistogram,
}

impl LockMetrics {
    /// The numbers that only grow, each with its name for an exporter.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("lockkeeper_lock_acquired_total", self.acquired),
            ("lockkeeper_lock_contended_total", self.contended),
            ("lockkeeper_lock_refused_total", self.refused),
            ("lockkeeper_lock_given_up_total", self.given_up),
            ("lockkeeper_lock_lost_total", self.lost),
            ("lockkeeper_lock_requests_total", self.requests),
            ("lockkeeper_lock_listings_total", self.listings),
            ("lockkeeper_lock_cleaned_up_total", self.cleaned_up),
            ("lockkeeper_lock_not_deleted_total", self.not_deleted),
            ("lockkeeper_lock_renewals_total", self.renewals),
        ]
        .into_iter()
    }

    /// The numbers of the present moment, each with its name for an exporter.
    pub fn gauges(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("lockkeeper_lock_waiting", self.waiting),
            ("lockkeeper_lock_held", self.held),
        ]
        .into_iter()
    }

    /// The durations, each with its name for an exporter that shows seconds.
    pub fn durations(&self) -> impl Iterator<Item = (&'static str, &DurationHistogram)> {
        [
            ("lockkeeper_lock_wait_seconds", &self.wait),
            ("lockkeeper_lock_hold_seconds", &self.hold),
            ("lockkeeper_lock_hand_over_seconds", &self.hand_over),
        ]
        .into_iter()
    }
}

/// Counts what one lock does and costs, or many under one name. Locks without a meter count nothing.
///
/// Give it to locks with their method `with_meter`. The numbers of all of them are in one place,
/// and outlive the lock objects. The program chooses the name, so a monitoring system sees as many
/// names as there are meters, however many paths there are.
///
/// Cheap to clone. [`LockMetrics::counters`], [`gauges`](LockMetrics::gauges) and
/// [`durations`](LockMetrics::durations) have the names for an exporter.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// # mod lockkeeper { pub use lockkeeper_recipes::Mutex; pub mod locks { pub use lockkeeper_recipes::LockMeter; } }
/// use lockkeeper::{Mutex, locks::LockMeter};
///
/// let accounts = LockMeter::new("accounts");
/// for account in 0..3 {
///     let mutex = Mutex::new(&client, &format!("/accounts/{account}"))?.with_meter(&accounts);
///     mutex.lock().await?.release().await?;
/// }
/// assert_eq!(accounts.metrics().acquired, 3);
/// # Ok(()) }
/// ```
#[derive(Clone, Debug)]
pub struct LockMeter {
    name: Arc<str>,
    metrics: Arc<Mutex<LockMetrics>>,
}

impl LockMeter {
    /// A meter without any locks.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            metrics: Arc::default(),
        }
    }

    /// The name of the meter.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What all locks of the meter have done and cost so far.
    #[must_use]
    pub fn metrics(&self) -> LockMetrics {
        lock(&self.metrics).clone()
    }

    /// Counts. What is counted together is seen together.
    pub(crate) fn count(&self, count: impl FnOnce(&mut LockMetrics)) {
        count(&mut lock(&self.metrics));
    }
}
