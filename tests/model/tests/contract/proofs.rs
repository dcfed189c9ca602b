//! What the answers on one connection prove: all orders of touches and requests, as `lease` of the
//! proofs has them.

use std::{
    collections::HashSet,
    hash::{BuildHasher, BuildHasherDefault},
    time::{Duration, Instant},
};

use lockkeeper_model::Fingerprint;
use lockkeeper_session::{
    machine::{Bytes, BytesMut, Config, Input, Machine, Proof},
    proto::Xid,
};

/// The session timeout, in units of time.
const TIMEOUT: u64 = 6;
/// How long is explored, and how many requests go to the leader.
const END: u64 = 5;
const ASKED: usize = 3;
/// How many touches there are, with the handshake, and whether those requests are writes.
const WAYS: [(usize, &[bool]); 2] = [(3, &[true]), (2, &[true, false])];

/// A fraction of the session timeout, as the proof has it: `NAME = .. Fraction(over, under)`.
fn constant(index: usize) -> (u64, u64) {
    let source = include_str!("../../../proof/lease.py");
    let line = source
        .lines()
        .find(|line| line.starts_with("WAIT, LEASE = "));
    let fraction = line.and_then(|line| line.split("Fraction(").nth(index + 1));
    let numbers = fraction.and_then(|text| text.split(')').next()?.split_once(", "));
    let (over, under) = numbers.expect("the constants of the proof");
    (over.parse().unwrap(), under.parse().unwrap())
}

/// `W1` is sent so long after the touch was answered.
fn wait() -> u64 {
    let (over, under) = constant(0);
    TIMEOUT * over / under
}

/// When a request was sent and answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Request {
    sent: u64,
    answered: Option<u64>,
    is_write: bool,
    /// Whether the leader has handled it.
    is_handled: bool,
    /// How many requests to the leader had been answered when it was sent. They are answered in
    /// their order.
    behind: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    proof: Proof,
    is_told: bool,
    now: u64,
    /// The handshake is the first one.
    touches: Vec<Request>,
    /// A `sync` or a write.
    asked: Vec<Request>,
    /// The last touch that was proved.
    proved: Option<u64>,
}

impl World {
    /// Whether a request and a write behind its answer, or one behind a handshake that has told the
    /// leader, prove the touch that was sent at this time.
    fn is_proved(&self, from: u64) -> bool {
        let handled = || {
            self.asked
                .iter()
                .enumerate()
                .filter(|(_, it)| it.is_handled)
        };
        let mut writes = handled().filter(|(_, it)| it.is_write);
        let is_second_to = |first: usize| handled().any(|(_, it)| it.is_write && it.behind > first);
        let is_told = self.is_told && from == 0 && writes.next().is_some();
        let mut touches = self.touches.iter().filter(|touch| touch.sent == from);
        is_told
            || touches.any(|touch| {
                let is_late =
                    |asked: &Request| touch.answered.is_some_and(|it| it + wait() <= asked.sent);
                let mut firsts = handled().filter(|(_, asked)| is_late(asked));
                firsts.any(|(first, _)| is_second_to(first))
            })
    }

    fn each_step(
        &self,
        start: Instant,
        (most, kinds): (usize, &[bool]),
        visit: &mut impl FnMut(Self),
    ) {
        let at = |time: u64| start + Duration::from_secs(time);
        let xid = |write: usize| Xid(i32::try_from(write).expect("few writes"));
        let behind = (self.asked.iter())
            .filter(|it| it.answered.is_some())
            .count();
        let request = Request {
            sent: self.now,
            answered: None,
            is_write: false,
            is_handled: false,
            behind,
        };
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut after = self.clone();
            change(&mut after);
            visit(after);
        };
        if self.now < END {
            step(&|it| it.now += 1);
        }
        // A ping, answered at once or later.
        for sent in [self.now - 1, self.now] {
            if self.touches.len() < most {
                step(&|it| {
                    it.touches.push(Request {
                        sent,
                        answered: Some(it.now),
                        ..request
                    });
                    it.proof.touched(at(sent), at(it.now));
                });
            }
        }
        if self.asked.len() < ASKED {
            for &is_write in kinds {
                step(&|it| {
                    it.proof.sent(at(it.now), xid(it.asked.len()), is_write);
                    it.asked.push(Request {
                        is_write,
                        ..request
                    });
                });
            }
        }
        if behind == self.asked.len() {
            return;
        }
        for is_handled in [true, false] {
            step(&|it| {
                it.asked[behind].answered = Some(it.now);
                it.asked[behind].is_handled = is_handled;
                let proved = it.proof.answered(xid(behind), is_handled);
                if let Some(touch) = proved {
                    let from = touch.duration_since(start).as_secs();
                    assert!(it.is_proved(from), "{from} is not proved: {it:#?}");
                    it.proved = Some(from);
                }
            });
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "where time starts")]
fn start() -> Instant {
    Instant::now()
}

#[test]
fn only_a_request_that_is_late_enough_and_a_write_behind_it_prove_a_touch() {
    let start = start();
    let timeout = Duration::from_secs(TIMEOUT);
    let (mut count, mut proved) = (0, HashSet::new());
    for (is_told, way) in [false, true]
        .into_iter()
        .flat_map(|it| WAYS.map(|way| (it, way)))
    {
        let handshake = Request {
            sent: 0,
            answered: Some(1),
            is_write: false,
            is_handled: false,
            behind: 0,
        };
        let world = World {
            proof: Proof::new(start, start + Duration::from_secs(1), timeout / 3, is_told),
            is_told,
            now: 1,
            touches: vec![handshake],
            asked: Vec::new(),
            proved: None,
        };
        let fingerprint = BuildHasherDefault::<Fingerprint>::default();
        let mut reached =
            HashSet::<_, BuildHasherDefault<Fingerprint>>::from_iter(
                [fingerprint.hash_one(&world)],
            );
        let mut frontier = vec![world];
        while let Some(world) = frontier.pop() {
            proved.insert((is_told, world.proved));
            world.each_step(start, way, &mut |after| {
                if reached.insert(fingerprint.hash_one(&after)) {
                    frontier.push(after);
                }
            });
            assert!(reached.len() < 20_000_000, "more than is meant");
        }
        count += reached.len();
    }
    // None, the handshake, and the pings that two requests can still prove.
    let all = [false, true]
        .map(|is_told| [None, Some(0), Some(1), Some(2), Some(3)].map(|from| (is_told, from)));
    assert_eq!(proved, HashSet::from_iter(all.concat()));
    println!("{count} orders of touches and requests");
}

/// Touches that are so close to each other that only one of them counts, and a first request at each
/// instant around the end of the wait: what is proved was sent in truth, and answered long enough
/// before.
#[test]
fn touches_that_are_close_to_each_other_are_not_mixed() {
    let start = start();
    let unit = Duration::from_secs(1);
    let wait = 20 * unit;
    let close = || (0..5).flat_map(|sent| (sent..6).map(move |answered| (sent, answered)));
    let moments = (16..27).flat_map(|at| [at * unit, at * unit + Duration::from_nanos(1)]);
    let mut cases = 0;
    for (one, other) in close().flat_map(|one| close().map(move |other| (one, other))) {
        if one.0 > other.0 || one.1 > other.1 {
            continue;
        }
        for asked in moments.clone() {
            let mut proof = Proof::new(start, start, wait, false);
            for (sent, answered) in [one, other] {
                proof.touched(start + sent * unit, start + answered * unit);
            }
            let asked = asked.checked_sub(unit / 1_000_000_000).unwrap();
            for (xid, is_write) in [(1, false), (2, true)] {
                proof.sent(start + asked, Xid(xid), is_write);
                let proved = proof.answered(Xid(xid), true);
                let Some(proved) = proved.map(|it| it.duration_since(start)) else {
                    assert!(!is_write || asked < wait, "nothing is proved at {asked:?}");
                    continue;
                };
                let is_it = |(sent, answered): (u32, u32)| {
                    sent * unit == proved && answered * unit + wait <= asked
                };
                let touches = [(0, 0), one, other];
                assert!(
                    touches.into_iter().any(is_it),
                    "{one:?} {other:?}: {proved:?} at {asked:?}"
                );
                cases += 1;
            }
        }
    }
    assert!(cases > 1_000, "{cases}");
}

/// A new session is proved by its handshake.
#[test]
fn the_lease_lasts_as_long_as_the_proof_says() {
    let start = start();
    let servers = "zk1:2181".parse().expect("a server");
    let mut machine = Machine::<()>::new(Config::new(&servers, 1), start);
    let handle = |machine: &mut Machine<()>, seconds, input| {
        machine.handle(start + Duration::from_secs(seconds), input);
        while machine.poll_output().is_some() {}
    };
    handle(&mut machine, 0, Input::Tick);
    handle(&mut machine, 1, Input::Connected);
    machine.transmit(start + Duration::from_secs(1), &mut BytesMut::new());
    let timeout_ms = 16_000_i32;
    let mut answer = [0; 4].to_vec();
    answer.extend(timeout_ms.to_be_bytes());
    answer.extend(5_i64.to_be_bytes());
    answer.extend([&16_i32.to_be_bytes()[..], &[7; 16], &[0]].concat());
    handle(&mut machine, 3, Input::Frame(Bytes::from(answer)));
    let (over, under) = constant(1);
    let lease = Duration::from_secs(16 * over / under);
    let handshake = start + Duration::from_secs(1);
    assert_eq!(machine.lease_deadline(), Some(handshake + lease));
}
