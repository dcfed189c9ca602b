//! Servers that close the connection within a reply, or send nonsense on every connection.
//!
//! Not here: one bad reply (`session/src/machine/tests/replies.rs`).

use std::time::Duration;

use futures::future::join_all;
use lockkeeper_session::Cause;
use tokio::time::{Instant, timeout};

use super::{
    lost,
    scripted::{ID, Server, reply, sound},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(6);
/// A session timeout that tests wait out, where all connections are bad.
const SHORT: Duration = Duration::from_millis(900);

#[tokio::test]
async fn a_connection_closed_within_every_reply_causes_no_loop() {
    let server = Server::bad(usize::MAX, |mut peer| async move {
        peer.handshake().await;
        if let Some((xid, request)) = peer.request().await {
            // In the middle of a frame.
            let reply = reply(xid, &sound(&request));
            peer.send(&reply[..reply.len() - 1]).await;
        }
        peer.close().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    for _ in 0..3 {
        let error = soon(client.get_data("/a")).await.unwrap_err();
        assert_eq!(lost(&error), Cause::ClosedByServer);
    }
    assert_eq!(
        (server.connections(), client.snapshot().session_id),
        (3, ID)
    );
    let (begin, patience) = (Instant::now(), Duration::from_millis(1500));
    while begin.elapsed() < patience {
        let asked = timeout(Duration::from_millis(300), client.get_data("/a")).await;
        assert!(!matches!(asked, Ok(Ok(_))), "the bad server answered");
    }
    let connections = server.connections() - 3;
    assert!(
        connections <= 8,
        "{connections} connections in {patience:?}"
    );
}

/// Random bytes instead of a ZooKeeper, on every connection: 64 streams from a small generator.
#[tokio::test]
async fn random_bytes_instead_of_a_server_cause_no_hang_and_no_loop() {
    let noise = |seed: u64| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Few distinct values, so that some frames are complete.
            let [byte, rest @ ..] = state.to_be_bytes();
            if rest[0] < 85 { byte % 24 } else { 0 }
        });
        bytes.take(4096).collect::<Vec<u8>>()
    };
    let clients = (0..64).map(async |seed| {
        let handshakes = seed % 2 == 0;
        let server = Server::bad(usize::MAX, move |mut peer| async move {
            if handshakes && !peer.handshake().await {
                return;
            }
            peer.send(&noise(seed)).await;
            peer.ignore().await;
        })
        .await;
        if let Ok(client) = server.client(SHORT).await {
            let _ = soon(client.get_data("/a")).await;
            soon(client.close()).await;
        }
        assert!(server.connections() <= 12, "{}", server.connections());
    });
    join_all(clients).await;
}
