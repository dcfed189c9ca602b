//! Unknown and unreadable events.

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, Xid, jute::Encode};
use lockkeeper_session::Cause;

use super::{
    server::{Server, assert_well, event, header, lost, message, sound},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(4);

/// A server that answers the first request, then sends this event, and works normally afterwards.
async fn sending(event: bytes::Bytes) -> Server {
    Server::bad(1, move |mut peer| {
        let event = event.clone();
        async move {
            peer.handshake().await;
            let (xid, request) = peer.request().await.unwrap();
            peer.answer(xid, &sound(&request)).await;
            peer.send(&event).await;
            peer.serve().await;
        }
    })
    .await
}

#[tokio::test]
async fn an_event_of_an_unknown_type_or_state_is_delivered_and_the_connection_stays() {
    for (event_type, state) in [(99, 3), (3, 99), (-1, -112)] {
        let server = sending(event(event_type, state, "/a")).await;
        let client = server.client(TIMEOUT).await.unwrap();
        let (_, watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
        let event = soon(watcher).await.unwrap();
        assert_eq!(event.event_type.0, event_type);
        assert_eq!(event.path, "/a");
        assert_well(&client).await;
        assert_eq!(server.connections(), 1);
    }
}

#[tokio::test]
async fn an_event_without_a_watch_is_ignored() {
    for path in ["/b", "", "no path", "/a/"] {
        let server = sending(event(1, 3, path)).await;
        let client = server.client(TIMEOUT).await.unwrap();
        let (_, _watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
        assert_well(&client).await;
        assert_eq!((client.metrics().watches, server.connections()), (1, 1));
    }
}

#[tokio::test]
async fn an_unreadable_event_ends_the_connection_and_keeps_the_watches() {
    let event = message(|writer| {
        header(Xid::NOTIFICATION, ErrorCode::OK).encode(writer);
        writer.put_slice(&[0, 0, 0, 1, 0, 0, 0, 3, 0, 0, 0, 9, b'/']);
    });
    let server = Server::start(move |number, mut peer| {
        let event = event.clone();
        async move {
            peer.handshake().await;
            let (xid, request) = peer.request().await.unwrap();
            peer.answer(xid, &sound(&request)).await;
            if number == 0 {
                // The event is sent instead of the reply to the next request. That request is lost
                // with the connection.
                peer.request().await;
                peer.send(&event).await;
            } else {
                peer.send(&super::server::event(3, 3, "/a")).await;
            }
            peer.serve().await;
        }
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let (_, watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let Cause::Decode(error) = lost(soon(client.sync("/")).await.unwrap_err()) else {
        panic!("the event was decoded");
    };
    assert_eq!(error.field, "WatcherEvent.path");
    assert_eq!(soon(watcher).await.unwrap().event_type.0, 3);
    assert_well(&client).await;
}
