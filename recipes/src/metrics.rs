//! Counters of what a lock does and costs, and [`LockMeter`], which adds up many locks under one name.
//!
//! All clones of a lock share their counters. A snapshot reads them one by one, so its numbers may be some operations
//! apart.
//!
//! Not here: log lines (`guard::hold`).

use std::{
    iter::Sum,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_session::{Client, Clock, DurationHistogram};

/// What a lock has done in this process so far, over all its clones, and what it does now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct LockMetrics {
    /// How often the lock was acquired.
    pub acquired: u64,
    /// How often another contender was ahead when an attempt began.
    pub contended: u64,
    /// How often a try found the lock taken.
    pub refused: u64,
    /// How often an attempt ended without the lock: it was dropped, timed out, or failed.
    pub given_up: u64,
    /// How often a holder lost the lock before it released it.
    pub lost: u64,
    /// Attempts that have not ended now.
    pub waiting: u64,
    /// Guards that are not released now. A lost lock counts until its guard is dropped.
    pub held: u64,
    /// The time from the call to the grant.
    pub wait: DurationHistogram,
    /// The time from the grant to the release.
    pub hold: DurationHistogram,
    /// The time from the event that the contender just ahead is gone to the grant. No contender holds the lock
    /// meanwhile.
    pub hand_over: DurationHistogram,
    /// How often a contender's turn came while its lease was not valid, so that it had to be renewed before the grant.
    pub renewals: u64,
    /// Requests that acquire and release the lock, clean-ups included. Transactions, and requests that watch for a
    /// loss, are not counted.
    pub requests: u64,
    /// How many of these requests were listings of the queue.
    pub listings: u64,
    /// How often the client deleted the node of an abandoned attempt.
    pub cleaned_up: u64,
    /// How many nodes a server has refused to delete, for instance because the client may not delete them. The client repeats
    /// the delete while the session lives. Until then such a node blocks all others.
    pub not_deleted: u64,
}

impl LockMetrics {
    /// Adds the numbers of another lock.
    pub fn merge(&mut self, other: &Self) {
        let (gauges, more) = ([&mut self.waiting, &mut self.held], other.gauges());
        for (number, (_, more)) in gauges.into_iter().zip(more) {
            *number = number.saturating_add(more);
        }
        let counters = [
            &mut self.acquired,
            &mut self.contended,
            &mut self.refused,
            &mut self.given_up,
            &mut self.lost,
            &mut self.requests,
            &mut self.listings,
            &mut self.cleaned_up,
            &mut self.not_deleted,
            &mut self.renewals,
        ];
        for (number, (_, more)) in counters.into_iter().zip(other.counters()) {
            *number = number.saturating_add(more);
        }
        self.wait.merge(&other.wait);
        self.hold.merge(&other.hold);
        self.hand_over.merge(&other.hand_over);
    }

    /// The numbers that only grow, each with its name for an exporter.
    #[must_use]
    pub fn counters(&self) -> [(&'static str, u64); 10] {
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
    }

    /// The numbers of the present moment, each with its name for an exporter.
    #[must_use]
    pub fn gauges(&self) -> [(&'static str, u64); 2] {
        [
            ("lockkeeper_lock_waiting", self.waiting),
            ("lockkeeper_lock_held", self.held),
        ]
    }

    /// The durations, each with its name for an exporter that shows seconds.
    #[must_use]
    pub fn durations(&self) -> [(&'static str, &DurationHistogram); 3] {
        [
            ("lockkeeper_lock_wait_seconds", &self.wait),
            ("lockkeeper_lock_hold_seconds", &self.hold),
            ("lockkeeper_lock_hand_over_seconds", &self.hand_over),
        ]
    }
}

/// The numbers of several locks together.
impl Sum for LockMetrics {
    fn sum<I: Iterator<Item = Self>>(locks: I) -> Self {
        locks.fold(Self::default(), |mut sum, lock| {
            sum.merge(&lock);
            sum
        })
    }
}

/// Counts for many locks under one name: for programs that lock many paths, or make a lock object for each request.
///
/// Give it to locks with their method `with_meter`. The numbers of all of them are in one place, and outlive the lock objects.
/// The program chooses the name, so a monitoring system sees as many names as there are meters, however many paths there are.
///
/// Cheap to clone. With the feature `metrics` of the crate `lockkeeper`, each change is also reported to the recorder of the
/// crate `metrics`, under the names of [`LockMetrics::counters`], [`gauges`](LockMetrics::gauges) and
/// [`durations`](LockMetrics::durations), and with the label `lock`. Install the recorder before you make the meter.
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
    counters: Arc<Counters>,
}

impl LockMeter {
    /// A meter without any locks.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            counters: Arc::new(Counters::of_meter(name)),
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
        self.counters.snapshot()
    }

    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }
}

/// Who counts for a lock, and the name of the lock in the log.
#[derive(Clone, Debug)]
pub(crate) struct Recorder {
    /// The path of the lock. Empty if the log had no subscriber for warnings when the lock was made: that saves an
    /// allocation.
    pub(crate) path: String,
    pub(crate) kind: &'static str,
    pub(crate) clock: Clock,
    pub(crate) counters: Arc<Counters>,
}

/// The counters behind [`LockMetrics`].
#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub(crate) acquired: Counter,
    pub(crate) contended: Counter,
    pub(crate) refused: Counter,
    pub(crate) given_up: Counter,
    pub(crate) lost: Counter,
    pub(crate) waiting: Gauge,
    pub(crate) held: Gauge,
    pub(crate) wait: Durations,
    pub(crate) hold: Durations,
    pub(crate) hand_over: Durations,
    pub(crate) requests: Counter,
    pub(crate) listings: Counter,
    pub(crate) cleaned_up: Counter,
    pub(crate) not_deleted: Counter,
    pub(crate) renewals: Counter,
}

impl Recorder {
    pub(crate) fn of(
        client: &Client,
        path: &str,
        kind: &'static str,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            path: if tracing::enabled!(tracing::Level::WARN) {
                path.to_owned()
            } else {
                String::new()
            },
            kind,
            clock: client.raw().clock(),
            counters,
        }
    }

    /// The same, but this meter counts.
    pub(crate) fn metered(&self, meter: &LockMeter) -> Self {
        let counters = meter.counters().clone();
        Self {
            counters,
            ..self.clone()
        }
    }

    /// The time since `since`.
    pub(crate) fn elapsed(&self, since: Instant) -> Duration {
        self.clock.running().saturating_duration_since(since)
    }
}

impl Counters {
    #[cfg(not(feature = "metrics"))]
    fn of_meter(_: &str) -> Self {
        Self::default()
    }

    /// Counters that report each change to the recorder of the crate `metrics`.
    #[cfg(feature = "metrics")]
    fn of_meter(name: &str) -> Self {
        let (mut this, names) = (Self::default(), LockMetrics::default());
        let counters = [
            &mut this.acquired,
            &mut this.contended,
            &mut this.refused,
            &mut this.given_up,
            &mut this.lost,
            &mut this.requests,
            &mut this.listings,
            &mut this.cleaned_up,
            &mut this.not_deleted,
            &mut this.renewals,
        ];
        for (counter, (key, _)) in counters.into_iter().zip(names.counters()) {
            counter.facade = Some(::metrics::counter!(key, "lock" => name.to_owned()));
        }
        let gauges = [&mut this.waiting, &mut this.held];
        for (gauge, (key, _)) in gauges.into_iter().zip(names.gauges()) {
            gauge.facade = Some(::metrics::gauge!(key, "lock" => name.to_owned()));
        }
        let durations = [&mut this.wait, &mut this.hold, &mut this.hand_over];
        for (durations, (key, _)) in durations.into_iter().zip(names.durations()) {
            durations.facade = Some(::metrics::histogram!(key, "lock" => name.to_owned()));
        }
        this
    }

    pub(crate) fn snapshot(&self) -> LockMetrics {
        LockMetrics {
            acquired: self.acquired.get(),
            contended: self.contended.get(),
            refused: self.refused.get(),
            given_up: self.given_up.get(),
            lost: self.lost.get(),
            waiting: self.waiting.get(),
            held: self.held.get(),
            wait: self.wait.snapshot(),
            hold: self.hold.snapshot(),
            hand_over: self.hand_over.snapshot(),
            requests: self.requests.get(),
            listings: self.listings.get(),
            cleaned_up: self.cleaned_up.get(),
            not_deleted: self.not_deleted.get(),
            renewals: self.renewals.get(),
        }
    }
}

/// A number that only grows.
#[derive(Debug, Default)]
pub(crate) struct Counter {
    number: AtomicU64,
    /// Only in a meter, because the paths of locks are no good names for a monitoring system.
    #[cfg(feature = "metrics")]
    facade: Option<::metrics::Counter>,
}

impl Counter {
    /// Adds one.
    pub(crate) fn count(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        if let Some(facade) = &self.facade {
            facade.increment(1);
        }
    }

    fn get(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// How many there are now.
#[derive(Debug, Default)]
pub(crate) struct Gauge {
    number: AtomicU64,
    #[cfg(feature = "metrics")]
    facade: Option<::metrics::Gauge>,
}

impl Gauge {
    pub(crate) fn begin(&self) {
        self.number.fetch_add(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        if let Some(facade) = &self.facade {
            facade.increment(1);
        }
    }

    /// Ends one that has begun.
    pub(crate) fn end(&self) {
        self.number.fetch_sub(1, Ordering::Relaxed);
        #[cfg(feature = "metrics")]
        if let Some(facade) = &self.facade {
            facade.decrement(1);
        }
    }

    fn get(&self) -> u64 {
        self.number.load(Ordering::Relaxed)
    }
}

/// A [`DurationHistogram`] behind a mutex, which is locked for a few additions and never across an await.
#[derive(Debug, Default)]
pub(crate) struct Durations {
    histogram: Mutex<DurationHistogram>,
    #[cfg(feature = "metrics")]
    facade: Option<::metrics::Histogram>,
}

impl Durations {
    pub(crate) fn record(&self, duration: Duration) {
        self.lock().record(duration);
        #[cfg(feature = "metrics")]
        if let Some(facade) = &self.facade {
            facade.record(duration);
        }
    }

    fn snapshot(&self) -> DurationHistogram {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, DurationHistogram> {
        let histogram = self.histogram.lock();
        histogram.unwrap_or_else(PoisonError::into_inner)
    }
}
