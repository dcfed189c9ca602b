//! A server that owes an answer is left for another one that can be reached.

use std::{sync::Arc, time::Instant};

use lockkeeper_proto::{OpCode, SessionId};

use super::{
    pair::{ID, Pair, SECOND, TIMEOUT},
    proof::proof_reply,
    requests::{delete, servers, sound_reply},
};
use crate::{
    Cause, Endpoint,
    machine::{Input, LeaseToken, Output},
};

/// What the machine has asked the transport to reach for since the outputs were last taken.
fn reached_for(pair: &mut Pair) -> Vec<Option<Arc<Endpoint>>> {
    let outputs = std::mem::take(&mut pair.outputs).into_iter();
    let reach = outputs.filter_map(|output| match output {
        Output::Reach(other) => Some(other),
        _ => None,
    });
    reach.collect()
}

fn kept(names: &'static str) -> (Pair, LeaseToken) {
    let mut pair = Pair::connected(servers(names));
    let (directory, name) = ("/lock".into(), "n".into());
    let (token, _) = pair.machine.keep_lease(directory, name);
    (pair, token)
}

/// The server answers what it was asked.
fn answer_all(pair: &mut Pair) {
    for (xid, request) in pair.requests() {
        pair.reply(xid, 1, Ok(proof_reply(&request)));
    }
}

/// The server answers nothing until the machine reaches for another one. Returns that, and how long it
/// took.
fn fall_silent(pair: &mut Pair) -> (Arc<Endpoint>, Instant) {
    pair.requests();
    let since = pair.now;
    for _ in 0..1000 {
        pair.tick();
        assert!(pair.now < since + TIMEOUT, "it waits for long");
        if let [Some(other)] = &reached_for(pair)[..] {
            return (other.clone(), since);
        }
    }
    panic!("it spins");
}

#[test]
fn a_silent_server_is_left_long_before_the_lease_ends() {
    let (mut pair, _token) = kept("zk1,zk2,zk3");
    let first = pair.machine.link().endpoint().cloned();
    let lease = |pair: &Pair| pair.machine.lease_deadline().unwrap();
    let (other, since) = fall_silent(&mut pair);
    assert!(pair.now <= since + TIMEOUT / 4, "{:?}", pair.now - since);
    assert!(
        pair.machine.link().is_connected(),
        "the other one may be down"
    );
    pair.handle(Input::Reached(other.clone()));
    let connects = |output: &Output<u32>| matches!(output, Output::Connect(to) if *to == other);
    assert!(pair.outputs.iter().any(connects));
    assert!(matches!(pair.last_cause(), Cause::Silent(_)));
    assert_ne!(first.as_ref(), Some(&*other));
    pair.stand();
    pair.accept(ID, TIMEOUT);
    let before = lease(&pair);
    assert!(pair.now < before, "the lease has ended");
    // One write behind the handshake proves it.
    while pair.now < before && lease(&pair) == before {
        pair.tick();
        answer_all(&mut pair);
    }
    assert!(lease(&pair) > before + TIMEOUT / 8);
}

/// So work that would be ended an eighth of the session timeout ahead of the end of the lease goes on.
#[test]
fn a_silent_server_is_left_sooner_when_the_lease_is_nearly_over() {
    for moment in 0..30 {
        let (mut pair, _token) = kept("zk1,zk2,zk3");
        let begin = pair.now + TIMEOUT + moment * TIMEOUT / 100;
        while pair.now < begin {
            pair.tick();
            answer_all(&mut pair);
        }
        let (_, since) = fall_silent(&mut pair);
        let until = pair.machine.lease_deadline().unwrap();
        assert!(
            pair.now + TIMEOUT / 8 < until,
            "{:?} of {:?}",
            pair.now - since,
            until - since
        );
    }
}

#[test]
fn a_server_that_has_answered_meanwhile_is_not_left() {
    let (mut pair, _token) = kept("zk1,zk2");
    let (other, _) = fall_silent(&mut pair);
    pair.pong();
    pair.handle(Input::Reached(other));
    assert_eq!(reached_for(&mut pair), [None]);
    assert!(pair.machine.link().is_connected());
}

#[test]
fn a_client_that_is_being_closed_goes_to_no_other_server() {
    let (mut pair, _token) = kept("zk1,zk2");
    let (other, _) = fall_silent(&mut pair);
    pair.machine.close(pair.now);
    pair.requests();
    pair.handle(Input::Reached(other));
    assert_eq!(reached_for(&mut pair), [None]);
    assert!(pair.machine.link().is_connected());
}

#[test]
fn a_server_is_not_left_without_another_one_that_owes_nothing() {
    let (mut pair, _token) = kept("zk1");
    let since = pair.now;
    while pair.now < since + TIMEOUT / 2 {
        pair.tick();
        assert_eq!(reached_for(&mut pair), []);
    }
}

/// It owes four times as long as the slowest answer of late has taken.
#[test]
fn a_slow_server_is_not_left() {
    let (mut pair, _token) = kept("zk1,zk2");
    pair.submit(delete("/a"));
    let (xid, request) = pair.request().unwrap();
    pair.wait(TIMEOUT / 9);
    pair.reply(xid, 1, Ok(sound_reply(&request)));
    reached_for(&mut pair);
    let since = pair.now;
    fall_silent(&mut pair);
    assert!(pair.now >= since + TIMEOUT * 4 / 9);
}

#[test]
fn a_client_reaches_for_another_server_once_in_a_session_timeout() {
    let (mut pair, _token) = kept("zk1,zk2");
    fall_silent(&mut pair);
    let since = pair.now;
    while pair.machine.link().is_connected() && pair.now + SECOND < since + TIMEOUT {
        assert_eq!(reached_for(&mut pair), []);
        pair.tick();
    }
    assert!(!pair.ops().contains(&OpCode::CLOSE_SESSION));
}

/// A request may wait for a slow disk, and a ping behind it waits with it.
#[test]
fn what_is_behind_a_request_is_owed_as_long_as_the_request() {
    for (is_request_first, owed) in [(true, TIMEOUT / 5), (false, TIMEOUT / 8)] {
        let mut pair = Pair::connected(servers("zk1,zk2"));
        if !is_request_first {
            pair.tick();
            assert_eq!(pair.ops(), [OpCode::PING]);
        }
        let first = pair.now;
        pair.wait(TIMEOUT / 100);
        pair.submit(delete("/a"));
        let begin = if is_request_first { pair.now } else { first };
        fall_silent(&mut pair);
        assert_eq!(pair.now - begin, owed, "{is_request_first}");
    }
}

#[test]
fn clients_of_one_server_leave_it_at_different_moments() {
    let owed = |number: i64| {
        let mut pair = Pair::new(servers("zk1,zk2"));
        pair.reach();
        pair.accept(SessionId(ID.0 + number), TIMEOUT);
        pair.submit(delete("/a"));
        let begin = pair.now;
        fall_silent(&mut pair);
        pair.now - begin
    };
    let step = TIMEOUT / 32 / 16;
    assert_eq!(
        [0, 1, 15, 16].map(owed),
        [0, 1, 15, 0].map(|steps| TIMEOUT / 5 + steps * step)
    );
}
