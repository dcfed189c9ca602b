//! A server without a majority: what it answers, and to whom.

use lockkeeper_proto::{
    CreateMode, ErrorCode, Request, Xid,
    connect::{ConnectRequest, ConnectResponse},
    jute::Decode,
    records::Empty,
};
use lockkeeper_server::engine::{ConnId, ServerId};

use crate::world::{
    MS, World, connect_frame, create, framed, get_data, new_session, request_frame, sync,
};

const LEADER: ServerId = ServerId(0);
const ALONE: ServerId = ServerId(1);

/// Asks a server for a session; `None` if the server closes the connection.
fn ask(
    world: &mut World,
    server: ServerId,
    change: impl FnOnce(&mut ConnectRequest),
) -> Option<(ConnId, ConnectResponse)> {
    let id = world.connect_to(server);
    let mut request = ConnectRequest {
        read_only: Some(true),
        ..new_session(2000)
    };
    change(&mut request);
    world.send(id, &framed(&request));
    if world.of(id).1 {
        return None;
    }
    let response = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    Some((id, response))
}

fn get(path: &str) -> Request {
    get_data(path, true)
}

#[test]
fn a_server_without_a_majority_answers_reads_and_refuses_the_rest() {
    let mut world = World::new(500);
    let (before, _) = ask(&mut world, ALONE, |_| {}).unwrap();
    let (leader, _) = ask(&mut world, LEADER, |_| {}).unwrap();
    let node = create("/n", CreateMode::Persistent);
    world.call(leader, &node).unwrap();
    world.engine.set_read_only(ALONE, true);
    world.collect();
    assert!(world.of(before).1, "its connections are cut");
    let later = create("/later", CreateMode::Persistent);
    world.call(leader, &later).unwrap();

    let (id, answer) = ask(&mut world, ALONE, |_| {}).unwrap();
    assert_eq!(answer.read_only, Some(true));
    world.call(id, &get("/n")).unwrap();
    assert_eq!(world.call(id, &get("/later")), Err(ErrorCode::NO_NODE));
    for refused in [create("/other", CreateMode::Persistent), sync("/")] {
        let refusal = world.call(id, &refused);
        assert_eq!(refusal, Err(ErrorCode::NOT_READ_ONLY), "{refused:?}");
    }
    // The ensemble does not know the session, and its end is no transaction.
    let zxid = world.engine.report().zxid;
    assert!(
        !world
            .engine
            .live_sessions()
            .any(|it| it == answer.session_id)
    );
    let close = Request::CloseSession(Empty {});
    world.send(id, &request_frame(Xid(9), &close));
    assert!(world.of(id).1);
    assert_eq!(world.engine.report().zxid, zxid);

    let (id, _) = ask(&mut world, ALONE, |_| {}).unwrap();
    world.engine.set_read_only(ALONE, false);
    world.collect();
    assert!(world.of(id).1, "its connections are cut again");
    let (id, answer) = ask(&mut world, ALONE, |_| {}).unwrap();
    assert_eq!(answer.read_only, Some(false));
    world.call(id, &get("/later")).unwrap();
    let other = create("/other", CreateMode::Persistent);
    world.call(id, &other).unwrap();
}

#[test]
fn a_server_without_a_majority_accepts_only_new_sessions_of_clients_that_know_such_servers() {
    let mut world = World::new(500);
    let (leader, session) = ask(&mut world, LEADER, |_| {}).unwrap();
    world.engine.set_read_only(ALONE, true);
    let resume = |request: &mut ConnectRequest| {
        request.session_id = session.session_id;
        request.password = session.password.clone();
    };
    assert!(ask(&mut world, ALONE, resume).is_none());
    assert!(ask(&mut world, ALONE, |it| it.read_only = Some(false)).is_none());
    assert!(ask(&mut world, ALONE, |it| it.read_only = None).is_none());
    let (_, own) = ask(&mut world, ALONE, |_| {}).unwrap();
    let resume_own = |request: &mut ConnectRequest| {
        request.session_id = own.session_id;
        request.password = own.password.clone();
    };
    assert!(
        ask(&mut world, LEADER, resume_own).is_none(),
        "no other server knows it"
    );
    let node = create("/n", CreateMode::Persistent);
    world.call(leader, &node).unwrap();
    let seen = world.engine.report().zxid;
    assert!(ask(&mut world, ALONE, |it| it.last_zxid_seen = seen).is_none());
}

#[test]
fn a_server_without_a_majority_says_so_when_it_is_asked() {
    let mut world = World::new(500);
    world.engine.set_read_only(ALONE, true);
    for (server, answer) in [(LEADER, "rw"), (ALONE, "ro")] {
        let id = world.connect_to(server);
        world.send(id, b"isro");
        assert_eq!(world.of(id).0, answer.as_bytes());
    }
    // All servers restart, and have a majority.
    world.pass(100 * MS);
    world.engine.restart(world.now);
    let id = world.connect_to(ALONE);
    world.send(id, &connect_frame(2000));
    assert!(!world.of(id).1);
}
