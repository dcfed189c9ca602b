//! Servers that answer requests with nonsense, or close the connection.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use lockkeeper_proto::Xid;
use lockkeeper_session::{Cause, ErrorKind};
use tokio::time::{Instant, timeout};

use super::{
    assert_well, lost,
    scripted::{ID, Server, raw_reply, reply, sound},
    waiting::{soon, until},
};

const TIMEOUT: Duration = Duration::from_secs(6);
/// A session timeout that tests wait out, where all connections are bad.
const SHORT: Duration = Duration::from_millis(900);

/// Invalid answers to `sync`, and what the error says: no frame, no message, no answer to this.
fn answers(Xid(xid): Xid) -> [(Bytes, &'static str); 3] {
    [
        (Bytes::from_static(b"\x80\0\0\0"), "Frame(Negative"),
        (raw_reply(Xid(xid), b"\0\0\0\x02\xc3\x28"), "NotUtf8"),
        (raw_reply(Xid(xid + 1), b"\0\0\0\x02/a"), "UnexpectedReply"),
    ]
}

/// What a caller learns from a bad answer on the first connection. Checks that the client works
/// again with the session that it had.
async fn learnt(row: usize) -> String {
    let server = Server::bad(1, move |mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        peer.answer(xid, &sound(&request)).await;
        while let Some((xid, _)) = peer.request().await {
            peer.send(&answers(xid)[row].0).await;
        }
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    let error = soon(client.sync("/a")).await.unwrap_err();
    until!(client.get_data("/well").await.is_ok());
    assert_well(&client).await;
    let metrics = client.metrics();
    assert_eq!(
        (metrics.outstanding(), metrics.watches),
        (0, 0),
        "row {row}"
    );
    assert!(metrics.unknown > 0 && metrics.not_sent == 0, "{metrics:?}");
    assert_eq!(server.connections(), 2, "row {row}");
    // Without the address of the server, which differs.
    match error.kind() {
        ErrorKind::ConnectionLost(cause) => format!("{cause:?}"),
        ErrorKind::Malformed { op, error } => format!("{op:?}, {error:?}"),
        ErrorKind::ReplyTooLarge { length, limit, .. } => format!("ReplyTooLarge {length} {limit}"),
        other => panic!("row {row}: {other:?}"),
    }
}

#[tokio::test]
async fn a_bad_reply_costs_only_the_connection() {
    let rows = answers(Xid(1)).into_iter().enumerate();
    let learnt = rows.map(async |(row, (_, expected))| {
        let learnt = learnt(row).await;
        assert!(learnt.contains(expected), "row {row}: {learnt}");
    });
    join_all(learnt).await;
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
