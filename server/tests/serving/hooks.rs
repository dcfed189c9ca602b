//! The faults that tests can cause, as clients see them.

use lockkeeper_test_support::peer as common;
use std::time::Duration;

use common::{
    Peer, Raw, auth, create, create_with, delete, exists, get_children, get_data, new_session, now,
    set_data,
};
use futures::FutureExt as _;
use lockkeeper_proto::{
    Acl,
    CreateMode::{Ephemeral, Persistent, PersistentSequential},
    ErrorCode, EventType, OpCode, Response, Xid,
};
use lockkeeper_server::{Cluster, Faults, Server, When};
use tokio::net::TcpStream;

async fn server() -> Server {
    Server::start().await.unwrap()
}

/// Makes a test of each function: on a server, and on the first member of a cluster.
macro_rules! in_both {
    ($($test:ident)*) => {$(
        #[tokio::test]
        async fn $test() {
            super::$test(&super::server().await).await;
            super::$test(&super::Cluster::start(3).await.unwrap()).await;
        }
    )*};
}

mod alone_and_in_a_cluster {
    in_both! {
        a_lost_reply_was_applied_and_a_cut_request_was_not
        a_lost_reply_loses_its_events_too
        the_reply_to_a_handshake_can_be_lost
        a_handshake_that_is_refused_begins_no_session
        a_delay_affects_one_connection_only
        the_port_can_be_closed_and_opened
        sequences_can_be_set_and_stop_at_their_maximum
        each_lost_event_is_lost_for_one_client
        an_event_that_a_client_may_not_read_is_not_the_one_that_is_lost
        cutting_a_connection_keeps_the_session
        the_nodes_of_an_expired_session_go_when_its_client_knows
    }
}

async fn cutting_a_connection_keeps_the_session(server: &Server) {
    let mut peer = Peer::join(server).await;
    let mut other = Peer::join(server).await;
    peer.create("/e", Ephemeral).await.unwrap();
    assert!(server.faults().cut(peer.session));
    peer.raw.assert_closed().await;
    assert!(!server.faults().cut(peer.session));
    assert!(!server.report().sessions[&peer.session].is_connected);
    let peer = peer.resume(server).await.unwrap();
    other.create("/n", Persistent).await.unwrap();
    server.faults().cut_all();
    for mut peer in [peer, other] {
        peer.raw.assert_closed().await;
    }
    assert_eq!(server.report().nodes, 2);
}

async fn a_lost_reply_was_applied_and_a_cut_request_was_not(server: &Server) {
    let faults = server.faults();
    let mut peer = Peer::join(server).await;
    peer.create("/locks", Persistent).await.unwrap();
    faults.lose_reply(When::create().within("/locks"));
    peer.create("/elsewhere", Persistent).await.unwrap();
    assert_eq!(faults.pending(), 1);
    assert_eq!(
        peer.try_call(&create("/locks/a", b"", Ephemeral)).await,
        None
    );
    assert_eq!(faults.pending(), 0);
    let mut peer = peer.resume(server).await.unwrap();
    assert_eq!(peer.children("/locks").await.unwrap(), ["a"]);

    faults.cut_before(When::op(OpCode::DELETE).nth(2));
    peer.create("/locks/b", Ephemeral).await.unwrap();
    peer.call(&delete("/locks/b")).await.unwrap();
    assert_eq!(peer.try_call(&delete("/locks/a")).await, None);
    let mut peer = peer.resume(server).await.unwrap();
    assert_eq!(peer.children("/locks").await.unwrap(), ["a"]);

    faults.refuse(When::write(), ErrorCode::OPERATION_TIMEOUT);
    let refused = peer.call(&delete("/locks/a")).await;
    assert_eq!(refused, Err(ErrorCode::OPERATION_TIMEOUT));
    peer.call(&delete("/locks/a")).await.unwrap();
}

/// A client that writes loses the event of its own write together with the reply.
async fn a_lost_reply_loses_its_events_too(server: &Server) {
    let mut peer = Peer::join(server).await;
    peer.create("/n", Persistent).await.unwrap();
    peer.call(&get_data("/n", true)).await.unwrap();
    server
        .faults()
        .lose_reply(When::write().of_session(peer.session));
    assert_eq!(peer.try_call(&set_data("/n", b"x")).await, None);
    assert_eq!(peer.events, []);
    assert_eq!(server.report().watches, 0);
}

async fn the_reply_to_a_handshake_can_be_lost(server: &Server) {
    let faults = server.faults();
    faults.lose_reply(When::op(OpCode::CREATE_SESSION));
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&new_session(10_000)).await, None);
    assert_eq!(server.report().sessions.len(), 1);
    faults.refuse_handshakes(true);
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&new_session(10_000)).await, None);
    faults.clear();
    Peer::join(server).await;
}

/// The rule was used up, and the session began.
async fn a_handshake_that_is_refused_begins_no_session(server: &Server) {
    let when = When::op(OpCode::CREATE_SESSION);
    server.faults().refuse(when, ErrorCode::NO_AUTH);
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&new_session(10_000)).await, None);
    assert!(server.report().sessions.is_empty());
    assert_eq!(server.faults().pending(), 0);
    Peer::join(server).await;
}

#[tokio::test]
async fn an_early_expiry_ends_the_session_at_once() {
    let server = server().await;
    let mut peer = Peer::join(&server).await;
    let mut watcher = Peer::join(&server).await;
    peer.create("/e", Ephemeral).await.unwrap();
    watcher.call(&exists("/e", true)).await.unwrap();
    assert!(server.faults().expire_early(peer.session));
    assert!(!server.faults().expire_early(peer.session));
    peer.raw.assert_closed().await;
    assert_eq!(watcher.event().await.event_type, EventType::NODE_DELETED);
    assert!(peer.resume(&server).await.is_none());
}

/// So the client relies on nothing any more when others can have its locks.
async fn the_nodes_of_an_expired_session_go_when_its_client_knows(server: &Server) {
    let mut peer = Peer::join(server).await;
    let mut watcher = Peer::join(server).await;
    peer.create("/e", Ephemeral).await.unwrap();
    watcher.call(&exists("/e", true)).await.unwrap();
    assert!(server.faults().expire(peer.session));
    peer.raw.assert_closed().await;
    // The server has cut this connection itself: nobody knows whether the client has read the answer.
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&peer.resume_request()).await, None);
    server.faults().cut_all();
    let mut watcher = Peer::join(server).await;
    assert_eq!(server.paths(), ["/e"]);
    watcher.call(&exists("/e", true)).await.unwrap();
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&peer.resume_request()).await, None);
    assert!(watcher.raw.is_silent().await);
    assert_eq!(server.report().sessions.len(), 2, "two watchers");
    drop(raw);
    assert_eq!(watcher.event().await.event_type, EventType::NODE_DELETED);
}

async fn a_delay_affects_one_connection_only(server: &Server) {
    let mut slow = Peer::join(server).await;
    let mut quick = Peer::join(server).await;
    let hour = Duration::from_secs(3600);
    let when = When::op(OpCode::CREATE).of_session(slow.session);
    server.faults().delay_reply(when, hour);
    slow.send(&create("/a", b"", Persistent)).await;
    while quick.children("/").await.unwrap().len() < 2 {}
    quick.create("/b", Persistent).await.unwrap();
    // A later reply waits, too.
    slow.send(&get_children("/", true)).await;
    assert!(slow.raw.is_silent().await);
}

/// Regression: at the end of a stall the server sent replies of about 1 MiB. It sent the rest only
/// after the client's next request.
#[tokio::test]
async fn every_request_sent_during_a_stall_is_answered_at_its_end() {
    let server = server().await;
    let mut peer = Peer::join(&server).await;
    let large = create("/n", &vec![7; 500_000], Persistent);
    peer.call(&large).await.unwrap();
    let session = peer.session;
    ask_during_a_stall(&server, &mut peer, Faults::stall, Faults::resume).await;
    ask_during_a_stall(&server, &mut peer, Faults::stall, Faults::clear).await;
    let stall = |faults: &Faults| faults.stall_session(session);
    let resume = |faults: &Faults| faults.resume_session(session);
    ask_during_a_stall(&server, &mut peer, stall, resume).await;
}

/// Sends requests for far more data than one batch of replies has, and nothing after that.
async fn ask_during_a_stall(
    server: &Server,
    peer: &mut Peer,
    stall: impl FnOnce(&Faults),
    resume: impl FnOnce(&Faults),
) {
    let faults = server.faults();
    stall(&faults);
    let reads = server.counters().reads;
    let asked = (0..30).map(|xid| common::request_frame(Xid(xid), &get_data("/n", false)));
    peer.raw.send(&asked.flatten().collect::<Vec<_>>()).await;
    let begin = now();
    while server.counters().reads == reads {
        assert!(
            begin.elapsed() < common::PATIENCE,
            "the server reads nothing"
        );
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    resume(&faults);
    for xid in 0_i32..30 {
        let reply = peer.raw.frame().await;
        assert_eq!(reply[..4], xid.to_be_bytes());
    }
}

async fn the_port_can_be_closed_and_opened(server: &Server) {
    let faults = server.faults();
    let mut peer = Peer::join(server).await;
    faults.close_port().await;
    let refused = TcpStream::connect(server.local_addr()).await;
    assert!(refused.is_err());
    peer.create("/n", Persistent).await.unwrap();
    faults.cut_all();
    faults.open_port().await.unwrap();
    faults.open_port().await.unwrap();
    let mut peer = peer.resume(server).await.unwrap();
    assert_eq!(peer.children("/").await.unwrap(), ["n", "zookeeper"]);
}

/// As the documentation promises. The port stayed closed.
#[tokio::test]
async fn a_port_opens_even_if_nobody_waits_for_it() {
    let server = server().await;
    let faults = server.faults();
    faults.close_port().await;
    let _ = faults.open_port().now_or_never();
    tokio::time::sleep(Duration::from_millis(20)).await;
    Peer::join(&server).await;
}

/// The port was in use until a task had ended, which nobody waited for.
#[tokio::test]
async fn a_port_that_nobody_waited_to_close_can_be_opened_at_once() {
    let server = server().await;
    let faults = server.faults();
    let _ = faults.close_port().now_or_never();
    // No other task has its turn before.
    faults.open_port().now_or_never().unwrap().unwrap();
    Peer::join(&server).await;
    let _ = faults.close_port().now_or_never();
    assert!(TcpStream::connect(server.local_addr()).await.is_err());
}

/// The ports belong to the handle for faults, too.
#[tokio::test]
async fn the_port_is_closed_after_the_shutdown_although_a_handle_for_faults_is_left() {
    let server = server().await;
    let (faults, address) = (server.faults(), server.local_addr());
    server.shutdown().await;
    assert!(TcpStream::connect(address).await.is_err());
    assert!(faults.close_port().now_or_never().is_some());
}

async fn sequences_can_be_set_and_stop_at_their_maximum(server: &Server) {
    let mut peer = Peer::join(server).await;
    assert!(!server.faults().set_sequence("/none", 1));
    assert!(server.faults().set_sequence("/", i32::MAX));
    for expected in [Ok("/s-2147483647".to_owned()), Err(ErrorCode::NODE_EXISTS)] {
        assert_eq!(peer.create("/s-", PersistentSequential).await, expected);
    }
    assert!(server.faults().set_sequence("/", -5));
    let created = peer.create("/s-", PersistentSequential).await.unwrap();
    assert_eq!(created, "/s--000000005");
}

/// A member that lags has the creates from before in its future. It numbered them from the new number.
#[tokio::test]
async fn all_members_agree_on_the_numbers_from_before_a_sequence_is_set() {
    let cluster = Cluster::start(3).await.unwrap();
    let (leader, follower) = (cluster.leader().unwrap(), cluster.followers()[0]);
    let at = |server| cluster.connect_string_of(server).parse().unwrap();
    let mut writer = Peer::join_at(at(leader), 10_000).await;
    let mut reader = Peer::join_at(at(follower), 10_000).await;
    cluster.lag(follower);
    let mut names = vec![writer.create("/s-", PersistentSequential).await.unwrap()];
    assert!(cluster.faults().set_sequence("/", 7));
    names.push(writer.create("/s-", PersistentSequential).await.unwrap());
    assert_eq!(names, ["/s-0000000000", "/s-0000000007"]);
    cluster.catch_up(follower);
    let children = reader.children("/").await.unwrap();
    assert_eq!(children, ["s-0000000000", "s-0000000007", "zookeeper"]);
}

/// With its number at its maximum, a node keeps its `pzxid` when a child is created: ZooKeeper sets
/// both together, and only if the number grows.
#[tokio::test]
async fn at_the_maximum_a_create_does_not_change_the_parents_pzxid() {
    let server = server().await;
    let mut peer = Peer::join(&server).await;
    let mut pzxids = Vec::new();
    for (next, path) in [(i32::MAX - 1, "/a"), (i32::MAX, "/b")] {
        assert!(server.faults().set_sequence("/", next));
        peer.create(path, Persistent).await.unwrap();
        let Ok(Response::Exists(root)) = peer.call(&exists("/", false)).await else {
            panic!("no root");
        };
        pzxids.push((root.stat.pzxid, peer.zxid));
    }
    let [(first, created), (second, _)] = pzxids[..] else {
        panic!("{pzxids:?}");
    };
    assert_eq!((first, second), (created, created));
}

async fn each_lost_event_is_lost_for_one_client(server: &Server) {
    let mut writer = Peer::join(server).await;
    let mut watchers = [Peer::join(server).await, Peer::join(server).await];
    writer.create("/n", Persistent).await.unwrap();
    for lost in 0..3 {
        for watcher in &mut watchers {
            watcher.call(&get_data("/n", true)).await.unwrap();
            watcher.events.clear();
        }
        (0..lost).for_each(|_| server.faults().lose_event("/n"));
        writer.call(&set_data("/n", b"")).await.unwrap();
        let mut told = 0;
        for watcher in &mut watchers {
            watcher.call(&exists("/n", false)).await.unwrap();
            told += watcher.events.len();
        }
        assert_eq!(told, 2 - lost);
    }
}

/// It used up the fault, and the event behind it arrived.
async fn an_event_that_a_client_may_not_read_is_not_the_one_that_is_lost(server: &Server) {
    let (mut owner, mut stranger) = (Peer::join(server).await, Peer::join(server).await);
    owner.call(&auth("u:p")).await.unwrap();
    stranger.call(&exists("/n", true)).await.unwrap_err();
    server.faults().lose_event("/n");
    let acl = Acl::CREATOR_ALL.to_vec();
    owner
        .call(&create_with("/n", b"", Persistent, acl))
        .await
        .unwrap();
    // The member of the stranger has applied the create.
    stranger.create("/other", Persistent).await.unwrap();
    for told in [0, 1] {
        owner.call(&get_data("/n", true)).await.unwrap();
        owner.call(&set_data("/n", b"")).await.unwrap();
        assert_eq!(owner.events.len(), told);
    }
    assert_eq!(stranger.events, []);
}

#[tokio::test]
async fn clearing_the_faults_brings_events_back() {
    let server = server().await;
    let mut peer = Peer::join(&server).await;
    server.faults().lose_event("/");
    server.faults().clear();
    peer.call(&exists("/n", true)).await.unwrap_err();
    peer.create("/n", Persistent).await.unwrap();
    assert_eq!(peer.events.len(), 1);
}

#[tokio::test]
async fn counters_count_what_clients_did() {
    let server = server().await;
    let mut peer = Peer::join(&server).await;
    let before = server.counters().reads;
    let two = [
        common::request_frame(Xid(1), &create("/n", b"", Persistent)),
        common::request_frame(Xid(2), &get_children("/n", true)),
    ];
    peer.raw.send(&two.concat()).await;
    peer.raw.frame().await;
    peer.raw.frame().await;
    assert_eq!((before, server.counters().reads), (1, 2));

    let counters = server.counters();
    assert_eq!(counters.requests_of(OpCode::CREATE), 1);
    assert_eq!(counters.requests_of(OpCode::GET_CHILDREN), 1);
    assert_eq!(counters.requests_of(OpCode::CREATE_SESSION), 1);
    assert_eq!(counters.all_requests(), 2);
    assert_eq!((counters.connections, counters.sessions), (1, 1));
    assert_eq!(server.paths(), ["/n"]);
    assert_eq!(server.report().watches, 1);
    assert_eq!(server.report().sessions[&peer.session].watches.len(), 1);
    peer.raw
        .send(&common::request_frame(Xid(3), &delete("/n")))
        .await;
    peer.raw.frame().await;
    peer.raw.frame().await;
    assert_eq!(server.report().watches, 0);
    assert_eq!(server.counters().notifications, 1);
}
