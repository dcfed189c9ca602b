//! Operations that a server does not know, and says so; and watches that no server sets.

use lockkeeper_proto::{
    AddWatchMode, ErrorCode, OpCode, Request, SessionId,
    records::{CreateTtlRequest, Empty, GetEphemeralsRequest},
};

use super::{
    pair::{Pair, TIMEOUT},
    requests::{add_watch, get, peer, sound_reply, sync},
};
use crate::{Cause, Effect, Error, State, machine::requests::WINDOW};

fn unsupported(op: OpCode) -> Error {
    Error::unsupported(op, peer())
}

fn who_am_i_unknown() -> Error {
    unsupported(OpCode::WHO_AM_I)
}

fn who_am_i() -> Request {
    Request::WhoAmI(Empty {})
}

/// A server answers an unknown operation ahead of earlier requests, and closes the connection. If
/// the machine took this answer for a reply out of order, the caller would only learn of a lost
/// connection.
#[test]
fn an_unknown_operation_is_reported_although_its_answer_overtakes_others() {
    let mut pair = Pair::connected(|_| {});
    let earlier = pair.submit(sync("/"));
    let unknown = pair.submit(who_am_i());
    let later = pair.submit(sync("/"));
    let (xid, _) = pair.requests()[1].clone();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    assert_eq!(pair.error(unknown), who_am_i_unknown());
    assert_eq!(who_am_i_unknown().effect(), Effect::NotApplied);
    assert!(!pair.is_settled(earlier) && !pair.is_settled(later));
    pair.cut();
    assert_eq!(pair.error(earlier).effect(), Effect::Unknown);
    assert_eq!(pair.error(later).effect(), Effect::Unknown);
}

/// The next server would close its connection at it, too.
#[test]
fn what_waits_with_an_unknown_operation_fails_with_it_and_nothing_else() {
    let mut pair = Pair::connected(|_| {});
    pair.submit_quietly(who_am_i());
    for _ in 1..WINDOW {
        pair.submit_quietly(sync("/"));
    }
    let (same, other) = (pair.submit(who_am_i()), pair.submit(sync("/")));
    let (xid, _) = pair.requests()[0].clone();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    assert_eq!(pair.error(same), who_am_i_unknown());
    assert_eq!(pair.ops(), [OpCode::SYNC], "in the place that is free");
    assert!(!pair.is_settled(other));
}

#[test]
fn an_unknown_operation_is_refused_until_the_connection_after_the_next() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.submit(who_am_i());
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    assert_eq!(pair.error(first), who_am_i_unknown());
    // The server closes the connection. The machine expects the next server to be the same, or of
    // the same release.
    for _ in 0..2 {
        let again = pair.submit(who_am_i());
        assert_eq!(pair.error(again), who_am_i_unknown());
        assert_eq!(pair.requests(), [], "the second call costs no connection");
        pair.reconnect();
    }
    let upgraded = pair.submit(who_am_i());
    assert_eq!(pair.ops(), [OpCode::WHO_AM_I]);
    assert!(!pair.is_settled(upgraded));
}

#[test]
fn other_operations_go_on_when_one_is_unknown() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(who_am_i());
    pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    let known = pair.submit(sync("/"));
    pair.answer_all(|request| Ok(sound_reply(request)));
    assert!(pair.result(known).is_ok());
}

/// A server that knows it answers in its turn. Only what it does not know comes ahead of others.
#[test]
fn an_operation_that_is_not_enabled_is_known_and_overtakes_nothing() {
    let create = || {
        Request::CreateTtl(CreateTtlRequest {
            path: "/a".to_owned(),
            data: None,
            acl: None,
            flags: 5,
            ttl_ms: 1,
        })
    };
    let mut pair = Pair::connected(|_| {});
    for _ in 0..2 {
        let refused = pair.submit(create());
        let (xid, _) = pair.request().expect("each time");
        pair.reply(xid, 5, Err(ErrorCode::UNIMPLEMENTED));
        assert_eq!(pair.error(refused).code(), Some(ErrorCode::UNIMPLEMENTED));
    }
    pair.submit(sync("/"));
    pair.submit(create());
    let (xid, _) = pair.requests()[1].clone();
    pair.reply(xid, 5, Err(ErrorCode::UNIMPLEMENTED));
    assert!(matches!(pair.last_cause(), Cause::UnexpectedReply { .. }));
}

/// What a server does not know of its own release it did not know before, either.
#[test]
fn several_operations_are_unknown_at_a_time() {
    let others = || Request::GetEphemerals(GetEphemeralsRequest { prefix_path: None });
    let mut pair = Pair::connected(|_| {});
    for request in [who_am_i(), others(), who_am_i()] {
        pair.submit(request);
        pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    }
    for request in [who_am_i(), others()] {
        let op = request.op();
        let again = pair.submit(request);
        assert_eq!(pair.error(again), unsupported(op));
    }
}

/// Some servers resume no session: every connection has a new one. The machine must keep what it
/// knows of operations.
#[test]
fn unknown_operations_outlive_the_session() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(who_am_i());
    pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    pair.cut();
    pair.reach();
    pair.accept(SessionId(0x200), TIMEOUT);
    let again = pair.submit(who_am_i());
    assert_eq!(pair.error(again), who_am_i_unknown());
}

/// So many connections in a row end on the only request, which sets watches: the server refuses it,
/// or closes the connection.
fn end_on(pair: &mut Pair, op: OpCode, times: usize, is_refused: bool) {
    for time in 0..times {
        assert_eq!(pair.fired(), [], "the watch outlives {time} connections");
        pair.connect();
        let [(xid, request)] = &pair.requests()[..] else {
            panic!("one request");
        };
        assert_eq!(request.op(), op);
        if is_refused {
            pair.reply(*xid, 1, Err(ErrorCode::MARSHALLING_ERROR));
        } else {
            pair.cut();
        }
    }
}

/// Once, every new connection restored the watches, and the server closed each of them because of
/// that, without an end.
#[test]
fn watches_end_when_eight_connections_in_a_row_have_ended_on_them() {
    for is_refused in [false, true] {
        let mut pair = Pair::connected(|_| {});
        let persistent = pair.watch(add_watch("/a", AddWatchMode::PERSISTENT), ErrorCode::OK);
        let once = pair.watch(get("/b", true), ErrorCode::OK);
        pair.cut();
        end_on(&mut pair, OpCode::SET_WATCHES2, 8, is_refused);
        let over = unsupported(OpCode::ADD_WATCH);
        assert_eq!(pair.fired(), [(persistent, Err(over))]);
        // The one-shot watch has eight attempts of its own.
        end_on(&mut pair, OpCode::SET_WATCHES, 8, is_refused);
        let over = || Err(unsupported(OpCode::SET_WATCHES));
        assert_eq!(pair.fired(), [(once, over())]);
        pair.connect();
        assert_eq!(pair.states().last(), Some(&State::Connected));
        let next = pair.watch_nodes(["/a"])[0];
        assert_eq!(pair.fired(), [(next, over())]);
        assert_eq!(
            (pair.requests().len(), pair.machine.metrics().watches),
            (0, 0)
        );
        // Servers may have been upgraded.
        let later = pair.watch(get("/a", true), ErrorCode::OK);
        pair.reconnect();
        pair.serve();
        assert_eq!((pair.fired(), pair.machine.metrics().watches), (vec![], 1));
        let _ = later;
    }
}

/// A network that fails again and again must not end a wait that could go on.
#[test]
fn watches_that_a_server_has_set_have_eight_attempts_again() {
    let mut pair = Pair::connected(|_| {});
    pair.watch(get("/a", true), ErrorCode::OK);
    pair.cut();
    for _ in 0..3 {
        end_on(&mut pair, OpCode::SET_WATCHES, 7, false);
        pair.connect();
        pair.serve();
        // Now the request under way is another one.
        pair.submit(sync("/"));
        pair.cut();
    }
    assert_eq!((pair.fired(), pair.machine.metrics().watches), (vec![], 1));
}

/// Of several requests that restore watches, the server answers the first one on each connection.
#[test]
fn watches_end_although_a_server_sets_some_of_them() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let long = ["a", "b"].map(|name| format!("/{}", name.repeat(59)));
    pair.cut();
    pair.machine.watch_nodes(long);
    for _ in 0..8 {
        assert_eq!(pair.fired(), []);
        pair.connect();
        let [(xid, first), _] = &pair.requests()[..] else {
            panic!("two requests");
        };
        pair.reply(*xid, 1, Ok(sound_reply(first)));
        pair.cut();
    }
    assert_eq!((pair.fired().len(), pair.machine.metrics().watches), (2, 0));
}
