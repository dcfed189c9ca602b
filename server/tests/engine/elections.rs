//! Members that elect their leaders: who is elected, when members give up, and what cuts between
//! any two of them mean.

use std::time::Duration;

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Xid, connect::ConnectResponse};
use lockkeeper_server::engine::{ConnId, ServerId};

use crate::{
    followers::{exists, is_silent, join, path_of, reply, resume},
    world::{MS, World, create, request_frame, sync},
};

const A: ServerId = ServerId(0);
const B: ServerId = ServerId(1);
const C: ServerId = ServerId(2);

/// How long members go on without what their role needs.
pub(crate) const LIMIT: Duration = Duration::from_millis(2500);

/// Two milliseconds less.
const NEARLY: Duration = Duration::from_millis(2498);

/// Three members. `C` leads: of equals the one with the highest id.
fn world() -> World {
    let mut world = World::new(500);
    world.engine.set_ensemble(3, LIMIT, world.now);
    assert_eq!(world.engine.leader(), Some(C));
    world
}

fn cut(world: &mut World, one: ServerId, other: ServerId) {
    world.engine.set_cut_between(one, other, true, world.now);
    world.engine.set_cut_between(other, one, true, world.now);
    world.collect();
}

fn mend(world: &mut World, one: ServerId, other: ServerId) {
    world.engine.set_cut_between(one, other, false, world.now);
    world.engine.set_cut_between(other, one, false, world.now);
    world.collect();
}

fn stop(world: &mut World, server: ServerId) {
    world.engine.stop_server(server, world.now);
    world.collect();
}

fn start(world: &mut World, server: ServerId) {
    world.engine.start_server(server, world.now);
    world.collect();
}

fn write(world: &mut World, id: ConnId, path: &str) {
    let node = create(path, CreateMode::Persistent);
    world.send(id, &request_frame(Xid(1), &node));
    world.pass(MS);
}

fn answered(world: &mut World, id: ConnId) -> String {
    path_of(reply(world, id, OpCode::CREATE).1)
}

pub(crate) fn sees(world: &mut World, id: ConnId, path: &str) -> bool {
    world.send(id, &request_frame(Xid(2), &exists(path)));
    let (_, answer) = reply(world, id, OpCode::EXISTS);
    assert!(matches!(answer, Ok(_) | Err(ErrorCode::NO_NODE)));
    answer.is_ok()
}

/// Whether a server is stopped, or says that it does not serve.
pub(crate) fn refuses(world: &mut World, server: ServerId) -> bool {
    let id = world.connect_to(server);
    world.send(id, b"isro");
    world.of(id).0 != b"rw"[..]
}

fn lives(world: &World, session: &ConnectResponse) -> bool {
    let mut live = world.engine.live_sessions();
    live.any(|live| live == session.session_id)
}

#[test]
fn a_write_is_answered_by_every_member_and_seen_at_all() {
    let mut world = world();
    for (server, path) in [(A, "/a"), (B, "/b"), (C, "/c")] {
        let (id, _) = join(&mut world, server);
        write(&mut world, id, path);
        assert_eq!(answered(&mut world, id), path);
        for other in [A, B, C] {
            let (id, _) = join(&mut world, other);
            assert!(sees(&mut world, id, path), "{other:?}");
        }
    }
    world.engine.assert_sound();
}

#[test]
fn a_follower_that_is_cut_off_gives_up_after_the_sync_limit_and_comes_back() {
    let mut world = world();
    let (id, session) = join(&mut world, A);
    let (by_other, _) = join(&mut world, B);
    cut(&mut world, A, C);
    write(&mut world, by_other, "/new");
    assert_eq!(answered(&mut world, by_other), "/new");
    assert!(
        !sees(&mut world, id, "/new"),
        "it answers from its own state"
    );
    world.pass(NEARLY);
    assert!(!world.of(id).1 && !refuses(&mut world, A));
    world.pass(MS);
    assert!(world.of(id).1 && refuses(&mut world, A));
    assert_eq!(world.engine.leader(), Some(C));
    mend(&mut world, A, C);
    let (id, resumed) = resume(&mut world, A, &session);
    assert_eq!(resumed, session.session_id);
    assert!(sees(&mut world, id, "/new"));
    world.engine.assert_sound();
}

#[test]
fn one_direction_is_enough_for_a_follower_to_give_up() {
    for (from, to) in [(A, C), (C, A)] {
        let mut world = world();
        let (id, _) = join(&mut world, A);
        world.engine.set_cut_between(from, to, true, world.now);
        world.pass(NEARLY);
        assert!(!world.of(id).1);
        world.pass(2 * MS);
        assert!(world.of(id).1, "{from:?} {to:?}");
    }
}

#[test]
fn a_link_between_followers_matters_only_without_a_leader() {
    let mut world = world();
    cut(&mut world, A, B);
    world.pass(2 * LIMIT);
    assert!(!refuses(&mut world, A) && !refuses(&mut world, B));
    stop(&mut world, C);
    assert_eq!(world.engine.leader(), None);
    assert!(refuses(&mut world, A) && refuses(&mut world, B));
    mend(&mut world, A, B);
    assert_eq!(world.engine.leader(), Some(B));
}

#[test]
fn a_leader_without_a_majority_commits_nothing_and_is_replaced() {
    let mut world = world();
    let (id, session) = join(&mut world, C);
    cut(&mut world, C, A);
    cut(&mut world, C, B);
    // A leader answers a sync by itself while no write is pending.
    world.send(id, &request_frame(Xid(1), &sync("/")));
    assert!(reply(&mut world, id, OpCode::SYNC).1.is_ok());
    write(&mut world, id, "/lost");
    world.send(id, &request_frame(Xid(2), &sync("/")));
    assert!(is_silent(&mut world, id));
    world.pass(NEARLY);
    assert!(is_silent(&mut world, id));
    assert_eq!(world.engine.leader(), Some(C));
    world.pass(MS);
    assert_eq!(world.engine.leader(), Some(B));
    assert!(world.of(id).1 && refuses(&mut world, C));
    // The new leader gives the session its whole timeout, of 4 s.
    let (id, resumed) = resume(&mut world, A, &session);
    assert_eq!(resumed, session.session_id);
    assert!(!sees(&mut world, id, "/lost"));
    write(&mut world, id, "/kept");
    assert_eq!(answered(&mut world, id), "/kept");
    mend(&mut world, C, B);
    let (id, _) = join(&mut world, C);
    assert!(sees(&mut world, id, "/kept") && !sees(&mut world, id, "/lost"));
    assert_eq!(world.engine.leader(), Some(B));
    world.engine.assert_sound();
}

#[test]
fn what_waited_is_committed_if_the_leader_has_its_majority_back_in_time() {
    let mut world = world();
    let (id, _) = join(&mut world, C);
    cut(&mut world, C, A);
    cut(&mut world, C, B);
    write(&mut world, id, "/late");
    world.pass(NEARLY);
    mend(&mut world, C, A);
    world.pass(MS);
    assert_eq!(answered(&mut world, id), "/late");
    assert_eq!(world.engine.leader(), Some(C));
    // The other follower gives up all the same.
    world.pass(MS);
    assert!(refuses(&mut world, B) && !refuses(&mut world, A));
}

#[test]
fn a_deposed_leader_that_is_cut_off_goes_on_until_the_sync_limit() {
    let mut world = world();
    let (id, session) = join(&mut world, C);
    cut(&mut world, C, A);
    cut(&mut world, C, B);
    assert_eq!(world.engine.elect_another(world.now), Some(B));
    world.collect();
    assert!(!world.of(id).1 && !sees(&mut world, id, "/n"));
    write(&mut world, id, "/lost");
    assert!(is_silent(&mut world, id));
    world.pass(LIMIT);
    assert!(world.of(id).1 && refuses(&mut world, C));
    // The new leader has not heard of the session, which had 4 s.
    world.pass(2000 * MS);
    assert!(!lives(&world, &session));
    mend(&mut world, C, B);
    assert!(!refuses(&mut world, C));
    assert_eq!(world.engine.paths(), Vec::<String>::new());
    world.engine.assert_sound();
}

#[test]
fn a_deposed_leader_with_whole_links_follows_its_successor() {
    let mut world = world();
    let (id, session) = join(&mut world, C);
    write(&mut world, id, "/n");
    assert_eq!(answered(&mut world, id), "/n");
    assert_eq!(world.engine.elect_another(world.now), Some(B));
    world.collect();
    assert!(world.of(id).1);
    let (id, resumed) = resume(&mut world, C, &session);
    assert_eq!(resumed, session.session_id);
    assert!(sees(&mut world, id, "/n"));
    assert_eq!(world.engine.elect_another(world.now), Some(C));
}

#[test]
fn a_former_leader_learns_of_its_successor_when_the_link_is_mended() {
    let mut world = world();
    let (id, _) = join(&mut world, C);
    cut(&mut world, C, A);
    cut(&mut world, C, B);
    world.engine.elect_another(world.now);
    mend(&mut world, C, A);
    assert!(!world.of(id).1, "the link to the leader is still cut");
    mend(&mut world, C, B);
    assert!(world.of(id).1);
    let (id, _) = join(&mut world, C);
    write(&mut world, id, "/n");
    assert_eq!(answered(&mut world, id), "/n");
}

#[test]
fn the_member_that_knows_most_is_elected() {
    let mut world = world();
    let (id, _) = join(&mut world, A);
    world.engine.freeze(Some(B));
    write(&mut world, id, "/n");
    assert_eq!(answered(&mut world, id), "/n");
    stop(&mut world, C);
    assert_eq!(world.engine.leader(), Some(A));
    let (id, _) = join(&mut world, B);
    assert!(sees(&mut world, id, "/n"), "an election ends the lag");
}

#[test]
fn without_a_majority_nobody_serves_and_no_session_ends() {
    let mut world = world();
    let (id, session) = join(&mut world, A);
    write(&mut world, id, "/n");
    assert_eq!(answered(&mut world, id), "/n");
    stop(&mut world, B);
    assert!(!world.of(id).1);
    stop(&mut world, C);
    assert!(world.of(id).1 && refuses(&mut world, A));
    assert_eq!(world.engine.leader(), None);
    world.pass(60_000 * MS);
    assert!(lives(&world, &session));
    start(&mut world, B);
    assert_eq!(world.engine.leader(), Some(B));
    world.pass(3900 * MS);
    let (id, resumed) = resume(&mut world, B, &session);
    assert_eq!(resumed, session.session_id);
    assert!(sees(&mut world, id, "/n"));
    start(&mut world, C);
    assert_eq!(world.engine.leader(), Some(B), "who comes back follows");
    let (id, _) = join(&mut world, C);
    assert!(sees(&mut world, id, "/n"));
    world.pass(5000 * MS);
    assert!(!lives(&world, &session));
    world.engine.assert_sound();
}

#[test]
fn nobody_is_elected_who_does_not_reach_a_majority() {
    let mut world = world();
    for (one, other) in [(A, B), (B, C), (A, C)] {
        cut(&mut world, one, other);
    }
    assert_eq!(world.engine.elect_another(world.now), None);
    world.pass(LIMIT);
    assert_eq!(world.engine.leader(), None);
    mend(&mut world, A, B);
    assert_eq!(world.engine.leader(), Some(B));
    cut(&mut world, A, B);
    world.pass(LIMIT);
    mend(&mut world, A, C);
    assert_eq!(world.engine.leader(), Some(A), "`C` has missed an election");
    assert!(refuses(&mut world, B));
}
