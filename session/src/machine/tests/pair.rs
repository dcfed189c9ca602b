//! A machine and a scripted server. The test moves the bytes between them, and moves the time
//! forward.
//!
//! Invariant, checked after each call: every request is settled at most once, and every watch ends
//! at most once.

use std::{
    collections::HashSet,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, EventType, KeeperState, OpCode, Request, Response, SessionId, WatcherEvent, Xid,
    Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader, Writer},
    records::Empty,
};

use super::requests::{granted, sound_reply, sync};
use crate::{
    Cause, Config, Error, State,
    machine::{Event, Input, Machine, Notice, Output, Reply, RequestOptions, WatchId},
};

pub(super) const SECOND: Duration = Duration::from_secs(1);
/// The session timeout of the tests, and what a third and a sixth of it are.
pub(super) const TIMEOUT: Duration = Duration::from_secs(9);
pub(super) const THIRD: Duration = Duration::from_secs(3);
/// How often a client pings.
pub(super) const SIXTH: Duration = Duration::from_millis(1500);
pub(super) const ID: SessionId = SessionId(0x100);
pub(super) const PASSWORD: &[u8] = b"sixteen bytes ..";

/// The start of a test's clock. The machine reads no clock, so any instant is right.
#[allow(clippy::disallowed_methods, reason = "where virtual time starts")]
pub(super) fn birth() -> Instant {
    Instant::now()
}

pub(super) struct Pair {
    pub(super) machine: Machine<u32>,
    pub(super) now: Instant,
    pub(super) born: Instant,
    /// The outputs of the machine that the test has not taken yet.
    pub(super) outputs: Vec<Output<u32>>,
    /// How many writes there were.
    pub(super) writes: usize,
    /// How many attempts to connect there were.
    pub(super) attempts: usize,
    wire: BytesMut,
    last_token: u32,
    settled: HashSet<u32>,
    ended: HashSet<WatchId>,
}

impl Pair {
    /// A machine with one server and a session timeout of [`TIMEOUT`]. `settings` may change that.
    pub(super) fn new(settings: impl FnOnce(&mut Config)) -> Self {
        let servers = "zk1:2181".parse().unwrap();
        let mut config = Config::new(&servers, 1);
        config.session_timeout = TIMEOUT;
        settings(&mut config);
        let born = birth();
        Self {
            machine: Machine::new(config, born),
            now: born,
            born,
            outputs: Vec::new(),
            writes: 0,
            attempts: 0,
            wire: BytesMut::new(),
            last_token: 0,
            settled: HashSet::new(),
            ended: HashSet::new(),
        }
    }

    /// A [`new`](Self::new) pair that is connected.
    pub(super) fn connected(settings: impl FnOnce(&mut Config)) -> Self {
        let mut pair = Self::new(settings);
        pair.connect();
        pair.outputs.clear();
        pair
    }

    /// Does what the driver task does after each call: takes the outputs, then the bytes, then the
    /// outputs again.
    pub(super) fn pump(&mut self) {
        self.drain();
        for round in 0.. {
            assert!(round < 10_000, "there is always more to send");
            let before = self.wire.len();
            let has_more = self.machine.transmit(self.now, &mut self.wire);
            if self.wire.len() > before {
                self.writes += 1;
            }
            self.drain();
            if !has_more {
                break;
            }
        }
    }

    pub(super) fn drain(&mut self) {
        while let Some(output) = self.machine.poll_output() {
            match &output {
                Output::Completed(token, _) => {
                    assert!(self.settled.insert(*token), "{token} is settled twice");
                }
                Output::Watch(id, _) => assert!(self.ended.insert(*id), "{id:?} ends twice"),
                Output::Notice(id, _) => assert!(!self.ended.contains(id), "{id:?} has ended"),
                Output::Connect(_) => self.attempts += 1,
                // The bytes on the connection are lost.
                Output::Disconnect => self.wire.clear(),
                Output::State(_) | Output::Reach(_) | Output::LeaseRenewed => {}
            }
            self.outputs.push(output);
        }
    }

    pub(super) fn handle(&mut self, input: Input) {
        self.machine.handle(self.now, input);
        self.pump();
    }

    // Time.

    /// Lets time pass, and ticks at each deadline of the machine.
    pub(super) fn wait(&mut self, duration: Duration) {
        let until = self.now + duration;
        let mut ticks = 0;
        while let Some(due) = self.machine.next_deadline().filter(|due| *due <= until) {
            self.now = self.now.max(due);
            self.handle(Input::Tick);
            ticks += 1;
            assert!(ticks < 100_000, "the machine spins");
        }
        self.now = until;
    }

    /// Lets time pass to the next deadline, and ticks.
    pub(super) fn tick(&mut self) {
        let due = self.machine.next_deadline().expect("a deadline");
        self.now = self.now.max(due);
        self.handle(Input::Tick);
    }

    // Connections.

    /// Lets time pass until the machine wants a connection, and connects the transport. Returns the
    /// handshake.
    pub(super) fn reach(&mut self) -> ConnectRequest {
        let attempts = self.attempts;
        let mut ticks = 0;
        while self.attempts == attempts {
            self.tick();
            ticks += 1;
            assert!(ticks < 100, "the machine does not connect");
        }
        self.stand()
    }

    /// The transport is connected. Returns the handshake that the server receives.
    pub(super) fn stand(&mut self) -> ConnectRequest {
        self.wire.clear();
        self.handle(Input::Connected);
        let frame = self.frame().expect("a handshake");
        ConnectRequest::decode(&mut Reader::new(frame)).unwrap()
    }

    /// The server answers the handshake with this session.
    pub(super) fn accept(&mut self, id: SessionId, timeout: Duration) {
        self.answer_handshake(&granted(timeout.as_millis().try_into().unwrap(), id));
    }

    /// The server answers the handshake with a refusal of the session.
    pub(super) fn refuse_session(&mut self) {
        self.answer_handshake(&ConnectResponse {
            password: Some(Bytes::from_static(&[0; 16])),
            ..granted(0, SessionId::NONE)
        });
    }

    pub(super) fn answer_handshake(&mut self, response: &ConnectResponse) {
        self.receive(|writer| response.encode(writer));
    }

    /// Connects, with the session [`ID`] and its [`TIMEOUT`].
    pub(super) fn connect(&mut self) -> ConnectRequest {
        let request = self.reach();
        self.accept(ID, TIMEOUT);
        assert!(self.machine.link().is_connected());
        request
    }

    /// The server closes the connection.
    pub(super) fn cut(&mut self) {
        self.handle(Input::Disconnected(Cause::ClosedByServer));
        self.wire.clear();
    }

    /// The server closes the connection, and accepts the next one.
    pub(super) fn reconnect(&mut self) -> ConnectRequest {
        self.cut();
        self.connect()
    }

    // Requests.

    pub(super) fn submit(&mut self, request: Request) -> u32 {
        let token = self.submit_quietly(request).0;
        self.pump();
        token
    }

    /// Submits a request. The transport does not take it yet.
    pub(super) fn submit_quietly(&mut self, request: Request) -> (u32, Option<WatchId>) {
        self.submit_with_quietly(request, RequestOptions::at(self.now))
    }

    pub(super) fn submit_with(
        &mut self,
        request: Request,
        options: RequestOptions,
    ) -> (u32, Option<WatchId>) {
        let submitted = self.submit_with_quietly(request, options);
        self.pump();
        submitted
    }

    fn submit_with_quietly(
        &mut self,
        request: Request,
        options: RequestOptions,
    ) -> (u32, Option<WatchId>) {
        self.last_token += 1;
        let token = self.last_token;
        let id = self.machine.submit(self.now, token, request, options);
        (token, id)
    }

    pub(super) fn submit_watching(&mut self, request: Request) -> (u32, WatchId) {
        let (token, id) = self.submit_quietly(request);
        self.pump();
        (token, id.expect("the request leaves a watch"))
    }

    /// Submits a request that leaves a watch. The server answers with this code.
    pub(super) fn watch(&mut self, request: Request, code: ErrorCode) -> WatchId {
        let (token, id) = self.submit_watching(request);
        self.answer_all(|request| match code {
            ErrorCode::OK => Ok(sound_reply(request)),
            code => Err(code),
        });
        assert_eq!(self.result(token).is_ok(), code.is_ok());
        id
    }

    /// Watches these nodes, and sends the requests.
    pub(super) fn watch_nodes<P: Into<String>>(
        &mut self,
        paths: impl IntoIterator<Item = P>,
    ) -> Vec<WatchId> {
        let watches = self.machine.watch_nodes(paths);
        self.pump();
        watches
    }

    /// The next frame that the server receives.
    pub(super) fn frame(&mut self) -> Option<Bytes> {
        frame::split(&mut self.wire, usize::MAX).unwrap()
    }

    /// The next request that the server receives.
    pub(super) fn request(&mut self) -> Option<(Xid, Request)> {
        let mut reader = Reader::new(self.frame()?);
        let RequestHeader { xid, op } = RequestHeader::decode(&mut reader).unwrap();
        let request = Request::decode(op, &mut reader).unwrap();
        assert_eq!(reader.left(), 0, "{request:?}");
        Some((xid, request))
    }

    /// All requests that the server has received since the last call.
    pub(super) fn requests(&mut self) -> Vec<(Xid, Request)> {
        std::iter::from_fn(|| self.request()).collect()
    }

    /// All requests since the last call, without their numbers.
    pub(super) fn sent(&mut self) -> Vec<Request> {
        let requests = self.requests().into_iter();
        requests.map(|(_, request)| request).collect()
    }

    /// The operations of all requests that the server has received since the last call.
    pub(super) fn ops(&mut self) -> Vec<OpCode> {
        self.requests().iter().map(|(_, r)| r.op()).collect()
    }

    // Replies.

    pub(super) fn receive(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        let mut out = BytesMut::new();
        frame::append(&mut out, write).unwrap();
        let frame = frame::split(&mut out, usize::MAX).unwrap().unwrap();
        self.handle(Input::Frame(frame));
    }

    pub(super) fn reply(&mut self, xid: Xid, zxid: i64, reply: Result<Response, ErrorCode>) {
        let err = reply.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        let zxid = Zxid(zxid);
        self.receive(|writer| {
            ReplyHeader { xid, zxid, err }.encode(writer);
            if let Ok(body) = reply {
                body.encode(writer);
            }
        });
    }

    /// The server answers a ping.
    pub(super) fn pong(&mut self) {
        self.reply(Xid::PING, 1, Ok(Response::Ping(Empty {})));
    }

    /// The client sees this transaction, in the answer to a request of its own.
    pub(super) fn see(&mut self, zxid: i64) {
        self.submit(sync("/"));
        let (xid, _) = self.request().unwrap();
        self.reply(xid, zxid, Err(ErrorCode::NO_NODE));
    }

    /// The server answers all requests that it has received, in order.
    pub(super) fn answer_all(
        &mut self,
        mut answer: impl FnMut(&Request) -> Result<Response, ErrorCode>,
    ) {
        while let Some((xid, request)) = self.request() {
            self.reply(xid, 1, answer(&request));
        }
    }

    /// The server answers all requests that it has received with success.
    pub(super) fn serve(&mut self) {
        self.answer_all(|request| Ok(sound_reply(request)));
    }

    pub(super) fn event(&mut self, event_type: EventType, path: &str) {
        self.receive(|writer| {
            ReplyHeader {
                xid: Xid::NOTIFICATION,
                zxid: Zxid(-1),
                err: ErrorCode::OK,
            }
            .encode(writer);
            WatcherEvent {
                event_type,
                state: KeeperState::SYNC_CONNECTED,
                path: path.to_owned(),
            }
            .encode(writer);
        });
    }

    // Outputs of the machine.

    /// Whether the machine has closed a connection since the outputs were last taken.
    pub(super) fn has_disconnected(&self) -> bool {
        let is_it = |output: &Output<u32>| matches!(output, Output::Disconnect);
        self.outputs.iter().any(is_it)
    }

    /// Takes out the result of a request.
    pub(super) fn result(&mut self, token: u32) -> Result<Response, Error> {
        let is_it = |output: &Output<u32>| matches!(output, Output::Completed(t, _) if *t == token);
        match self.outputs.iter().position(is_it) {
            Some(index) => match self.outputs.remove(index) {
                Output::Completed(_, result) => result.and_then(Reply::decode),
                _ => unreachable!(),
            },
            None => panic!("{token} is not settled"),
        }
    }

    pub(super) fn error(&mut self, token: u32) -> Error {
        self.result(token).unwrap_err()
    }

    pub(super) fn is_settled(&self, token: u32) -> bool {
        self.settled.contains(&token)
    }

    /// Takes out the states that the machine reported.
    pub(super) fn states(&mut self) -> Vec<State> {
        self.take(|output| match output {
            Output::State(snapshot) => Ok(snapshot.state),
            other => Err(other),
        })
    }

    /// Takes out the one-shot watches that fired, and all watches that ended.
    pub(super) fn fired(&mut self) -> Vec<(WatchId, Result<Event, Error>)> {
        self.take(|output| match output {
            Output::Watch(id, result) => Ok((id, result)),
            other => Err(other),
        })
    }

    /// Takes out the notices of persistent watches.
    pub(super) fn told(&mut self) -> Vec<(WatchId, Notice)> {
        self.take(|output| match output {
            Output::Notice(id, notice) => Ok((id, notice)),
            other => Err(other),
        })
    }

    fn take<T>(&mut self, pick: impl Fn(Output<u32>) -> Result<T, Output<u32>>) -> Vec<T> {
        let mut taken = Vec::new();
        for output in std::mem::take(&mut self.outputs) {
            match pick(output) {
                Ok(value) => taken.push(value),
                Err(other) => self.outputs.push(other),
            }
        }
        taken
    }

    /// Why the newest connection, or attempt to connect, ended.
    pub(super) fn last_cause(&self) -> Cause {
        let tried = self.machine.link().failures();
        tried.last().expect("a connection that ended").cause.clone()
    }
}
