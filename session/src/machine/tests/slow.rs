//! A lease that is kept proved by servers that are slow.
//!
//! Not here: what proves a lease (`proof`), when a server is left (`silent`).

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{Request, Xid};

use super::{
    pair::{Pair, TIMEOUT},
    proof::{keep, lease, proof_reply},
    requests::delete,
};
use crate::machine::Input;

/// Lets time pass until an answer comes, or a deadline.
fn step(pair: &mut Pair, due: &mut VecDeque<(Instant, (Xid, Request))>) {
    let next = pair.machine.next_deadline().expect("a ping");
    let answer = due.front().map(|(at, _)| *at);
    pair.now = next.min(answer.unwrap_or(next)).max(pair.now);
    while due.front().is_some_and(|(at, _)| *at <= pair.now) {
        if let Some((_, (xid, request))) = due.pop_front() {
            pair.reply(xid, 7, Ok(proof_reply(&request)));
        }
    }
    pair.handle(Input::Tick);
}

/// Each answer takes a seventh of the timeout, so proofs must overlap, and none may begin late. What
/// users write meanwhile holds up nothing.
#[test]
fn a_lease_that_is_kept_stands_slow_answers() {
    for users in [0, 1, 4, 7, 20] {
        let mut pair = Pair::connected(|_| {});
        let _token = keep(&mut pair);
        let (slow, mut due, end) = (TIMEOUT / 7, VecDeque::new(), pair.now + 60 * TIMEOUT);
        let mut written = pair.now;
        while pair.now < end {
            step(&mut pair, &mut due);
            if users > 0 && pair.now >= written + TIMEOUT / users {
                written = pair.now;
                pair.submit(delete("/a"));
            }
            let at = pair.now + slow;
            due.extend(pair.requests().into_iter().map(|request| (at, request)));
            assert!(lease(&pair).unwrap() > pair.now, "{users} writes");
        }
    }
}

/// A disk that takes as long for each write, and takes the next one only then. Regression: once the
/// lease had ended, the writes that were to prove it stood in each other's way for ever.
///
/// Not here: writes that take a little less than a sixth of the timeout, as 16 hundredths. There a
/// confirmation comes a moment too early each time, and the lease stays as it is.
#[test]
fn a_lease_that_has_ended_is_proved_again_on_a_slow_disk() {
    for percent in [5, 10, 14, 15, 18, 20] {
        let mut pair = Pair::connected(|_| {});
        let _token = keep(&mut pair);
        assert!(pair.machine.is_lease_good(pair.now, pair.now), "a grant");
        let begin = pair.now;
        let [mut stall, mut written] = [begin + 5 * TIMEOUT, begin];
        let (mut due, mut elapsed) = (VecDeque::new(), None);
        while pair.now < begin + 30 * TIMEOUT {
            step(&mut pair, &mut due);
            for (xid, request) in pair.requests() {
                let mut at = pair.now + TIMEOUT / 1000;
                if pair.now > stall {
                    (at, stall) = (at + TIMEOUT * 11 / 20, begin + 100 * TIMEOUT);
                }
                if request.op().is_write() {
                    written = written.max(at) + TIMEOUT * percent / 100;
                    at = written;
                }
                let behind = due.back().map_or(at, |(last, _)| at.max(*last));
                due.push_back((behind, (xid, request)));
            }
            if lease(&pair).unwrap() <= pair.now {
                elapsed = Some(pair.now);
            }
        }
        let elapsed = elapsed.expect("the disk has stalled");
        assert!(
            elapsed < begin + 11 * TIMEOUT,
            "{percent}: {:?}",
            elapsed - begin
        );
    }
}
