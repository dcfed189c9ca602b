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

use crate::wire::Stream;

/// What a client sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// A ping or a read: its server answers it alone.
    Touch,
    Write,
    Close,
}

/// `link` is a connection of a follower to its leader, `client` a connection of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
#[rustfmt::skip]
pub(crate) enum Event {
    Linked { link: usize, follower: usize, leader: usize },
    Unlinked { link: usize },
    // From the leader.
    NewLeader { link: usize, epoch: i64 },
    UpToDate { link: usize },
    Ping { link: usize },
    Resumed { link: usize, session: i64, is_valid: bool },
    Proposal { link: usize, zxid: i64, session: i64, xid: i32, kind: i32, timeout: i32 },
    Commit { link: usize, zxid: i64 },
    // From the follower.
    Touches { link: usize, sessions: Vec<i64>, is_withheld: bool },
    Request { link: usize, session: i64, xid: i32, kind: i32 },
    Ack { link: usize, zxid: i64 },
    // Clients.
    Connect { client: usize, server: usize, session: i64 },
    Connected { client: usize, session: i64 },
    Sent { client: usize, xid: i32, what: Sent },
    Answered { client: usize, xid: i32 },
    /// The server closed the connection.
    Lost { client: usize },
    /// The client closed it.
    Left { client: usize },
    // What the test does to servers.
    Stopped { server: usize },
    GoesOn { server: usize },
    Cut { server: usize },
    Killed { server: usize },
}

/// When, since the beginning of the record.
pub(crate) type Record = Vec<(Duration, Event)>;

#[derive(Debug)]
pub(crate) struct Recorder {
    begin: Instant,
    events: Mutex<Record>,
    numbers: AtomicUsize,
    /// Whether the answers of a follower to pings are lost.
    withholds: [AtomicBool; COUNT],
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

    pub(crate) fn note(&self, event: Event) {
        let mut events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.push((self.begin.elapsed(), event));
    }

    pub(crate) fn record(&self) -> Record {
        let events = self.events.lock().unwrap_or_else(PoisonError::into_inner);
        events.clone()
    }

    /// The number of a new connection.
    pub(crate) fn number(&self) -> usize {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn withhold(&self, follower: usize, is_so: bool) {
        self.withholds[follower].store(is_so, Ordering::Relaxed);
    }
}

/// Reads the connection of a follower to its leader.
#[derive(Debug)]
pub(crate) struct Link {
    recorder: Arc<Recorder>,
    number: usize,
    follower: usize,
    up: Stream,
    down: Stream,
}

impl Link {
    pub(crate) fn new(recorder: &Arc<Recorder>, follower: usize, leader: usize) -> Self {
        let link = recorder.number();
        recorder.note(Event::Linked {
            link,
            follower,
            leader,
        });
        Self {
            recorder: recorder.clone(),
            number: link,
            follower,
            up: Stream::default(),
            down: Stream::default(),
        }
    }
}

impl Tap for Link {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        let is_up = direction == Direction::ToServer;
        let stream = if is_up { &mut self.up } else { &mut self.down };
        let mut on = Vec::new();
        for (bytes, mut event) in stream.read(self.number, is_up, bytes) {
            let mut is_lost = false;
            if let Some(Event::Touches { is_withheld, .. }) = &mut event {
                *is_withheld = self.recorder.withholds[self.follower].load(Ordering::Relaxed);
                is_lost = *is_withheld;
            }
            if let Some(event) = event {
                self.recorder.note(event);
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
        self.recorder.note(Event::Unlinked { link: self.number });
    }
}
