//! Servers that close the connection, sooner or later.

use std::time::Duration;

use lockkeeper_session::{Cause, State};

use super::server::{
    Peer, Server, assert_patient, assert_well, lost, sound, unreachable_because, within,
};

const TIMEOUT: Duration = Duration::from_secs(4);
/// Where it is waited for.
const SHORT: Duration = Duration::from_millis(800);

#[tokio::test]
async fn closes_what_it_has_accepted() {
    let server = Server::bad(usize::MAX, Peer::close).await;
    let error = server.client(SHORT).await.unwrap_err();
    assert_eq!(unreachable_because(error), Cause::ClosedInHandshake);
    assert!((3..=6).contains(&server.connections()));

    let server = Server::bad(2, Peer::close).await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 3);
}

/// Whether the first connection is noticed by `connect` depends on who is faster.
#[tokio::test]
async fn closes_after_the_handshake() {
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
async fn closes_after_every_request() {
    let server = Server::bad(usize::MAX, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let mut snapshots = client.snapshots();
    for _ in 0..3 {
        let error = within(client.get_data("/a")).await.unwrap_err();
        assert_eq!(lost(error), Cause::ClosedByServer);
    }
    assert_eq!(server.connections(), 3);
    assert!(snapshots.borrow_and_update().session_id.0 == 0x5ea);
    assert_patient(&server, &client).await;
}

#[tokio::test]
async fn closes_in_the_middle_of_a_frame() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        let reply = super::server::reply(xid, &sound(&request));
        peer.send(&reply[..reply.len() - 1]).await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let error = within(client.get_data("/a")).await.unwrap_err();
    assert_eq!(lost(error), Cause::ClosedByServer);
    assert_well(&client).await;
}

/// Everybody who follows the state learns it, and the session is the same afterwards.
#[tokio::test]
async fn a_loss_is_seen_in_the_state() {
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
        within(snapshots.wait_for(|now| now.state == State::Suspended)),
        client.get_data("/a"),
    );
    assert_eq!(lost.unwrap().server, None);
    assert!(asked.is_err());
    let back = within(snapshots.wait_for(|now| now.state == State::Connected)).await;
    let back = back.unwrap().clone();
    assert_eq!((back.session_id.0, back.connections), (0x5ea, 2));
}
