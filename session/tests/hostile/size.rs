//! Servers that say very much.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lockkeeper_proto::{Response, frame::FrameError, records::GetDataResponse};
use lockkeeper_session::{Cause, Client};

use super::server::{Server, assert_well, event, lost, sound, within};

const TIMEOUT: Duration = Duration::from_secs(10);

/// Another client kept what was announced: 256 MiB of memory for 256 MiB that a server sent.
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
    let error = within(client.get_data("/a")).await.unwrap_err();
    let too_long = FrameError::TooLong {
        length: ANNOUNCED,
        limit: 8 << 20,
    };
    assert_eq!(lost(error), Cause::Frame(too_long));
    assert_well(&client).await;
    within(async {
        while TAKEN.load(Ordering::Relaxed) == usize::MAX {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    // What the buffers of the two sockets hold.
    assert!(TAKEN.load(Ordering::Relaxed) < 16 << 20);
}

#[tokio::test]
async fn the_limit_is_the_callers_choice() {
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
    // Header, length of the data, metadata.
    let frame = |length: usize| 16 + 4 + length + 68;
    for (length, fits) in [(100_000, true), (100_001, false)] {
        let server = large(length).await;
        let builder = Client::builder(&server.connect_string()).unwrap();
        let builder = builder.frame_limit(frame(100_000));
        let client = within(builder.connect()).await.unwrap();
        match within(client.get_data("/a")).await {
            Ok(node) => assert_eq!((node.data.unwrap().len(), fits), (length, true)),
            Err(error) => {
                let (length, limit) = (frame(100_001), frame(100_000));
                let too_long = FrameError::TooLong { length, limit };
                assert_eq!((lost(error), fits), (Cause::Frame(too_long), false));
            }
        }
    }
}

#[tokio::test]
async fn a_flood_of_events_for_nobody_leaves_nothing_behind() {
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
    assert_eq!((client.watch_count(), client.outstanding()), (0, 0));
    assert_eq!(server.connections(), 1);
}

/// Watches that are being restored keep events back: not without end.
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
    let (_, _watcher) = within(client.get_data_and_watch("/a")).await.unwrap();
    let error = within(client.sync("/")).await.unwrap_err();
    assert_eq!(lost(error), Cause::ClosedByServer);
    let mut snapshots = client.snapshots();
    within(snapshots.wait_for(|now| now.connections == 3))
        .await
        .unwrap();
    assert_well(&client).await;
    assert_eq!(client.watch_count(), 1);
}
