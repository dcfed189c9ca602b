//! Turns bytes into the story of a server: clients that connect, send and leave, time that passes,
//! and faults.

use std::{
    collections::BTreeMap,
    net::{Ipv4Addr, SocketAddr},
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{ErrorCode, SessionId};

use super::client::Client;
use crate::script::Script;
use lockkeeper_server::engine::{
    Config, ConnId, Effect, Engine, Now, Output, Received, ServerId, When,
};

/// The maximum number of steps of a story. Further bytes are not read.
const LONGEST_STORY: u32 = 400;
/// The maximum number of bytes of a repeated request, all repetitions together.
const LONGEST_BURST: usize = 200_000;
/// The approximate maximum number of pieces for the bytes of one step.
const MOST_PIECES: usize = 300;
/// The maximum number of connections at a time.
const CONNECTIONS: usize = 6;
/// The tables are checked once in so many steps, because a check takes time in proportion to their
/// size.
const LOOK_EVERY: u32 = 8;
/// The members of an ensemble.
const MEMBERS: u32 = 3;
/// How long a member goes on without what its role needs.
const SYNC_LIMIT: Duration = Duration::from_millis(2500);
/// The longest time that a transaction travels in some ensembles. In the others it takes no time.
const TRAVEL: Duration = Duration::from_millis(100);

/// The result of a story. It must not depend on how the input was split.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Outcome {
    /// For each connection: a hash of its output, and whether it was closed.
    clients: Vec<(u64, bool)>,
    paths: Vec<String>,
    sessions: Vec<SessionId>,
    notifications: u64,
    /// The number of bytes that the clients sent.
    pub(super) sent: u64,
}

/// Plays the story with the input of the engine split into pieces of `piece` bytes.
pub(super) fn told(input: &[u8], piece: usize) -> Outcome {
    let mut script = Script(input);
    let mut story = Story::begin(&mut script, piece);
    for step in 0..LONGEST_STORY {
        let Some(choice) = script.next() else {
            break;
        };
        story.step(choice, &mut script);
        if step % LOOK_EVERY == 0 {
            story.engine.assert_sound();
        }
    }
    story.end()
}

struct Story {
    engine: Engine,
    now: Now,
    piece: usize,
    is_ensemble: bool,
    clients: BTreeMap<ConnId, Client>,
    /// The entries of `Outcome::clients` for connections that have ended.
    gone: Vec<(u64, bool)>,
    next: u64,
    sent: u64,
    /// Whether a fault that can delay replies is on.
    may_be_late: bool,
    /// All sessions that the server has started, with their passwords.
    sessions: Vec<(SessionId, Bytes)>,
}

impl Story {
    fn begin(script: &mut Script<'_>, piece: usize) -> Self {
        let now = Now {
            instant: birth(),
            unix_ms: 1_000_000,
        };
        let choice = script.byte();
        let is_ensemble = choice >> 5 == 4;
        // Members report each half tick: a short one would make a story slow.
        let is_quick = choice & 1 != 0 && !is_ensemble;
        let tick_ms = if is_quick { 1 } else { 500 };
        let mut config = Config::default();
        config.tick_time = Duration::from_millis(tick_ms);
        config.container_check_interval = Duration::from_secs(5);
        config.seed = u64::from(choice & 4);
        if choice & 2 != 0 {
            config.min_session_timeout = Some(Duration::ZERO);
            config.max_session_timeout = Duration::MAX;
        }
        let mut engine = Engine::new(config, now);
        let is_slow = is_ensemble && choice & 16 != 0;
        if is_ensemble {
            let travel = if is_slow { TRAVEL } else { Duration::ZERO };
            engine.set_ensemble(MEMBERS, SYNC_LIMIT, travel, now);
        }
        Self {
            engine,
            now,
            piece,
            is_ensemble,
            clients: BTreeMap::new(),
            gone: Vec::new(),
            next: 0,
            sent: 0,
            may_be_late: is_slow,
            sessions: Vec::new(),
        }
    }

    fn step(&mut self, step: u8, script: &mut Script<'_>) {
        match step % 16 {
            0 => self.connect(script),
            1 => {
                let handshake = script.handshake(None);
                self.send(script, &handshake);
            }
            2 => {
                let which = usize::from(script.byte()) % self.sessions.len().max(1);
                let handshake = script.handshake(self.sessions.get(which).cloned());
                self.send(script, &handshake);
            }
            3 => self.pass(Duration::from_millis(u64::from(script.byte()) * 50)),
            4 => {
                let bytes = script.take();
                self.send(script, &bytes);
            }
            5 => {
                let frame = script.raw_request_frame();
                self.send(script, &frame);
            }
            6 => {
                let mut frames = BytesMut::new();
                for _ in 0..script.byte() % 20 {
                    frames.unsplit(script.request_frame());
                }
                self.send(script, &frames);
            }
            7 => {
                // The same request many times.
                let (frame, times) = (script.request_frame(), usize::from(script.byte()));
                let times = times.min(LONGEST_BURST / frame.len().max(1));
                self.send(script, &frame.repeat(times));
            }
            8 => {
                let word = script.word();
                self.send(script, &word);
            }
            9 => {
                if let Some(id) = self.some(script) {
                    self.engine.disconnected(id, self.now);
                    self.left(id);
                }
            }
            10 => {
                self.fault(script);
                self.collect();
            }
            11 => {
                // Starts a session in one step, so that a short story gets far.
                self.connect(script);
                let handshake = Script(&[9]).handshake(None);
                if let Some(id) = self.clients.keys().next_back().copied() {
                    self.send_to(id, &handshake);
                }
            }
            15 if self.is_ensemble => self.trouble(script),
            _ => {
                let frame = script.request_frame();
                self.send(script, &frame);
            }
        }
        if self.is_ensemble {
            // Transactions arrive here, and not between two pieces.
            self.pass(Duration::ZERO);
        }
        self.look_at_answers();
    }

    fn member(&self, script: &mut Script<'_>) -> ServerId {
        let choice = if self.is_ensemble { script.byte() } else { 0 };
        ServerId(u32::from(choice) % MEMBERS)
    }

    /// Something happens to the members of the ensemble, or to a link.
    fn trouble(&mut self, script: &mut Script<'_>) {
        let (one, other, now) = (self.member(script), self.member(script), self.now);
        self.may_be_late = true;
        match script.byte() % 8 {
            0 => self.engine.set_cut_between(one, other, true, now),
            1 => self.engine.set_cut_between(one, other, false, now),
            2 => self.engine.stop_server(one, now),
            3 => self.engine.start_server(one, now),
            4 => drop(self.engine.elect_another(now)),
            5 => self.engine.set_lags(one, true),
            6 => self.engine.set_lags(one, false),
            _ => self.heal(),
        }
        self.collect();
    }

    /// All members run, and hear of everything.
    fn heal(&mut self) {
        for one in (0..MEMBERS).map(ServerId) {
            for other in (0..MEMBERS).map(ServerId) {
                self.engine.set_cut_between(one, other, false, self.now);
            }
            self.engine.set_lags(one, false);
            self.engine.start_server(one, self.now);
        }
    }

    fn connect(&mut self, script: &mut Script<'_>) {
        let server = self.member(script);
        if self.clients.len() < CONNECTIONS {
            let id = ConnId(self.next);
            self.next += 1;
            self.engine.connected(server, id, remote(), self.now);
            self.clients.insert(id, Client::of(self.is_ensemble));
            self.collect();
        }
    }

    fn some(&self, script: &mut Script<'_>) -> Option<ConnId> {
        let which = usize::from(script.byte()) % self.clients.len().max(1);
        self.clients.keys().nth(which).copied()
    }

    fn send(&mut self, script: &mut Script<'_>, bytes: &[u8]) {
        if let Some(id) = self.some(script) {
            self.send_to(id, bytes);
        }
    }

    fn send_to(&mut self, id: ConnId, bytes: &[u8]) {
        self.sent += u64::try_from(bytes.len()).unwrap_or(u64::MAX);
        // More pieces than this would test nothing new.
        for piece in bytes.chunks(self.piece.max(bytes.len() / MOST_PIECES)) {
            if let Some(client) = self.clients.get_mut(&id) {
                client.sends(piece);
            }
            self.receive(id, BytesMut::from(piece));
        }
    }

    fn receive(&mut self, id: ConnId, mut bytes: BytesMut) {
        while self.engine.received(id, bytes.split(), self.now) == Received::Partly {
            self.collect();
        }
        self.collect();
    }

    /// Lets time pass, and calls the engine at every deadline on the way.
    fn pass(&mut self, time: Duration) {
        let end = self.now.instant + time;
        for rounds in 0.. {
            assert!(rounds < 100_000, "the engine's deadline does not advance");
            let due = self.engine.next_deadline().min(end).max(self.now.instant);
            let step = due.saturating_duration_since(self.now.instant);
            self.now.instant = due;
            self.now.unix_ms += i64::try_from(step.as_millis()).unwrap_or(0);
            self.engine.tick(self.now);
            self.collect();
            if self.engine.next_deadline() > end {
                self.now.instant = end;
                return;
            }
        }
    }

    fn fault(&mut self, script: &mut Script<'_>) {
        let now = self.now;
        let which = usize::from(script.byte()) % self.sessions.len().max(1);
        let session = self.sessions.get(which).map(|(id, _)| *id);
        let effect = match script.byte() % 12 {
            0 => return self.engine.clear_faults(),
            1 => return self.engine.cut_all(None),
            2 => {
                self.may_be_late = true;
                return self.engine.set_stalled(None, script.byte() & 1 != 0);
            }
            3 => {
                self.may_be_late = true;
                let delay = Duration::from_millis(u64::from(script.byte()));
                self.engine.rules().delay = Some(delay);
                return;
            }
            4 => {
                self.engine.rules().refuse_handshakes = script.byte() & 1 != 0;
                return;
            }
            5..=7 => {
                let Some(session) = session else {
                    return;
                };
                match script.byte() % 4 {
                    0 => {
                        self.engine.expire_early(session, now);
                    }
                    3 => {
                        self.engine.expire(session);
                    }
                    1 => {
                        self.engine.cut_session(session);
                    }
                    _ => {
                        self.may_be_late = true;
                        let stalled = script.byte() & 1 != 0;
                        self.engine.set_stalled(Some(session), stalled);
                    }
                }
                return;
            }
            8 => Effect::CutBefore,
            9 => Effect::LoseReply,
            10 => Effect::Delay(Duration::from_millis(u64::from(script.byte()))),
            _ => Effect::Refuse(ErrorCode::NO_AUTH),
        };
        self.may_be_late |= matches!(effect, Effect::Delay(_));
        self.engine.rules().add(When::any().nth(3), effect);
    }

    /// Carries out the outputs of the engine.
    fn collect(&mut self) {
        while let Some(output) = self.engine.poll_output() {
            match output {
                Output::Send(id, bytes) => {
                    let client = self.clients.get_mut(&id);
                    assert!(client.is_some(), "output for an unknown connection");
                    let Some(client) = client else {
                        return;
                    };
                    client.gets(&bytes);
                    if let Some(session) = &client.session
                        && !self.sessions.contains(session)
                    {
                        self.sessions.push(session.clone());
                    }
                }
                Output::Close(id) | Output::Cut(id) => {
                    if let Some(client) = self.clients.get_mut(&id) {
                        client.closed = true;
                    }
                    self.left(id);
                }
                Output::Resume(id) => self.receive(id, BytesMut::new()),
            }
        }
    }

    fn left(&mut self, id: ConnId) {
        if let Some(client) = self.clients.remove(&id) {
            self.gone.push((client.sum, client.closed));
        }
    }

    /// Checks that no client waits for a reply that will not come.
    fn look_at_answers(&self) {
        if self.may_be_late {
            return;
        }
        for (id, client) in &self.clients {
            assert!(client.is_answered(), "{id:?} waits: {client:?}");
        }
    }

    fn end(mut self) -> Outcome {
        self.engine.clear_faults();
        self.engine.rules().delay = None;
        if self.is_ensemble {
            self.heal();
        }
        self.collect();
        self.pass(Duration::from_secs(1));
        self.may_be_late = false;
        self.look_at_answers();
        self.engine.assert_sound();

        // A session that has just ended at the leader is open at its member until that hears of it.
        for _ in 0..if self.is_ensemble {
            self.clients.len()
        } else {
            0
        } {
            if self.has_ended_sessions() {
                self.pass(TRAVEL);
            }
        }
        assert!(!self.has_ended_sessions());
        let report = self.engine.report();
        assert_eq!(report.connections, self.clients.len());
        assert_eq!(report.nodes, self.engine.paths().len());
        let outcome = Outcome {
            clients: self.clients.values().map(|own| (own.sum, false)).collect(),
            paths: self.engine.paths(),
            sessions: report.sessions.keys().copied().collect(),
            notifications: self.engine.counters().notifications,
            sent: self.sent,
        };
        let outcome = Outcome {
            clients: [self.gone.clone(), outcome.clients].concat(),
            ..outcome
        };
        self.leave_nothing();
        outcome
    }

    /// Whether some clients are connected in sessions that have ended, or the other way round.
    fn has_ended_sessions(&self) -> bool {
        let report = self.engine.report();
        let open = self.clients.values().filter(|client| client.is_open());
        let connected = report.sessions.values().filter(|own| own.is_connected);
        connected.count() != open.count()
    }

    /// Checks that nothing is left of the clients after all have left and their timeouts are over.
    fn leave_nothing(&mut self) {
        let longest = self.engine.report().sessions.into_values();
        let longest = longest.map(|session| session.timeout).max();
        for id in std::mem::take(&mut self.clients).into_keys() {
            self.engine.disconnected(id, self.now);
        }
        self.collect();
        let longest = longest.unwrap_or_default();
        if longest > Duration::from_secs(60) {
            // A client has asked for a very long timeout. The story does not wait for its end.
            return;
        }
        self.pass(longest + Duration::from_secs(11));
        let report = self.engine.report();
        assert_eq!((report.watches, report.connections), (0, 0));
        assert_eq!(report.sessions.len(), 0);
        self.engine.assert_sound();
        if self.is_ensemble && !self.members_agree() {
            // The deletion of a container may have been under way.
            self.pass(TRAVEL);
            assert!(self.members_agree());
        }
    }

    /// Whether all members have as many nodes, of the same size, and none that is ephemeral.
    fn members_agree(&mut self) -> bool {
        let all = [0, 1, 2].map(|member| self.nodes_of(ServerId(member)));
        let first = &all[0];
        first.contains("zk_ephemerals_count\t0\n") && all.iter().all(|nodes| nodes == first)
    }

    fn nodes_of(&mut self, server: ServerId) -> String {
        let id = ConnId(self.next);
        self.next += 1;
        self.engine.connected(server, id, remote(), self.now);
        let word = BytesMut::from(&b"mntr"[..]);
        let _ = self.engine.received(id, word, self.now);
        let Some(Output::Send(_, text)) = self.engine.poll_output() else {
            unreachable!("{server:?} is silent");
        };
        assert_eq!(self.engine.poll_output(), Some(Output::Close(id)));
        let text = String::from_utf8_lossy(&text);
        let of_nodes = ["zk_znode", "zk_ephemerals", "zk_approximate_data"];
        let is_of_nodes = |line: &&str| of_nodes.iter().any(|start| line.starts_with(start));
        text.split_inclusive('\n').filter(is_of_nodes).collect()
    }
}

fn remote() -> SocketAddr {
    SocketAddr::from((Ipv4Addr::LOCALHOST, 40_000))
}

/// The start of the story's clock. Only the time since then matters.
fn birth() -> Instant {
    Instant::now()
}
