//! One engine that plays several servers: some of them lag, and some fail before they have reported
//! their sessions.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, Response, SessionId, WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    header::ReplyHeader,
    jute::Decode,
};
use lockkeeper_server::engine::{ConnId, ServerId};

use crate::world::{
    MS, World, connect_frame, create, delete, framed, get_data, new_session, request_frame, sync,
};

const LEADER: ServerId = ServerId(0);
const FOLLOWER: ServerId = ServerId(1);

/// Starts a session on one of the servers.
fn join(world: &mut World, server: ServerId) -> (ConnId, ConnectResponse) {
    let id = world.connect_to(server);
    world.send(id, &connect_frame(2000));
    let response = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    (id, response)
}

/// Resumes the session on a server; `None` if the server closes the connection.
fn resume(
    world: &mut World,
    server: ServerId,
    session: &ConnectResponse,
    last_zxid_seen: Zxid,
) -> Option<(ConnId, SessionId)> {
    let id = world.connect_to(server);
    let request = ConnectRequest {
        last_zxid_seen,
        session_id: session.session_id,
        password: session.password.clone(),
        ..new_session(2000)
    };
    world.send(id, &framed(&request));
    if world.of(id).1 {
        return None;
    }
    let response = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    Some((id, response.session_id))
}

#[test]
fn servers_lag_independently_and_their_watches_fire_after_catching_up() {
    let mut world = World::new(500);
    let (ahead, _) = join(&mut world, LEADER);
    let (behind, _) = join(&mut world, FOLLOWER);
    let node = create("/n", CreateMode::Persistent);
    world.call(ahead, &node).unwrap();
    world.call(behind, &get_data("/n", true)).unwrap();
    world.engine.freeze(Some(FOLLOWER));
    world.call(ahead, &delete("/n")).unwrap();
    assert_eq!(
        world.call(ahead, &get_data("/n", false)),
        Err(ErrorCode::NO_NODE)
    );
    world.call(behind, &get_data("/n", false)).unwrap();
    world.send(behind, &request_frame(Xid(1), &sync("/")));
    let mut event = world.frame(behind);
    let header = ReplyHeader::decode(&mut event).unwrap();
    assert_eq!(header.xid, Xid::NOTIFICATION);
    assert_eq!(WatcherEvent::decode(&mut event).unwrap().path, "/n");
    let mut reply = world.frame(behind);
    assert_eq!(ReplyHeader::decode(&mut reply).unwrap().xid, Xid(1));
    assert_eq!(
        world.call(behind, &get_data("/n", false)),
        Err(ErrorCode::NO_NODE)
    );
}

#[test]
fn a_lagging_server_refuses_clients_that_have_seen_more() {
    let mut world = World::new(500);
    let (first, session) = join(&mut world, LEADER);
    world.engine.freeze(Some(FOLLOWER));
    let before = world.engine.report().zxid;
    let node = create("/n", CreateMode::Persistent);
    world.call(first, &node).unwrap();
    let after = world.engine.report().zxid;
    assert!(resume(&mut world, FOLLOWER, &session, after).is_none());
    let (id, resumed) = resume(&mut world, FOLLOWER, &session, before).unwrap();
    assert_eq!(resumed, session.session_id);
    assert_eq!(
        world.call(id, &get_data("/n", false)),
        Err(ErrorCode::NO_NODE)
    );
    world.engine.thaw(Some(FOLLOWER));
    world.call(id, &get_data("/n", false)).unwrap();
    assert!(resume(&mut world, FOLLOWER, &session, after).is_some());
}

#[test]
fn activity_that_a_server_has_not_reported_is_lost_when_it_fails() {
    let mut world = World::new(500);
    world.engine.set_relay(Some(250 * MS), world.now);
    let lives = |world: &World, session: &ConnectResponse| {
        let sessions = world.engine.report().sessions;
        sessions.contains_key(&session.session_id)
    };
    let (by_leader, one) = join(&mut world, LEADER);
    let (by_follower, other) = join(&mut world, FOLLOWER);
    // Both sessions would expire at 2500 ms. Servers report the activity of 600 ms at 750 ms, if
    // they have not failed by then.
    world.pass(600 * MS);
    for id in [by_leader, by_follower] {
        let missing = world.call(id, &get_data("/n", false));
        assert_eq!(missing, Err(ErrorCode::NO_NODE));
    }
    world.engine.fail_server(FOLLOWER);
    world.collect();
    assert!(world.of(by_follower).1 && !world.of(by_leader).1);
    world.pass(1900 * MS);
    assert!(lives(&world, &one) && !lives(&world, &other));
}

#[test]
fn a_restart_cuts_all_connections_and_renews_every_timeout() {
    let mut world = World::new(500);
    let (id, session) = join(&mut world, LEADER);
    let ephemeral = create("/e", CreateMode::Ephemeral);
    world.call(id, &ephemeral).unwrap();
    // A server that is down gets no ticks.
    world.now.instant += Duration::from_secs(60);
    world.engine.restart(world.now);
    world.pass(1900 * MS);
    assert!(world.of(id).1);
    let (id, resumed) = resume(&mut world, LEADER, &session, Zxid::ZERO).unwrap();
    assert_eq!(resumed, session.session_id);
    let data = world.call(id, &get_data("/e", false)).unwrap();
    let Response::GetData(data) = data else {
        panic!("{data:?}");
    };
    assert_eq!(data.data.unwrap_or(Bytes::new()), Bytes::new());
    world.pass(3000 * MS);
    assert_eq!(world.engine.report().nodes, 0);
}
