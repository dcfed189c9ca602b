//! Counters of what locks do and cost: [`LockMeter`] adds up one lock or many under one name.
//!
//! A snapshot reads the counters one by one, so its numbers may be some operations apart.
//!
//! Not here: log lines (`guard::lock_guard`).

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_session::{DurationHistogram, sync::os::lock};

/// From one table: [`LockMetrics`], the counters behind it, and their names for exporters.
macro_rules! lock_metrics {
    (
        counters { $($(#[doc = $counter_doc:literal])* $counter:ident,)* }
        gauges { $($(#[doc = $gauge_doc:literal])* $gauge:ident,)* }
        durations { $($(#[doc = $duration_doc:literal])* $duration:ident,)* }
    ) => {
        /// What the locks of a [`LockMeter`] have done in this process so far, and what they do now.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        #[non_exhaustive]
        pub struct LockMetrics {
            $($(#[doc = $counter_doc])* pub $counter: u64,)*
            $($(#[doc = $gauge_doc])* pub $gauge: u64,)*
            $($(#[doc = $duration_doc])* pub $duration: DurationHistogram,)*
        }

        impl LockMetrics {
            /// The numbers that only grow, each with its name for an exporter.
            #[must_use]
            pub fn counters(&self) -> [(&'static str, u64); [$(stringify!($counter)),*].len()] {
                [$((concat!("lockkeeper_lock_", stringify!($counter), "_total"), self.$counter)),*]
            }

            /// The numbers of the present moment, each with its name for an exporter.
            #[must_use]
            pub fn gauges(&self) -> [(&'static str, u64); [$(stringify!($gauge)),*].len()] {
                [$((concat!("lockkeeper_lock_", stringify!($gauge)), self.$gauge)),*]
            }

            /// The durations, each with its name for an exporter that shows seconds.
            #[must_use]
            pub fn durations(
                &self,
            ) -> [(&'static str, &DurationHistogram); [$(stringify!($duration)),*].len()] {
                [$((concat!("lockkeeper_lock_", stringify!($duration), "_seconds"), &self.$duration)),*]
            }
        }

        /// The counters behind [`LockMetrics`].
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $(pub(crate) $counter: Number,)*
            $(pub(crate) $gauge: Number,)*
            $(pub(crate) $duration: Durations,)*
        }

        impl Counters {
            fn snapshot(&self) -> LockMetrics {
                LockMetrics {
                    $($counter: self.$counter.get(),)*
                    $($gauge: self.$gauge.get(),)*
                    $($duration: lock(&self.$duration.0).clone(),)*
                }
            }
        }
    };
}

lock_metrics! {
    counters {
        /// How often the lock was acquired.
        acquired,
        /// How often another contender was ahead when an attempt began.
        contended,
        /// How often a try found the lock taken.
        refused,
        /// How often an attempt ended without the lock: it was dropped, timed out, or failed.
        given_up,
        /// How often a holder lost the lock before it released it.
        lost,
        /// Requests that acquire and release the lock, clean-ups included. Transactions, and
        /// requests that watch for a loss, are not counted.
        requests,
        /// How many of these requests were listings of the queue.
        listings,
        /// How often the client deleted the node of an abandoned attempt.
        cleaned_up,
        /// How many nodes a server has refused to delete, for instance because the client may not
        /// delete them. The client repeats the delete while the session lives. Until then such a
        /// node blocks all others.
        not_deleted,
        /// How often a contender's turn came while its lease was not valid, so that it had to be
        /// renewed before the grant.
        renewals,
    }
    gauges {
        /// Attempts that have not ended now.
        waiting,
        /// Guards that are not released now. A lost lock counts until its guard is dropped.
        held,
    }
    durations {
        /// The time from the call to the grant.
        wait,
        /// The time from the grant to the release.
        hold,
        /// The time from the event that the contender just ahead is gone to the grant. No contender
        /// holds the lock meanwhile.
        hand_over,
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
    pub(crate) counters: Arc<Counters>,
}

impl LockMeter {
    /// A meter without any locks.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            counters: Arc::default(),
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
}

/// A number that only grows, or the number of the present moment.
#[derive(Debug, Default)]
pub(crate) struct Number(AtomicU64);

impl Number {
    pub(crate) fn add(&self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn remove(&self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A [`DurationHistogram`] behind a mutex, which is locked for a few additions and never across an
/// await.
#[derive(Debug, Default)]
pub(crate) struct Durations(Mutex<DurationHistogram>);

impl Durations {
    pub(crate) fn record(&self, duration: Duration) {
        lock(&self.0).record(duration);
    }
}
