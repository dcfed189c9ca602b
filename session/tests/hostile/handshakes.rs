//! Servers that are not ZooKeeper, or that answer the handshake with nonsense.

use std::time::Duration;

use lockkeeper_session::{Cause, Client, ErrorKind};
use tokio::time::Instant;

use super::{
    scripted::{Peer, Server},
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
