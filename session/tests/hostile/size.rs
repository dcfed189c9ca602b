//! Servers that send very much.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lockkeeper_proto::{Request, Response, frame::FrameError, records::GetDataResponse};
use lockkeeper_session::{Cause, Client, Error};

use super::{
    server::{Server, assert_well, event, lost, sound},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Another client stored all of it: 256 MiB of memory for a frame of 256 MiB.
#[tokio::test]
async fn a_frame_above_the_limit_is_not_read() {
    static TAKEN: AtomicUsize = AtomicUsize::new(usize::MAX);
    const ANNOUNCED: usize = 256 << 20;
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        let announced = i32::try_from(ANNOUNCED).unwrap();
        peer.send(&announced.to_be_bytes()).await;
        let taken = peer.flood(&[0; 1 << 14], ANNOUNCED).await;
        TAKEN.store(taken, Ordering::Relaxed);
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let (error, other) = {
        let (first, second) = (client.get_data("/a"), client.get_data("/b"));
        soon(async { tokio::join!(first, second) }).await
    };
    let (error, other) = (error.unwrap_err(), other.unwrap_err());
    // The request whose reply is too long gets that error and is not repeated. The connection ends,
    // so the other request is lost.
    assert_eq!(too_large(&error), (ANNOUNCED, 8 << 20));
    assert!(!error.is_transient());
    let (length, limit) = (ANNOUNCED, 8 << 20);
    let too_long = FrameError::TooLong { length, limit };
    assert_eq!(lost(other), Cause::Frame(too_long));
    assert_well(&client).await;
    soon(async {
        while TAKEN.load(Ordering::Relaxed) == usize::MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // The buffers of the two sockets hold this much.
    assert!(TAKEN.load(Ordering::Relaxed) < 16 << 20);
}

/// The lengths that the error names.
fn too_large(error: &Error) -> (usize, usize) {
    match error {
        Error::ReplyTooLarge { length, limit, .. } => (*length, *limit),
        other => panic!("{other:?}"),
    }
}

/// In an earlier version, listing a lock directory that was too large ended the connection of all
/// users of the client, each time.
#[tokio::test]
async fn a_reply_that_is_too_long_fails_only_its_own_request() {
    let server = Server::start(|_, mut peer| async move {
        peer.handshake().await;
        while let Some((xid, request)) = peer.request().await {
            let Response::GetData(GetDataResponse { stat, data }) = sound(&request) else {
                peer.answer(xid, &sound(&request)).await;
                continue;
            };
            let is_large = matches!(&request, Request::GetData(get) if get.path == "/large");
            let data = if is_large {
                Some(vec![7; 3_000_000].into())
            } else {
                data
            };
            let body = Response::GetData(GetDataResponse { data, stat });
            peer.answer(xid, &body).await;
        }
    })
    .await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = soon(builder.frame_limit(1_000_000).connect())
        .await
        .unwrap();
    for _ in 0..5 {
        let (large, other) = (client.get_data("/large"), client.get_data("/small"));
        let (large, other) = soon(async { tokio::join!(large, other) }).await;
        assert_eq!(too_large(&large.unwrap_err()).1, 1_000_000);
        assert_eq!(other.unwrap().data.unwrap(), &b"sound"[..]);
    }
    let error = soon(client.get_data_and_watch("/large")).await.err();
    too_large(&error.unwrap());
    assert_well(&client).await;
    assert_eq!((server.connections(), client.metrics().watches), (1, 0));
}

#[tokio::test]
async fn the_builder_sets_the_frame_limit() {
    let large = |length: usize| {
        Server::bad(1, move |mut peer| async move {
            peer.handshake().await;
            while let Some((xid, request)) = peer.request().await {
                let Response::GetData(GetDataResponse { stat, .. }) = sound(&request) else {
                    break;
                };
                let data = Some(vec![7; length].into());
                let body = Response::GetData(GetDataResponse { data, stat });
                peer.answer(xid, &body).await;
            }
        })
    };
    // Header, length of the data, data, metadata.
    let frame = |length: usize| 16 + 4 + length + 68;
    for (length, fits) in [(100_000, true), (100_001, false)] {
        let server = large(length).await;
        let builder = Client::builder(&server.connect_string()).unwrap();
        let builder = builder.frame_limit(frame(100_000));
        let client = soon(builder.connect()).await.unwrap();
        match soon(client.get_data("/a")).await {
            Ok(node) => assert_eq!((node.data.unwrap().len(), fits), (length, true)),
            Err(error) => {
                let sizes = (frame(100_001), frame(100_000));
                assert_eq!((too_large(&error), fits), (sizes, false));
            }
        }
    }
}

#[tokio::test]
async fn a_flood_of_events_without_a_watch_leaves_nothing_behind() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let events: Vec<u8> = (0..1000)
            .flat_map(|n| event(1, 3, &format!("/nobody/{n}")))
            .collect();
        peer.flood(&events, 4 << 20).await;
        peer.serve().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(
        (client.metrics().watches, client.metrics().outstanding()),
        (0, 0)
    );
    assert_eq!(server.connections(), 1);
}

/// The client keeps events back while it restores its watches. It must not keep an unlimited
/// number.
#[tokio::test]
async fn a_flood_of_events_while_watches_are_restored_ends_the_connection() {
    let server = Server::start(|number, mut peer| async move {
        peer.handshake().await;
        let (xid, request) = peer.request().await.unwrap();
        match number {
            0 => {
                peer.answer(xid, &sound(&request)).await;
                peer.request().await;
                peer.close().await;
            }
            1 => {
                let events = event(3, 3, "/a").repeat(1000);
                let taken = peer.flood(&events, 64 << 20).await;
                assert!(taken < 64 << 20);
            }
            _ => {
                peer.answer(xid, &sound(&request)).await;
                peer.serve().await;
            }
        }
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let (_, _watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let error = soon(client.sync("/")).await.unwrap_err();
    assert_eq!(lost(error), Cause::ClosedByServer);
    let mut snapshots = client.snapshots();
    soon(snapshots.wait_for(|now| now.connections == 3))
        .await
        .unwrap();
    assert_well(&client).await;
    assert_eq!(client.metrics().watches, 1);
}
