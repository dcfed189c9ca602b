//! Links between servers that are cut: what waits, what is lost, and a leader that goes on without
//! the others.

use lockkeeper_proto::{
    CreateMode, OpCode, Request, SessionId, Xid, Zxid, connect::ConnectResponse, records::Empty,
};
use lockkeeper_server::engine::{ConnId, Direction, ServerId};

use crate::{
    followers::{
        LONGEST, ONE, OTHER, ask_for, exists, is_silent, join, path_of, reply, resume, world,
    },
    world::{MS, World, connect_frame, create, request_frame, sync},
};

/// A world whose leader hears of sessions every 250 ms.
fn with_relay() -> World {
    let mut world = world();
    world.engine.set_relay(Some(250 * MS), world.now);
    world
}

fn cut(world: &mut World, server: ServerId) {
    world.engine.cut_link(server, Direction::ToLeader);
    world.engine.cut_link(server, Direction::FromLeader);
}

fn mend(world: &mut World, server: ServerId) {
    for direction in [Direction::ToLeader, Direction::FromLeader] {
        world.engine.mend_link(server, direction, world.now);
    }
    world.collect();
}

fn ping(world: &mut World, id: ConnId) {
    world.send(id, &request_frame(Xid::PING, &Request::Ping(Empty {})));
    let (xid, answer) = reply(world, id, OpCode::PING);
    assert!(xid == Xid::PING && answer.is_ok());
}

/// Pings every 500 ms for so many milliseconds.
fn ping_for(world: &mut World, id: ConnId, ms: u32) {
    for _ in 0..ms / 500 {
        world.pass(500 * MS);
        ping(world, id);
    }
}

fn lives(world: &World, session: &ConnectResponse) -> bool {
    world
        .engine
        .live_sessions()
        .any(|live| live == session.session_id)
}

#[test]
fn a_server_that_is_cut_off_answers_its_clients_while_the_leader_ends_their_sessions() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    let node = create("/e", CreateMode::Ephemeral);
    world.send(id, &request_frame(Xid(1), &node));
    world.pass(LONGEST);
    assert_eq!(path_of(reply(&mut world, id, OpCode::CREATE).1), "/e");
    cut(&mut world, ONE);
    // The session has a timeout of 4 s.
    ping_for(&mut world, id, 5000);
    assert!(!lives(&world, &session));
    assert!(world.engine.paths().is_empty());
    world.send(id, &request_frame(Xid(2), &exists("/e")));
    assert!(reply(&mut world, id, OpCode::EXISTS).1.is_ok());
    world.engine.assert_sound();
    mend(&mut world, ONE);
    world.pass(LONGEST);
    assert!(world.of(id).1, "the server knows that the session is over");
}

#[test]
fn what_waited_arrives_in_order_when_the_link_is_mended() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    let (by_other, _) = join(&mut world, OTHER);
    cut(&mut world, ONE);
    for (xid, path) in [(1, "/a"), (2, "/a/b")] {
        let node = create(path, CreateMode::Persistent);
        world.send(id, &request_frame(Xid(xid), &node));
    }
    let fresh = world.connect_to(ONE);
    world.send(fresh, &connect_frame(4000));
    let theirs = create("/theirs", CreateMode::Persistent);
    world.send(by_other, &request_frame(Xid(1), &theirs));
    world.pass(LONGEST);
    assert_eq!(
        path_of(reply(&mut world, by_other, OpCode::CREATE).1),
        "/theirs"
    );
    ping_for(&mut world, by_other, 3500);
    assert!(is_silent(&mut world, id) && is_silent(&mut world, fresh));
    assert_eq!(world.engine.paths(), ["/theirs"]);
    assert_eq!(world.engine.live_sessions().count(), 2);
    mend(&mut world, ONE);
    world.pass(LONGEST);
    assert_eq!(path_of(reply(&mut world, id, OpCode::CREATE).1), "/a");
    assert_eq!(path_of(reply(&mut world, id, OpCode::CREATE).1), "/a/b");
    assert_eq!(world.engine.paths(), ["/a", "/a/b", "/theirs"]);
    assert!(!is_silent(&mut world, fresh));
    // The two writes were activity, of which the leader has now heard: the session lives for
    // another timeout.
    world.pass(3500 * MS);
    assert!(lives(&world, &session));
    world.engine.assert_sound();
}

#[test]
fn with_one_direction_cut_the_other_works() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    let (writer, _) = join(&mut world, ONE);
    world.engine.cut_link(ONE, Direction::FromLeader);
    let node = create("/a", CreateMode::Persistent);
    world.send(writer, &request_frame(Xid(1), &node));
    world.pass(1000 * MS);
    assert_eq!(world.engine.paths(), ["/a"]);
    assert!(is_silent(&mut world, writer));
    // The pings of the leader do not arrive, so that nothing is told of the session.
    ping_for(&mut world, id, 4000);
    assert!(!lives(&world, &session));

    let (id, session) = join(&mut world, OTHER);
    world.engine.cut_link(OTHER, Direction::ToLeader);
    world.send(id, &request_frame(Xid(1), &exists("/a")));
    assert!(reply(&mut world, id, OpCode::EXISTS).1.is_ok());
    ping_for(&mut world, id, 3500);
    assert!(lives(&world, &session));
    world.engine.cut_link(OTHER, Direction::FromLeader);
    world
        .engine
        .mend_link(OTHER, Direction::ToLeader, world.now);
    // What was told before the second cut has arrived.
    world.pass(3500 * MS);
    assert!(lives(&world, &session));
    world.pass(1500 * MS);
    assert!(!lives(&world, &session));
}

#[test]
fn a_write_that_waited_is_refused_if_its_session_has_moved() {
    let mut world = world();
    let (id, session) = join(&mut world, ONE);
    cut(&mut world, ONE);
    let node = create("/late", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &node));
    world.send(id, &request_frame(Xid(2), &exists("/late")));
    let (_, resumed) = resume(&mut world, OTHER, &session);
    assert_eq!(resumed, session.session_id);
    mend(&mut world, ONE);
    world.pass(LONGEST);
    assert!(world.engine.paths().is_empty());
    // Nothing of it is left when the session comes back.
    let (id, _) = resume(&mut world, ONE, &session);
    world.send(id, &request_frame(Xid(3), &node));
    world.pass(LONGEST);
    let (xid, created) = reply(&mut world, id, OpCode::CREATE);
    assert_eq!((xid, path_of(created)), (Xid(3), "/late".to_owned()));
}

/// As a leader does: it is one until another is elected.
#[test]
fn a_session_that_a_leader_without_the_others_has_resumed_stays_if_it_is_not_deposed() {
    let mut world = world();
    let (_, session) = join(&mut world, OTHER);
    for server in [ONE, OTHER] {
        cut(&mut world, server);
    }
    world.engine.lead_alone(ONE);
    let (id, resumed) = resume(&mut world, ONE, &session);
    assert_eq!(resumed, session.session_id);
    let node = create("/n", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &node));
    mend(&mut world, ONE);
    world.pass(LONGEST);
    assert_eq!(path_of(reply(&mut world, id, OpCode::CREATE).1), "/n");
}

#[test]
fn a_server_that_gives_up_loses_what_waited() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    cut(&mut world, ONE);
    let node = create("/lost", CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &node));
    world.pass(1000 * MS);
    world.engine.fail_server(ONE);
    world.collect();
    assert!(world.of(id).1);
    mend(&mut world, ONE);
    world.pass(LONGEST);
    assert!(world.engine.paths().is_empty() && lives(&world, &session));
    let (id, resumed) = resume(&mut world, ONE, &session);
    assert_eq!(resumed, session.session_id);
    world.send(id, &request_frame(Xid(2), &node));
    world.pass(LONGEST);
    assert_eq!(path_of(reply(&mut world, id, OpCode::CREATE).1), "/lost");
    world.engine.assert_sound();
}

/// The other servers elect a leader without the former one, which goes on.
fn elect_without(world: &mut World, former: ServerId, voter: ServerId) -> usize {
    world.engine.fail_server(voter);
    mend(world, voter);
    world.engine.lead_alone(former);
    let lost = world.engine.depose(Zxid::ZERO, world.now);
    world.collect();
    lost
}

#[test]
fn a_leader_without_the_others_goes_on_and_its_writes_are_lost() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    let (by_other, moving) = join(&mut world, OTHER);
    for server in [ONE, OTHER] {
        cut(&mut world, server);
    }
    let lost = create("/lost", CreateMode::Persistent);
    elect_without(&mut world, ONE, OTHER);
    assert!(world.of(by_other).1 && !world.of(id).1);
    // It answers a sync until a write is pending, and resumes sessions, but makes none.
    world.send(id, &request_frame(Xid(1), &sync("/")));
    assert!(reply(&mut world, id, OpCode::SYNC).1.is_ok());
    world.send(id, &request_frame(Xid(2), &lost));
    world.send(id, &request_frame(Xid(3), &sync("/")));
    world.pass(1000 * MS);
    assert!(is_silent(&mut world, id));
    let (moved, resumed) = resume(&mut world, ONE, &moving);
    assert_eq!(resumed, moving.session_id);
    let fresh = world.connect_to(ONE);
    world.send(fresh, &connect_frame(4000));
    assert!(is_silent(&mut world, fresh));
    // The new leader hears of neither session, and ends both.
    for _ in 0..10 {
        world.pass(500 * MS);
        ping(&mut world, moved);
    }
    assert!(!lives(&world, &session) && !lives(&world, &moving));
    mend(&mut world, ONE);
    assert!(world.of(id).1 && world.of(moved).1 && world.of(fresh).1);
    world.pass(LONGEST);
    assert!(world.engine.paths().is_empty());
    let (_, resumed) = resume(&mut world, ONE, &session);
    assert_eq!(resumed, SessionId::NONE);
    world.engine.assert_sound();
}

#[test]
fn the_end_of_a_session_by_a_leader_without_the_others_is_lost() {
    let mut world = with_relay();
    let (id, session) = join(&mut world, ONE);
    for server in [ONE, OTHER] {
        cut(&mut world, server);
    }
    world.pass(5000 * MS);
    assert!(!lives(&world, &session));
    assert_eq!(elect_without(&mut world, ONE, OTHER), 1);
    assert!(lives(&world, &session) && !world.of(id).1);
    world.engine.assert_sound();
    // A follower that had no part in the election gives up, too, when it hears of it.
    mend(&mut world, ONE);
    assert!(world.of(id).1);
    let again = ask_for(&mut world, ONE, &session);
    world.pass(LONGEST);
    assert!(!is_silent(&mut world, again));
    assert!(lives(&world, &session));
}
