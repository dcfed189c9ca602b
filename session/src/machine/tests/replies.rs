//! Which request a reply belongs to, the order of the outputs, and requests that go out in one
//! write.

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, EventType, KeeperState, OpCode, Request, Response, WatcherEvent, Xid, Zxid,
    header::ReplyHeader,
    jute::{DecodeErrorKind, Encode},
    multi::{MultiRequest, MultiResponse},
    records::{Empty, SyncResponse},
};

use super::{
    pair::{Pair, THIRD},
    requests::{self, children, create, delete, digest, exists, get, lost, sound_reply, sync},
};
use crate::{
    Cause, Effect, Error, ErrorKind, State,
    machine::{Input, RequestOptions},
};

fn echo(path: &str) -> Response {
    let path = path.to_owned();
    Response::Sync(SyncResponse { path })
}

fn sync_lost(cause: Cause) -> Error {
    Error::lost(lost("zk1", cause))
}

#[test]
fn submitted_requests_go_out_in_one_write_and_in_order() {
    let mut pair = Pair::connected(|_| {});
    let before = pair.writes;
    let wanted: Vec<_> = (0..100).map(|n| sync(&format!("/{n}"))).collect();
    for request in &wanted {
        pair.submit_quietly(request.clone());
    }
    pair.pump();
    assert_eq!(pair.writes, before + 1);
    let (xids, got): (Vec<_>, Vec<_>) = pair.requests().into_iter().unzip();
    assert_eq!(got, wanted);
    assert!(xids.is_sorted() && xids.iter().all(|xid| xid.0 > 0));
    assert_eq!(pair.machine.outstanding(), 100);
    pair.pump();
    assert_eq!(pair.writes, before + 1, "nothing is sent twice");
}

/// Two other clients match replies by their order of arrival only. They gave the data of one node
/// to the reader of another.
#[test]
fn a_reply_out_of_order_ends_the_connection_and_reaches_no_caller() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.submit(sync("/first"));
    let second = pair.submit(sync("/second"));
    let (expected, _) = pair.request().unwrap();
    let (got, _) = pair.request().unwrap();
    pair.reply(got, 1, Ok(echo("/second")));
    let why = Cause::UnexpectedReply {
        expected: Some(expected),
        got,
    };
    for token in [first, second] {
        let error = pair.error(token);
        assert_eq!(error, sync_lost(why.clone()));
        assert_eq!(error.effect(), Effect::Unknown);
    }
    assert_eq!(pair.states(), [State::Suspended]);
    pair.connect();
}

#[test]
fn a_reply_to_no_request_ends_the_connection() {
    for got in [Xid(0), Xid(-3), Xid(i32::MIN), Xid(1), Xid::SET_WATCHES] {
        let mut pair = Pair::connected(|_| {});
        pair.reply(got, 1, Ok(echo("/")));
        let expected = None;
        assert_eq!(pair.last_cause(), Cause::UnexpectedReply { expected, got });
        pair.connect();
    }
}

#[test]
fn pings_and_authentication_are_answered_out_of_turn() {
    let mut pair = Pair::connected(|config| config.auth.push(digest("a:b")));
    let (xid, _) = pair.request().unwrap();
    assert_eq!(xid, Xid::AUTH);
    let token = pair.submit(sync("/"));
    let (sync_xid, _) = pair.request().unwrap();
    pair.wait(THIRD);
    pair.pong();
    pair.pong();
    pair.reply(Xid::AUTH, 0, Ok(Response::Auth(Empty {})));
    assert!(!pair.is_settled(token));
    pair.reply(sync_xid, 1, Ok(echo("/")));
    assert_eq!(pair.result(token), Ok(echo("/")));
    assert_eq!(pair.states(), [State::Connected]);
}

#[test]
fn bytes_behind_an_error_are_not_read_and_an_unknown_code_is_kept() {
    for code in [ErrorCode::NO_NODE, ErrorCode(-4711), ErrorCode(7)] {
        let mut pair = Pair::connected(|_| {});
        let token = pair.submit(sync("/a"));
        let (xid, _) = pair.request().unwrap();
        pair.receive(|writer| {
            let zxid = Zxid(5);
            ReplyHeader {
                xid,
                zxid,
                err: code,
            }
            .encode(writer);
            writer.put_slice(&[0xff; 7]);
        });
        let error = pair.error(token);
        assert_eq!(error.code(), Some(code));
        assert_eq!(error.effect(), Effect::NotApplied);
        assert_eq!(pair.states(), []);
    }
}

#[test]
fn bytes_behind_a_reply_are_ignored() {
    let mut pair = Pair::connected(|_| {});
    let token = pair.submit(get("/a", false));
    let (xid, request) = pair.request().unwrap();
    pair.receive(|writer| {
        let (zxid, err) = (Zxid(5), ErrorCode::OK);
        ReplyHeader { xid, zxid, err }.encode(writer);
        sound_reply(&request).encode(writer);
        writer.put_slice(b"of a newer server");
    });
    assert_eq!(pair.result(token), Ok(sound_reply(&request)));
    assert_eq!(pair.states(), []);
}

#[test]
fn an_unreadable_reply_is_the_error_of_its_caller_alone() {
    let mut pair = Pair::connected(|_| {});
    let token = pair.submit(sync("/a"));
    let other = pair.submit(sync("/b"));
    let (xid, _) = pair.request().unwrap();
    pair.receive(|writer| {
        let (zxid, err) = (Zxid(5), ErrorCode::OK);
        ReplyHeader { xid, zxid, err }.encode(writer);
        writer.put_slice(&[0, 0, 0, 9, b'/']);
    });
    let failed = pair.error(token);
    let ErrorKind::Malformed { op, error } = failed.kind().clone() else {
        panic!("it was read");
    };
    assert_eq!((op, error.field), (OpCode::SYNC, "SyncResponse.path"));
    assert_eq!(*failed.peer(), requests::peer());
    let kind = DecodeErrorKind::TooLong {
        announced: 9,
        left: 1,
    };
    assert_eq!(error.kind, kind);
    pair.serve();
    assert_eq!(pair.result(other), Ok(echo("/b")));
    assert_eq!(pair.states(), []);
}

#[test]
fn a_transaction_that_is_refused_does_not_count_as_done() {
    let mut pair = Pair::connected(|_| {});
    let counted = |pair: &Pair| {
        let metrics = pair.machine.metrics();
        (metrics.succeeded, metrics.refused)
    };
    for (result, after) in [
        (Err(ErrorCode::BAD_VERSION), (0, 1)),
        (Ok(Response::Check(Empty {})), (1, 1)),
    ] {
        let results = vec![result];
        let ops = Vec::new();
        let token = pair.submit(Request::Multi(MultiRequest { ops }));
        let (xid, _) = pair.request().unwrap();
        pair.reply(xid, 1, Ok(Response::Multi(MultiResponse { results })));
        let code = pair.result(token).err().and_then(|error| error.code());
        assert_eq!(code.is_some(), after == (0, 1));
        assert_eq!(counted(&pair), after);
    }
}

/// It counted as one that was not answered, and its time was missing among the round trips.
#[test]
fn a_request_whose_reply_is_too_long_counts_as_done() {
    let mut pair = Pair::connected(|_| {});
    for (done, request) in [(1, get("/a", false)), (2, create("/a", Vec::new()))] {
        let token = pair.submit(request);
        pair.wait(THIRD / 3);
        let (length, limit) = (2000, 1000);
        pair.handle(Input::Oversized { length, limit });
        assert_eq!(pair.error(token).effect() == Effect::Unknown, done == 2);
        let metrics = pair.machine.metrics();
        assert_eq!((metrics.succeeded, metrics.unknown), (done, 0));
        assert_eq!(metrics.round_trips.count(), done);
    }
}

#[test]
fn a_frame_without_a_whole_header_ends_the_connection() {
    for length in [0, 3, 15] {
        let mut pair = Pair::connected(|_| {});
        pair.handle(Input::Frame(Bytes::from(vec![0; length])));
        assert!(matches!(pair.last_cause(), Cause::Decode(_)), "{length}");
    }
}

#[test]
fn an_event_of_an_unknown_type_goes_to_every_listener_on_the_path() {
    let mut pair = Pair::connected(|_| {});
    let data = pair.watch(get("/a", true), ErrorCode::OK);
    let child = pair.watch(children("/a", true), ErrorCode::OK);
    let elsewhere = pair.watch(exists("/b", true), ErrorCode::OK);
    pair.receive(|writer| {
        ReplyHeader {
            xid: Xid::NOTIFICATION,
            zxid: Zxid(9),
            err: ErrorCode(-3),
        }
        .encode(writer);
        WatcherEvent {
            event_type: EventType(99),
            state: KeeperState(-7),
            path: "/a".to_owned(),
        }
        .encode(writer);
    });
    let fired = pair.fired();
    let types: Vec<_> = fired
        .iter()
        .map(|(id, event)| (*id, event.as_ref().unwrap().event_type.0))
        .collect();
    assert_eq!(types, [(data, 99), (child, 99)]);
    assert_eq!(pair.machine.metrics().watches, 1);
    assert_eq!(pair.states(), []);
    pair.event(EventType::NODE_CREATED, "/b");
    assert_eq!(pair.fired()[0].0, elsewhere);
}

#[test]
fn a_request_too_long_is_refused_and_the_others_are_sent() {
    let mut pair = Pair::connected(|config| config.max_request = 100);
    let before = pair.submit_quietly(sync("/before")).0;
    let long = pair.submit_quietly(create("/long", vec![0; 100])).0;
    let just = pair.submit_quietly(sync(&format!("/{}", "x".repeat(87)))).0;
    assert_eq!(pair.machine.outstanding(), 2, "its memory is not kept");
    pair.pump();
    let error = pair.error(long);
    let ErrorKind::TooLarge { length, limit } = error.kind().clone() else {
        panic!("{error:?}");
    };
    assert_eq!((length, limit), (129, 100));
    assert_eq!(error.effect(), Effect::NotApplied);
    let xids: Vec<_> = pair.requests().iter().map(|(xid, _)| xid.0).collect();
    assert_eq!(xids, [1, 2]);
    assert!(!pair.is_settled(before) && !pair.is_settled(just));
}

#[test]
fn requests_above_the_limit_are_refused() {
    for connected in [true, false] {
        let mut pair = Pair::new(|config| config.max_outstanding = 3);
        if connected {
            pair.connect();
        }
        for taken in 0..6 {
            // Callers that can wait leave a reserve of three requests to callers that cannot.
            let options = RequestOptions::at(pair.now);
            assert_eq!(pair.machine.has_capacity(pair.now, 1, &options), taken < 3);
            pair.submit(sync("/"));
        }
        let refused = pair.submit(sync("/"));
        let error = pair.error(refused);
        let bytes = if connected { 0 } else { 6 * (8 + 5) };
        assert_eq!(
            error,
            ErrorKind::TooManyRequests { requests: 6, bytes }.into()
        );
        assert_eq!(error.effect(), Effect::NotApplied);
        let (token, watch) = pair.submit_quietly(get("/", true));
        pair.pump();
        assert!(pair.error(token) == error && watch.is_none());
        if connected {
            pair.serve();
            let token = pair.submit(sync("/"));
            assert!(!pair.is_settled(token));
        }
    }
}

/// A follower that still waits for a write of the former connection would answer a request of the
/// same number with its result.
#[test]
fn numbers_of_requests_are_not_used_again_on_the_next_connection() {
    let mut pair = Pair::connected(|_| {});
    let mut used = std::collections::HashSet::new();
    for _ in 0..5 {
        pair.submit(delete("/a"));
        pair.submit(get("/a", true));
        for (xid, _) in pair.requests() {
            assert!(used.insert(xid), "{xid} again");
        }
        pair.reconnect();
    }
}

/// With a zxid that is too high, every server refuses the client. With one that is too low, it may
/// connect to a server that lags behind what it has seen.
#[test]
fn only_replies_advance_the_newest_zxid() {
    let mut pair = Pair::connected(|_| {});
    let zxid_after = |pair: &mut Pair| {
        pair.cut();
        pair.connect().last_zxid_seen.0
    };
    pair.submit(sync("/"));
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, 10, Ok(echo("/")));
    assert_eq!(zxid_after(&mut pair), 10);
    for lower in [0, -1, 9] {
        pair.see(lower);
        assert_eq!(zxid_after(&mut pair), 10);
    }
    pair.reply(Xid::PING, 99, Ok(Response::Ping(Empty {})));
    pair.receive(|writer| {
        let (xid, zxid, err) = (Xid::NOTIFICATION, Zxid(99), ErrorCode::OK);
        ReplyHeader { xid, zxid, err }.encode(writer);
        writer.put_slice(&[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 1, b'/']);
    });
    assert_eq!(zxid_after(&mut pair), 10);
    pair.submit(sync("/"));
    assert_eq!(pair.request(), Some((Xid(5), sync("/"))));
    pair.reply(Xid(5), 11, Err(ErrorCode::NO_NODE));
    assert_eq!(zxid_after(&mut pair), 11);
}

/// Once, one frame that answered nothing ended a client for ever.
#[test]
fn a_refusal_that_nobody_asked_for_costs_only_the_connection() {
    for (got, code) in [
        (Xid::AUTH, ErrorCode::AUTH_FAILED),
        (Xid::AUTH, ErrorCode::OK),
        (Xid::PING, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH),
    ] {
        let mut pair = Pair::connected(|_| {});
        pair.reply(got, 1, Err(code));
        assert_eq!(pair.states(), [State::Suspended]);
        let expected = None;
        assert_eq!(pair.last_cause(), Cause::UnexpectedReply { expected, got });
        pair.connect();
    }
}
