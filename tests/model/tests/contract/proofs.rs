//! What the answers on one connection prove: all orders of touches and writes, as `lease` of the
//! proofs has them.

use std::{
    collections::HashSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
    time::{Duration, Instant},
};

use lockkeeper_session::{
    machine::{Bytes, BytesMut, Config, Input, Machine, Proof},
    proto::Xid,
};

/// The session timeout, in units of time.
const TIMEOUT: u64 = 6;
/// How long is explored, and how many requests.
const END: u64 = 5;
const TOUCHES: usize = 3;
const WRITES: usize = 3;

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
    is_transaction: bool,
    /// How many writes had been answered when it was sent. They are answered in their order.
    behind: usize,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    proof: Proof,
    is_resumed: bool,
    now: u64,
    /// The handshake is the first one.
    touches: Vec<Request>,
    writes: Vec<Request>,
    /// The last touch that was proved.
    proved: Option<u64>,
}

impl World {
    /// Whether two writes, or one behind a handshake that resumed the session, prove the touch that
    /// was sent at this time.
    fn is_proved(&self, from: u64) -> bool {
        let writes = || {
            self.writes
                .iter()
                .enumerate()
                .filter(|(_, it)| it.is_transaction)
        };
        let is_second_to = |first: usize| writes().any(|(_, second)| second.behind > first);
        self.touches.iter().enumerate().any(|(at, touch)| {
            let is_late =
                |write: &Request| touch.answered.is_some_and(|it| it + wait() <= write.sent);
            let is_resume = self.is_resumed && at == 0;
            let mut firsts = writes().filter(|(_, write)| is_late(write));
            let is_proved = firsts.any(|(first, _)| is_second_to(first));
            touch.sent == from && (is_proved || is_resume && writes().next().is_some())
        })
    }

    fn each_step(&self, start: Instant, visit: &mut impl FnMut(Self)) {
        let at = |time: u64| start + Duration::from_secs(time);
        let xid = |write: usize| Xid(i32::try_from(write).expect("few writes"));
        let behind = self
            .writes
            .iter()
            .filter(|it| it.answered.is_some())
            .count();
        let request = Request {
            sent: self.now,
            answered: None,
            is_transaction: false,
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
            if self.touches.len() < TOUCHES {
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
        if self.writes.len() < WRITES {
            step(&|it| {
                it.proof.sent(at(it.now), xid(it.writes.len()));
                it.writes.push(request);
            });
        }
        if behind == self.writes.len() {
            return;
        }
        for is_transaction in [true, false] {
            step(&|it| {
                it.writes[behind].answered = Some(it.now);
                it.writes[behind].is_transaction = is_transaction;
                if let Some(touch) = it.proof.answered(xid(behind), is_transaction) {
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
fn only_two_writes_that_are_late_enough_prove_a_touch() {
    let start = start();
    let timeout = Duration::from_secs(TIMEOUT);
    let (mut count, mut proved) = (0, HashSet::new());
    for is_resumed in [false, true] {
        let handshake = Request {
            sent: 0,
            answered: Some(1),
            is_transaction: false,
            behind: 0,
        };
        let world = World {
            proof: Proof::new(start, start + Duration::from_secs(1), timeout, is_resumed),
            is_resumed,
            now: 1,
            touches: vec![handshake],
            writes: Vec::new(),
            proved: None,
        };
        let fingerprint = BuildHasherDefault::<DefaultHasher>::default();
        let mut reached = HashSet::from([fingerprint.hash_one(&world)]);
        let mut frontier = vec![world];
        while let Some(world) = frontier.pop() {
            proved.insert((is_resumed, world.proved));
            world.each_step(start, &mut |after| {
                if reached.insert(fingerprint.hash_one(&after)) {
                    frontier.push(after);
                }
            });
            assert!(reached.len() < 20_000_000, "more than is meant");
        }
        count += reached.len();
    }
    // None, the handshake, and the pings that two writes can still prove.
    let all = [false, true].map(|is_resumed| {
        [None, Some(0), Some(1), Some(2), Some(3)].map(|from| (is_resumed, from))
    });
    assert_eq!(proved, HashSet::from_iter(all.concat()));
    println!("{count} orders of touches and writes");
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
