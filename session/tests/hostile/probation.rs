//! Servers that close the connection, sooner or later.

use std::time::Duration;

use lockkeeper_session::{Cause, State};

use super::{
    server::{Peer, Server, assert_patient, assert_well, lost, sound, unreachable_because},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(4);
/// A session timeout that tests wait out.
const SHORT: Duration = Duration::from_millis(800);

#[tokio::test]
async fn a_connection_closed_before_the_handshake_is_reported() {
    let server = Server::bad(usize::MAX, Peer::close).await;
    let error = server.client(SHORT).await.unwrap_err();
    assert_eq!(unreachable_because(error), Cause::ClosedInHandshake);
    assert!((1..=6).contains(&server.connections()));

    let server = Server::bad(2, Peer::close).await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 3);
}

/// `connect` may or may not see that the first connection is closed: that depends on timing.
#[tokio::test]
async fn a_connection_closed_after_the_handshake_is_replaced() {
    let server = Server::bad(3, |mut peer| async move {
        peer.handshake().await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 4);
    let asked = server.handshakes();
    assert!(asked[1..].iter().all(|again| again.session_id.0 == 0x5ea));
}

#[tokio::test]
async fn a_connection_closed_after_every_request_causes_no_loop() {
    let server = Server::bad(usize::MAX, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let mut snapshots = client.snapshots();
    for _ in 0..3 {
        let error = soon(client.get_data("/a")).await.unwrap_err();
        assert_eq!(lost(error), Cause::ClosedByServer);
    }
    assert_eq!(server.connections(), 3);
    assert!(snapshots.borrow_and_update().session_id.0 == 0x5ea);
    assert_patient(&server, &client).await;
}

#[tokio::test]
async fn a_connection_closed_in_the_middle_of_a_frame_is_replaced() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        let reply = super::server::reply(xid, &sound(&request));
        peer.send(&reply[..reply.len() - 1]).await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(lost(error), Cause::ClosedByServer);
    assert_well(&client).await;
}

/// Every follower of the state sees the loss. The session is the same afterwards.
#[tokio::test]
async fn a_lost_connection_is_visible_in_the_state() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let mut snapshots = client.snapshots();
    assert_eq!(snapshots.borrow_and_update().state, State::Connected);
    let (lost, asked) = tokio::join!(
        soon(snapshots.wait_for(|now| now.state == State::Suspended)),
        client.get_data("/a"),
    );
    assert_eq!(lost.unwrap().server, None);
    assert!(asked.is_err());
    let back = soon(snapshots.wait_for(|now| now.state == State::Connected)).await;
    let back = back.unwrap().clone();
    assert_eq!((back.session_id.0, back.connections), (0x5ea, 2));
}
