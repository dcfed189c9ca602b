//! The record of a run: what passed between clients, followers and leaders, in one order.
//!
//! An event is noted before its bytes are passed on, and an answer after it was read. So what a
//! message caused stands behind it. Not here: what is allowed (`accept`).

use std::{
    borrow::Cow,
    collections::BTreeSet,
    fmt::Write as _,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use lockkeeper_test_support::{
    proxy::{Direction, Tap},
    servers::COUNT,
};

use crate::wire::{CLOSE_SESSION, CREATE_SESSION, Stream};

/// What an event or a rule is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Of {
    /// A connection of a follower to its leader.
    Link(usize),
    /// A connection of a client.
    Client(usize),
    Server(usize),
    Session(i64),
}

/// What a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A read: its server answers it alone.
    Touch,
    Write,
    Close,
}

/// What a follower asks its leader for: the session, the number and the type of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Asked(pub(crate) i64, pub(crate) i32, pub(crate) i32);

impl Asked {
    /// Finds the proposal of a request. The first write of a session and its creation may have the
    /// same number.
    pub(crate) fn key(self) -> (i64, i32, bool) {
        (
            self.0,
            self.1,
            [CREATE_SESSION, CLOSE_SESSION].contains(&self.2),
        )
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    // Links.
    Linked {
        follower: usize,
        leader: usize,
    },
    Unlinked,
    /// With its epoch.
    NewLeader(i64),
    UpToDate,
    Ping,
    /// The answer to a ping, and whether the relay lost it.
    Touches(Vec<i64>, bool),
    Request(Asked),
    Resumed(i64, bool),
    /// With the transaction's number, and the timeout of a new session.
    Proposal(i64, Asked, Duration),
    Ack(i64),
    Commit(i64),
    // Clients.
    Connect {
        server: usize,
        session: i64,
    },
    Connected(i64),
    Sent(i32, Sent),
    Answered(i32),
    /// The server closed the connection.
    Lost,
    /// The client closed it.
    Left,
    // What the test does to servers.
    Stopped,
    GoesOn,
    Cut,
    Killed,
}

/// When, since the beginning of the record.
pub(crate) type Record = Vec<(Duration, Of, What)>;

/// The part of a record that concerns a session or a link, for whoever judges a rejection.
pub(crate) fn part(record: &Record, about: Of) -> String {
    let is_named = |what: &What| match (about, what) {
        (Of::Session(id), What::Touches(all, _)) => all.contains(&id),
        (
            Of::Session(id),
            What::Request(Asked(it, ..))
            | What::Proposal(_, Asked(it, ..), _)
            | What::Connected(it)
            | What::Resumed(it, _)
            | What::Connect { session: it, .. },
        ) => *it == id,
        _ => false,
    };
    let (mut clients, mut transactions) = (BTreeSet::new(), BTreeSet::new());
    for (_, of, what) in record.iter().filter(|(.., what)| is_named(what)) {
        if let What::Proposal(zxid, ..) = what {
            transactions.insert(*zxid);
        } else if let Of::Client(_) = of {
            clients.insert(*of);
        }
    }
    let mut lines = String::new();
    for (number, (at, of, what)) in record.iter().enumerate() {
        let is_shown = *of == about
            || clients.contains(of)
            || is_named(what)
            || matches!(what, What::Ack(zxid) | What::Commit(zxid) if transactions.contains(zxid))
            || matches!(
                what,
                What::Linked { .. } | What::Unlinked | What::NewLeader(_)
            )
            || matches!(of, Of::Server(_));
        if is_shown {
            writeln!(lines, "{number:6} {at:>14.6?} {of:x?} {what:x?}").expect("a string");
        }
    }
    lines
}

#[derive(Debug)]
pub(crate) struct Recorder {
    begin: Instant,
    events: Mutex<Record>,
    numbers: AtomicUsize,
    /// Whether the answers of a follower to pings are lost.
    pub(crate) withholds: [AtomicBool; COUNT],
}

impl Recorder {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            begin: Instant::now(),
            events: Mutex::default(),
            numbers: AtomicUsize::new(0),
            withholds: Default::default(),
        })
    }

    pub(crate) fn note(&self, of: Of, what: What) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push((self.begin.elapsed(), of, what));
    }

    pub(crate) fn record(&self) -> Record {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.clone()
    }

    /// The number of a new connection.
    pub(crate) fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }
}

/// Reads the connection of a follower to its leader.
#[derive(Debug)]
pub(crate) struct Link {
    recorder: Arc<Recorder>,
    of: Of,
    follower: usize,
    up: Stream,
    down: Stream,
}

impl Link {
    pub(crate) fn new(recorder: &Arc<Recorder>, follower: usize, leader: usize) -> Self {
        let (recorder, of) = (recorder.clone(), Of::Link(recorder.number()));
        recorder.note(of, What::Linked { follower, leader });
        let (up, down) = Default::default();
        Self {
            recorder,
            of,
            follower,
            up,
            down,
        }
    }
}

impl Tap for Link {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let is_up = direction == Direction::ToServer;
        let stream = if is_up { &mut self.up } else { &mut self.down };
        let mut on = Vec::new();
        for (bytes, mut what) in stream.read(is_up, bytes) {
            let mut is_lost = false;
            if let Some(What::Touches(_, is_withheld)) = &mut what {
                is_lost = self.recorder.withholds[self.follower].load(Ordering::Relaxed);
                *is_withheld = is_lost;
            }
            if let Some(what) = what {
                self.recorder.note(self.of, what);
            }
            if !is_lost {
                on.extend_from_slice(&bytes);
            }
        }
        on.into()
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.recorder.note(self.of, What::Unlinked);
    }
}
