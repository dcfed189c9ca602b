//! Pings and silence, and that no server makes the machine spin.

use std::{collections::VecDeque, time::Duration};

use lockkeeper_proto::{
    EventType, OpCode, Request, Xid,
    records::{Empty, SyncResponse},
};

use super::{
    pair::{ID, Pair, SECOND, SIXTH, THIRD, TIMEOUT},
    requests::{granted, lost, sync},
};
use crate::{Cause, Effect, Error, State, machine::Input};

#[test]
fn a_ping_is_sent_every_sixth_of_the_timeout_whatever_else_is_sent() {
    let mut pair = Pair::connected(|_| {});
    let moment = Duration::from_nanos(1);
    pair.wait(SIXTH.checked_sub(moment).unwrap());
    assert_eq!(pair.ops(), []);
    pair.wait(moment);
    assert_eq!(pair.requests(), [(Xid::PING, Request::Ping(Empty {}))]);
    pair.pong();
    pair.wait(SECOND);
    pair.submit(sync("/"));
    pair.serve();
    pair.wait(SIXTH.checked_sub(SECOND).unwrap());
    assert_eq!(pair.ops(), [OpCode::PING]);
}

#[test]
fn one_ping_is_under_way_at_a_time() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(THIRD);
    pair.event(EventType::NODE_CREATED, "/of no interest");
    pair.wait(THIRD);
    assert_eq!(pair.ops(), [OpCode::PING]);
    assert_eq!(pair.machine.link().state(), State::Connected);
}

#[test]
fn a_silent_server_is_given_up_after_two_thirds_of_the_timeout() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(SECOND);
    let token = pair.submit(sync("/"));
    pair.wait(Duration::from_nanos(4_999_999_999));
    assert_eq!(pair.states(), []);
    pair.wait(Duration::from_nanos(1));
    assert_eq!(pair.states(), [State::Suspended]);
    let why = lost("zk1", Cause::Silent(2 * THIRD));
    assert_eq!(pair.error(token), Error::lost(why));
    assert!(pair.has_disconnected());
}

/// Once, a client slept for longer than its session lived. It took old events for signs of life. It
/// also renewed its lease with the reply of a follower that did not know of the expiry yet, when
/// another client already had the lock.
#[test]
fn frames_that_arrived_during_a_long_sleep_prove_nothing() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(SECOND);
    let token = pair.submit(sync("/"));
    let [(xid, _)] = pair.requests()[..] else {
        panic!("one request");
    };
    let lease = pair.machine.lease_deadline();
    pair.now += 3 * TIMEOUT;
    let body = lockkeeper_proto::Response::Sync(SyncResponse { path: "/".into() });
    pair.reply(xid, 1, Ok(body));
    assert_eq!(pair.machine.lease_deadline(), lease);
    assert_eq!(pair.states(), [State::Suspended]);
    let why = lost("zk1", Cause::Silent(2 * THIRD));
    assert_eq!(pair.error(token), Error::lost(why));
}

#[test]
fn every_frame_is_a_sign_of_life() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(5 * SECOND);
    pair.event(EventType::NODE_CREATED, "/of no interest");
    pair.wait(2 * SECOND);
    assert_eq!(pair.states(), []);
}

/// Once, a client whose ping was lost sent nothing more as long as events arrived, and so lost its
/// session.
#[test]
fn a_server_that_sends_events_and_answers_no_ping_is_given_up() {
    let mut pair = Pair::connected(|_| {});
    while pair.machine.link().state().is_connected() {
        pair.wait(SECOND);
        pair.event(EventType::NODE_CREATED, "/of no interest");
        assert!(pair.now - pair.born < 2 * TIMEOUT);
    }
    // A ping after a sixth, and two thirds without an answer, in steps of a second.
    assert_eq!(pair.now - pair.born, 8 * SECOND);
    assert_eq!(pair.last_cause(), Cause::RequestTimeout(2 * THIRD));
}

#[test]
fn an_unanswered_request_costs_the_connection_although_pings_are_answered() {
    for (setting, limit) in [(None, TIMEOUT), (Some(20 * SECOND), 20 * SECOND)] {
        let mut pair = Pair::connected(|config| config.request_timeout = setting);
        let token = pair.submit(sync("/"));
        let later = loop {
            pair.wait(SECOND);
            if pair.ops().contains(&OpCode::PING) {
                pair.pong();
            }
            if pair.is_settled(token) {
                break pair.now - pair.born;
            }
        };
        assert_eq!(later, limit);
        let error = pair.error(token);
        let why = lost("zk1", Cause::RequestTimeout(limit));
        assert_eq!(error, Error::lost(why));
        assert_eq!(error.effect(), Effect::Unknown);
        assert!(error.is_transient());
    }
}

/// Submits this many requests, which the server receives at once.
fn received(pair: &mut Pair, requests: usize) -> VecDeque<Xid> {
    for _ in 0..requests {
        pair.submit_quietly(sync("/"));
    }
    pair.pump();
    pair.requests().iter().map(|(xid, _)| *xid).collect()
}

/// Answers the oldest of these requests.
fn answer_one(pair: &mut Pair, received: &mut VecDeque<Xid>) {
    let xid = received.pop_front().expect("a request");
    let body = lockkeeper_proto::Response::Sync(SyncResponse { path: "/".into() });
    pair.reply(xid, 1, Ok(body));
}

/// Once, a burst of requests made the client leave the server that was answering them: the ping had
/// to wait for its turn in the server's queue.
#[test]
fn a_ping_may_wait_as_long_as_the_requests_ahead_of_it_are_answered() {
    let mut pair = Pair::connected(|_| {});
    let mut requests = received(&mut pair, 20);
    while !requests.is_empty() {
        pair.wait(5 * SECOND);
        answer_one(&mut pair, &mut requests);
        assert!(pair.machine.link().state().is_connected());
    }
    assert_eq!(pair.ops(), [OpCode::PING]);
    // Nothing is ahead of the ping any more. It gets the time that it would have had alone,
    // whatever else comes.
    for _ in 0..5 {
        pair.wait(SECOND);
        pair.event(EventType::NODE_CREATED, "/of no interest");
        assert!(pair.machine.link().state().is_connected());
    }
    pair.wait(SECOND);
    assert_eq!(pair.last_cause(), Cause::RequestTimeout(2 * THIRD));
}

/// Replies come in order, so an answer to a request behind the ping shows that the ping itself is
/// lost. Some servers count only pings, and would end the session of a client that only reads.
#[test]
fn replies_to_later_requests_do_not_excuse_a_lost_ping() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(SIXTH);
    assert_eq!(pair.ops(), [OpCode::PING]);
    let sent = pair.now;
    while pair.machine.link().state().is_connected() {
        pair.wait(SECOND);
        let mut requests = received(&mut pair, 1);
        if pair.machine.link().state().is_connected() {
            answer_one(&mut pair, &mut requests);
        }
        assert!(pair.now - sent <= 2 * THIRD);
    }
    assert_eq!(pair.now - sent, 2 * THIRD);
    assert_eq!(pair.last_cause(), Cause::RequestTimeout(2 * THIRD));
}

#[test]
fn a_request_may_wait_as_long_as_those_ahead_of_it_are_answered() {
    let limit = 4 * SECOND;
    let mut pair = Pair::connected(|config| config.request_timeout = Some(limit));
    let mut requests = received(&mut pair, 10);
    for _ in 0..9 {
        pair.wait(3 * SECOND);
        answer_one(&mut pair, &mut requests);
        assert!(pair.machine.link().state().is_connected());
    }
    let progress = pair.now;
    while pair.machine.link().state().is_connected() {
        pair.wait(SECOND);
        pair.event(EventType::NODE_CREATED, "/of no interest");
        assert!(pair.now - progress <= limit);
    }
    assert_eq!(pair.now - progress, limit);
    assert_eq!(pair.last_cause(), Cause::RequestTimeout(limit));
}

/// Once, a client waited 16 days for a silent server that had granted a timeout of 25 days.
#[test]
fn a_very_long_session_timeout_does_not_slow_down_the_timers() {
    let days = Duration::from_millis(i32::MAX.unsigned_abs().into());
    for (asked, silence) in [(TIMEOUT, 40 * SECOND), (300 * SECOND, 200 * SECOND)] {
        let mut pair = Pair::new(|config| config.session_timeout = asked);
        pair.reach();
        pair.accept(ID, days);
        assert_eq!(pair.machine.link().session_timeout(), days);
        let connected = pair.now;
        pair.tick();
        assert_eq!(
            (pair.ops(), pair.now - connected),
            (vec![OpCode::PING], 10 * SECOND)
        );
        pair.wait(silence);
        assert_eq!(pair.last_cause(), Cause::Silent(silence));
        assert!(pair.machine.lease_deadline() > Some(connected + days / 2));
    }
}

/// What a server does on every connection.
#[derive(Clone, Copy, Debug)]
enum ServerKind {
    Unreachable,
    SilentInHandshake,
    Closes,
    Refuses,
    Accepts,
    AcceptsAndCloses,
    Answers,
    OtherSession,
}

/// Ticks a machine 300 times, each time at its next deadline, while the server behaves as this
/// kind. Ticks and connections must not follow each other too fast.
fn assert_does_not_spin(kind: ServerKind, timeout_ms: i32, asked: Duration) {
    let mut pair = Pair::new(|config| config.session_timeout = asked);
    let mut id = 0;
    let (mut idle, mut connections) = (0, Vec::new());
    for _ in 0..300 {
        let (before, attempts) = (pair.now, pair.attempts);
        // The only server grants too short a session.
        if pair.machine.link().is_ended() {
            assert!(timeout_ms < 60, "{kind:?}, {timeout_ms} ms: it has ended");
            return;
        }
        if pair.machine.outstanding() == 0 {
            pair.submit(sync("/"));
        }
        pair.tick();
        idle = if pair.now > before { 0 } else { idle + 1 };
        assert!(idle < 4, "{kind:?}, {timeout_ms} ms: it spins");
        if pair.attempts > attempts {
            connections.push(pair.now);
            match kind {
                ServerKind::Unreachable => {
                    let refused = std::io::ErrorKind::ConnectionRefused.into();
                    pair.handle(Input::Disconnected(Cause::from(&refused)));
                }
                ServerKind::Closes => {
                    pair.stand();
                    pair.cut();
                }
                ServerKind::SilentInHandshake => drop(pair.stand()),
                ServerKind::Refuses => {
                    pair.stand();
                    pair.refuse_session();
                }
                _ => {
                    let asked_for = pair.stand();
                    if matches!(kind, ServerKind::OtherSession) || asked_for.session_id.0 == 0 {
                        id += 1;
                    }
                    let session_id = lockkeeper_proto::SessionId(id);
                    pair.answer_handshake(&granted(timeout_ms, session_id));
                }
            }
        }
        match kind {
            ServerKind::Answers => pair.serve(),
            ServerKind::AcceptsAndCloses | ServerKind::OtherSession => pair.cut(),
            _ => drop(pair.requests()),
        }
        pair.outputs.clear();
    }
    let took = pair.now - pair.born;
    assert!(
        took > SECOND,
        "{kind:?}, {timeout_ms} ms: 300 ticks in {took:?}"
    );
    for ten in connections.windows(10) {
        let took = ten[9] - ten[0];
        assert!(
            took > 2 * SECOND,
            "{kind:?}, {timeout_ms} ms: 10 connections in {took:?}"
        );
    }
}

#[test]
fn no_server_and_no_timeout_make_the_machine_spin() {
    for kind in [
        ServerKind::Unreachable,
        ServerKind::SilentInHandshake,
        ServerKind::Closes,
        ServerKind::Refuses,
        ServerKind::Accepts,
        ServerKind::AcceptsAndCloses,
        ServerKind::Answers,
        ServerKind::OtherSession,
    ] {
        for timeout_ms in [1, 59, 10_000, i32::MAX] {
            for asked in [Duration::ZERO, TIMEOUT, Duration::MAX] {
                assert_does_not_spin(kind, timeout_ms, asked);
            }
        }
    }
}

#[test]
fn extreme_settings_do_no_harm() {
    for length in [Duration::ZERO, Duration::from_nanos(1), Duration::MAX] {
        let mut pair = Pair::new(|config| {
            config.session_timeout = length;
            config.server_timeout = Some(length);
            config.request_timeout = Some(length);
        });
        let asked_for = pair.reach().timeout_ms;
        assert_eq!(asked_for, if length > SECOND { i32::MAX } else { 1 });
        pair.accept(ID, TIMEOUT);
        assert!(pair.machine.lease_deadline().is_some());
        pair.submit(sync("/"));
        pair.tick();
        pair.tick();
        pair.machine.close(pair.now);
        pair.wait(2 * THIRD);
        assert!(pair.machine.link().is_ended());
    }
}
