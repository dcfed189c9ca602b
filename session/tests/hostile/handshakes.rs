//! Servers that are not ZooKeeper, or that answer the handshake with nonsense.

use std::time::Duration;

use lockkeeper_proto::SessionId;
use lockkeeper_session::{
    Cause, Client, Effect, Error, ErrorKind, OnExpiry, Peer as Named, Snapshot, State,
};
use tokio::time::Instant;

use super::{
    scripted::{ID, Peer, Server, greeting},
    unreachable_because,
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(6);

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
        let server = Server::bad(usize::MAX, move |mut peer| async move {
            peer.hear_handshake().await;
            peer.send(text).await;
            peer.ignore().await;
        })
        .await;
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
    let encrypted = Server::bad(usize::MAX, |mut peer| async move {
        peer.hear_handshake().await;
        peer.send(b"\x15\x03\x01\0\x02\x02\x46").await; // protocol_version, fatal
        peer.ignore().await;
    })
    .await;
    let listening = [silent.address, closing.address, encrypted.address];
    let [silence, close, alert] = listening.map(|it| it.to_string());
    let servers = [nobody.to_string(), silence, close, alert];
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
    assert_eq!(of(encrypted.address.port()), Cause::ClosedInHandshake);
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
