//! With how much of its lease a lock is granted, and what is sent when less is left.
//!
//! Not here: what proves a lease (`proof`).

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, OpCode, Request};

use super::{
    pair::{Pair, THIRD, TIMEOUT},
    proof::{answer, keep, keep_for, lease, length, old_connection, ping, proof_reply, write},
};
use crate::machine::Output;

/// How often those who wait for the lease were told.
fn renewals(pair: &Pair) -> usize {
    let is_renewed = |output: &&Output<u32>| matches!(output, Output::LeaseRenewed);
    pair.outputs.iter().filter(is_renewed).count()
}

/// The turn of a contender comes while its lease has less than a quarter left. Behind a write, which
/// is the first request of a proof, the second one would wait for another write if nobody waited.
#[test]
fn a_lease_that_is_nearly_over_is_renewed_at_once() {
    let proof = [OpCode::PING, OpCode::SYNC, OpCode::MULTI];
    for (has_written, sent) in [(false, &proof[..]), (true, &[OpCode::PING, OpCode::MULTI])] {
        let mut pair = Pair::connected(|_| {});
        for _ in 0..3 {
            assert!(!keep_for(&mut pair, "a").1);
            ping(&mut pair);
        }
        assert!(keep_for(&mut pair, "a").1, "before the next ping");
        pair.wait(TIMEOUT * 2 / 15);
        if has_written {
            let xid = write(&mut pair);
            answer(&mut pair, xid);
        }
        let since = pair.now;
        assert!(lease(&pair).unwrap() > since + TIMEOUT / 5);
        assert!(!pair.machine.is_lease_good(since, since));
        let _token = keep(&mut pair);
        pair.machine.await_lease(since);
        // The ping that is due where a lease is kept, and the requests of the proof.
        let mut ops = Vec::new();
        while ops.len() < sent.len() {
            assert_eq!(renewals(&pair), 0);
            pair.tick();
            assert_eq!(pair.now, since, "it waits");
            for (xid, request) in pair.requests() {
                ops.push(request.op());
                pair.reply(xid, 7, Ok(proof_reply(&request)));
            }
        }
        assert_eq!(ops, sent);
        assert_eq!(renewals(&pair), 1);
        assert!(pair.machine.is_lease_good(since, since));
        assert!(lease(&pair).unwrap() > since + TIMEOUT * 2 / 5);
    }
}

/// Otherwise servers that answer late would keep a waiter from its lock for ever.
#[test]
fn after_a_quarter_of_waiting_less_of_the_lease_is_enough() {
    let mut pair = Pair::connected(|_| {});
    let (connected, moment) = (pair.now, Duration::from_millis(1));
    ping(&mut pair);
    let mut is_good = |now, since| {
        pair.machine
            .is_lease_good(connected + now, connected + since)
    };
    let (quarter, half) = (TIMEOUT * 5 / 8, TIMEOUT * 3 / 8);
    assert!(is_good(quarter, quarter));
    assert!(!is_good(quarter + moment, quarter + moment));
    assert!(is_good(2 * half, half));
    assert!(!is_good(2 * half, half + moment));
    assert!(!is_good(length(), half), "it is over");
}

/// The disk of the server is slow: the lease would end before anything newer is proved.
#[test]
fn a_lease_that_ends_before_the_next_proof_is_not_good() {
    for (slow, is_good) in [(TIMEOUT / 20, true), (TIMEOUT / 5, false)] {
        let mut pair = Pair::connected(|_| {});
        let create = write(&mut pair);
        pair.wait(slow);
        answer(&mut pair, create);
        pair.wait(TIMEOUT / 30);
        let now = pair.now;
        assert!(lease(&pair).unwrap() > now + TIMEOUT / 2);
        assert_eq!(pair.machine.is_lease_good(now, now), is_good);
        if is_good {
            assert_eq!(pair.machine.slow(), None);
            continue;
        }
        assert_eq!(pair.machine.slow().map(|it| it.answer), Some(slow));
        let _token = keep(&mut pair);
        pair.machine.await_lease(now);
        while renewals(&pair) == 0 {
            pair.tick();
            assert!(pair.now < now + TIMEOUT, "it waits for ever");
            let answers = pair.requests();
            if answers.iter().any(|(_, request)| request.op().is_write()) {
                pair.wait(slow);
            }
            for (xid, request) in answers {
                pair.reply(xid, 7, Ok(proof_reply(&request)));
            }
        }
        assert!(pair.now > now + THIRD / 2, "the proof is not under way");
    }
}

/// The lease runs out then, although servers answer.
#[test]
fn a_server_that_throttles_writes_is_told_with_the_time_of_the_first_one() {
    let mut pair = Pair::connected(|_| {});
    let mut refuse = |code, wait| {
        let xid = write(&mut pair);
        pair.reply(xid, 7, Err(code));
        pair.wait(wait);
        pair.machine.link().throttled(pair.now)
    };
    let (throttled, second) = (ErrorCode::THROTTLED_OP, TIMEOUT / 60);
    assert_eq!(refuse(ErrorCode::NO_NODE, second), None);
    assert_eq!(refuse(throttled, second), Some(second));
    assert_eq!(refuse(throttled, second), Some(2 * second));
    assert_eq!(refuse(ErrorCode::NO_NODE, second), None);
    assert_eq!(refuse(throttled, second), Some(second));
}

/// The first lock of a session that was quiet for long.
#[test]
fn a_lease_that_has_ended_is_renewed_at_once() {
    let (mut pair, _) = old_connection();
    let create = write(&mut pair);
    answer(&mut pair, create);
    let _token = keep(&mut pair);
    pair.machine.await_lease(pair.now);
    assert_eq!(renewals(&pair), 0);
    pair.tick();
    let [(xid, ref request @ Request::Multi(_))] = pair.requests()[..] else {
        panic!("one write");
    };
    pair.reply(xid, 7, Ok(proof_reply(request)));
    assert_eq!(renewals(&pair), 1);
    assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6);
}
