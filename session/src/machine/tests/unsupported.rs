//! What becomes of operations that a server does not know.

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

/// A server answers an unknown operation before it has come to what was asked earlier, and closes the connection. Taken for
/// a reply out of turn, it would be a broken connection and nothing else.
#[test]
fn an_unknown_operation_is_told_as_such_though_its_answer_overtakes_others() {
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
fn an_unknown_operation_is_asked_for_once_and_again_when_servers_may_have_been_upgraded() {
    let mut pair = Pair::connected(|_| {});
    let first = pair.submit(who_am_i());
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, -1, Err(ErrorCode::UNIMPLEMENTED));
    assert_eq!(pair.error(first), who_am_i_unknown());
    // The server closes the connection for it; the next one is of the same servers.
    for _ in 0..2 {
        let again = pair.submit(who_am_i());
        assert_eq!(pair.error(again), who_am_i_unknown());
        assert_eq!(pair.requests(), [], "it costs no second connection");
        pair.cut();
        pair.connect();
    }
    let upgraded = pair.submit(who_am_i());
    assert_eq!(pair.ops(), [OpCode::WHO_AM_I]);
    assert!(!pair.is_settled(upgraded));
}

#[test]
fn other_operations_go_on_where_one_is_who_am_i_unknown() {
    let mut pair = Pair::connected(|_| {});
    pair.submit(who_am_i());
    pair.answer_all(|_| Err(ErrorCode::UNIMPLEMENTED));
    let known = pair.submit(sync("/"));
    pair.answer_all(|request| Ok(sound_reply(request)));
    assert!(pair.result(known).is_ok());
}
