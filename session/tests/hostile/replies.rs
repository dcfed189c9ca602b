//! Servers that close the connection within a reply, or send nonsense on every connection.
//!
//! Not here: one bad reply (`session/src/machine/tests/replies.rs`).

use std::time::Duration;

use futures::future::{join, join_all};
use lockkeeper_proto::Request;
use lockkeeper_session::{AsRaw, Cause, ErrorKind};
use tokio::time::{Instant, timeout};

use super::{
    assert_well, lost,
    scripted::{ID, Server, raw_reply, reply, sound},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(6);
/// A session timeout that tests wait out, where all connections are bad.
const SHORT: Duration = Duration::from_millis(900);

/// The caller decodes the reply, so the client itself knows nothing of the nonsense.
#[tokio::test]
async fn a_reply_that_cannot_be_read_costs_one_request_and_leaves_no_watch() {
    let server = Server::start(|_, mut peer| async move {
        peer.handshake().await;
        while let Some((xid, request)) = peer.request().await {
            let bytes = match &request {
                Request::GetData(get) if get.path == "/bad" => raw_reply(xid, &[0; 3]),
                request => reply(xid, &sound(request)),
            };
            peer.send(&bytes).await;
        }
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let both = join(client.get_data_and_watch("/bad"), client.get_data("/well"));
    let (bad, well) = soon(both).await;
    let error = bad.unwrap_err();
    assert!(
        matches!(error.kind(), ErrorKind::Malformed { .. }),
        "{error}"
    );
    well.unwrap();
    assert_eq!(client.raw().wanted_watches(), []);
    assert_well(&client).await;
    assert_eq!(server.connections(), 1);
}

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
