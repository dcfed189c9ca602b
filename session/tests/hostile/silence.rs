//! Servers that send nothing, or send very slowly.

use std::time::Duration;

use lockkeeper_session::{Cause, Client, Effect};
use tokio::time::Instant;

use super::{
    assert_well, lost,
    scripted::{ID, Peer, Server, greeting},
    unreachable_because,
    waiting::soon,
};

/// A session timeout that tests wait out. The client pings after 250 ms, and 1 s of silence ends
/// the connection.
const SHORT: Duration = Duration::from_millis(1500);
/// The pause of a server that sends one byte at a time.
const PAUSE: Duration = Duration::from_millis(50);

/// A client gives a handshake without an end up, and goes on with the next connection.
#[tokio::test]
async fn silence_in_the_handshake_ends_the_attempt() {
    let script = async |mut peer: Peer| {
        peer.hear_handshake().await;
        peer.drip(&greeting(1500, ID, &[7; 16])[..40], PAUSE).await;
        peer.ignore().await;
    };
    let server = Server::bad(usize::MAX, script).await;
    let cause = unreachable_because(&server.client(SHORT).await.unwrap_err());
    assert!(matches!(cause, Cause::HandshakeTimeout(_)), "{cause:?}");
    assert!(server.connections() <= 2);

    let server = Server::bad(1, script).await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = soon(builder.server_timeout(SHORT).connect()).await.unwrap();
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn silence_after_the_handshake_ends_the_connection() {
    // A frame that never ends.
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        peer.send(&100_000_i32.to_be_bytes()).await;
        peer.drip(&[0; 1000], PAUSE).await;
    })
    .await;
    let client = server.client(SHORT).await.unwrap();
    let error = soon(client.get_data("/a")).await.unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied, "it is a read");
    assert_eq!(lost(&error), Cause::Silent(SHORT * 2 / 3));
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
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
    let builder = Client::builder(&address.to_string()).unwrap();
    let error = soon(builder.session_timeout(SHORT).connect()).await;
    let cause = unreachable_because(&error.unwrap_err());
    assert!(matches!(cause, Cause::ConnectTimeout(_)), "{cause:?}");
    assert!(begin.elapsed() < Duration::from_secs(10));
    drop((listener, queued));
}
