//! One client, its server and the leader: the state, and what can happen next.
//!
//! A unit of time is half a tick, after which the leader pings.
//!
//! Not here: in which order states are visited (`search`).

use std::{
    collections::VecDeque,
    sync::LazyLock,
    time::{Duration, Instant},
};

use lockkeeper_session::{
    machine::{Lengths, Proof, Validity},
    proto::Xid,
};

/// Between two pings of the leader.
const HALF_TICK: u64 = 1;
/// How long after its decision the leader marks the session, at most.
const MARK: u64 = 1;

/// Where time starts. The client's code takes instants.
static START: LazyLock<Instant> = LazyLock::new(birth);

#[allow(clippy::disallowed_methods, reason = "where the model's time starts")]
fn birth() -> Instant {
    Instant::now()
}

fn instant(time: u64) -> Instant {
    *START + Duration::from_secs(time)
}

/// By which rule the client takes its lease for valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Rule {
    /// A `sync` or a write, and a write behind it, prove a touch.
    Proved,
    /// Two `sync` in a row do: a leader without a majority answers them.
    ProvedBySync,
    /// A proof counts at once, also behind the end of the lease.
    ProvedAtOnce,
    /// Each answer extends the lease, which ends a third of the timeout early.
    Assumed,
}

impl Rule {
    /// Whether two holders are to be found with this rule.
    #[must_use]
    pub fn is_weak(self) -> bool {
        self != Self::Proved
    }

    /// Whether the lease needs no proof.
    fn counts_answers(self) -> bool {
        self == Self::Assumed
    }

    /// For how long the lease counts. Clocks run at the same rate here, so nothing is left for
    /// drift.
    fn lengths(self, timeout: Duration) -> Lengths {
        let lease = match self {
            Self::Assumed => timeout * 2 / 3,
            _ => timeout,
        };
        // Longer than the leader takes to mark a session.
        let confirm = timeout / 3;
        Lengths { lease, confirm }
    }
}

/// How often each thing may happen, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(clippy::exhaustive_structs, reason = "a caller names all of them")]
pub struct Limits {
    /// The client sends a ping.
    pub pings: u8,
    /// The client sends a `sync`.
    pub syncs: u8,
    /// The client sends a write.
    pub writes: u8,
    /// The leader loses its majority, and another one begins.
    pub elections: u8,
    /// The client connects again, to a server of the newest leader.
    pub reconnects: u8,
    /// Whether the client that connects again is another one, to which the session was handed over. It
    /// knows of no lease.
    pub hands_over: bool,
    /// The session timeout, in units of time. Two ticks is the shortest that servers grant by
    /// default.
    pub timeout: u64,
    /// For so many units of time behind the session timeout.
    pub longer: u64,
}

impl Limits {
    fn timeout(&self) -> Duration {
        Duration::from_secs(self.timeout)
    }
}

/// From the client to its server, and forwarded to the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Request {
    Ping {
        sent: u64,
    },
    /// A `sync` or a write.
    Ask {
        xid: i32,
        sent: u64,
        is_write: bool,
    },
    Resume {
        sent: u64,
    },
}

/// From the server to the leader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum ToLeader {
    /// The answer to a ping: the server has heard of the session. An answer without that says
    /// nothing, and is left out.
    Touch,
    Request(Request),
}

/// From the leader to the server.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum FromLeader {
    Ping,
    Answer(Request),
}

/// A link between the server and the leader. It is one connection: messages keep their order. They
/// take any time, so a link that breaks in silence, in one direction or both, is a message that has
/// not arrived yet.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Link {
    to_leader: VecDeque<ToLeader>,
    from_leader: VecDeque<FromLeader>,
}

/// One state.
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct World {
    now: u64,
    left: Limits,
    // The client.
    proof: Proof,
    /// Somebody relies on the lease all the time.
    validity: Validity,
    next_xid: i32,
    /// The session was resumed, and the answer has not come yet.
    is_connecting: bool,
    // The connection.
    to_server: VecDeque<Request>,
    to_client: VecDeque<Request>,
    // The server.
    link: Link,
    /// Whether it has heard of the session since its last answer to the leader's ping.
    has_touch: bool,
    // The leader of the server.
    /// Whether a majority still follows it.
    has_majority: bool,
    /// From when it counts the session timeout.
    counts_from: u64,
    next_ping: u64,
    /// Another leader has begun, and counts from here.
    other_counts_from: Option<u64>,
    /// When the leader has decided to end the session. What it hears of the session after that
    /// counts for nothing, and the leader accepts it until it has marked the session.
    decided_at: Option<u64>,
    /// The session has ended: another client may hold the lock.
    is_ended: bool,
}

impl World {
    /// A session that was just made.
    pub(super) fn initial(limits: Limits) -> Self {
        let mut validity = Validity::default();
        validity.extend(instant(0));
        validity.rely();
        Self {
            now: 0,
            left: limits,
            proof: Proof::new(instant(0), instant(0), limits.timeout() / 3, false),
            validity,
            next_xid: 1,
            is_connecting: false,
            to_server: VecDeque::new(),
            to_client: VecDeque::new(),
            link: Link::default(),
            has_touch: false,
            has_majority: true,
            counts_from: 0,
            next_ping: HALF_TICK,
            other_counts_from: None,
            decided_at: None,
            is_ended: false,
        }
    }

    /// Whether the client takes its lease for valid although the session has ended.
    pub(super) fn is_wrong(&self, rule: Rule) -> bool {
        self.is_ended
            && self
                .validity
                .is_valid(instant(self.now), rule.lengths(self.left.timeout()))
    }

    /// All that can happen next, with words for it.
    pub(super) fn each_step(&self, rule: Rule, visit: &mut impl FnMut(&'static str, Self)) {
        let mut step = |words, change: &dyn Fn(&mut Self)| {
            let mut after = self.clone();
            change(&mut after);
            visit(words, after);
        };
        let must_mark = self.decided_at.is_some_and(|at| at + MARK <= self.now) && !self.is_ended;
        if self.now < self.left.timeout + self.left.longer && !must_mark {
            step("time passes", &|it| {
                it.now += 1;
                // How late it is does not matter.
                it.next_ping = it.next_ping.max(it.now);
            });
        }
        self.client_steps(rule, &mut step);
        self.server_steps(&mut step);
        self.leader_steps(&mut step);
        self.faults(&mut step);
    }

    fn client_steps(&self, rule: Rule, step: &mut impl FnMut(&'static str, &dyn Fn(&mut Self))) {
        if self.left.pings > 0 && !self.is_connecting {
            step("the client sends a ping", &|it| {
                it.left.pings -= 1;
                it.to_server.push_back(Request::Ping { sent: it.now });
            });
        }
        if self.left.syncs > 0 && !self.is_connecting {
            step("the client sends a sync", &|it| {
                it.left.syncs -= 1;
                it.ask(false, rule == Rule::ProvedBySync);
            });
        }
        if self.left.writes > 0 && !self.is_connecting {
            step("the client sends a write", &|it| {
                it.left.writes -= 1;
                it.ask(true, true);
            });
        }
        if !self.to_client.is_empty() {
            step("the client gets an answer", &|it| it.hear(rule));
        }
    }

    /// The client asks the leader something, and takes it for a write, or not.
    fn ask(&mut self, is_write: bool, counts_as_write: bool) {
        let (xid, sent) = (self.next_xid, self.now);
        self.next_xid += 1;
        self.proof.sent(instant(sent), Xid(xid), counts_as_write);
        self.to_server.push_back(Request::Ask {
            xid,
            sent,
            is_write,
        });
    }

    /// The client gets an answer.
    fn hear(&mut self, rule: Rule) {
        let Some(answer) = self.to_client.pop_front() else {
            return;
        };
        let (now, lengths) = (instant(self.now), rule.lengths(self.left.timeout()));
        self.validity.heard(now, lengths, true);
        match answer {
            Request::Ping { sent } => {
                self.proof.touched(instant(sent), now);
                self.count(rule, sent);
            }
            Request::Ask {
                xid,
                sent,
                is_write,
            } => {
                let proved = self.proof.answered(Xid(xid), true);
                if is_write {
                    self.proof.touched(instant(sent), now);
                    (self.validity).written(now, instant(sent), lengths);
                }
                match proved {
                    Some(touched) if rule == Rule::ProvedAtOnce => {
                        self.validity.extend(touched);
                    }
                    Some(touched) if !rule.counts_answers() => {
                        self.validity.proved(now, touched, lengths);
                    }
                    _ => {}
                }
                if self.validity.is_valid(now, lengths) {
                    self.validity.rely();
                }
            }
            Request::Resume { sent } => {
                self.is_connecting = false;
                let is_told = self.validity.resumed(instant(sent), now, lengths);
                let is_told = is_told || rule == Rule::ProvedAtOnce;
                self.proof = Proof::new(instant(sent), now, self.left.timeout() / 3, is_told);
                self.count(rule, sent);
            }
        }
    }

    fn count(&mut self, rule: Rule, sent: u64) {
        if rule.counts_answers() {
            self.validity.extend(instant(sent));
        }
    }

    fn server_steps(&self, step: &mut impl FnMut(&'static str, &dyn Fn(&mut Self))) {
        if !self.to_server.is_empty() {
            step("the server takes a request of the client", &|it| {
                let request = it.to_server.pop_front();
                match request {
                    Some(ping @ Request::Ping { .. }) => {
                        it.has_touch = true;
                        it.to_client.push_back(ping);
                    }
                    Some(ask @ Request::Ask { .. }) => {
                        it.has_touch = true;
                        it.link.to_leader.push_back(ToLeader::Request(ask));
                    }
                    Some(resume @ Request::Resume { .. }) => {
                        it.link.to_leader.push_back(ToLeader::Request(resume));
                    }
                    None => {}
                }
            });
        }
        if !self.link.from_leader.is_empty() {
            step("the server takes a message of the leader", &|it| {
                let message = it.link.from_leader.pop_front();
                if let Some(FromLeader::Answer(request)) = message {
                    it.to_client.push_back(request);
                    return;
                }
                if std::mem::take(&mut it.has_touch) {
                    it.link.to_leader.push_back(ToLeader::Touch);
                }
            });
        }
    }

    fn leader_steps(&self, step: &mut impl FnMut(&'static str, &dyn Fn(&mut Self))) {
        if self.has_majority && self.must_ping() {
            step("the leader pings the server", &|it| {
                it.next_ping = it.now + HALF_TICK;
                it.link.from_leader.push_back(FromLeader::Ping);
            });
        }
        let is_stuck = self.has_majority && self.must_ping();
        if !self.link.to_leader.is_empty() && !is_stuck {
            step("the leader takes a message of the server", &|it| {
                it.lead();
            });
        }
        let counts_from = match (self.has_majority, self.other_counts_from) {
            (true, _) => Some(self.counts_from),
            (false, other) => other,
        };
        if self.decided_at.is_none()
            && counts_from.is_some_and(|from| self.now >= from + self.left.timeout)
        {
            step("the leader decides to end the session", &|it| {
                it.decided_at = Some(it.now);
            });
        }
        if self.decided_at.is_some() && !self.is_ended {
            step("the leader marks the session as ended", &|it| {
                it.is_ended = true;
            });
        }
    }

    /// The leader's process may be paused. When it goes on, it pings before it does anything else.
    fn must_ping(&self) -> bool {
        self.next_ping <= self.now
    }

    /// The leader takes a message of the server.
    fn lead(&mut self) {
        match self.link.to_leader.pop_front() {
            Some(ToLeader::Touch) => self.touch(),
            Some(ToLeader::Request(request)) => {
                let is_answered = match request {
                    // It asks nobody.
                    Request::Resume { .. } => {
                        self.touch();
                        true
                    }
                    Request::Ask { is_write, .. } => self.has_majority || !is_write,
                    Request::Ping { .. } => true,
                };
                // The writes of a session that has ended are refused.
                if is_answered && !self.is_ended {
                    self.link.from_leader.push_back(FromLeader::Answer(request));
                }
            }
            None => {}
        }
    }

    /// The leader hears of the session. If it has decided, that changes nothing.
    fn touch(&mut self) {
        if self.decided_at.is_none() {
            self.counts_from = self.now;
        }
    }

    fn faults(&self, step: &mut impl FnMut(&'static str, &dyn Fn(&mut Self))) {
        if self.left.elections > 0 && self.has_majority && !self.is_ended {
            step("the leader loses its majority", &|it| {
                it.left.elections -= 1;
                it.has_majority = false;
            });
        }
        if !self.has_majority && self.other_counts_from.is_none() && !self.is_ended {
            step("another leader begins", &|it| {
                it.other_counts_from = Some(it.now);
                it.decided_at = None;
            });
        }
        if self.left.reconnects > 0 && !self.is_connecting {
            // The same server and leader, or a server of the other leader.
            step("the client loses its connection, and resumes", &|it| {
                it.reconnect();
            });
            if let Some(from) = self.other_counts_from {
                step("the client resumes at the other leader's side", &|it| {
                    it.link = Link::default();
                    it.has_touch = false;
                    it.has_majority = true;
                    it.counts_from = from;
                    it.next_ping = it.now + HALF_TICK;
                    it.other_counts_from = None;
                    it.reconnect();
                });
            }
        }
    }

    fn reconnect(&mut self) {
        self.left.reconnects -= 1;
        self.is_connecting = true;
        self.to_client.clear();
        self.to_server.clear();
        // Nobody gets the answers to what the server has forwarded.
        let link = &mut self.link;
        link.from_leader
            .retain(|message| *message == FromLeader::Ping);
        link.to_leader
            .retain(|message| !matches!(message, ToLeader::Request(_)));
        self.to_server.push_back(Request::Resume { sent: self.now });
        if self.left.hands_over {
            self.validity = Validity::default();
        }
    }
}
