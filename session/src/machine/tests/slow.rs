//! A lease that is kept proved by servers that are slow.
//!
//! Not here: what proves a lease (`proof`), when a server is left (`silent`).

use std::collections::VecDeque;

use super::{
    pair::{Pair, TIMEOUT},
    proof::{keep, lease, proof_reply},
};
use crate::machine::Input;

/// Each answer takes a seventh of the timeout, so proofs must overlap, and none may begin late.
#[test]
fn a_lease_that_is_kept_stands_slow_answers() {
    let mut pair = Pair::connected(|_| {});
    let _token = keep(&mut pair);
    let (slow, mut due, end) = (TIMEOUT / 7, VecDeque::new(), pair.now + 20 * TIMEOUT);
    while pair.now < end {
        let next = pair.machine.next_deadline().expect("a ping");
        pair.now = due
            .front()
            .map_or(next, |(at, _)| next.min(*at))
            .max(pair.now);
        while due.front().is_some_and(|(at, _)| *at <= pair.now) {
            if let Some((_, (xid, request))) = due.pop_front() {
                pair.reply(xid, 7, Ok(proof_reply(&request)));
            }
        }
        pair.handle(Input::Tick);
        let at = pair.now + slow;
        due.extend(pair.requests().into_iter().map(|request| (at, request)));
        assert!(lease(&pair).unwrap() > pair.now);
    }
}

/// A disk that takes as long for each write, and takes the next one only then. Regression: once the
/// lease had ended, the writes that were to prove it stood in each other's way for ever.
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
            let next = pair.machine.next_deadline().expect("a ping");
            let answer = due.front().map(|(at, _)| *at);
            pair.now = next.min(answer.unwrap_or(next)).max(pair.now);
            while due.front().is_some_and(|(at, _)| *at <= pair.now) {
                if let Some((_, (xid, request))) = due.pop_front() {
                    pair.reply(xid, 7, Ok(proof_reply(&request)));
                }
            }
            pair.handle(Input::Tick);
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
