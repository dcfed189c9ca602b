//! The end of a client: closing, and refused authentication. Every caller and listener is told
//! once.

use lockkeeper_proto::{ErrorCode, OpCode, SessionId, Xid};

use super::{
    pair::{ID, Pair, SECOND, THIRD, TIMEOUT},
    requests::{children, create, delete, digest, exists, get, granted, lost, sound_reply, sync},
};
use crate::{Cause, Effect, Error, ErrorKind, State};

#[test]
fn a_snapshot_is_of_one_session_until_the_client_has_ended() {
    let mut pair = Pair::new(|_| {});
    let is_session = |pair: &Pair, id| pair.machine.link().snapshot().is_session(id);
    assert!(!is_session(&pair, SessionId::NONE), "there is none");
    pair.connect();
    assert!(is_session(&pair, ID));
    assert!(!is_session(&pair, SessionId(ID.0 + 1)));
    pair.cut();
    assert!(is_session(&pair, ID), "it may be resumed");
    pair.machine.abort();
    assert!(!is_session(&pair, ID));
}

#[test]
fn closing_sends_the_queued_requests_and_then_close_session() {
    let mut pair = Pair::connected(|_| {});
    let watch = pair.watch(get("/a", true), ErrorCode::OK);
    let before = pair.submit_quietly(sync("/before")).0;
    pair.machine.close(pair.now);
    let after = pair.submit(sync("/after"));
    let closed = Error::from(ErrorKind::Closed);
    assert_eq!(pair.error(after), closed);
    let requests = pair.requests();
    let ops: Vec<_> = requests.iter().map(|(_, request)| request.op()).collect();
    assert_eq!(ops, [OpCode::SYNC, OpCode::CLOSE_SESSION]);
    pair.reply(requests[0].0, 5, Ok(sound_reply(&requests[0].1)));
    assert!(pair.result(before).is_ok());
    assert_eq!(pair.states(), []);
    pair.reply(requests[1].0, 6, Ok(sound_reply(&requests[1].1)));
    assert_eq!(pair.states(), [State::Closed]);
    assert_eq!(pair.fired(), [(watch, Err(closed.clone()))]);
    assert!(pair.has_disconnected());
    assert!(pair.machine.link().is_ended());
    let late = pair.submit(sync("/"));
    assert_eq!(pair.error(late), closed);
    pair.cut();
    assert_eq!(pair.machine.next_deadline(), None);
}

#[test]
fn a_client_without_a_connection_is_closed_at_once() {
    for suspended in [true, false] {
        let mut pair = Pair::new(|_| {});
        if suspended {
            pair.connect();
            pair.cut();
        }
        let waiting = pair.submit(sync("/"));
        pair.machine.close(pair.now);
        pair.pump();
        assert_eq!(pair.error(waiting), Error::from(ErrorKind::Closed));
        assert_eq!(pair.states().last(), Some(&State::Closed));
        assert_eq!(pair.machine.next_deadline(), None);
    }
}

#[test]
fn closing_gives_up_a_pending_attempt_to_connect() {
    for standing in [true, false] {
        let mut pair = Pair::new(|_| {});
        pair.tick();
        if standing {
            pair.stand();
        }
        pair.machine.close(pair.now);
        pair.pump();
        assert!(pair.has_disconnected());
        assert_eq!(pair.states(), [State::Closed]);
        pair.handle(crate::machine::Input::Connected);
        assert_eq!(pair.frame(), None);
    }
}

#[test]
fn closing_does_not_wait_for_ever_for_the_server() {
    for pings in [true, false] {
        let mut pair = Pair::connected(|_| {});
        let token = pair.submit(delete("/a"));
        pair.machine.close(pair.now);
        pair.pump();
        while !pair.machine.link().is_ended() {
            pair.wait(SECOND);
            if pings && pair.ops().contains(&OpCode::PING) {
                pair.pong();
            }
        }
        let took = if pings { TIMEOUT } else { 2 * THIRD };
        assert_eq!(pair.now - pair.born, took);
        assert_eq!(pair.error(token).effect(), Effect::Unknown);
        assert_eq!(pair.states(), [State::Closed]);
    }
}

#[test]
fn closing_does_not_wait_for_ever_for_a_blocked_socket() {
    let mut pair = Pair::connected(|_| {});
    pair.machine.close(pair.now);
    while !pair.machine.link().is_ended() {
        pair.now += SECOND;
        pair.machine.handle(pair.now, crate::machine::Input::Tick);
        pair.event(lockkeeper_proto::EventType::NODE_CREATED, "/of no interest");
        assert!(pair.now - pair.born <= TIMEOUT);
    }
}

#[test]
fn a_connection_lost_while_closing_ends_the_client() {
    let mut pair = Pair::connected(|_| {});
    let token = pair.submit(delete("/a"));
    pair.machine.close(pair.now);
    pair.pump();
    pair.cut();
    let why = lost("zk1", Cause::ClosedByServer);
    assert_eq!(pair.error(token), Error::lost(why));
    assert_eq!(pair.states(), [State::Closed]);
    assert_eq!(pair.machine.next_deadline(), None);
}

#[test]
fn an_abort_settles_everything_and_sends_nothing() {
    let mut pair = Pair::connected(|_| {});
    let watch = pair.watch(get("/a", true), ErrorCode::OK);
    let sent = pair.submit(delete("/sent"));
    let ops = pair.ops();
    let waiting = pair.submit_quietly(delete("/waiting")).0;
    pair.machine.abort();
    pair.pump();
    assert_eq!((ops, pair.ops()), (vec![OpCode::DELETE], vec![]));
    assert_eq!(pair.error(sent), Error::closed(Effect::Unknown));
    let closed = Error::from(ErrorKind::Closed);
    assert_eq!(pair.error(waiting), closed);
    assert_eq!(pair.fired(), [(watch, Err(closed))]);
    assert_eq!(pair.states(), [State::Closed]);
    assert_eq!(pair.machine.lease_deadline(), None);
}

/// Once, a late tick found a session without a sign of life, expired it, and so started the ended
/// machine again.
#[test]
fn a_late_tick_does_not_revive_an_ended_machine() {
    let mut pair = Pair::connected(|_| {});
    pair.machine.abort();
    pair.pump();
    pair.now += 10 * TIMEOUT;
    pair.handle(crate::machine::Input::Tick);
    assert_eq!(pair.states(), [State::Closed]);
    assert!(pair.machine.link().is_ended());
}

#[test]
fn refused_authentication_ends_the_client() {
    let mut pair = Pair::connected(|config| config.auth = vec![digest("a:1")]);
    let sent = pair.submit(delete("/sent"));
    let waiting = pair.submit_quietly(delete("/waiting")).0;
    pair.machine.handle(pair.now, crate::machine::Input::Tick);
    let watch = pair.machine.watch_nodes(["/a"])[0];
    pair.reply(Xid::AUTH, 0, Err(ErrorCode::AUTH_FAILED));
    assert_eq!(pair.states(), [State::AuthFailed]);
    assert_eq!(pair.error(sent).effect(), Effect::Unknown);
    let error = pair.error(waiting);
    assert_eq!(
        error.to_string(),
        "authentication failed: zk1:2181, session 0x100: the identity of scheme digest was refused: authentication failed (-115)"
    );
    assert_eq!(pair.fired(), [(watch, Err(error.clone()))]);
    assert_eq!(pair.machine.link().ended(), Some(&error));
    assert!(pair.has_disconnected());
    let late = pair.submit(sync("/"));
    assert_eq!(pair.error(late), error);
    assert_eq!(pair.machine.next_deadline(), None);
}

/// With `sessionRequireClientSASLAuth`, servers answer pings and restored watches with this error,
/// too.
#[test]
fn a_server_that_requires_authentication_ends_the_client() {
    let code = ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH;
    let text = "authentication failed: zk1:2181, session 0x100: the server answers only authenticated clients";
    for way in 0..3 {
        let mut pair = Pair::connected(|_| {});
        match way {
            0 => {
                let token = pair.submit(sync("/"));
                pair.answer_all(|_| Err(code));
                assert_eq!(pair.error(token).code(), Some(code));
            }
            1 => {
                pair.wait(THIRD);
                assert_eq!(pair.requests().len(), 1);
                pair.reply(Xid::PING, 0, Err(code));
            }
            _ => {
                pair.watch_nodes(["/a"]);
                pair.answer_all(|_| Err(code));
            }
        }
        assert_eq!(pair.states(), [State::AuthFailed]);
        assert_eq!(pair.machine.link().ended().unwrap().to_string(), text);
    }
}

#[test]
fn without_a_server_the_client_is_closed() {
    let mut pair = Pair::new(|config| config.endpoints.clear());
    let token = pair.submit(sync("/"));
    pair.tick();
    assert_eq!(pair.error(token), Error::from(ErrorKind::Closed));
    assert_eq!(pair.states(), [State::Closed]);
}

/// The debug output of a machine contains neither the password of the session, nor credentials, nor
/// data.
#[test]
fn secrets_are_not_printed() {
    let mut pair = Pair::new(|config| config.auth = vec![digest("user:hunter2")]);
    pair.submit_quietly(create("/a", b"hunter2".to_vec()));
    pair.reach();
    let look = |pair: &Pair| {
        let text = format!("{:?} {:#?}", pair.machine, pair.machine);
        for secret in ["hunter2", "sixteen", "115, 105"] {
            assert!(!text.contains(secret), "{text}");
        }
    };
    look(&pair);
    let answer = granted(9000, ID);
    let mut out = bytes::BytesMut::new();
    lockkeeper_proto::frame::append(&mut out, |writer| {
        lockkeeper_proto::jute::Encode::encode(&answer, writer);
    })
    .unwrap();
    let frame = lockkeeper_proto::frame::split(&mut out, usize::MAX);
    let frame = frame.unwrap().unwrap();
    pair.machine
        .handle(pair.now, crate::machine::Input::Frame(frame));
    look(&pair);
}

/// Once, a read whose connection was lost failed with "the request may have been applied".
#[test]
fn a_read_without_an_answer_is_never_said_to_be_applied() {
    let ends: [fn(&mut Pair); 3] = [
        Pair::cut,
        |pair| {
            pair.machine.close(pair.now);
            pair.wait(TIMEOUT);
            pair.wait(TIMEOUT);
        },
        |pair| {
            pair.wait(SECOND);
            pair.wait(TIMEOUT);
        },
    ];
    for (case, end) in ends.into_iter().enumerate() {
        for deadline in [None, Some(SECOND)] {
            let mut pair = Pair::connected(|_| {});
            let requests = [
                (get("/a", false), Effect::NotApplied),
                (exists("/a", true), Effect::NotApplied),
                (children("/a", false), Effect::NotApplied),
                (delete("/a"), Effect::Unknown),
                (create("/b", Vec::new()), Effect::Unknown),
            ];
            let tokens = requests.map(|(request, effect)| match deadline {
                None => (pair.submit(request), effect),
                Some(wait) => (pair.submit_within(wait, request).0, effect),
            });
            end(&mut pair);
            for (token, effect) in tokens {
                let error = pair.error(token);
                assert_eq!(error.effect(), effect, "{case}: {error}");
                let says_so = error.to_string().contains("may have been applied");
                assert_eq!(says_so, effect == Effect::Unknown, "{case}: {error}");
            }
            let metrics = pair.machine.metrics();
            assert_eq!(
                (metrics.unknown, metrics.not_sent),
                (5, 0),
                "{case}: all were sent"
            );
        }
    }
}
