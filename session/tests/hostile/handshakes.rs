//! Servers that are not ZooKeeper, or that answer the handshake with nonsense.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use lockkeeper_proto::SessionId;
use lockkeeper_session::{
    Cause, Client, Effect, Error, ErrorKind, OnExpiry, Peer as Named, Snapshot, State,
};
use tokio::time::Instant;

use super::{
    Pace, assert_well,
    scripted::{ID, Peer, Server, greeting},
    unreachable_because,
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(6);
/// A session timeout that tests wait out, where all connections are bad.
const SHORT: Duration = Duration::from_millis(900);

/// A server whose first `bad` connections answer the handshake like this.
async fn greeting_with(bad: usize, greeting: Bytes, pace: Pace) -> Server {
    Server::bad(bad, move |mut peer| {
        let greeting = greeting.clone();
        async move {
            peer.hear_handshake().await;
            pace.send(&mut peer, &greeting).await;
            peer.ignore().await;
        }
    })
    .await
}

/// What a caller learns from a server that always answers like this, after a few attempts with
/// pauses. Also checks that a single such answer does no harm.
async fn learnt(greeting: Bytes, pace: Pace) -> Cause {
    // A slow answer must be complete before the client's share of the time for one server is over,
    // also on a busy machine.
    let (timeout, most) = match pace {
        Pace::AtOnce => (SHORT, 6),
        Pace::ByteByByte => (4 * SHORT, 12),
    };
    let server = greeting_with(usize::MAX, greeting.clone(), pace).await;
    let error = server.client(timeout).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied);
    let connections = server.connections();
    assert!(connections <= most, "{greeting:?}, {pace:?}: {connections}");
    let cause = unreachable_because(&error);
    if !cause.is_permanent() {
        let server = greeting_with(1, greeting.clone(), pace).await;
        assert_well(&server.client(TIMEOUT).await.unwrap()).await;
        assert_eq!(server.connections(), 2, "{greeting:?}, {pace:?}");
    }
    cause
}

#[tokio::test]
async fn a_bad_handshake_has_the_same_result_at_once_and_byte_by_byte() {
    let forged = |at: usize, value: i32| {
        let mut answer = greeting(4000, ID, &[7; 16]).to_vec();
        answer[at..at + 4].copy_from_slice(&value.to_be_bytes());
        Bytes::from(answer)
    };
    let none = |timeout_ms| greeting(timeout_ms, SessionId::NONE, &[0; 16]);
    let mut read_only = greeting(4000, ID, &[7; 16]).to_vec();
    *read_only.last_mut().unwrap() = 1;
    let read_only = Bytes::from(read_only);
    let half = b"\0\0\0\x08\0\0\0\0\0\0\x10\0";
    let rows = [
        (none(0), "SessionRefused"),
        (none(4000), "SessionRefused"),
        (greeting(-1, ID, &[7; 16]), "SessionRefused"),
        (greeting(4000, ID, &[]), "BadHandshake(None)"),
        (greeting(4000, ID, &[7; 65]), "BadHandshake(None)"),
        (read_only, "ReadOnlyServer"),
        // The length of the password, and that of the frame.
        (forged(20, -7), "Negative(-7)"),
        (forged(20, i32::MAX), "TooLong"),
        (forged(0, -1), "Negative(-1)"),
        (forged(0, i32::MAX), "TooLong"),
        (Bytes::from_static(half), "Short"),
        (Bytes::from_static(&[0; 4]), "Short"),
        (Bytes::from_static(b"\x15\x03\x03\0\x02\x02F"), "TooLong"),
    ];
    let learnt = rows.into_iter().map(async |(greeting, expected)| {
        let at_once = learnt(greeting.clone(), Pace::AtOnce);
        let slowly = learnt(greeting.clone(), Pace::ByteByByte);
        let (at_once, slowly) = tokio::join!(at_once, slowly);
        assert_eq!(at_once, slowly, "{greeting:?}");
        let cause = format!("{at_once:?}");
        assert!(cause.contains(expected), "{greeting:?}: {cause}");
    });
    join_all(learnt).await;
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
        let server = greeting_with(usize::MAX, Bytes::from_static(text), Pace::AtOnce).await;
        let begin = Instant::now();
        let error = server.client(4 * TIMEOUT).await.unwrap_err();
        assert!(begin.elapsed() < 4 * TIMEOUT, "it is permanent");
        assert_eq!(server.connections(), 1);
        assert_eq!(
            unreachable_because(&error),
            Cause::NotZooKeeper(said.into())
        );
    }
}

/// In an earlier version, closing a client that had ended with its session never returned.
#[tokio::test]
async fn a_client_that_ends_with_its_session_can_be_closed() {
    let server = Server::start(|number, mut peer| async move {
        if number == 0 {
            peer.handshake().await;
            peer.request().await;
        } else {
            peer.hear_handshake().await;
            peer.send(&greeting(0, SessionId::NONE, &[0; 16])).await;
        }
        peer.close().await;
    })
    .await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.on_expiry(OnExpiry::End).connect().await.unwrap();
    let mut snapshots = client.snapshots();
    assert!(soon(client.get_data("/a")).await.is_err());
    let expired = |now: &Snapshot| now.state == State::Closed;
    soon(snapshots.wait_for(expired)).await.unwrap();
    let named = Named {
        server: Some(std::sync::Arc::new(server.address.into())),
        session: ID,
    };
    let over = Error::new(ErrorKind::SessionExpired, named, Effect::NotApplied);
    assert_eq!(soon(client.get_data("/a")).await.unwrap_err(), over);
    assert_eq!(server.connections(), 2);
    soon(client.close()).await;
}

#[tokio::test]
async fn the_error_names_each_server_with_its_cause() {
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let nobody = free.local_addr().unwrap();
    drop(free);
    let silent = Server::bad(usize::MAX, |mut peer| async move { peer.ignore().await }).await;
    let closing = Server::bad(usize::MAX, Peer::close).await;
    let servers = [nobody, silent.address, closing.address].map(|it| it.to_string());
    let builder = Client::builder(&format!("{},no..name", servers.join(","))).unwrap();
    let error = soon(builder.session_timeout(TIMEOUT).connect()).await;
    let error = error.unwrap_err();
    let text = error.to_string();
    let ErrorKind::Unreachable { tried, waited, .. } = error.kind().clone() else {
        panic!("{text}");
    };
    assert_eq!(waited, TIMEOUT);
    let of = |port: u16| {
        let found = tried.iter().find(|lost| lost.endpoint.port == port);
        found.map(|lost| lost.cause.clone()).unwrap()
    };
    assert_eq!(of(closing.address.port()), Cause::ClosedInHandshake);
    let silence = of(silent.address.port());
    assert!(matches!(silence, Cause::HandshakeTimeout(_)), "{text}");
    let Cause::Io { kind, .. } = of(nobody.port()) else {
        panic!("{text}");
    };
    assert_eq!(kind, std::io::ErrorKind::ConnectionRefused);
    assert!(matches!(of(2181), Cause::Io { .. }), "{text}");
    assert!(text.contains(&format!("{nobody}: ")), "{text}");
    assert!(text.contains("no..name:2181: "), "{text}");
}
