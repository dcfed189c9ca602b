//! Very many connections: silent ones, incomplete handshakes, and ordinary sessions.

use std::time::Duration;

use lockkeeper_proto::CreateMode;
use lockkeeper_server::{Report, Server};
use tokio::net::TcpStream;

use super::{
    common::{PATIENCE, Peer, Raw, framed, new_session, now},
    is_served, measured, takes_less_than, until,
};

const MANY: usize = 1000;

/// Enough time for all connections to be opened, if the machine is not too busy.
const HANDSHAKE: Duration = Duration::from_secs(3);

/// The maximum memory of a silent connection in bytes, both of its ends together.
const SILENT: u64 = 6 << 10;

/// The maximum memory of a connection with a session and a node in bytes, both of its ends and the
/// client's buffer together.
const SESSION: u64 = 10 << 10;

/// The maximum memory of the server itself and its runtime in bytes.
const FIXED: u64 = 1 << 20;

#[test]
fn a_thousand_half_open_connections_cost_little_and_are_closed_in_time() {
    let (most, what) = (MANY as u64 * SILENT + FIXED, "the half-open connections");
    takes_less_than(most, what, || async {
        let server = Server::builder().handshake_timeout(HANDSHAKE);
        let server = server.start().await.unwrap();
        let mut peer = Peer::join_for(&server, 60_000).await;
        let begin = now();
        let mut silent = Vec::with_capacity(MANY);
        for _ in 0..MANY {
            silent.push(TcpStream::connect(server.local_addr()).await.unwrap());
        }
        // On a busy machine the server closes the first connections before the last ones are open.
        let accepted = |_: &Report| server.counters().connections == MANY as u64 + 1;
        until(&server, accepted).await;
        is_served(&mut peer).await;
        until(&server, |report| report.connections == 1).await;
        assert!(begin.elapsed() >= HANDSHAKE);
        is_served(&mut peer).await;
    });
}

/// Incoming bytes do not extend the deadline of the handshake.
#[tokio::test]
async fn a_slow_handshake_is_closed_at_its_deadline() {
    let server = Server::builder().handshake_timeout(Duration::from_millis(300));
    let server = server.start().await.unwrap();
    let mut raw = Raw::connect(server.local_addr()).await;
    let begin = now();
    for byte in &framed(&new_session(4000)) {
        if !raw.try_send(&[*byte]).await {
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    raw.assert_ended().await;
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(server.report().sessions.len(), 0);
}

/// Part of a request does not keep a session alive.
#[tokio::test]
async fn a_slow_partial_request_does_not_keep_the_session_alive() {
    let server = Server::builder().tick_time(Duration::from_millis(50));
    let server = server.start().await.unwrap();
    let mut peer = Peer::join_for(&server, 200).await;
    let begin = now();
    peer.raw.send(&[0, 0, 0xff, 0xff]).await;
    while peer.raw.try_send(&[0]).await {
        assert!(
            begin.elapsed() < PATIENCE,
            "the server still keeps the connection"
        );
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(server.report().sessions.len(), 0);
    until(&server, |report| report.connections == 0).await;
}

#[test]
fn a_thousand_sessions_cost_little_and_leave_nothing_behind() {
    let most = MANY as u64 * SESSION + FIXED;
    takes_less_than(most, "the sessions", || async {
        let server = Server::builder().tick_time(Duration::from_millis(100));
        let server = server.start().await.unwrap();
        let mut other = Peer::join_for(&server, 60_000).await;
        let mut peers = Vec::with_capacity(MANY);
        for _ in 0..MANY {
            let mut peer = Peer::join_for(&server, 60_000).await;
            peer.create("/e-", CreateMode::EphemeralSequential)
                .await
                .unwrap();
            peers.push(peer);
        }
        assert_eq!(server.report().nodes, MANY);
        is_served(&mut other).await;
        let ids: Vec<_> = peers.iter().map(|peer| peer.session).collect();
        drop(peers);
        until(&server, |report| report.connections == 1).await;
        for id in ids {
            server.faults().expire_early(id);
        }
        let report = server.report();
        assert_eq!((report.nodes, report.watches), (0, 0));
        assert_eq!(report.sessions.len(), 1);
    });
}

#[test]
fn three_thousand_connections_one_after_the_other_leave_nothing_behind() {
    let taken = measured(|| async {
        let server = Server::start().await.unwrap();
        for _ in 0..3 * MANY {
            drop(TcpStream::connect(server.local_addr()).await.unwrap());
        }
        until(&server, |report| report.connections == 0).await;
        server.shutdown().await;
    });
    assert!(taken.bytes_max < MANY as u64 * SILENT + FIXED);
    let left = taken.bytes_current;
    println!("{left} bytes are left after {} connections", 3 * MANY);
    assert!(left < 64 << 10, "{left} bytes are left");
}

#[tokio::test]
async fn connections_above_the_limit_are_closed_until_another_one_ends() {
    let server = Server::builder().max_connections(3).start().await.unwrap();
    let mut peers = Vec::new();
    for _ in 0..3 {
        peers.push(Peer::join(&server).await);
    }
    for _ in 0..20 {
        let mut raw = Raw::connect(server.local_addr()).await;
        raw.assert_ended().await;
    }
    for peer in &mut peers {
        is_served(peer).await;
    }
    peers.pop().unwrap().close().await;
    let begin = now();
    loop {
        let mut raw = Raw::connect(server.local_addr()).await;
        if raw.try_send(&framed(&new_session(4000))).await && raw.next_frame_or_end().await {
            break;
        }
        assert!(
            begin.elapsed() < PATIENCE,
            "the server accepts no new connection"
        );
    }
}
