//! Turns bytes into the story of a session: the steps of the network, the server, the clock and the
//! user, one after the other.
//!
//! The story keeps its own records, to find a broken guarantee: which requests were really sent,
//! which have a result, whether there is a connection. It uses only the machine's public methods
//! and outputs.

use std::{
    collections::{BTreeMap, BTreeSet, VecDeque},
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{BufMut, Bytes, BytesMut};
use lockkeeper_proto::{
    OpCode, Request, SessionId, WatcherType, Xid,
    connect::ConnectRequest,
    frame,
    header::RequestHeader,
    jute::{Decode, Reader},
};

use super::script::request;
use crate::script::Script;
use lockkeeper_session::{
    Config, Effect, Endpoint, Error, ErrorKind, LeasePolicy, State,
    machine::{Auth, Input, Machine, Output, Reply, RequestOptions, WatchId},
};

/// The most steps of one story. Further bytes are not read.
const LONGEST_STORY: usize = 2000;
/// The limit for pending requests.
const OUTSTANDING: usize = 50;

pub(super) struct Story {
    machine: Machine<u32>,
    now: Instant,
    link: Link,
    /// The server that the transport reaches for.
    reaching: Option<Arc<Endpoint>>,
    wire: BytesMut,
    handshake_due: bool,
    /// Requests that were made and not sent yet, in order.
    made: VecDeque<u32>,
    sent: BTreeSet<u32>,
    /// Those of the sent requests that only read.
    reads: BTreeSet<u32>,
    settled: BTreeSet<u32>,
    /// Numbers and operations of the requests that the server has received and not answered.
    unanswered: VecDeque<(Xid, OpCode)>,
    /// Watches, and whether the end of each was reported.
    watches: BTreeMap<WatchId, bool>,
    /// How many watches were given up or removed so far.
    given_up: usize,
    state: State,
    lease: Option<(SessionId, Duration, Instant)>,
    last_token: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Link {
    Down,
    Connecting,
    Up,
}

impl Story {
    pub(super) fn begin(script: &mut Script<'_>) -> Self {
        let now = birth();
        Self {
            machine: Machine::new(config(script), now),
            now,
            link: Link::Down,
            reaching: None,
            wire: BytesMut::new(),
            handshake_due: false,
            made: VecDeque::new(),
            sent: BTreeSet::new(),
            reads: BTreeSet::new(),
            settled: BTreeSet::new(),
            unanswered: VecDeque::new(),
            watches: BTreeMap::new(),
            given_up: 0,
            state: State::Connecting,
            lease: None,
            last_token: 0,
        }
    }

    pub(super) fn tell(&mut self, script: &mut Script<'_>) {
        for _ in 0..LONGEST_STORY {
            let Some(step) = script.next() else {
                break;
            };
            self.step(step, script);
            self.check_outputs();
            // Sometimes the socket takes no bytes. But a handshake is always sent before the server
            // answers it.
            if step < 0xe0 || self.handshake_due {
                self.transmit();
                self.check_outputs();
            }
        }
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        match step % 16 {
            0 | 1 => self.pass(Duration::from_millis(u64::from(script.byte()) * 40)),
            2 => self.reach_deadline(),
            3 => self.connect(),
            4 => {
                self.machine
                    .handle(self.now, Input::Disconnected(script.cause()));
                self.down();
            }
            5 => self.frame(script.take()),
            6 => {
                let frame = script.greeting(self.machine.link().session_id());
                self.frame(frame);
            }
            7 | 8 => {
                if let Some((xid, op)) = self.unanswered.pop_front() {
                    self.frame(script.reply(xid, op));
                }
            }
            9 if script.byte() < 8 => {
                // Only the reply to the oldest request can be so long.
                self.unanswered.pop_front();
                let (length, limit) = (2 << 20, 1 << 20);
                let input = Input::Oversized { length, limit };
                self.machine.handle(self.now, input);
            }
            9 => self.frame(script.notification()),
            10 => {
                let xid = Xid(-i32::from(script.byte() % 9));
                self.frame(script.reply(xid, OpCode::PING));
            }
            11 => match script.byte() {
                which @ 0xf0.. => {
                    let watcher_type = WatcherType(i32::from(which & 7));
                    let path = script.node();
                    self.given_up += self.machine.remove_watches(&path, watcher_type);
                }
                which => self.cancel(which),
            },
            12 => {
                let paths = [script.node(), script.node()];
                for id in self.machine.watch_nodes(paths) {
                    assert_eq!(
                        self.watches.insert(id, false),
                        None,
                        "the id is already used"
                    );
                }
            }
            13 if script.byte() < 16 => self.machine.close(self.now),
            13 if script.byte() < 32 => self.machine.leave_server(self.now),
            13 if script.byte() < 16 => self.machine.abort(),
            13 if script.byte() < 128 => {
                if let Some(other) = self.reaching.take() {
                    self.machine.handle(self.now, Input::Reached(other));
                }
            }
            13 | 14 => {
                let request = request(script);
                let options = self.options(script.byte());
                self.submit(request, options);
            }
            _ => self.make_progress(script),
        }
    }

    // Steps of the story.

    /// Time passes, and the machine gets only one tick at its end: a late timer, or a paused
    /// process.
    fn pass(&mut self, time: Duration) {
        self.now += time;
        self.machine.handle(self.now, Input::Tick);
    }

    fn reach_deadline(&mut self) {
        let Some(due) = self.machine.next_deadline() else {
            assert!(
                self.machine.link().is_ended(),
                "the machine has no deadline and has not ended"
            );
            return;
        };
        self.now = self.now.max(due);
        for ticks in 0.. {
            self.machine.handle(self.now, Input::Tick);
            self.check_outputs();
            self.transmit();
            if self
                .machine
                .next_deadline()
                .is_none_or(|due| due > self.now)
            {
                return;
            }
            assert!(ticks < 4, "the machine spins");
        }
    }

    /// Makes progress towards a session, so that a short story reaches far.
    fn make_progress(&mut self, script: &mut Script<'_>) {
        match self.link {
            Link::Down => self.reach_deadline(),
            Link::Connecting => self.connect(),
            Link::Up if !self.state.is_connected() => {
                let frame = script.good_greeting(self.machine.link().session_id());
                self.frame(frame);
            }
            Link::Up => {
                while let Some((xid, op)) = self.unanswered.pop_front() {
                    let frame = script.reply(xid, op);
                    self.frame(frame);
                    self.check_outputs();
                }
            }
        }
    }

    fn connect(&mut self) {
        self.machine.handle(self.now, Input::Connected);
        if self.link == Link::Connecting {
            self.link = Link::Up;
            self.handshake_due = true;
        }
    }

    fn down(&mut self) {
        self.link = Link::Down;
        self.wire.clear();
        self.unanswered.clear();
        self.handshake_due = false;
    }

    fn frame(&mut self, frame: Bytes) {
        self.machine.handle(self.now, Input::Frame(frame));
    }

    fn options(&self, choice: u8) -> RequestOptions {
        let soon = Duration::from_millis(20 * u64::from(choice));
        let mut options = RequestOptions::at(self.now);
        options.deadline = (choice % 4 == 2).then(|| self.now + soon);
        options
    }

    fn submit(&mut self, request: Request, options: RequestOptions) {
        self.last_token += 1;
        self.made.push_back(self.last_token);
        let watch = self
            .machine
            .submit(self.now, self.last_token, request, options);
        if let Some(id) = watch {
            assert_eq!(
                self.watches.insert(id, false),
                None,
                "the id is already used"
            );
        }
    }

    fn cancel(&mut self, which: u8) {
        let which = usize::from(which) % self.watches.len().max(1);
        if let Some((id, _)) = self.watches.iter().nth(which) {
            let id = *id;
            self.machine.cancel(id);
            // Nobody waits for this watch now.
            self.watches.remove(&id);
            self.given_up += 1;
        }
    }

    // Outputs of the machine.

    fn check_outputs(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match output {
                Output::Connect(_) => {
                    assert_eq!(self.link, Link::Down, "a second connection");
                    self.link = Link::Connecting;
                }
                Output::Disconnect => self.down(),
                Output::Reach(other) => self.reaching = other,
                Output::Completed(token, result) => {
                    let result = result.and_then(Reply::decode);
                    self.settled(token, result.err().as_ref());
                }
                Output::Watch(id, _) => {
                    if let Some(told) = self.watches.get_mut(&id) {
                        assert!(!std::mem::replace(told, true), "{id:?} is reported twice");
                    }
                }
                Output::Notice(id, _) => {
                    let told = self.watches.get(&id);
                    assert!(told != Some(&true), "{id:?} is reported after its end");
                }
                Output::LeaseRenewed => {}
                Output::State(snapshot) => {
                    let state = snapshot.state;
                    assert_ne!(self.state, state, "the same state twice");
                    assert!(!self.state.is_final(), "{state:?} after the end");
                    self.state = state;
                }
                other => panic!("{other:?} is not known here"),
            }
        }
        assert_eq!(self.state, self.machine.link().state());
        // One request sets a watch, and one removes it. Both may wait for the server, and for
        // neither is there a queue of callers.
        let of_watches = self.watches.len() + 2 * self.given_up;
        assert!(self.machine.outstanding() <= 2 * OUTSTANDING + of_watches + 20);
        let ended = self.machine.link().is_ended();
        assert!(!ended || self.link == Link::Down, "a connection is left");
        assert_eq!(self.machine.next_deadline().is_none(), ended);
        self.check_lease();
    }

    fn check_lease(&mut self) {
        let (id, timeout) = (
            self.machine.link().session_id(),
            self.machine.link().session_timeout(),
        );
        let Some(deadline) = self.machine.lease_deadline() else {
            return;
        };
        assert_ne!(id, SessionId::NONE, "a lease without a session");
        assert!(
            deadline <= self.now + timeout,
            "the lease is longer than the session"
        );
        if let Some((before_id, before_timeout, before)) = self.lease
            && (before_id, before_timeout) == (id, timeout)
            && self.machine.link().state() != State::Expired
        {
            // A session with the same id after an expiry has a new lease, which never ends earlier
            // than the old one.
            assert!(before <= deadline, "the lease moved back");
        }
        self.lease = Some((id, timeout, deadline));
    }

    fn settled(&mut self, token: u32, error: Option<&Error>) {
        assert!(token <= self.last_token, "an unknown token");
        assert!(self.settled.insert(token), "{token} is settled twice");
        self.made.retain(|other| *other != token);
        let was_sent = self.sent.contains(&token);
        match error.map(Error::kind) {
            None | Some(ErrorKind::Refused { .. } | ErrorKind::TransactionRefused { .. }) => {
                assert!(was_sent, "answered and never sent");
            }
            // The first time the server says so, later the machine itself.
            Some(ErrorKind::Unsupported(_)) => {}
            _ => {
                let may_be_applied = was_sent && !self.reads.contains(&token);
                let is_unknown = error.is_some_and(|error| error.effect() == Effect::Unknown);
                assert_eq!(may_be_applied, is_unknown, "{error:?}");
            }
        }
    }

    /// Takes the bytes that the machine sends, and parses them like a server.
    fn transmit(&mut self) {
        self.machine.transmit(self.now, &mut self.wire);
        assert!(
            self.wire.is_empty() || self.link == Link::Up,
            "bytes without a connection"
        );
        while let Ok(Some(message)) = frame::split(&mut self.wire, usize::MAX) {
            let mut reader = Reader::new(message);
            if std::mem::take(&mut self.handshake_due) {
                assert!(ConnectRequest::decode(&mut reader).is_ok());
            } else {
                self.sent(&mut reader);
            }
            assert_eq!(reader.left(), 0);
        }
        assert!(self.wire.is_empty(), "half a frame");
    }

    fn sent(&mut self, reader: &mut Reader) {
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(reader) else {
            unreachable!("a request without a header");
        };
        assert!(Request::decode(op, reader).is_ok());
        match op {
            OpCode::PING => assert_eq!(xid, Xid::PING),
            OpCode::AUTH => assert_eq!(xid, Xid::AUTH),
            _ => {
                assert!(xid.0 > 0);
                assert!(self.unanswered.iter().all(|(other, _)| *other != xid));
                self.unanswered.push_back((xid, op));
            }
        }
        let of_the_machine = [
            OpCode::PING,
            OpCode::AUTH,
            OpCode::SET_WATCHES,
            OpCode::SET_WATCHES2,
            OpCode::REMOVE_WATCHES,
            OpCode::CLOSE_SESSION,
        ];
        if !of_the_machine.contains(&op) {
            // A request that is too long fails while others are encoded; this settles it.
            self.check_outputs();
            let Some(token) = self.made.pop_front() else {
                unreachable!("a request that was never made");
            };
            assert!(self.sent.insert(token), "sent twice");
            if [OpCode::GET_DATA, OpCode::EXISTS, OpCode::GET_CHILDREN].contains(&op) {
                self.reads.insert(token);
            }
        }
    }

    /// Ends the story: every request must be settled, and every watch ended.
    pub(super) fn end(mut self) {
        self.machine.abort();
        self.check_outputs();
        self.transmit();
        assert!(self.machine.link().is_ended());
        assert_eq!(self.machine.outstanding(), 0);
        assert_eq!(self.machine.metrics().watches, 0);
        assert_eq!(self.settled, (1..=self.last_token).collect());
        assert_eq!(self.machine.lease_deadline(), None);
        let late = self.last_token + 1;
        let request = Request::Sync(lockkeeper_proto::records::SyncRequest {
            path: "/".to_owned(),
        });
        self.submit(request, RequestOptions::at(self.now));
        self.check_outputs();
        assert!(self.settled.contains(&late));
    }
}

/// The start of a story's own clock. Only the time since then matters.
#[allow(clippy::disallowed_methods, reason = "where virtual time starts")]
fn birth() -> Instant {
    Instant::now()
}

fn config(script: &mut Script<'_>) -> Config {
    let choice = script.byte();
    let servers = match choice % 3 {
        0 => "zk1",
        1 => "zk1,zk2",
        _ => "zk1,zk2,zk3/app",
    };
    let Ok(servers) = servers.parse() else {
        unreachable!("a list of servers");
    };
    let mut config = Config::new(&servers, u64::from(choice));
    config.session_timeout = Duration::from_millis(match (choice >> 2) % 4 {
        0 => 10_000,
        1 => 1,
        2 => 600,
        _ => u64::MAX,
    });
    config.max_outstanding = OUTSTANDING;
    if choice & 32 != 0 {
        config.max_request = 120;
    }
    if choice & 64 != 0 {
        let mut credentials = BytesMut::new();
        credentials.put_slice(b"user:password");
        config.auth.push(Auth {
            scheme: "digest".to_owned(),
            credentials: credentials.freeze(),
        });
    }
    if choice & 128 != 0 {
        config.request_timeout = Some(Duration::from_millis(100));
        config.lease = LeasePolicy::Assumed {
            margin: Some(Duration::ZERO),
        };
    }
    config
}
