//! Followers that learn of transactions late: when they answer, which write a transaction answers,
//! and what a new leader keeps.

use std::time::Duration;

use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, SessionId, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::Empty,
};
use lockkeeper_server::engine::{ConnId, ServerId};

use crate::world::{
    MS, World, connect_frame, create, delete, framed, new_session, request_frame, sync,
};

pub(crate) const ONE: ServerId = ServerId(0);
pub(crate) const OTHER: ServerId = ServerId(1);

/// The longest time that a transaction travels.
pub(crate) const LONGEST: Duration = Duration::from_millis(100);

pub(crate) fn world() -> World {
    let mut world = World::new(500);
    world.engine.set_followers(2, LONGEST);
    world
}

pub(crate) fn exists(path: &str) -> Request {
    lockkeeper_test_support::peer::exists(path, false)
}

pub(crate) fn join(world: &mut World, server: ServerId) -> (ConnId, ConnectResponse) {
    let id = world.connect_to(server);
    world.send(id, &connect_frame(4000));
    world.pass(LONGEST);
    let response = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    (id, response)
}

/// Resumes the session on another connection. The returned id is zero if the server refuses.
pub(crate) fn resume(
    world: &mut World,
    server: ServerId,
    session: &ConnectResponse,
) -> (ConnId, SessionId) {
    let id = ask_for(world, server, session);
    let response = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    (id, response.session_id)
}

/// Asks for the session on a new connection, without waiting for the answer.
pub(crate) fn ask_for(world: &mut World, server: ServerId, session: &ConnectResponse) -> ConnId {
    let id = world.connect_to(server);
    let request = ConnectRequest {
        session_id: session.session_id,
        password: session.password.clone(),
        ..new_session(4000)
    };
    world.send(id, &framed(&request));
    id
}

/// The next reply: its xid and its contents.
pub(crate) fn reply(
    world: &mut World,
    id: ConnId,
    op: OpCode,
) -> (Xid, Result<Response, ErrorCode>) {
    let mut reply = world.frame(id);
    let header = ReplyHeader::decode(&mut reply).unwrap();
    let answer = if header.err.is_ok() {
        Ok(Response::decode(op, &mut reply).unwrap())
    } else {
        Err(header.err)
    };
    (header.xid, answer)
}

pub(crate) fn is_silent(world: &mut World, id: ConnId) -> bool {
    let (sent, closed) = world.of(id);
    !*closed
        && frame::split(sent, usize::MAX >> 1)
            .unwrap()
            .map(Reader::new)
            .is_none()
}

pub(crate) fn path_of(answer: Result<Response, ErrorCode>) -> String {
    match answer {
        Ok(Response::Create(created)) => created.path,
        other => panic!("{other:?}"),
    }
}

#[test]
fn requests_that_came_with_the_handshake_are_answered_when_the_session_has_begun() {
    let mut world = world();
    let id = world.connect_to(ONE);
    let look = request_frame(Xid(1), &exists("/"));
    world.send(id, &[connect_frame(4000), look].concat());
    assert_eq!(*world.of(id), (bytes::BytesMut::new(), false));
    world.pass(LONGEST);
    assert!(ConnectResponse::decode(&mut world.frame(id)).is_ok());
    assert_eq!(reply(&mut world, id, OpCode::EXISTS).0, Xid(1));
}

#[test]
fn a_write_and_the_requests_behind_it_wait_for_its_transaction() {
    let mut world = world();
    let (id, _) = join(&mut world, ONE);
    world.engine.freeze(Some(ONE));
    let node = create("/n", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &exists("/n")));
    let (_, missing) = reply(&mut world, id, OpCode::EXISTS);
    assert_eq!(missing, Err(ErrorCode::NO_NODE));
    for (xid, request) in [(2, &node), (3, &exists("/n")), (4, &delete("/n"))] {
        world.send(id, &request_frame(Xid(xid), request));
    }
    world.send(id, &request_frame(Xid(5), &exists("/n")));
    world.pass(2 * LONGEST);
    assert!(is_silent(&mut world, id), "no transaction has arrived");
    world.engine.thaw(Some(ONE));
    world.pass(2 * LONGEST);
    let (xid, created) = reply(&mut world, id, OpCode::CREATE);
    assert_eq!((xid, path_of(created)), (Xid(2), "/n".to_owned()));
    let (xid, there) = reply(&mut world, id, OpCode::EXISTS);
    assert!(xid == Xid(3) && there.is_ok());
    let (xid, deleted) = reply(&mut world, id, OpCode::DELETE);
    assert_eq!((xid, deleted), (Xid(4), Ok(Response::Delete(Empty {}))));
    let (xid, gone) = reply(&mut world, id, OpCode::EXISTS);
    assert_eq!((xid, gone), (Xid(5), Err(ErrorCode::NO_NODE)));
    world.engine.assert_sound();
}

#[test]
fn a_write_of_a_former_connection_answers_the_same_xid_at_another_server() {
    let mut world = world();
    let (first, session) = join(&mut world, ONE);
    world.engine.freeze(Some(OTHER));
    let lost = create("/lost", CreateMode::Persistent);
    world.send(first, &request_frame(Xid(1), &lost));
    let (second, resumed) = resume(&mut world, OTHER, &session);
    assert_eq!(resumed, session.session_id);
    let wanted = create("/wanted", CreateMode::Persistent);
    world.send(second, &request_frame(Xid(1), &wanted));
    world.send(second, &request_frame(Xid(2), &delete("/none")));
    world.engine.thaw(Some(OTHER));
    world.pass(2 * LONGEST);
    let (xid, created) = reply(&mut world, second, OpCode::CREATE);
    assert_eq!((xid, path_of(created)), (Xid(1), "/lost".to_owned()));
    let (xid, deleted) = reply(&mut world, second, OpCode::DELETE);
    assert_eq!((xid, deleted), (Xid(2), Err(ErrorCode::NO_NODE)));
    assert_eq!(world.engine.paths(), ["/lost", "/wanted"]);
    world.engine.assert_sound();
}

#[test]
fn the_same_xid_at_the_same_server_or_another_xid_gets_its_own_reply() {
    for (server, number) in [(ONE, 1), (OTHER, 7)] {
        let mut world = world();
        let (first, session) = join(&mut world, ONE);
        world.engine.freeze(Some(server));
        let lost = create("/lost", CreateMode::Persistent);
        world.send(first, &request_frame(Xid(1), &lost));
        let (second, _) = resume(&mut world, server, &session);
        let wanted = create("/wanted", CreateMode::Persistent);
        world.send(second, &request_frame(Xid(number), &wanted));
        world.send(second, &request_frame(Xid(8), &exists("/lost")));
        world.engine.thaw(Some(server));
        world.pass(2 * LONGEST);
        let (xid, created) = reply(&mut world, second, OpCode::CREATE);
        assert_eq!((xid, path_of(created)), (Xid(number), "/wanted".to_owned()));
        let (_, there) = reply(&mut world, second, OpCode::EXISTS);
        assert!(there.is_ok());
    }
}

#[test]
fn a_read_is_stale_unless_a_sync_or_a_write_precedes_it() {
    for barrier in [sync("/"), delete("/none")] {
        let mut world = world();
        let (first, session) = join(&mut world, ONE);
        world.engine.freeze(Some(OTHER));
        let node = create("/n", CreateMode::Persistent);
        world.send(first, &request_frame(Xid(1), &node));
        let (second, _) = resume(&mut world, OTHER, &session);
        world.send(second, &request_frame(Xid(2), &exists("/n")));
        let (_, stale) = reply(&mut world, second, OpCode::EXISTS);
        assert_eq!(stale, Err(ErrorCode::NO_NODE));
        world.send(second, &request_frame(Xid(3), &barrier));
        world.send(second, &request_frame(Xid(4), &exists("/n")));
        world.engine.thaw(Some(OTHER));
        world.pass(2 * LONGEST);
        let _ = reply(&mut world, second, barrier.op());
        let (_, there) = reply(&mut world, second, OpCode::EXISTS);
        assert!(there.is_ok(), "{barrier:?}");
    }
}

#[test]
fn a_follower_ends_a_session_when_the_transaction_arrives() {
    let mut world = world();
    let (id, session) = join(&mut world, ONE);
    world.engine.freeze(Some(ONE));
    assert!(world.engine.expire_early(session.session_id, world.now));
    world.send(id, &request_frame(Xid(1), &exists("/n")));
    let (_, missing) = reply(&mut world, id, OpCode::EXISTS);
    assert_eq!(missing, Err(ErrorCode::NO_NODE));
    let node = create("/n", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(2), &node));
    world.engine.assert_sound();
    world.engine.thaw(Some(ONE));
    world.pass(2 * LONGEST);
    assert!(world.of(id).1, "the connection is closed");
    assert_eq!(world.engine.report().nodes, 0);
    world.engine.assert_sound();
}

#[test]
fn a_deposed_leader_loses_only_transactions_that_no_follower_has_learned() {
    let mut world = world();
    let (id, session) = join(&mut world, ONE);
    let ephemeral = create("/known", CreateMode::Ephemeral);
    world.send(id, &request_frame(Xid(1), &ephemeral));
    world.pass(LONGEST);
    let (_, created) = reply(&mut world, id, OpCode::CREATE);
    assert_eq!(path_of(created), "/known");
    for server in [ONE, OTHER] {
        world.engine.freeze(Some(server));
    }
    world.send(id, &request_frame(Xid(2), &delete("/known")));
    let lost = create("/lost", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(3), &lost));
    assert!(world.engine.expire_early(session.session_id, world.now));
    let late = world.connect_to(OTHER);
    world.send(late, &connect_frame(4000));
    assert_eq!(world.engine.paths(), ["/lost"]);
    let before = world.engine.last_zxid();
    assert_eq!(world.engine.depose(Zxid::ZERO, world.now), 4);
    world.collect();
    assert!(world.of(id).1 && world.of(late).1);
    assert_eq!(world.engine.paths(), ["/known"]);
    assert!(
        world.engine.last_zxid() > before,
        "the new leader goes on behind the former one"
    );
    assert_eq!(
        world.engine.live_sessions().collect::<Vec<_>>(),
        [session.session_id]
    );
    let (id, resumed) = resume(&mut world, OTHER, &session);
    assert_eq!(resumed, session.session_id);
    world.send(id, &request_frame(Xid(4), &exists("/known")));
    assert!(reply(&mut world, id, OpCode::EXISTS).1.is_ok());
    world.engine.assert_sound();
    world.pass(5000 * MS);
    assert_eq!(world.engine.report().nodes, 0, "the session has expired");
}

#[test]
fn a_deposed_leader_keeps_the_transactions_up_to_the_given_zxid() {
    let mut world = world();
    let (id, _) = join(&mut world, ONE);
    for server in [ONE, OTHER] {
        world.engine.freeze(Some(server));
    }
    let kept = create("/kept", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &kept));
    let until = world.engine.last_zxid();
    let lost = create("/lost", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(2), &lost));
    assert_eq!(world.engine.depose(until, world.now), 1);
    assert_eq!(world.engine.paths(), ["/kept"]);
}
