//! Servers that send very much.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lockkeeper_proto::{EventType, Request, Response, Version, frame::FrameError};
use lockkeeper_session::{Cause, Client, Effect, Error, ErrorKind};

use super::{
    assert_well, lost,
    scripted::{Server, event, sound},
    waiting::{soon, until},
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
    assert_eq!(lost(&other), Cause::Frame(too_long));
    assert_well(&client).await;
    until!(TAKEN.load(Ordering::Relaxed) < usize::MAX);
    // The buffers of the two sockets hold this much.
    assert!(TAKEN.load(Ordering::Relaxed) < 16 << 20);
}

/// The lengths that the error names.
fn too_large(error: &Error) -> (usize, usize) {
    match error.kind() {
        ErrorKind::ReplyTooLarge { length, limit, .. } => (*length, *limit),
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
            let mut response = sound(&request);
            if let (Request::GetData(get), Response::GetData(node)) = (&request, &mut response)
                && get.path == "/large"
            {
                node.data = Some(vec![7; 3_000_000].into());
            }
            peer.answer(xid, &response).await;
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

/// The oldest request was told that the server had done it, and its reply then ended the connection.
#[tokio::test]
async fn an_event_that_is_too_long_is_no_reply() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        peer.request().await;
        let long = event(EventType::NODE_CREATED, &"/long".repeat(300));
        // The client waits for as much as it needs to tell the two apart.
        peer.send(&long[..5]).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        peer.send(&long[5..]).await;
        peer.ignore().await;
    })
    .await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = soon(builder.frame_limit(1000).connect()).await.unwrap();
    let error = soon(client.set_data("/a", "", Version::ANY)).await;
    let error = error.unwrap_err();
    let Cause::Frame(FrameError::TooLong { limit, .. }) = lost(&error) else {
        panic!("{error}")
    };
    assert_eq!((limit, error.effect()), (1000, Effect::Unknown));
    assert_well(&client).await;
}
