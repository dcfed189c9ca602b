//! A server in the place of a former one, which it knows nothing of: when it creates ephemeral nodes
//! again, and how it numbers its transactions.
//!
//! Not here: locks across a restart (`recipes/tests/locks/restart.rs`).

use std::time::{Duration, UNIX_EPOCH};

use lockkeeper_proto::{
    CreateMode::{Ephemeral, EphemeralSequential, Persistent, PersistentSequential},
    ErrorCode, OpCode, Request,
    multi::MultiRequest,
    records::CreateTtlRequest,
};
use lockkeeper_server::{Builder, Server, When};
use lockkeeper_test_support::peer::{Peer, create};

const SECOND: Duration = Duration::from_secs(1);

/// The settings of a server at the address of a former one, which has ended.
async fn in_the_place_of_another() -> Builder {
    let former = Server::start().await.unwrap();
    let address = former.local_addr();
    former.shutdown().await;
    Server::builder().listen(address)
}

/// A client of a former server may still rely on an ephemeral node that it had there.
#[tokio::test]
async fn at_a_chosen_address_no_ephemeral_node_is_created_before_former_sessions_have_ended() {
    let chosen = in_the_place_of_another().await;
    let longer = Duration::from_secs(3600);
    for (builder, wait) in [
        (chosen.clone(), 60 * SECOND),
        (chosen.clone().max_session_timeout(longer), longer),
        // No session is shorter than two ticks.
        (chosen.clone().tick_time(longer), 2 * longer),
        (Server::builder().no_ephemerals_for(longer), longer),
    ] {
        let before = UNIX_EPOCH.elapsed().unwrap();
        let server = builder.start().await.unwrap();
        let until = server.report().no_ephemerals_until;
        // In milliseconds, and so cut off.
        let told = until.duration_since(UNIX_EPOCH + before).unwrap() + Duration::from_millis(1);
        assert!(told >= wait && told < wait + 10 * SECOND, "{told:?}");
        server.advance(wait.saturating_sub(20 * SECOND));
        let mut peer = Peer::join(&server).await;
        for mode in [Ephemeral, EphemeralSequential] {
            let create = create("/e", b"", mode);
            let refused = peer.call(&create).await.unwrap_err();
            assert_eq!(refused, ErrorCode::THROTTLED_OP);
            let Request::Create(create) = create else {
                panic!("{create:?}");
            };
            // In a multi, its flags make it ephemeral.
            let by_flags = CreateTtlRequest {
                path: create.path.clone(),
                data: None,
                acl: create.acl.clone(),
                flags: create.flags,
                ttl_ms: -1,
            };
            for op in [Request::Create(create), Request::CreateTtl(by_flags)] {
                let ops = vec![op];
                let refused = peer.call(&Request::Multi(MultiRequest { ops })).await;
                assert_eq!(refused, Err(ErrorCode::THROTTLED_OP));
            }
        }
        peer.create("/p", PersistentSequential).await.unwrap();
        assert_eq!(server.paths(), ["/p0000000000"]);
        server.advance(20 * SECOND);
        let mut peer = Peer::join(&server).await;
        peer.create("/e", Ephemeral).await.unwrap();
        server.shutdown().await;
    }
}

#[tokio::test]
async fn a_cluster_at_chosen_addresses_waits_too() {
    let cluster = in_the_place_of_another().await.start_cluster(1);
    let cluster = cluster.await.unwrap();
    let mut peer = Peer::join(&cluster).await;
    let refused = peer.create("/e", Ephemeral).await.unwrap_err();
    assert_eq!(refused, ErrorCode::THROTTLED_OP);
}

#[tokio::test]
async fn a_fresh_server_creates_ephemeral_nodes_at_once() {
    let said = in_the_place_of_another().await.fresh();
    for builder in [said, Server::builder()] {
        let server = builder.start().await.unwrap();
        let mut peer = Peer::join(&server).await;
        peer.create("/e", Ephemeral).await.unwrap();
    }
}

/// No clock can represent the end of these times. Each of them was over at once: connections were
/// closed, replies came early, and locks were granted.
#[tokio::test]
async fn a_time_without_an_end_does_not_end() {
    let builder = Server::builder()
        .handshake_timeout(Duration::MAX)
        .container_check_interval(Duration::MAX);
    let server = builder
        .clone()
        .no_ephemerals_for(Duration::MAX)
        .start()
        .await;
    let server = server.unwrap();
    let mut peer = Peer::join(&server).await;
    let refused = peer.create("/e", Ephemeral).await.unwrap_err();
    assert_eq!(refused, ErrorCode::THROTTLED_OP);
    let when = When::op(OpCode::CREATE);
    server.faults().delay_reply(when, Duration::MAX);
    peer.send(&create("/p", b"", Persistent)).await;
    assert!(peer.raw.is_silent().await);
    assert_eq!(server.paths(), ["/p"]);
}

/// Also if one builder starts several servers, and after elections.
#[tokio::test]
async fn transactions_are_numbered_on_after_a_restart() {
    let builder = Server::builder();
    let mut last = None;
    for is_cluster in [false, false, true, true, false] {
        let (single, cluster);
        let server = if is_cluster {
            cluster = builder.clone().start_cluster(3).await.unwrap();
            cluster.depose();
            &*cluster
        } else {
            single = builder.clone().start().await.unwrap();
            &single
        };
        let mut peer = Peer::join(server).await;
        for number in 0..100 {
            let path = format!("/{number}");
            peer.create(&path, Persistent).await.unwrap();
            assert!(Some(peer.zxid) > last, "{:?} after {last:?}", peer.zxid);
            last = Some(peer.zxid);
        }
        assert!(peer.zxid.0 < 1 << 53, "no exact double: {:?}", peer.zxid);
    }
}
