//! Servers that close the connection on an operation that they do not know, instead of answering.

use lockkeeper_proto::{
    AddWatchMode, ErrorCode, OpCode, Request, SessionId, Xid,
    records::{CreateTtlRequest, Empty},
};

use super::{
    pair::{Pair, TIMEOUT},
    requests::{add_watch, create, get, lost, peer, sound_reply, sync},
};
use crate::{Cause, Effect, Error, State, UnsupportedReason, machine::Output};

const OK: ErrorCode = ErrorCode::OK;

fn who_am_i() -> Request {
    Request::WhoAmI(Empty {})
}

fn create_ttl() -> Request {
    Request::CreateTtl(CreateTtlRequest {
        path: "/a".to_owned(),
        data: None,
        acl: None,
        flags: 5,
        ttl_ms: 1000,
    })
}

fn unsupported(op: OpCode, effect: Effect) -> Error {
    Error::Unsupported {
        op,
        reason: UnsupportedReason::ClosedConnection,
        effect,
        peer: peer(),
    }
}

impl Pair {
    /// The server answers the ping that the machine sends before a suspect.
    pub(super) fn request_sign_of_life(&mut self) {
        assert_eq!(
            self.ops(),
            [OpCode::PING],
            "the machine first requests a sign of life"
        );
        self.reply(Xid::PING, 1, Ok(sound_reply(&Request::Ping(Empty {}))));
    }

    /// The server closes the connection, and the client connects again.
    fn cut_and_connect(&mut self) {
        self.cut();
        self.connect();
    }
}

/// Keeper closes the connection without an answer. So every caller of the operation cost a
/// connection, and got only `ConnectionLost`.
#[test]
fn an_operation_on_which_a_server_closes_the_connection_twice_counts_as_unknown() {
    for (request, effect) in [
        (who_am_i(), Effect::NotApplied),
        (create_ttl(), Effect::Unknown),
    ] {
        let op = request.op();
        let mut pair = Pair::connected(|_| {});
        let first = pair.submit(request.clone());
        pair.cut_and_connect();
        // The first time it may be a coincidence.
        let first_time = Error::ConnectionLost(lost("zk1", Cause::ClosedOn(op)), effect);
        assert_eq!(pair.error(first), first_time);
        assert_eq!(pair.requests(), [], "the request is not repeated");

        let second = pair.submit(request.clone());
        pair.request_sign_of_life();
        assert_eq!(pair.ops(), [op]);
        pair.cut();
        assert_eq!(pair.error(second), unsupported(op, effect));
        let while_down = pair.submit(request.clone());
        assert_eq!(pair.error(while_down), unsupported(op, Effect::NotApplied));
        pair.connect();
        let third = pair.submit(request);
        assert_eq!(pair.error(third), unsupported(op, Effect::NotApplied));
        assert_eq!(pair.requests(), [], "the third call costs no connection");
        let known = pair.submit(sync("/"));
        pair.serve();
        assert!(pair.result(known).is_ok(), "other operations go on");
    }
}

/// What locks rely on counts as unknown later than other operations, and its effect is open: the
/// server may have applied it.
#[test]
fn a_create_on_which_a_server_closes_the_connection_may_have_been_applied() {
    let mut pair = Pair::connected(|_| {});
    let request = create("/a", Vec::new());
    let op = request.op();
    assert_eq!(op, OpCode::CREATE2);
    for time in 0..8 {
        let token = pair.submit(request.clone());
        if time > 0 {
            pair.request_sign_of_life();
        }
        pair.cut_and_connect();
        let not_yet = Error::ConnectionLost(lost("zk1", Cause::ClosedOn(op)), Effect::Unknown);
        assert_eq!(pair.error(token), not_yet);
    }
    let last = pair.submit(request);
    pair.request_sign_of_life();
    pair.cut();
    assert_eq!(pair.error(last), unsupported(op, Effect::Unknown));
}

#[test]
fn a_suspect_is_sent_after_the_earlier_replies_and_before_later_requests() {
    let mut pair = Pair::connected(|_| {});
    let tokens = [
        pair.submit(sync("/1")),
        pair.submit(who_am_i()),
        pair.submit(sync("/2")),
    ];
    pair.cut_and_connect();
    // The server may have processed the requests ahead of it, although it answered none.
    let effects = [Effect::Unknown, Effect::NotApplied, Effect::Unknown];
    for (token, effect) in tokens.into_iter().zip(effects) {
        let error = pair.error(token);
        assert!(matches!(error, Error::ConnectionLost(..)), "{error:?}");
        assert_eq!(error.effect(), effect);
    }
    let before = pair.submit(sync("/1"));
    let alone = pair.submit(who_am_i());
    let behind = pair.submit(sync("/2"));
    assert_eq!(pair.ops(), [OpCode::SYNC]);
    pair.reply(Xid(4), 1, Ok(sound_reply(&sync("/1"))));
    assert!(pair.result(before).is_ok());
    assert_eq!(
        pair.ops(),
        [OpCode::WHO_AM_I],
        "the server has just answered: no ping is needed"
    );
    pair.cut();
    assert_eq!(
        pair.error(alone),
        unsupported(OpCode::WHO_AM_I, Effect::NotApplied)
    );
    assert!(
        !pair.is_settled(behind),
        "the request behind it was not sent"
    );
    pair.connect();
    pair.serve();
    assert!(pair.result(behind).is_ok());
}

#[test]
fn an_answered_operation_is_no_longer_a_suspect() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.submit(who_am_i());
    pair.cut_and_connect();
    assert!(matches!(pair.error(first), Error::ConnectionLost(..)));
    let second = pair.submit(who_am_i());
    pair.request_sign_of_life();
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 1, Err(ErrorCode::NO_AUTH));
    assert_eq!(pair.error(second).code(), Some(ErrorCode::NO_AUTH));
    // From now on it is sent with others, and a closed connection says nothing about it.
    for _ in 0..2 {
        let tokens = [pair.submit(sync("/")), pair.submit(who_am_i())];
        assert_eq!(pair.ops(), [OpCode::SYNC, OpCode::WHO_AM_I]);
        pair.cut_and_connect();
        let closed = |effect| Error::ConnectionLost(lost("zk1", Cause::ClosedByServer), effect);
        assert_eq!(
            tokens.map(|token| pair.error(token)),
            [closed(Effect::Unknown), closed(Effect::NotApplied)]
        );
    }
}

/// Without an answer on the connection, the server may as well be shutting down.
#[test]
fn a_server_that_closes_every_connection_makes_no_operation_unknown() {
    let mut pair = Pair::connected(|_| {});
    for round in 0..4 {
        let token = pair.submit(who_am_i());
        assert_eq!(
            pair.ops().len(),
            1,
            "the request the first time, then a ping"
        );
        pair.cut_and_connect();
        match round {
            0 => assert!(matches!(pair.error(token), Error::ConnectionLost(..))),
            // The request is not sent: it waits for a server that answers the ping.
            _ => assert!(!pair.is_settled(token)),
        }
    }
    pair.request_sign_of_life();
    assert_eq!(pair.ops(), [OpCode::WHO_AM_I]);
}

#[test]
fn a_silent_server_makes_no_operation_unknown() {
    let mut pair = Pair::connected(|_| {});
    for _ in 0..4 {
        let token = pair.submit(who_am_i());
        pair.wait(TIMEOUT);
        pair.requests();
        let error = pair.error(token);
        assert!(matches!(error, Error::ConnectionLost(..)), "{error:?}");
        assert!(!error.to_string().contains("perhaps"), "{error}");
        if !pair.machine.is_connected() {
            pair.connect();
        }
    }
}

/// Once, every new connection restored the watches, and the server closed each of them because of
/// that, without an end.
#[test]
fn persistent_watches_on_which_a_server_closes_the_connection_end_and_others_go_on() {
    for was_restored in [false, true] {
        let mut pair = Pair::connected(|_| {});
        let persistent = pair.watch(add_watch("/a", AddWatchMode::PERSISTENT), OK);
        let once = pair.watch(get("/b", true), OK);
        if was_restored {
            pair.cut_and_connect();
            assert_eq!(pair.ops(), [OpCode::SET_WATCHES2]);
            pair.reply(Xid(3), 1, Ok(sound_reply(&Request::Ping(Empty {}))));
        }
        pair.cut();
        let mut closed = 0;
        while !pair
            .outputs
            .iter()
            .any(|output| matches!(output, Output::Watch(..)))
        {
            pair.connect();
            let mut ops = pair.ops();
            if ops == [OpCode::PING] {
                pair.reply(Xid::PING, 1, Ok(sound_reply(&Request::Ping(Empty {}))));
                ops = pair.ops();
            }
            assert_eq!(ops, [OpCode::SET_WATCHES2]);
            pair.cut();
            closed += 1;
            assert!(closed < 20, "the watches never end");
        }
        assert_eq!(closed, if was_restored { 11 } else { 9 });
        let over = unsupported(OpCode::ADD_WATCH, Effect::NotApplied);
        assert_eq!(pair.fired(), [(persistent, Err(over))]);
        pair.connect();
        assert_eq!(
            pair.ops(),
            [OpCode::SET_WATCHES],
            "the one-shot watch is kept"
        );
        assert_eq!(pair.machine.watch_count(), 1);
        assert_eq!(pair.states().last(), Some(&State::Connected));
        let _ = once;
    }
}

/// Keeper does not know `setWatches` either. The waiters of a lock watch with that request.
#[test]
fn one_shot_watches_end_if_the_server_closes_the_connection_on_set_watches() {
    let mut pair = Pair::connected(|_| {});
    let op = OpCode::SET_WATCHES;
    let over = || Err(unsupported(op, Effect::NotApplied));
    let first = pair.machine.watch_nodes(["/a"])[0];
    pair.pump();
    assert_eq!(pair.ops(), [op]);
    pair.cut_and_connect();
    for _ in 0..7 {
        pair.request_sign_of_life();
        assert_eq!(pair.ops(), [op]);
        pair.cut_and_connect();
        assert_eq!(pair.fired(), [], "the watch is not known to have ended");
    }
    pair.request_sign_of_life();
    assert_eq!(pair.ops(), [op]);
    pair.cut();
    assert_eq!(pair.fired(), [(first, over())]);
    pair.connect();
    let second = pair.machine.watch_nodes(["/a"])[0];
    pair.pump();
    assert_eq!(pair.fired(), [(second, over())]);
    assert_eq!((pair.requests().len(), pair.machine.watch_count()), (0, 0));
    // A read leaves a watch that cannot be restored.
    let third = pair.watch(get("/a", true), OK);
    pair.cut_and_connect();
    pair.request_sign_of_life();
    assert_eq!(
        pair.ops(),
        [op],
        "the request is sent again: servers may have been upgraded"
    );
    let _ = third;
}

/// Keeper resumes no session: every connection has a new one. The machine must keep what it knows
/// of operations.
#[test]
fn unknown_operations_outlive_the_session() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(who_am_i());
    pair.cut();
    pair.reach();
    pair.accept(SessionId(0x200), TIMEOUT);
    let second = pair.submit(who_am_i());
    pair.request_sign_of_life();
    pair.requests();
    pair.cut();
    let error = pair.error(second);
    assert!(matches!(error, Error::Unsupported { .. }), "{error:?}");
    assert_eq!(error.session(), SessionId(0x200));
    pair.reach();
    pair.accept(SessionId(0x300), TIMEOUT);
    let third = pair.submit(who_am_i());
    assert!(matches!(pair.error(third), Error::Unsupported { .. }));
}
