//! The record of a run: what passed between clients, followers and leaders, in one order.
//!
//! An event is noted before its bytes are passed on, and an answer after it was read. So what a
//! message caused stands behind it. Not here: what is allowed (`accept`).

use std::{
    borrow::Cow,
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

use crate::facts::wire::{CLOSE_SESSION, CREATE_SESSION, Stream};

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
        let is_of_session = [CREATE_SESSION, CLOSE_SESSION].contains(&self.2);
        (self.0, self.1, is_of_session)
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    // Links.
    /// A follower connects to its leader.
    Linked(usize, usize),
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
    /// To a server, and the session to resume, or 0.
    Connect(usize, i64),
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
    /// From its leader, or as a leader from all others: both directions, or the one that is lost.
    Cut(Option<Direction>),
    Killed,
}

/// When, since the beginning of the record.
pub(crate) type Record = Vec<(Duration, Of, What)>;

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
    /// Up and down.
    streams: [Stream; 2],
}

impl Link {
    pub(crate) fn new(recorder: &Arc<Recorder>, follower: usize, leader: usize) -> Self {
        let (recorder, of) = (recorder.clone(), Of::Link(recorder.number()));
        recorder.note(of, What::Linked(follower, leader));
        Self {
            recorder,
            of,
            follower,
            streams: Default::default(),
        }
    }
}

impl Tap for Link {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let is_up = direction == Direction::ToServer;
        let mut on = Vec::new();
        for (bytes, mut what) in self.streams[usize::from(!is_up)].read(is_up, bytes) {
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
