//! The lease that is proved: a `sync` or a write, and a write behind it, show that the leader has
//! heard of the session.
//!
//! Not here: all orders of touches and writes (`tests/model/tests/contract/proofs.rs`), and that no
//! lease outlives its session whatever fails (`tests/model`).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, Xid, multi::MultiResponse, records::Empty,
};

use super::{
    pair::{ID, Pair, SECOND, SIXTH, THIRD, TIMEOUT},
    requests::{delete, get, sound_reply, sync},
};
use crate::machine::{Encoded, Input, LeaseToken, config::SHORTEST_TIMEOUT};

/// From a touch to the end of the lease that it proves.
pub(super) fn length() -> Duration {
    TIMEOUT * 7 / 8
}

pub(super) fn lease(pair: &Pair) -> Option<Instant> {
    pair.machine.lease_deadline()
}

/// The client sends a ping, and the server answers it. Returns when it was sent.
pub(super) fn ping(pair: &mut Pair) -> Instant {
    pair.tick();
    assert_eq!(pair.ops(), [OpCode::PING]);
    let sent = pair.now;
    pair.pong();
    sent
}

/// Sends a write, and returns its number.
pub(super) fn write(pair: &mut Pair) -> Xid {
    pair.submit(delete("/a"));
    let (xid, _) = pair.request().expect("a write");
    xid
}

/// The server answers a write.
pub(super) fn answer(pair: &mut Pair, xid: Xid) {
    pair.reply(xid, 7, Ok(Response::Delete(Empty {})));
}

/// A connection that is not new, so that nothing is left of what its handshake proves. Returns when
/// the last ping was sent.
pub(super) fn old_connection() -> (Pair, Instant) {
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

/// A connection that is resumed a second after its handshake was sent. Returns when that was.
fn resume(pair: &mut Pair, timeout: Duration) -> Instant {
    pair.cut();
    pair.reach();
    let sent = pair.now;
    pair.wait(SECOND);
    pair.accept(ID, timeout);
    sent
}

/// Sends a write, which the server answers.
fn written(pair: &mut Pair) {
    let xid = write(pair);
    answer(pair, xid);
}

#[test]
fn a_session_that_is_resumed_in_time_is_proved_by_one_write() {
    let mut pair = Pair::connected(|_| {});
    pair.wait(THIRD);
    let before = lease(&pair);
    let sent = resume(&mut pair, TIMEOUT);
    assert_eq!(lease(&pair), before, "its server may be cut off");
    written(&mut pair);
    assert_eq!(lease(&pair), Some(sent + length()));
}

/// The leader may have decided to end the session, and not have come to it yet.
#[test]
fn a_session_that_is_resumed_late_is_proved_by_a_write_a_sixth_later() {
    let (mut pair, _) = old_connection();
    let before = lease(&pair);
    let sent = resume(&mut pair, TIMEOUT);
    for _ in 0..3 {
        written(&mut pair);
    }
    ping_until(&mut pair, sent + SECOND + SIXTH.saturating_sub(SECOND / 9));
    written(&mut pair);
    written(&mut pair);
    assert_eq!(lease(&pair), before, "it may be marked later");
    pair.now = sent + SECOND + SIXTH;
    pair.submit(sync("/"));
    pair.serve();
    let refused = write(&mut pair);
    pair.reply(refused, 7, Err(ErrorCode::NO_AUTH));
    assert_eq!(lease(&pair), before, "only the leader tells");
    written(&mut pair);
    assert_eq!(lease(&pair), Some(sent + length()));
}

#[test]
fn the_write_that_confirms_a_proof_goes_out_a_sixth_later_and_not_before() {
    let (mut pair, _) = old_connection();
    let answered = resume(&mut pair, TIMEOUT) + SECOND;
    let _token = keep(&mut pair);
    let moment = TIMEOUT / 1000;
    let ops = serve_until(&mut pair, answered + SIXTH.saturating_sub(moment), moment);
    assert_eq!(writes(&ops), 0, "it would confirm nothing");
    let ops = serve_until(&mut pair, answered + SIXTH + 2 * moment, moment);
    assert_eq!(writes(&ops), 1);
    assert!(lease(&pair).unwrap() > pair.now);
}

/// Regression: the old proof counted with the timeout of the new server. But a new leader gives the
/// session the timeout with which it was made.
#[test]
fn a_longer_timeout_makes_the_lease_no_longer() {
    let mut pair = Pair::connected(|_| {});
    let before = lease(&pair);
    let sent = resume(&mut pair, 3 * TIMEOUT);
    assert_eq!(lease(&pair), before);
    written(&mut pair);
    assert_eq!(lease(&pair), Some(sent + length()));
    pair.cut();
    pair.reach();
    pair.accept(ID, TIMEOUT / 3);
    assert_eq!(lease(&pair), Some(sent + length() / 3));
}

/// What somebody relied on has ended while its server was cut off: the leader may be about to end
/// the session.
#[test]
fn behind_the_end_of_a_lease_that_was_relied_on_a_proof_needs_a_write_a_sixth_later() {
    let mut pair = Pair::connected(|_| {});
    let token = keep(&mut pair);
    assert!(pair.machine.is_lease_good(pair.now, pair.now), "a grant");
    let (end, mut held_up) = (lease(&pair).unwrap(), Vec::new());
    while pair.now < end {
        pair.tick();
        for (xid, request) in pair.requests() {
            match request.op() {
                OpCode::PING => pair.pong(),
                _ => held_up.push((xid, request)),
            }
        }
    }
    assert_eq!(lease(&pair), Some(end));
    for (xid, request) in held_up {
        pair.reply(xid, 7, Ok(proof_reply(&request)));
    }
    let moment = TIMEOUT / 100;
    serve_until(&mut pair, end + SIXTH.saturating_sub(moment), moment);
    assert_eq!(lease(&pair), Some(end), "it may be marked later");
    serve_until(&mut pair, end + 2 * SIXTH, moment);
    assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 4);
    drop(token);
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

/// Its answer waits in the same queue as the leader's pings.
#[test]
fn a_sync_and_a_write_prove_a_touch() {
    let (mut pair, touched) = old_connection();
    ping_until(&mut pair, touched + THIRD);
    pair.submit(sync("/"));
    pair.serve();
    assert_proves_less_than(&pair, touched);
    written(&mut pair);
    assert_eq!(lease(&pair), Some(touched + length()));
}

#[test]
fn a_write_ahead_of_the_answer_to_the_sync_proves_nothing() {
    let (mut pair, touched) = old_connection();
    ping_until(&mut pair, touched + THIRD);
    // The sync is old enough for the touch before the last one, too.
    pair.submit(sync("/"));
    let (first, _) = pair.request().expect("a sync");
    let second = write(&mut pair);
    pair.reply(first, 7, Ok(sound_reply(&sync("/"))));
    answer(&mut pair, second);
    assert_proves_less_than(&pair, touched.checked_sub(THIRD).unwrap());
}

#[test]
fn a_sync_a_moment_before_the_wait_is_over_proves_nothing() {
    let (mut pair, touched) = old_connection();
    ping_until(&mut pair, touched + THIRD);
    pair.now = pair.now.checked_sub(Duration::from_nanos(1)).unwrap();
    pair.submit(sync("/"));
    pair.serve();
    written(&mut pair);
    assert_proves_less_than(&pair, touched);
}

/// The tick is known, and so is how often the leader pings.
#[test]
fn with_a_known_tick_the_wait_is_two_thirds_of_it() {
    let tick = SECOND;
    let mut pair = Pair::connected(|config| config.tick_time = Some(tick));
    let touched = ping(&mut pair);
    for (wait, is_enough) in [
        (
            (tick * 2 / 3).saturating_sub(Duration::from_nanos(1)),
            false,
        ),
        (tick * 2 / 3, true),
    ] {
        pair.now = touched + wait;
        pair.submit(sync("/"));
        pair.serve();
        written(&mut pair);
        assert_eq!(lease(&pair) == Some(touched + length()), is_enough);
    }
}

/// No proof came before the end of the lease, and each lock was lost.
#[test]
fn a_tick_that_is_too_long_to_be_true_ends_no_lease() {
    for tick in [TIMEOUT, 2 * TIMEOUT, Duration::MAX] {
        let mut pair = Pair::connected(|config| config.tick_time = Some(tick));
        let _token = keep(&mut pair);
        for _ in 0..100 {
            let until = pair.now + TIMEOUT / 10;
            serve_until(&mut pair, until, TIMEOUT / 100);
            assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 9, "{tick:?}");
        }
    }
}

#[test]
fn syncs_and_reads_alone_prove_nothing() {
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
            pair.reply(xid, 7, Ok(proof_reply(&request)));
        }
    }
    ops
}

/// What a server answers where the nodes that are checked are there.
pub(super) fn proof_reply(request: &Request) -> Response {
    let Request::Multi(multi) = request else {
        return sound_reply(request);
    };
    let results = (multi.ops.iter())
        .map(|_| Ok(Response::Check(Empty {})))
        .collect();
    Response::Multi(MultiResponse { results })
}

fn writes(ops: &[OpCode]) -> usize {
    ops.iter().filter(|op| **op == OpCode::MULTI).count()
}

/// Keeps the lease for the holder of this node.
pub(super) fn keep_for(pair: &mut Pair, name: &str) -> (LeaseToken, bool) {
    pair.machine.keep_lease("/lock".into(), name.into())
}

pub(super) fn keep(pair: &mut Pair) -> LeaseToken {
    keep_for(pair, "a").0
}

#[test]
fn a_lease_that_is_kept_never_has_less_than_a_quarter_while_servers_answer() {
    let mut pair = Pair::connected(|_| {});
    let (token, other) = (keep(&mut pair), keep(&mut pair));
    drop(other);
    let moment = TIMEOUT / 100;
    let mut ops = Vec::new();
    for _ in 0..1000 {
        let until = pair.now + TIMEOUT / 10;
        ops.extend(serve_until(&mut pair, until, moment));
        assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 4);
    }
    // Four in each timeout.
    assert!((380..=420).contains(&writes(&ops)), "{}", writes(&ops));
    drop(token);
    let until = pair.now + 10 * TIMEOUT;
    let ops = serve_until(&mut pair, until, moment);
    assert_eq!(writes(&ops), 0);
    assert!(lease(&pair).unwrap() < pair.now);
}

/// Otherwise a guard says that it is valid for as long as nobody polls it.
#[test]
fn a_holder_whose_node_is_gone_hears_of_it_with_the_next_proof() {
    let mut pair = Pair::connected(|_| {});
    let names = ["a", "b", "c"];
    let tokens = names.map(|name| keep_for(&mut pair, name).0);
    let (begin, mut checked) = (pair.now, Vec::new());
    while !tokens[1].is_gone() {
        pair.tick();
        assert!(pair.now < begin + TIMEOUT);
        for (xid, request) in pair.requests() {
            let mut reply = proof_reply(&request);
            if let (Request::Multi(multi), Response::Multi(reply)) = (&request, &mut reply) {
                checked = multi.ops.clone();
                reply.results = [ErrorCode::OK, ErrorCode::NO_NODE, ErrorCode(-2)]
                    .map(Err)
                    .to_vec();
            }
            pair.reply(xid, 7, Ok(reply));
        }
    }
    let path = |op: &Request| match op {
        Request::Check(check) => check.path.clone(),
        other => panic!("{other:?}"),
    };
    let checked: Vec<_> = checked.iter().map(path).collect();
    assert_eq!(checked, ["/lock/a", "/lock/b", "/lock/c"]);
    assert_eq!(tokens.map(|token| token.is_gone()), [false, true, false]);
}

/// With very many locks in a session, one write does not check all of them.
#[test]
fn the_nodes_of_many_locks_are_checked_in_turn() {
    let mut pair = Pair::connected(|_| {});
    let tokens: Vec<_> = (0..40)
        .map(|number| keep_for(&mut pair, &number.to_string()).0)
        .collect();
    let (end, mut seen) = (pair.now + 2 * TIMEOUT, BTreeMap::new());
    while pair.now < end {
        pair.tick();
        for (xid, request) in pair.requests() {
            if let Request::Multi(multi) = &request {
                assert!(multi.ops.len() <= 16);
                for op in &multi.ops {
                    *seen.entry(format!("{op:?}")).or_insert(0) += 1;
                }
            }
            pair.reply(xid, 7, Ok(proof_reply(&request)));
        }
    }
    assert_eq!(seen.len(), tokens.len());
    assert!(seen.values().all(|count| *count <= 4), "{seen:?}");
}

/// The server closed each connection behind a longer request, and so the session ended.
#[test]
fn a_write_that_proves_a_lease_is_no_longer_than_requests_may_be() {
    let max_request = 300;
    let mut pair = Pair::connected(|config| config.max_request = max_request);
    let names = (0..20).map(|number| format!("{number:0>80}"));
    let tokens: Vec<_> = names.map(|name| keep_for(&mut pair, &name).0).collect();
    let (end, mut seen) = (pair.now + 3 * TIMEOUT, BTreeSet::new());
    while pair.now < end {
        pair.tick();
        for (xid, request) in pair.requests() {
            assert!(Encoded::from(request.clone()).len() <= max_request);
            if let Request::Multi(multi) = &request {
                // 17 bytes, and 17 and 86 for each node.
                assert_eq!(multi.ops.len(), 2);
                seen.extend(multi.ops.iter().map(|op| format!("{op:?}")));
            }
            pair.reply(xid, 7, Ok(proof_reply(&request)));
        }
    }
    assert_eq!(seen.len(), tokens.len());
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
    let _token = keep(&mut pair);
    let until = pair.now + second;
    let held = serve_until(&mut pair, until, moment);
    assert!((280..=340).contains(&held.len()), "{}", held.len());
    assert!(pair.machine.link().is_connected() && lease(&pair).unwrap() > pair.now);
}

#[test]
fn a_client_that_writes_needs_no_writes_of_its_own() {
    let mut pair = Pair::connected(|_| {});
    let _token = keep(&mut pair);
    for _ in 0..1000 {
        pair.submit(delete("/a"));
        let until = pair.now + TIMEOUT / 20;
        assert_eq!(writes(&serve_until(&mut pair, until, TIMEOUT / 100)), 0);
        assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6);
    }
}

/// A client that asks for something again and again that it may not do: each of its writes took the
/// place of one that proves something, and the lease of a living session ended.
#[test]
fn refused_writes_of_users_do_not_end_a_lease_that_is_kept() {
    for pause in [TIMEOUT / 20, TIMEOUT / 100, TIMEOUT / 1000] {
        let mut pair = Pair::connected(|_| {});
        let _token = keep(&mut pair);
        for _ in 0..10 * TIMEOUT.as_millis() / pause.as_millis() {
            pair.submit(delete("/of-others"));
            pair.submit(sync("/"));
            let until = pair.now + pause;
            while pair.now < until {
                for (xid, request) in pair.requests() {
                    let reply = match request {
                        Request::Delete(_) => Err(ErrorCode::NO_AUTH),
                        request => Ok(proof_reply(&request)),
                    };
                    pair.reply(xid, 7, reply);
                }
                pair.wait(TIMEOUT / 1000);
            }
            assert!(lease(&pair).unwrap() > pair.now + TIMEOUT / 6, "{pause:?}");
        }
    }
}

/// Without a pause, a server that refuses writes would be asked in a loop. The first of them may
/// succeed: it is `W1`, and the next one is due at once. So is one that confirms a proof, behind the
/// end of a lease.
#[test]
fn refused_writes_are_not_repeated_in_a_loop() {
    for (resumes, succeed) in [(false, 0), (false, 1), (true, 0), (true, 1)] {
        let (mut pair, _) = old_connection();
        if resumes {
            resume(&mut pair, TIMEOUT);
        }
        let _token = keep(&mut pair);
        pair.machine.await_lease(pair.now);
        let (start, mut sent) = (pair.now, 0);
        while pair.now < start + 10 * TIMEOUT {
            pair.tick();
            for (xid, request) in pair.requests() {
                match request {
                    Request::Multi(_) if sent < succeed => {
                        sent += 1;
                        pair.reply(xid, 1, Ok(proof_reply(&request)));
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
