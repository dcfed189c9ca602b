//! Servers that say nothing, or very slowly.

use std::time::Duration;

use lockkeeper_proto::{EventType, Xid};
use lockkeeper_session::{Cause, Effect};
use tokio::time::Instant;

use super::server::{
    Server, accepted, assert_patient, assert_well, event, lost, reply, sound, unreachable_because,
    within,
};

/// Waited for in full: pings at half a second, silence for a second is too long.
const SHORT: Duration = Duration::from_millis(1500);
/// A server that says something, but a byte at a time.
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::test]
async fn nothing_in_the_handshake() {
    let server = Server::bad(usize::MAX, |mut peer| async move { peer.ignore().await }).await;
    let begin = Instant::now();
    let error = server.client(SHORT).await.unwrap_err();
    assert!(begin.elapsed() < 2 * SHORT);
    assert!(matches!(
        unreachable_because(error),
        Cause::HandshakeTimeout(_)
    ));
    assert!(server.connections() <= 2);

    let server = Server::bad(1, |mut peer| async move { peer.ignore().await }).await;
    let builder = lockkeeper_session::Client::builder(&server.connect_string()).unwrap();
    let builder = builder.connect_timeout(SHORT);
    let client = within(builder.connect()).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn nothing_after_the_handshake() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.ignore().await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let begin = Instant::now();
    let error = within(client.get_data("/a")).await.unwrap_err();
    assert!(begin.elapsed() < 2 * SHORT);
    assert_eq!(error.effect(), Effect::Unknown);
    assert_eq!(lost(error), Cause::Silent(SHORT * 2 / 3));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn nothing_after_any_handshake() {
    let server = Server::bad(usize::MAX, |mut peer| async move {
        peer.handshake().await;
        peer.ignore().await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    assert_patient(&server, &client).await;
}

/// An answer to every ping, and none to the request.
#[tokio::test]
async fn pings_are_answered_and_the_request_is_not() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        while peer.request().await.is_some() {}
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let begin = Instant::now();
    let error = within(client.get_data("/a")).await.unwrap_err();
    assert!(begin.elapsed() < 2 * SHORT);
    assert_eq!(lost(error), Cause::RequestTimeout(SHORT));
    assert_well(&client).await;
}

#[tokio::test]
async fn a_sound_server_that_sends_a_byte_at_a_time_is_served_by() {
    let server = Server::start(|_, mut peer| async move {
        let asked = peer.hear_handshake().await.unwrap();
        peer.drip(&accepted(asked.timeout_ms), PAUSE).await;
        while let Some((xid, request)) = peer.request().await {
            peer.drip(&reply(xid, &sound(&request)), PAUSE).await;
        }
    })
    .await;
    let client = server.client(Duration::from_secs(9)).await.unwrap();
    within(client.sync("/a")).await.unwrap();
    let (listed, deleted) = tokio::join!(
        within(client.get_children("/a")),
        within(client.delete("/a", lockkeeper_proto::Version::ANY)),
    );
    assert_eq!(listed.unwrap(), ["child"]);
    deleted.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_frame_that_never_ends_is_silence() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.send(&100_000_i32.to_be_bytes()).await;
        peer.drip(&[0; 1000], PAUSE).await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let error = within(client.get_data("/a")).await.unwrap_err();
    assert_eq!(lost(error), Cause::Silent(SHORT * 2 / 3));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_handshake_that_never_ends_is_given_up() {
    let server = Server::bad(1, |mut peer| async move {
        peer.hear_handshake().await;
        peer.drip(&accepted(1500)[..40], PAUSE).await;
        peer.ignore().await;
    })
    .await;
    let builder = lockkeeper_session::Client::builder(&server.connect_string()).unwrap();
    let builder = builder.connect_timeout(SHORT);
    let client = within(builder.connect()).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

/// As long as events came in, a client whose ping was swallowed sent nothing more, and lost its session.
#[tokio::test]
async fn events_and_no_answer_to_a_ping() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        for _ in 0..100 {
            let stray = event(EventType::NODE_CREATED.0, 3, "/nobody");
            peer.send(&stray).await;
            tokio::time::sleep(PAUSE).await;
        }
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let mut snapshots = client.snapshots();
    let begin = Instant::now();
    within(snapshots.wait_for(|now| now.connections == 2))
        .await
        .unwrap();
    assert!(begin.elapsed() < 2 * SHORT);
    assert_well(&client).await;
}

#[tokio::test]
async fn answers_to_pings_that_were_not_sent_do_no_harm() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        for _ in 0..10_000 {
            peer.send(&super::server::raw_reply(Xid::PING, b"")).await;
        }
        peer.serve().await;
    })
    .await;
    let client = server.client(Duration::from_secs(4)).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 1);
}
