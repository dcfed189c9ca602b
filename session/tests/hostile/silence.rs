//! Servers that send nothing, or send very slowly.

use std::time::Duration;

use lockkeeper_proto::{EventType, Xid};
use lockkeeper_session::{Cause, Effect};
use tokio::time::Instant;

use super::{
    server::{
        Server, accepted, assert_patient, assert_well, event, lost, reply, sound,
        unreachable_because,
    },
    waiting::soon,
};

/// A session timeout that tests wait out. The client pings after 500 ms, and 1 s of silence ends
/// the connection.
const SHORT: Duration = Duration::from_millis(1500);
/// How long such an end may take on a slow machine.
const IN_TIME: Duration = Duration::from_secs(10);
/// The pause of a server that sends one byte at a time.
const PAUSE: Duration = Duration::from_millis(50);

#[tokio::test]
async fn silence_in_the_handshake_times_out() {
    let server = Server::bad(usize::MAX, |mut peer| async move { peer.ignore().await }).await;
    let begin = Instant::now();
    let error = server.client(SHORT).await.unwrap_err();
    assert!(begin.elapsed() < IN_TIME);
    assert!(matches!(
        unreachable_because(error),
        Cause::HandshakeTimeout(_)
    ));
    assert!(server.connections() <= 2);

    let server = Server::bad(1, |mut peer| async move { peer.ignore().await }).await;
    let builder = lockkeeper_session::Client::builder(&server.connect_string()).unwrap();
    let builder = builder.server_timeout(SHORT);
    let client = soon(builder.connect()).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn silence_after_the_handshake_ends_the_connection() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.ignore().await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let begin = Instant::now();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert!(begin.elapsed() < IN_TIME);
    assert_eq!(error.effect(), Effect::NotApplied, "it is a read");
    assert_eq!(lost(error), Cause::Silent(SHORT * 2 / 3));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn silence_after_every_handshake_causes_no_loop() {
    let server = Server::bad(usize::MAX, |mut peer| async move {
        peer.handshake().await;
        peer.ignore().await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    assert_patient(&server, &client).await;
}

/// The server answers every ping and not the request.
#[tokio::test]
async fn an_unanswered_request_times_out_although_pings_are_answered() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        while peer.request().await.is_some() {}
    })
    .await;
    let builder = lockkeeper_session::Client::builder(&server.connect_string()).unwrap();
    let builder = builder.request_timeout(SHORT);
    let client = soon(builder.connect()).await.unwrap();
    let begin = Instant::now();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert!(begin.elapsed() < IN_TIME);
    assert_eq!(lost(error), Cause::RequestTimeout(SHORT));
    assert_well(&client).await;
}

#[tokio::test]
async fn a_healthy_server_that_sends_one_byte_at_a_time_works() {
    let server = Server::start(|_, mut peer| async move {
        let asked = peer.hear_handshake().await.unwrap();
        peer.drip(&accepted(asked.timeout_ms), PAUSE).await;
        while let Some((xid, request)) = peer.request().await {
            peer.drip(&reply(xid, &sound(&request)), PAUSE).await;
        }
    })
    .await;
    let client = server.client(Duration::from_secs(9)).await.unwrap();
    soon(client.sync("/a")).await.unwrap();
    let (listed, deleted) = tokio::join!(
        soon(client.get_children("/a")),
        soon(client.delete("/a", lockkeeper_proto::Version::ANY)),
    );
    assert_eq!(listed.unwrap(), ["child"]);
    deleted.unwrap();
    assert_eq!(server.connections(), 1);
}

#[tokio::test]
async fn a_frame_that_never_ends_counts_as_silence() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.send(&100_000_i32.to_be_bytes()).await;
        peer.drip(&[0; 1000], PAUSE).await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
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
    let builder = builder.server_timeout(SHORT);
    let client = soon(builder.connect()).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

/// A client that took events for the answer to its ping sent nothing further and lost its session.
#[tokio::test]
async fn events_do_not_count_as_the_answer_to_a_ping() {
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
    soon(snapshots.wait_for(|now| now.connections == 2))
        .await
        .unwrap();
    assert!(begin.elapsed() < IN_TIME);
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

/// The program accepts no connection, so the operating system's queue for it fills up.
#[tokio::test]
async fn a_connection_that_is_never_accepted_times_out() {
    let socket = tokio::net::TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let listener = socket.listen(1).unwrap();
    let address = listener.local_addr().unwrap();
    // Fills the queue. Further connections are not refused: they wait for ever.
    let mut queued = Vec::new();
    let full = loop {
        let connect = tokio::net::TcpStream::connect(address);
        match tokio::time::timeout(PAUSE * 4, connect).await {
            Ok(stream) => queued.push(stream.unwrap()),
            Err(_) => break queued.len(),
        }
    };
    assert!(full < 100, "{full} connections");
    let begin = Instant::now();
    let builder = lockkeeper_session::Client::builder(&address.to_string()).unwrap();
    let error = soon(builder.session_timeout(SHORT).connect()).await;
    let cause = unreachable_because(error.unwrap_err());
    assert!(matches!(cause, Cause::ConnectTimeout(_)), "{cause:?}");
    assert!(begin.elapsed() < IN_TIME);
    drop((listener, queued));
}

#[tokio::test]
async fn silence_after_half_a_reply_ends_the_connection() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        let reply = reply(xid, &sound(&request));
        peer.send(&reply[..reply.len() / 2]).await;
        peer.ignore().await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let begin = Instant::now();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert!(begin.elapsed() < IN_TIME);
    assert_eq!(error.effect(), Effect::NotApplied, "it is a read");
    assert!(matches!(lost(error), Cause::Silent(_)));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

/// The server answers every ping, but only the first request. The later requests still time out
/// soon.
#[tokio::test]
async fn requests_behind_an_answered_one_time_out_although_pings_are_answered() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        // The first request is answered. The others never are.
        peer.answer(xid, &sound(&request)).await;
        while peer.request().await.is_some() {}
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    soon(client.get_data("/a")).await.unwrap();
    let begin = Instant::now();
    let waiting = (0..5).map(|_| client.get_data("/a"));
    for answered in soon(futures::future::join_all(waiting)).await {
        let _ = lost(answered.unwrap_err());
    }
    assert!(begin.elapsed() < IN_TIME);
    assert_well(&client).await;
}
