//! Servers that are not ZooKeeper, or that answer the handshake with nonsense.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    SessionId,
    connect::ConnectResponse,
    jute::{DecodeError, DecodeErrorKind, Encode},
};
use lockkeeper_session::{Cause, Client, Effect, Error, OnExpiry, State};
use tokio::time::Instant;

use super::{
    server::{ID, Peer, Server, assert_well, message, sound, unreachable_because},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(4);
/// A session timeout that tests wait out.
const SHORT: Duration = Duration::from_millis(800);

fn answer(timeout_ms: i32, session_id: SessionId, password: Vec<u8>) -> Bytes {
    message(|writer| {
        ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password: Some(password.into()),
            read_only: Some(false),
        }
        .encode(writer);
    })
}

/// A server whose first `bad` connections answer the handshake like this.
async fn greeting(bad: usize, greeting: Bytes) -> Server {
    Server::bad(bad, move |mut peer| {
        let greeting = greeting.clone();
        async move {
            peer.hear_handshake().await;
            peer.send(&greeting).await;
            peer.ignore().await;
        }
    })
    .await
}

/// The cause that a caller gets from a server that always answers like this, after a few attempts
/// with pauses. Also checks that a single such answer does no harm.
async fn learnt(answer: Bytes) -> Cause {
    let server = greeting(usize::MAX, answer.clone()).await;
    let begin = Instant::now();
    let error = server.client(SHORT).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    assert!(begin.elapsed() < SHORT + Duration::from_secs(10));
    // A slow machine makes fewer attempts.
    let connections = server.connections();
    assert!((1..=6).contains(&connections), "{connections} connections");

    let server = greeting(1, answer).await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
    unreachable_because(error)
}

#[tokio::test]
async fn a_refused_new_session_is_reported() {
    let refusal = answer(0, SessionId::NONE, vec![0; 16]);
    assert_eq!(learnt(refusal).await, Cause::SessionRefused);
    let no_id = answer(4000, SessionId::NONE, vec![0; 16]);
    assert_eq!(learnt(no_id).await, Cause::SessionRefused);
}

#[tokio::test]
async fn a_password_of_wrong_length_is_refused() {
    for length in [0, 65, 1 << 20] {
        let cause = learnt(answer(4000, ID, vec![7; length])).await;
        assert_eq!(cause, Cause::BadHandshake(None), "{length}");
    }
}

#[tokio::test]
async fn a_password_of_impossible_length_is_refused() {
    let mut forged = answer(4000, ID, vec![7; 16]).to_vec();
    forged[20..24].copy_from_slice(&i32::MAX.to_be_bytes());
    let error = DecodeError {
        field: "ResponseBase.password",
        offset: 16,
        kind: DecodeErrorKind::TooLong {
            announced: 0x7fff_ffff,
            left: 17,
        },
    };
    let cause = learnt(forged.into()).await;
    assert_eq!(cause, Cause::BadHandshake(Some(error)));
}

#[tokio::test]
async fn an_empty_handshake_answer_is_refused() {
    let Cause::BadHandshake(Some(error)) = learnt(Bytes::from_static(&[0; 4])).await else {
        panic!("the answer was decoded");
    };
    assert_eq!(error.kind, DecodeErrorKind::Short { needed: 4, left: 0 });
}

#[tokio::test]
async fn a_huge_session_timeout_is_accepted() {
    let server = Server::start(|_, mut peer| async move {
        peer.hear_handshake().await;
        let answer = answer(i32::MAX, ID, vec![7; 16]);
        peer.send(&answer).await;
        let (xid, request) = peer.request().await.unwrap();
        peer.answer(xid, &sound(&request)).await;
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let days = client.snapshot().session_timeout.as_secs() / 86_400;
    assert_eq!(days, 24);
    assert!(client.lease().is_valid);
    assert_well(&client).await;
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn a_tiny_session_timeout_causes_no_loop() {
    let server = Server::start(|_, mut peer| async move {
        peer.hear_handshake().await;
        peer.send(&answer(1, ID, vec![7; 16])).await;
        peer.close().await;
    })
    .await;
    let client = server.client(SHORT).await;
    tokio::time::sleep(SHORT).await;
    assert!(server.connections() <= 8, "{}", server.connections());
    drop(client);
}

/// The session is over: its watcher gets the error, and the client goes on with a new session.
#[tokio::test]
async fn a_client_whose_session_is_refused_gets_a_new_one() {
    let server = Server::start(|number, mut peer| async move {
        if number == 1 {
            peer.hear_handshake().await;
            peer.send(&answer(0, SessionId::NONE, vec![0; 16])).await;
            return peer.close().await;
        }
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        peer.answer(xid, &sound(&request)).await;
        if number == 0 {
            peer.request().await;
            return peer.close().await;
        }
        peer.serve().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let (_, watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let (asked, event) = tokio::join!(soon(client.sync("/")), soon(watcher));
    assert_eq!(asked.unwrap_err().effect(), Effect::Unknown);
    let over = Error::SessionExpired {
        peer: server.peer(),
        effect: Effect::NotApplied,
    };
    assert_eq!(event.unwrap_err(), over);
    assert_well(&client).await;
    let asked: Vec<_> = server.handshakes().iter().map(|h| h.session_id).collect();
    assert_eq!(asked, [SessionId::NONE, ID, SessionId::NONE]);
}

/// In an earlier version, closing a client that had ended with its session never returned.
#[tokio::test]
async fn a_client_that_ends_with_its_session_can_be_closed() {
    let server = Server::start(|number, mut peer| async move {
        if number == 0 {
            peer.handshake().await;
            peer.request().await;
            return peer.close().await;
        }
        peer.hear_handshake().await;
        peer.send(&answer(0, SessionId::NONE, vec![0; 16])).await;
        peer.close().await;
    })
    .await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.on_expiry(OnExpiry::End).connect().await.unwrap();
    let mut snapshots = client.snapshots();
    assert!(soon(client.get_data("/a")).await.is_err());
    let expired = |now: &lockkeeper_session::Snapshot| now.state == State::Closed;
    soon(snapshots.wait_for(expired)).await.unwrap();
    let over = Error::SessionExpired {
        peer: server.peer(),
        effect: Effect::NotApplied,
    };
    assert_eq!(soon(client.get_data("/a")).await.unwrap_err(), over);
    assert_eq!(server.connections(), 2);
    soon(client.close()).await;
}

/// The error was a frame of 1,213,486,160 bytes, after the whole time for the connect.
#[tokio::test]
async fn a_server_that_is_not_zookeeper_is_quoted_immediately() {
    for (text, said) in [
        (
            &b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n"[..],
            "HTTP/1.1 400 Bad Request",
        ),
        (
            b"-ERR unknown \x1b[31m command\n",
            "-ERR unknown \\x1b[31m command",
        ),
        (&[b'x'; 500], &*"x".repeat(80)),
    ] {
        let server = greeting(usize::MAX, Bytes::from_static(text)).await;
        let begin = Instant::now();
        let error = server.client(TIMEOUT).await.unwrap_err();
        assert!(begin.elapsed() < TIMEOUT, "it is permanent");
        assert_eq!(server.connections(), 1);
        assert_eq!(unreachable_because(error), Cause::NotZooKeeper(said.into()));
    }
}

#[tokio::test]
async fn a_port_without_a_listener_is_reported() {
    let address = {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let builder = Client::builder(&address.to_string()).unwrap();
    let error = soon(builder.session_timeout(SHORT).connect()).await;
    let error = error.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("no server reached in 800 ms"), "{text}");
    assert!(text.contains(&address.to_string()), "{text}");
    let Cause::Io { kind, text } = unreachable_because(error) else {
        panic!("{text}");
    };
    assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
    assert!(text.contains("refused"), "{text}");
}

#[tokio::test]
async fn the_error_names_each_server_with_its_cause() {
    let silent = Server::bad(usize::MAX, |mut peer| async move { peer.ignore().await }).await;
    let closing = Server::bad(usize::MAX, Peer::close).await;
    let servers = format!("{},{}", silent.address, closing.address);
    let builder = Client::builder(&servers).unwrap();
    let error = soon(builder.session_timeout(TIMEOUT).connect()).await;
    let Err(Error::Unreachable { tried, waited, .. }) = error else {
        panic!("{error:?}");
    };
    assert_eq!(waited, TIMEOUT);
    let of = |server: &Server| {
        let port = server.address.port();
        let found = tried.iter().find(|lost| lost.endpoint.port == port);
        found.map(|lost| lost.cause.clone())
    };
    assert_eq!(of(&closing), Some(Cause::ClosedInHandshake));
    assert!(matches!(of(&silent), Some(Cause::HandshakeTimeout(_))));
}

#[tokio::test]
async fn one_good_server_among_bad_ones_is_found() {
    let closing = Server::bad(usize::MAX, Peer::close).await;
    let web = greeting(usize::MAX, Bytes::from_static(b"HTTP/1.1 200 OK\r\n\r\n")).await;
    let good = Server::bad(0, Peer::close).await;
    let servers = format!("{},{},{}", closing.address, web.address, good.address);
    for seed in 0..6 {
        let builder = Client::builder(&servers).unwrap().seed(seed);
        let client = soon(builder.connect()).await.unwrap();
        assert_well(&client).await;
        let server = client.snapshot().server.unwrap();
        assert_eq!(server.port, good.address.port());
    }
}
