//! Tests of the engine without sockets, on a clock that the test moves.
//!
//! Not here: any bytes, split in any way (`fuzz/checks`).

use std::time::Duration;

use bytes::BytesMut;
use lockkeeper_proto::{
    CreateMode, OpCode, Request, SessionId, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame::SERVER_LIMIT,
    header::ReplyHeader,
    jute::Decode,
    records::Empty,
};
use lockkeeper_server::engine::{Config, Engine, Now, Received, ServerId};

mod elections_at_random;
mod stories;
mod world;

use world::{
    MS, World, connect_frame, create, delete, framed, get_data, new_session, origin, request_frame,
    set_data,
};

#[test]
fn used_containers_are_deleted_at_the_next_scan_and_unused_ones_stay() {
    let mut world = World::new(500);
    let (id, _) = world.join(60_000);
    for path in ["/used", "/unused", "/full"] {
        world
            .call(id, &create(path, CreateMode::Container))
            .unwrap();
    }
    world
        .call(id, &create("/used/a", CreateMode::Persistent))
        .unwrap();
    world
        .call(id, &create("/full/a", CreateMode::Persistent))
        .unwrap();
    world.call(id, &delete("/used/a")).unwrap();
    world.pass(59_999 * MS);
    assert_eq!(world.engine.report().nodes, 4);
    let zxid = world.engine.report().zxid;
    world.pass(2 * MS);
    assert_eq!(world.engine.paths(), ["/full", "/full/a", "/unused"]);
    // The session expired at about the same time. Each of the two is one transaction.
    assert!(world.engine.report().zxid.0 - zxid.0 <= 2);
}

#[test]
fn a_time_to_live_counts_from_the_last_set_and_waits_for_children() {
    let mut world = World::new(500);
    let mode = CreateMode::PersistentWithTtl(90_000 * MS);
    let (id, _) = world.join(60_000);
    for path in ["/plain", "/set", "/parent"] {
        world.call(id, &create(path, mode)).unwrap();
    }
    world
        .call(id, &create("/parent/a", CreateMode::Persistent))
        .unwrap();
    world.pass(50_000 * MS);
    world.call(id, &set_data("/set", b"")).unwrap();
    // There are scans at 60 s and 120 s. Only at the second one the 90 s are over, and only for one
    // node.
    world.pass(50_000 * MS);
    world.call(id, &Request::WhoAmI(Empty {})).unwrap();
    assert_eq!(world.engine.report().nodes, 4);
    world.pass(25_000 * MS);
    assert_eq!(world.engine.paths(), ["/parent", "/parent/a", "/set"]);
    world.call(id, &delete("/parent/a")).unwrap();
    world.pass(60_000 * MS);
    assert_eq!(world.engine.report().nodes, 0);
}

#[test]
fn sessions_expire_in_ticks_and_a_request_keeps_them_alive() {
    let mut world = World::new(500);
    let (id, response) = world.join(1300);
    assert_eq!(response.timeout_ms, 1300);
    world.pass(1000 * MS);
    world.call(id, &Request::WhoAmI(Empty {})).unwrap();
    // Active at 1000 ms, so it lives until 2300 ms, which the tick rounds up to 2500 ms.
    world.pass(1499 * MS);
    assert_eq!(world.engine.report().sessions.len(), 1);
    world.pass(MS);
    assert_eq!(world.engine.report().sessions.len(), 0);
    assert_eq!(world.engine.counters().expired, 1);
    assert_eq!(
        *world.of(id),
        (BytesMut::new(), true),
        "closed without a reply"
    );
}

/// Once, the connection stayed for as long as the client liked, and a second handshake was answered.
#[test]
fn who_is_told_of_the_end_of_a_session_has_the_time_of_a_handshake_to_leave() {
    let mut world = World::new(500);
    let (_, joined) = world.join(60_000);
    assert!(world.engine.expire(joined.session_id));
    let id = world.connect();
    let resumed = ConnectRequest {
        session_id: joined.session_id,
        password: joined.password,
        ..new_session(60_000)
    };
    world.send(id, &framed(&resumed));
    let told = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    assert_eq!(told.session_id, SessionId::NONE);
    world.engine.assert_sound();
    world.send(id, &connect_frame(60_000));
    world.pass(9_999 * MS);
    assert_eq!(*world.of(id), (BytesMut::new(), false));
    world.pass(MS);
    assert!(world.of(id).1);
}

/// The reply was on its way for longer than the client waited: the session ended at once, and another
/// client could have its locks.
#[test]
fn who_gives_up_before_the_delayed_word_of_the_end_of_a_session_does_not_know_of_it() {
    let mut world = World::new(500);
    let (owner, joined) = world.join(4000);
    world
        .call(owner, &create("/e", CreateMode::Ephemeral))
        .unwrap();
    assert!(world.engine.expire(joined.session_id));
    let resumed = framed(&ConnectRequest {
        session_id: joined.session_id,
        password: joined.password,
        ..new_session(4000)
    });
    world.engine.rules().delay = Some(100 * MS);
    for (waits, nodes) in [(99 * MS, 1), (100 * MS, 0)] {
        let id = world.connect();
        world.send(id, &resumed);
        world.pass(waits);
        assert_eq!(world.of(id).0.is_empty(), nodes == 1);
        assert_eq!(world.engine.report().sessions.len(), nodes);
        world.engine.disconnected(id, world.now);
        assert_eq!(world.engine.report().nodes, nodes);
    }
}

#[test]
fn a_stalled_session_expires_and_its_connection_stays_silent() {
    let mut world = World::new(500);
    let (id, response) = world.join(1000);
    world
        .call(id, &create("/e", CreateMode::Ephemeral))
        .unwrap();
    let session = response.session_id;
    world.engine.set_stalled(Some(session), true);
    let ping = Request::Ping(Empty {});
    for _ in 0..4 {
        world.send(id, &request_frame(Xid::PING, &ping));
        world.pass(400 * MS);
    }
    assert_eq!(world.engine.report().nodes, 0);
    assert_eq!(*world.of(id), (BytesMut::new(), false));
    world.engine.set_stalled(Some(session), false);
    world.collect();
    assert_eq!(*world.of(id), (BytesMut::new(), true));
}

#[test]
fn a_server_without_a_majority_serves_nobody() {
    let mut world = World::new(500);
    let asks = |world: &mut World| {
        let id = world.connect_to(ServerId(1));
        world.send(id, &connect_frame(2000));
        id
    };
    world.engine.set_ensemble(3, MS, MS, world.now);
    let before = asks(&mut world);
    assert!(!world.of(before).1);
    for server in [0, 2] {
        world.engine.stop_server(ServerId(server), world.now);
    }
    world.collect();
    let later = asks(&mut world);
    for id in [before, later] {
        assert!(world.of(id).1, "closed");
    }
    world.engine.start_server(ServerId(0), world.now);
    let again = asks(&mut world);
    assert!(!world.of(again).1);
}

#[test]
fn only_the_handshake_has_a_deadline() {
    let mut world = World::new(500);
    let silent = world.connect();
    world.send(silent, &[0, 0, 0]);
    let (id, _) = world.join(60_000);
    world.pass(Duration::from_secs(10));
    assert!(world.of(silent).1);
    assert!(!world.of(id).1);
    assert_eq!(world.engine.report().connections, 1);
}

#[test]
fn delayed_replies_leave_when_they_are_due() {
    let mut world = World::new(500);
    let (id, _) = world.join(60_000);
    world.engine.rules().delay = Some(70 * MS);
    world.send(id, &request_frame(Xid(1), &delete("/none")));
    world.pass(50 * MS);
    world.engine.rules().delay = None;
    // The second reply has no delay of its own, but it still comes after the first.
    world.send(id, &request_frame(Xid(2), &delete("/none")));
    world.pass(19 * MS);
    assert!(world.of(id).0.is_empty());
    world.pass(MS);
    for xid in [1, 2] {
        let header = ReplyHeader::decode(&mut world.frame(id)).unwrap();
        assert_eq!(header.xid, Xid(xid));
    }
}

/// Other ids and passwords than those of another server, which nobody can guess from its own.
#[test]
fn the_same_seed_gives_the_same_session() {
    let granted = |seed| {
        let (mut world, mut config) = (World::new(500), Config::default());
        config.seed = seed;
        world.engine = Engine::new(config, world.now);
        world.join(5000).1
    };
    assert_eq!(granted(5), granted(5));
    assert_ne!(granted(5).password, granted(6).password);
}

/// Requests are small and replies are not. The engine does not build all replies of a batch at
/// once.
#[test]
fn a_batch_with_large_replies_is_handled_in_parts() {
    let mut world = World::new(500);
    let (id, _) = world.join(60_000);
    let big = set_data("/n", &vec![1; SERVER_LIMIT - 100]);
    world
        .call(id, &create("/n", CreateMode::Persistent))
        .unwrap();
    world.call(id, &big).unwrap();
    let read = get_data("/n", false);
    let batch = request_frame(Xid(1), &read).repeat(10);
    let received = world
        .engine
        .received(id, BytesMut::from(&batch[..]), world.now);
    assert_eq!(received, Received::Partly);
    assert_eq!(world.engine.counters().requests_of(OpCode::GET_DATA), 2);
    world.send(id, &[]);
    assert_eq!(world.engine.counters().requests_of(OpCode::GET_DATA), 10);
}

/// Reads that wait for a write of their session were answered all at once.
#[test]
fn large_replies_behind_a_write_are_made_one_by_one_in_a_cluster() {
    let mut world = World::new(500);
    world.engine.set_ensemble(3, MS, Duration::ZERO, world.now);
    let id = world.connect();
    let big = set_data("/n", &vec![1; SERVER_LIMIT - 100]);
    let read = get_data("/n", false);
    for frame in [
        connect_frame(60_000),
        request_frame(Xid(1), &create("/n", CreateMode::Persistent)),
        request_frame(Xid(1), &big),
    ] {
        world.send(id, &frame);
        world.pass(MS);
    }
    world.of(id).0.clear();
    let mut batch = request_frame(Xid(1), &big);
    batch.extend(request_frame(Xid(1), &read).repeat(10));
    let mut received = world
        .engine
        .received(id, BytesMut::from(&batch[..]), world.now);
    // The caller lets the transactions arrive and sends the replies, as after each call.
    let mut all = 0;
    while received == Received::Partly {
        world.engine.tick(world.now);
        world.collect();
        let made = world.of(id).0.split().len();
        assert!(made < 3 * SERVER_LIMIT, "{made}");
        all += made;
        received = world.engine.received(id, BytesMut::new(), world.now);
    }
    assert!(all > 9 * SERVER_LIMIT, "{all}");
    assert_eq!(world.engine.counters().requests_of(OpCode::GET_DATA), 10);
}

/// Each end of a session looked at all connections, once for each member.
#[test]
fn the_end_of_a_session_of_a_cluster_takes_no_longer_with_many_others() {
    const SESSIONS: u32 = 20_000;
    let mut world = World::new(500);
    world.engine.set_ensemble(3, MS, Duration::ZERO, world.now);
    let begin = origin();
    let all = (0..SESSIONS).map(|number| {
        let id = world.connect_to(ServerId(number % 3));
        world.send(id, &connect_frame(60_000));
        world.engine.tick(world.now);
        id
    });
    let all: Vec<_> = all.collect();
    world.engine.assert_sound();
    for id in all {
        world.send(id, &request_frame(Xid(1), &Request::CloseSession(Empty {})));
        world.engine.tick(world.now);
        world.collect();
        assert!(world.of(id).1, "closed");
        assert!(begin.elapsed() < Duration::from_secs(30));
    }
    world.engine.assert_sound();
    assert_eq!(world.engine.report().connections, 0);
}

/// What a world does in six hours after its only client is gone: when it commits transactions, how
/// many calls that takes, and when the next one is due.
fn hours(members: u32, skips: bool) -> (Vec<(Duration, i64)>, usize, Duration) {
    let mut world = World::new(500);
    if members > 1 {
        world.engine.set_ensemble(members, MS, MS, world.now);
    }
    let id = world.connect();
    let ttl = |ms: u32| CreateMode::PersistentWithTtl(MS * ms);
    for frame in [
        connect_frame(60_000),
        request_frame(Xid(1), &create("/e", CreateMode::Ephemeral)),
        request_frame(Xid(2), &create("/c", CreateMode::Container)),
        request_frame(Xid(3), &create("/c/a", ttl(90_000))),
        request_frame(Xid(4), &create("/t", ttl(10_000_000))),
        request_frame(Xid(5), &create("/u", CreateMode::Container)),
    ] {
        world.send(id, &frame);
        world.pass(30 * MS);
    }
    world.engine.disconnected(id, world.now);
    let (begin, step) = (world.now, Duration::from_secs(6 * 3600));
    let at = |time: Duration| Now {
        instant: begin.instant + time,
        unix_ms: begin.unix_ms + i64::try_from(time.as_millis()).unwrap(),
    };
    let (end, mut calls, mut log) = (at(step), 0, Vec::new());
    let mut last = world.engine.last_zxid();
    while world.now != end {
        if skips {
            world.engine.skip_idle(end);
        }
        let due = world.engine.next_deadline().min(end.instant);
        world.now = at(due.saturating_duration_since(begin.instant));
        if skips {
            world.engine.jump(world.now, end);
        } else {
            world.engine.tick(world.now);
        }
        world.collect();
        calls += 1;
        let zxid = world.engine.last_zxid();
        if zxid != last {
            log.push((world.now.instant - begin.instant, zxid.0 - last.0));
            last = zxid;
        }
    }
    assert_eq!(world.engine.paths(), ["/u"]);
    let due = world.engine.next_deadline() - end.instant;
    (log, calls, due)
}

/// A day took seconds on a cluster.
#[test]
fn a_clock_that_jumps_leaves_out_rounds_of_no_use_and_nothing_else() {
    for members in [1, 3] {
        let (log, calls, due) = hours(members, true);
        // The session, the TTL nodes, and the container that is empty then.
        assert_eq!(log.len(), 4, "{log:?}");
        assert!(calls < 50, "{calls}");
        let (all, of_all, due_of_all) = hours(members, false);
        assert!(of_all > 300, "{of_all}");
        assert_eq!((log, due), (all, due_of_all));
    }
}

/// A client could fill the memory with reads behind a write that its server did not learn of.
#[test]
fn requests_that_wait_behind_a_write_are_limited() {
    const LIMIT: usize = 8 << 20;
    let minute = Duration::from_secs(60);
    let mut world = World::new(500);
    world
        .engine
        .set_ensemble(3, minute, Duration::ZERO, world.now);
    let (server, leader) = (ServerId(1), world.engine.leader().unwrap());
    assert_ne!(server, leader);
    let id = world.connect_to(server);
    world.send(id, &connect_frame(60_000));
    world.pass(MS);
    let read = request_frame(
        Xid(1),
        &get_data(&format!("/{}", "n".repeat(60_000)), false),
    );
    let write = request_frame(Xid(1), &create("/n", CreateMode::Persistent));
    world.engine.set_lags(server, true);
    world.send(id, &write);
    // What is answered counts no more, although something waits all the time: the next write.
    for _ in 0..6 {
        let cut = |world: &mut World, is_cut| {
            let engine = &mut world.engine;
            engine.set_cut_between(server, leader, is_cut, world.now);
        };
        cut(&mut world, true);
        world.send(id, &write);
        world.send(id, &read.repeat(LIMIT / 3 / read.len()));
        world.engine.set_lags(server, false);
        world.pass(MS);
        world.engine.set_lags(server, true);
        cut(&mut world, false);
        world.collect();
        assert!(!world.of(id).1, "cut");
    }
    world.send(id, &read.repeat(LIMIT / read.len()));
    world.send(id, &read.repeat(2));
    assert!(world.of(id).1, "cut");
    // The session is another matter, but its requests still wait.
    assert_eq!(world.engine.live_sessions().count(), 1);
}

/// All replies were made at once when the write arrived.
#[test]
fn replies_to_reads_that_wait_behind_a_write_are_limited() {
    for (reads, is_cut) in [(10, false), (100, true)] {
        let mut world = World::new(500);
        world.engine.set_ensemble(3, MS, Duration::ZERO, world.now);
        let server = ServerId(1);
        let id = world.connect_to(server);
        let big = set_data("/n", &vec![1; SERVER_LIMIT - 100]);
        for frame in [
            connect_frame(60_000),
            request_frame(Xid(1), &create("/n", CreateMode::Persistent)),
        ] {
            world.send(id, &frame);
            world.pass(MS);
        }
        world.engine.set_lags(server, true);
        world.send(id, &request_frame(Xid(2), &big));
        let read = request_frame(Xid(3), &get_data("/n", false));
        world.send(id, &read.repeat(reads));
        world.engine.set_lags(server, false);
        world.pass(MS);
        assert_eq!(world.of(id).1, is_cut, "{reads}");
        let sent = world.of(id).0.len();
        assert_eq!(sent > reads * (SERVER_LIMIT - 100), !is_cut, "{sent}");
        world.engine.assert_sound();
    }
}

/// The session was granted when its server learned of it, and its client never heard of the end.
#[test]
fn a_session_that_is_to_end_before_its_server_knows_of_it_is_closed_when_greeted() {
    let mut world = World::new(500);
    world.engine.set_ensemble(3, MS, Duration::ZERO, world.now);
    let server = ServerId(1);
    world.engine.set_lags(server, true);
    let id = world.connect_to(server);
    world.send(id, &connect_frame(60_000));
    world.pass(MS);
    let session = world.engine.live_sessions().next().unwrap();
    assert!(world.engine.expire(session));
    world.engine.set_lags(server, false);
    world.pass(MS);
    let greeted = ConnectResponse::decode(&mut world.frame(id)).unwrap();
    assert_eq!(greeted.session_id, session);
    assert!(world.of(id).1, "closed");
    let again = world.connect_to(server);
    let resumed = ConnectRequest {
        session_id: session,
        password: greeted.password,
        ..new_session(60_000)
    };
    world.send(again, &framed(&resumed));
    let told = ConnectResponse::decode(&mut world.frame(again)).unwrap();
    assert_eq!(told.session_id, SessionId::NONE);
}
