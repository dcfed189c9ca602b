//! Records the history of a run: one order over the events of all contenders. Also the store in
//! memory.
//!
//! Not here: the rules that a history must keep (`lockkeeper_sim::check`), the store of nodes
//! (`contention`).

use std::{
    collections::BTreeMap,
    fmt,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use lockkeeper::{Guard, error::Loss};
use lockkeeper_sim::history::{Answer, Attempt, End, Event, Mode, What};

/// Records the history.
#[derive(Debug)]
pub struct Recorder {
    start: Instant,
    lock: Arc<str>,
    store: Arc<str>,
    inner: Mutex<Inner>,
}

#[derive(Debug, Default)]
struct Inner {
    events: Vec<Event>,
    attempts: u64,
    writes: u64,
    /// The writes without an answer so far, and their clients.
    unanswered: BTreeMap<u64, u32>,
    /// The highest token that the store in memory has seen.
    highest: u64,
    grants: Vec<(Duration, u32)>,
    /// When the test broke or repaired something.
    disturbances: Vec<Duration>,
    /// The longest time for which no majority of the servers served.
    outage: Duration,
    losses: BTreeMap<&'static str, u32>,
    refused: u32,
}

/// The results of a run.
#[derive(Debug)]
pub struct Figures {
    pub grants: usize,
    /// How often the lock went to another client than the one before.
    pub hand_overs: usize,
    /// The longest time without a grant after a disturbance.
    pub longest_pause: Duration,
    /// The longest time without a serving majority, mostly an election.
    pub outage: Duration,
    pub losses: BTreeMap<&'static str, u32>,
    pub refused: u32,
}

/// The cells of the table's row.
impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let losses = self.losses.iter();
        let losses: Vec<_> = losses
            .map(|(loss, count)| format!("{count} {loss}"))
            .collect();
        let losses = if losses.is_empty() {
            "none".to_owned()
        } else {
            losses.join(", ")
        };
        let Self {
            grants,
            hand_overs,
            refused,
            ..
        } = self;
        let pause = self.longest_pause.as_secs_f64();
        let outage = self.outage.as_secs_f64();
        write!(
            f,
            "{grants} | {hand_overs} | {pause:.2} | {outage:.2} | {losses} | {refused}"
        )
    }
}

impl Recorder {
    pub fn new(lock: &str) -> Self {
        Self {
            start: Instant::now(),
            lock: lock.into(),
            store: "memory".into(),
            inner: Mutex::default(),
        }
    }

    fn inner(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records an event at the current time.
    pub fn note(&self, client: u32, what: What) {
        self.note_in(&mut self.inner(), client, what);
    }

    fn note_in(&self, inner: &mut Inner, client: u32, what: What) {
        let at = self.start.elapsed();
        inner.events.push(Event { at, client, what });
    }

    /// Records the start of an attempt.
    pub fn asked(&self, client: u32, mode: Mode) -> Attempt {
        let mut inner = self.inner();
        let attempt = Attempt(inner.attempts);
        inner.attempts += 1;
        let lock = self.lock.clone();
        let what = What::Asked {
            attempt,
            lock,
            mode,
        };
        self.note_in(&mut inner, client, what);
        attempt
    }

    pub fn granted(&self, client: u32, attempt: Attempt, guard: &Guard) {
        let mut inner = self.inner();
        let at = self.start.elapsed();
        inner.grants.push((at, client));
        let what = What::Granted {
            attempt,
            token: guard.fencing_token().get(),
            node: guard.path(),
            session: guard.client().snapshot().session_id.0,
        };
        self.note_in(&mut inner, client, what);
        drop(inner);
        self.valid(client, attempt, guard);
    }

    /// Records until when the guard claims to exclude others.
    pub fn valid(&self, client: u32, attempt: Attempt, guard: &Guard) {
        if let Some(until) = guard.valid_until() {
            let until = until.saturating_duration_since(self.start);
            self.note(client, What::Valid { attempt, until });
        }
    }

    pub fn ended(&self, client: u32, attempt: Attempt, end: End) {
        self.note(client, What::Ended { attempt, end });
    }

    pub fn told(&self, loss: Loss) {
        let name = match loss {
            Loss::Elapsed => "elapsed",
            Loss::Expired => "expired",
            _ => "other",
        };
        *self.inner().losses.entry(name).or_default() += 1;
    }

    /// Writes to the store in memory. It accepts a token if it has not seen a higher one.
    pub fn store(&self, client: u32, attempt: Attempt, token: u64) {
        let mut inner = self.inner();
        let accepted = token >= inner.highest;
        inner.highest = inner.highest.max(token);
        inner.refused += u32::from(!accepted);
        let what = What::Stored {
            attempt,
            store: self.store.clone(),
            token,
            accepted,
        };
        self.note_in(&mut inner, client, what);
    }

    /// The highest token that the store in memory has seen.
    pub fn highest(&self) -> u64 {
        self.inner().highest
    }

    /// Gives a number to a write to the store of nodes.
    pub fn write(&self, client: u32) -> u64 {
        let mut inner = self.inner();
        let write = inner.writes;
        inner.writes += 1;
        inner.unanswered.insert(write, client);
        write
    }

    pub fn answered(&self, client: u32, write: u64, answer: Answer) {
        self.inner().unanswered.remove(&write);
        self.note(client, What::Answered { write, answer });
    }

    /// Nobody waits any more for the answers to writes whose futures were dropped.
    pub fn give_up_answers(&self) {
        let unanswered = std::mem::take(&mut self.inner().unanswered);
        for (write, client) in unanswered {
            self.answered(client, write, Answer::Unknown);
        }
    }

    /// Counts a write of a former holder that the store of nodes has refused.
    pub fn refused(&self) {
        self.inner().refused += 1;
    }

    /// Records that the test breaks or repairs something now.
    pub fn disturbed(&self) {
        let at = self.start.elapsed();
        self.inner().disturbances.push(at);
    }

    /// Records that a majority of the servers serves again.
    pub fn served(&self) {
        let at = self.start.elapsed();
        let mut inner = self.inner();
        let since = inner.disturbances.last().copied().unwrap_or_default();
        inner.outage = inner.outage.max(at.saturating_sub(since));
    }

    pub fn grants(&self) -> usize {
        self.inner().grants.len()
    }

    /// When the last disturbance was.
    pub fn calm(&self) -> Duration {
        let inner = self.inner();
        inner.disturbances.last().copied().unwrap_or_default()
    }

    pub fn writes(&self) -> u64 {
        self.inner().writes
    }

    pub fn history(&self) -> Vec<Event> {
        self.inner().events.clone()
    }

    pub fn figures(&self) -> Figures {
        let inner = self.inner();
        let pairs = || inner.grants.windows(2);
        let pause = |pair: &[(Duration, u32)]| {
            let before = |at: &&Duration| **at < pair[1].0;
            let disturbed = inner.disturbances.iter().rev().find(before)?;
            Some(pair[1].0.saturating_sub(pair[0].0.max(*disturbed)))
        };
        Figures {
            grants: inner.grants.len(),
            hand_overs: pairs().filter(|pair| pair[0].1 != pair[1].1).count(),
            longest_pause: pairs().filter_map(pause).max().unwrap_or_default(),
            outage: inner.outage,
            losses: inner.losses.clone(),
            refused: inner.refused,
        }
    }
}
