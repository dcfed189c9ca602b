//! The lease that is proved: two writes in a row show that the leader has heard of the session.
//!
//! Not here: all orders of touches and writes (`tests/model/tests/contract/proofs.rs`), and that no
//! lease outlives its session whatever fails (`tests/model`).

use std::time::{Duration, Instant};

use lockkeeper_proto::{ErrorCode, OpCode, Request, Response, Xid, records::Empty};

use super::{
    pair::{ID, Pair, SECOND, THIRD, TIMEOUT},
    requests::{delete, get, sound_reply, sync},
};
use crate::machine::{Input, Output, config::SHORTEST_TIMEOUT};

/// From a touch to the end of the lease that it proves.
fn length() -> Duration {
    TIMEOUT * 15 / 16
}

fn lease(pair: &Pair) -> Option<Instant> {
    pair.machine.lease_deadline()
}

/// The client sends a ping, and the server answers it. Returns when it was sent.
fn ping(pair: &mut Pair) -> Instant {
    pair.tick();
    assert_eq!(pair.ops(), [OpCode::PING]);
    let sent = pair.now;
    pair.pong();
    sent
}

/// Sends a write, and returns its number.
fn write(pair: &mut Pair) -> Xid {
    pair.submit(delete("/a"));
    let (xid, _) = pair.request().expect("a write");
    xid
}

/// The server answers a write.
fn answer(pair: &mut Pair, xid: Xid) {
    pair.reply(xid, 7, Ok(Response::Delete(Empty {})));
}

/// A connection that is not new, so that nothing is left of what its handshake proves. Returns when
/// the last ping was sent.
fn old_connection() -> (Pair, Instant) {
    let mut pair = Pair::connected(|_| {});
    let mut last = pair.now;
    for _ in 0..7 {
        last = ping(&mut pair);
    }
    assert!(lease(&pair).unwrap() < pair.now);
    (pair, last)
}

#[test]
fn a_new_session_is_proved_by_its_handshake() {
    let mut pair = Pair::new(|_| {});
    pair.reach();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.accept(ID, TIMEOUT);
    assert_eq!(lease(&pair), Some(sent + length()));
}

#[test]
fn a_resumed_session_is_proved_by_one_write() {
    let (mut pair, _) = old_connection();
    let before = lease(&pair);
    pair.cut();
    pair.reach();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.accept(ID, TIMEOUT);
    assert_eq!(lease(&pair), before, "its server may be cut off");
    let xid = write(&mut pair);
    answer(&mut pair, xid);
    assert_eq!(lease(&pair), Some(sent + length()));
}

/// Regression: the old proof counted with the timeout of the new server. But a new leader gives the
/// session the timeout with which it was made.
#[test]
fn a_longer_timeout_makes_the_lease_no_longer() {
    let (mut pair, _) = old_connection();
    let before = lease(&pair);
    pair.cut();
    pair.reach();
    let sent = pair.now;
    pair.accept(ID, 3 * TIMEOUT);
    assert_eq!(lease(&pair), before);
    let xid = write(&mut pair);
    answer(&mut pair, xid);
    assert_eq!(lease(&pair), Some(sent + length()));
    pair.cut();
    pair.reach();
    pair.accept(ID, TIMEOUT / 3);
    assert_eq!(lease(&pair), Some(sent + length() / 3));
}

#[test]
fn two_writes_in_a_row_prove_a_touch() {
    let (mut pair, touched) = old_connection();
    pair.wait(SECOND);
    assert_eq!(pair.now, touched + SECOND);
    ping_until(&mut pair, touched + THIRD);
    let before = lease(&pair);
    let first = write(&mut pair);
    answer(&mut pair, first);
    assert_eq!(lease(&pair), before, "one write proves nothing");
    let second = write(&mut pair);
    answer(&mut pair, second);
    assert_eq!(lease(&pair), Some(touched + length()));
}

/// Lets time pass. The server answers pings.
fn ping_until(pair: &mut Pair, until: Instant) {
    while let Some(due) = pair.machine.next_deadline()
        && due <= until
    {
        ping(pair);
    }
    pair.now = until;
}

/// What is sent and answered does not prove a touch newer than `touched`.
#[track_caller]
fn assert_proves_less_than(pair: &Pair, touched: Instant) {
    assert!(lease(pair).unwrap() < touched + length());
}

/// The server may have heard of it as soon as it was sent.
#[test]
fn a_touch_counts_from_when_it_was_sent() {
    let (mut pair, _) = old_connection();
    pair.tick();
    assert_eq!(pair.ops(), [OpCode::PING]);
    let touched = pair.now;
    pair.wait(SECOND);
    pair.pong();
    ping_until(&mut pair, touched + SECOND + THIRD);
    for _ in 0..2 {
        let xid = write(&mut pair);
        answer(&mut pair, xid);
    }
    assert_eq!(lease(&pair), Some(touched + length()));
}

/// Nobody has read it, so it may be anything.
#[test]
fn a_reply_that_is_too_long_proves_nothing() {
    let (mut pair, touched) = old_connection();
    ping_until(&mut pair, touched + THIRD);
    for _ in 0..2 {
        write(&mut pair);
        let (length, limit) = (2000, 1000);
        pair.handle(Input::Oversized { length, limit });
    }
    assert!(pair.machine.link().is_connected());
    assert_proves_less_than(&pair, touched);
}

#[test]
fn reads_prove_nothing() {
    let (mut pair, touched) = old_connection();
    ping_until(&mut pair, touched + THIRD);
    for request in [get("/a", false), sync("/"), get("/a", false), sync("/")] {
        pair.submit(request);
        pair.serve();
    }
    assert_proves_less_than(&pair, touched);
}

#[test]
fn a_refused_write_proves_something_only_if_it_is_a_transaction() {
    for (code, proves) in [
        (ErrorCode::NO_NODE, true),
        (ErrorCode::BAD_VERSION, true),
        (ErrorCode::THROTTLED_OP, false),
        (ErrorCode::NOT_READ_ONLY, false),
        (ErrorCode::NO_AUTH, false),
    ] {
        let (mut pair, touched) = old_connection();
        ping_until(&mut pair, touched + THIRD);
        for _ in 0..2 {
            let xid = write(&mut pair);
            pair.reply(xid, 7, Err(code));
        }
        let proved = lease(&pair).unwrap() >= touched + length();
        assert_eq!(proved, proves, "{code}");
    }
}

/// Answers everything, a moment later, until this time.
fn serve_until(pair: &mut Pair, until: Instant, moment: Duration) -> Vec<OpCode> {
    let mut ops = Vec::new();
    while pair.now < until {
        pair.wait(moment);
        for (xid, request) in pair.requests() {
            ops.push(request.op());
            let reply = match &request {
                Request::Multi(_) => Ok(multi_reply()),
                request => Ok(sound_reply(request)),
            };
            pair.reply(xid, 7, reply);
        }
    }
    ops
}

fn multi_reply() -> Response {
    Response::Multi(lockkeeper_proto::multi::MultiResponse {
        results: vec![Ok(Response::Check(Empty {}))],
    })
}

fn writes(ops: &[OpCode]) -> usize {
    ops.iter().filter(|op| **op == OpCode::MULTI).count()
}

#[test]
fn a_lease_that_is_kept_never_ends_while_servers_answer() {
    let mut pair = Pair::connected(|_| {});
    let (token, other) = (pair.machine.keep_lease(), pair.machine.keep_lease());
    drop(other);
    let moment = TIMEOUT / 50;
    let mut ops = Vec::new();
    for _ in 0..1000 {
        let until = pair.now + TIMEOUT / 10;
        ops.extend(serve_until(&mut pair, until, moment));
        assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6);
    }
    // Nine in each timeout: one every eighth, and the time until the answer.
    assert!((600..=800).contains(&writes(&ops)), "{}", writes(&ops));
    drop(token);
    let until = pair.now + 10 * TIMEOUT;
    let ops = serve_until(&mut pair, until, moment);
    assert_eq!(writes(&ops), 0);
    assert!(lease(&pair).unwrap() < pair.now);
}

/// A server decides how long a session lives, and so how often the client pings. A session of a
/// millisecond made 800 requests a second.
#[test]
fn the_shortest_session_makes_a_bounded_number_of_requests() {
    let mut pair = Pair::new(|_| {});
    pair.reach();
    pair.accept(ID, SHORTEST_TIMEOUT);
    let (second, moment) = (Duration::from_secs(1), Duration::from_micros(500));
    let until = pair.now + second;
    let quiet = serve_until(&mut pair, until, moment);
    assert!((80..=100).contains(&quiet.len()), "{quiet:?}");
    let _token = pair.machine.keep_lease();
    let until = pair.now + second;
    let held = serve_until(&mut pair, until, moment);
    assert!((180..=240).contains(&held.len()), "{held:?}");
    assert!(pair.machine.link().is_connected() && lease(&pair).unwrap() > pair.now);
}

#[test]
fn a_client_that_writes_needs_no_writes_of_its_own() {
    let mut pair = Pair::connected(|_| {});
    let _token = pair.machine.keep_lease();
    for _ in 0..1000 {
        pair.submit(delete("/a"));
        let until = pair.now + TIMEOUT / 20;
        assert_eq!(writes(&serve_until(&mut pair, until, TIMEOUT / 100)), 0);
        assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6);
    }
}

/// How often those who wait for the lease were told.
fn renewals(pair: &Pair) -> usize {
    let is_renewed = |output: &&Output<u32>| matches!(output, Output::LeaseRenewed);
    pair.outputs.iter().filter(is_renewed).count()
}

/// The turn of a contender comes while its lease has less than a quarter left.
#[test]
fn a_lease_that_is_nearly_over_is_renewed_at_once() {
    let mut pair = Pair::connected(|_| {});
    for _ in 0..4 {
        assert!(!pair.machine.keep_lease().1);
        ping(&mut pair);
    }
    assert!(pair.machine.keep_lease().1, "before the next ping");
    pair.wait(TIMEOUT / 30);
    let since = pair.now;
    assert!(lease(&pair).unwrap() > since + TIMEOUT / 5);
    assert!(!pair.machine.is_lease_good(since, since));
    let _token = pair.machine.keep_lease();
    pair.machine.await_lease(since);
    for _ in 0..2 {
        assert_eq!(renewals(&pair), 0);
        pair.tick();
        assert_eq!(pair.now, since, "it waits");
        let [(xid, Request::Multi(_))] = pair.requests()[..] else {
            panic!("one write");
        };
        pair.reply(xid, 7, Ok(multi_reply()));
    }
    assert_eq!(renewals(&pair), 1);
    assert!(pair.machine.is_lease_good(since, since));
    assert!(lease(&pair).unwrap() > since + TIMEOUT * 2 / 5);
}

/// Otherwise servers that answer late would keep a waiter from its lock for ever.
#[test]
fn after_a_quarter_of_waiting_less_of_the_lease_is_enough() {
    let pair = Pair::connected(|_| {});
    let (connected, moment) = (pair.now, Duration::from_millis(1));
    let is_good = |now, since| {
        pair.machine
            .is_lease_good(connected + now, connected + since)
    };
    let (quarter, half) = (TIMEOUT * 11 / 16, TIMEOUT * 7 / 16);
    assert!(is_good(quarter, quarter));
    assert!(!is_good(quarter + moment, quarter + moment));
    assert!(is_good(2 * half, half));
    assert!(!is_good(2 * half, half + moment));
    assert!(!is_good(length(), half), "it is over");
}

/// The first lock of a session that was quiet for long.
#[test]
fn a_lease_that_has_ended_is_renewed_at_once() {
    let (mut pair, _) = old_connection();
    let create = write(&mut pair);
    answer(&mut pair, create);
    let _token = pair.machine.keep_lease();
    pair.machine.await_lease(pair.now);
    assert_eq!(renewals(&pair), 0);
    pair.tick();
    let [(xid, Request::Multi(_))] = pair.requests()[..] else {
        panic!("one write");
    };
    pair.reply(xid, 7, Ok(multi_reply()));
    assert_eq!(renewals(&pair), 1);
    assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6);
}

/// Without a pause, a server that refuses writes would be asked in a loop. The first of them may
/// succeed: it is `W1`, and the next one is due at once.
#[test]
fn refused_writes_are_not_repeated_in_a_loop() {
    for succeed in [0, 1] {
        let (mut pair, _) = old_connection();
        let _token = pair.machine.keep_lease();
        pair.machine.await_lease(pair.now);
        let (start, mut sent) = (pair.now, 0);
        while pair.now < start + 10 * TIMEOUT {
            pair.tick();
            for (xid, request) in pair.requests() {
                match request {
                    Request::Multi(_) if sent < succeed => {
                        sent += 1;
                        pair.reply(xid, 1, Ok(multi_reply()));
                    }
                    Request::Multi(_) => {
                        sent += 1;
                        pair.reply(xid, 1, Err(ErrorCode::THROTTLED_OP));
                    }
                    request => pair.reply(xid, 1, Ok(sound_reply(&request))),
                }
            }
            assert!(sent <= 10 * 20, "{sent}");
        }
    }
}
