//! Servers that close the connection on an operation that they do not know.

use lockkeeper_proto::{
    AddWatchMode, ErrorCode, OpCode, Request, SessionId, Xid,
    records::{CreateTtlRequest, Empty},
};

use super::{
    pair::{Pair, TIMEOUT},
    requests::{add_watch, get, lost, peer, sound_reply, sync},
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
    /// The server answers the ping that it is sent before an operation that goes alone.
    pub(super) fn request_sign_of_life(&mut self) {
        assert_eq!(
            self.ops(),
            [OpCode::PING],
            "a sign of life is asked for first"
        );
        self.reply(Xid::PING, 1, Ok(sound_reply(&Request::Ping(Empty {}))));
    }

    /// A closed connection, and the next one.
    fn cut_and_connect(&mut self) {
        self.cut();
        self.connect();
    }
}

/// Keeper throws the client out without a word, so that every caller that asked for the operation learnt of a lost connection,
/// each time anew.
#[test]
fn what_a_server_closes_the_connection_on_twice_is_unknown_to_it() {
    for (request, effect) in [
        (who_am_i(), Effect::NotApplied),
        (create_ttl(), Effect::Unknown),
    ] {
        let op = request.op();
        let mut pair = Pair::connected(|_| {});
        let first = pair.submit(request.clone());
        pair.cut_and_connect();
        // It may have been an accident.
        let accident = Error::ConnectionLost(lost("zk1", Cause::ClosedOn(op)));
        assert_eq!(pair.error(first), accident);
        assert_eq!(pair.requests(), [], "nothing is repeated");

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
        assert_eq!(pair.requests(), [], "it costs no third connection");
        let known = pair.submit(sync("/"));
        pair.serve();
        assert!(pair.result(known).is_ok(), "others go on");
    }
}

#[test]
fn what_goes_alone_goes_after_the_others_and_before_the_others() {
    let mut pair = Pair::connected(|_| {});
    let tokens = [
        pair.submit(sync("/1")),
        pair.submit(who_am_i()),
        pair.submit(sync("/2")),
    ];
    pair.cut_and_connect();
    for token in tokens {
        // The server may have come to those before it, though it answers none of them.
        assert_eq!(pair.error(token).effect(), Effect::Unknown);
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
        "it was answered just now: no ping"
    );
    pair.cut();
    assert_eq!(
        pair.error(alone),
        unsupported(OpCode::WHO_AM_I, Effect::NotApplied)
    );
    assert!(!pair.is_settled(behind), "it was not sent");
    pair.connect();
    pair.serve();
    assert!(pair.result(behind).is_ok());
}

#[test]
fn what_is_answered_was_not_what_the_connection_was_closed_for() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.submit(who_am_i());
    pair.cut_and_connect();
    assert!(matches!(pair.error(first), Error::ConnectionLost(_)));
    let second = pair.submit(who_am_i());
    pair.request_sign_of_life();
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 1, Err(ErrorCode::NO_AUTH));
    assert_eq!(pair.error(second).code(), Some(ErrorCode::NO_AUTH));
    // From then on it goes with the others, and accidents are accidents.
    for _ in 0..2 {
        let tokens = [pair.submit(sync("/")), pair.submit(who_am_i())];
        assert_eq!(pair.ops(), [OpCode::SYNC, OpCode::WHO_AM_I]);
        pair.cut_and_connect();
        let accident = Error::ConnectionLost(lost("zk1", Cause::ClosedByServer));
        assert_eq!(
            tokens.map(|token| pair.error(token)),
            [accident.clone(), accident]
        );
    }
}

/// Without a sign of life right before, a server that is going down is as likely.
#[test]
fn a_server_that_closes_every_connection_knows_what_it_knows() {
    let mut pair = Pair::connected(|_| {});
    for round in 0..4 {
        let token = pair.submit(who_am_i());
        assert_eq!(pair.ops().len(), 1, "a ping, or the first time the request");
        pair.cut_and_connect();
        match round {
            0 => assert!(matches!(pair.error(token), Error::ConnectionLost(_))),
            // Not sent: it waits for a server that answers.
            _ => assert!(!pair.is_settled(token)),
        }
    }
    pair.request_sign_of_life();
    assert_eq!(pair.ops(), [OpCode::WHO_AM_I]);
}

#[test]
fn silence_is_no_answer_to_a_single_operation() {
    let mut pair = Pair::connected(|_| {});
    for _ in 0..4 {
        let token = pair.submit(who_am_i());
        pair.wait(TIMEOUT);
        pair.requests();
        let error = pair.error(token);
        assert!(matches!(error, Error::ConnectionLost(_)), "{error:?}");
        assert!(!error.to_string().contains("perhaps"), "{error}");
        if !pair.machine.is_connected() {
            pair.connect();
        }
    }
}

/// The watches were restored anew on each connection, and each was closed for it, without an end.
#[test]
fn lasting_watches_that_a_server_closes_the_connection_on_are_ended_and_the_others_go_on() {
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
            assert!(closed < 20, "it goes on for ever");
        }
        assert_eq!(closed, if was_restored { 11 } else { 9 });
        let over = unsupported(OpCode::ADD_WATCH, Effect::NotApplied);
        assert_eq!(pair.fired(), [(persistent, Err(over))]);
        pair.connect();
        assert_eq!(pair.ops(), [OpCode::SET_WATCHES], "the others are kept");
        assert_eq!(pair.machine.watch_count(), 1);
        assert_eq!(pair.states().last(), Some(&State::Connected));
        let _ = once;
    }
}

/// Keeper does not know `setWatches` either, with which waiters for a lock watch.
#[test]
fn watches_in_a_list_end_where_the_server_closes_the_connection_on_the_list() {
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
        assert_eq!(pair.fired(), [], "it is restored, as far as anybody knows");
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
    // A read leaves its watch, which cannot be restored.
    let third = pair.watch(get("/a", true), OK);
    pair.cut_and_connect();
    pair.request_sign_of_life();
    assert_eq!(
        pair.ops(),
        [op],
        "asked again, when servers may have been upgraded"
    );
    let _ = third;
}

/// Keeper resumes no session: every connection has a new one, and what was learnt must outlive it.
#[test]
fn what_was_learnt_outlives_the_session() {
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
