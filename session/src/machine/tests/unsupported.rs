//! Operations that a server does not know, and says so.

use lockkeeper_proto::{ErrorCode, OpCode, Request, records::Empty};

use super::{
    pair::Pair,
    requests::{peer, sound_reply, sync},
};
use crate::{Effect, Error, UnsupportedReason};

fn who_am_i_unknown() -> Error {
    Error::Unsupported {
        op: OpCode::WHO_AM_I,
        reason: UnsupportedReason::Answered,
        effect: Effect::NotApplied,
        peer: peer(),
    }
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
        pair.cut();
        pair.connect();
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
