//! Requests made together share one write.

use lockkeeper_proto::{Request, records::SyncRequest};
use lockkeeper_session::Client;

use super::{
    counting::{Counter, Written},
    servers::{builder, server, within},
};

async fn counted(server: &lockkeeper_server::Server) -> (Client, Counter) {
    let counter = Counter::default();
    let builder = builder(server).connector(counter.connector());
    (within(builder.connect()).await.unwrap(), counter)
}

fn sync() -> Request {
    let path = "/".to_owned();
    Request::Sync(SyncRequest { path })
}

#[tokio::test]
async fn two_requests_submitted_together_are_one_write() {
    let server = server().await;
    let (client, counter) = counted(&server).await;
    let handshake = Written {
        writes: 1,
        frames: 1,
    };
    assert_eq!(counter.written(), handshake);
    for rounds in 1..=20 {
        let [first, second] = client.raw().submit([sync(), sync()]);
        within(first).await.unwrap();
        within(second).await.unwrap();
        let both = Written {
            writes: rounds,
            frames: 2 * rounds,
        };
        assert_eq!(counter.since(handshake), both);
    }
}

/// The driver may run on another thread between the two requests. Both enter the queue under one lock, so they share a
/// write.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_requests_submitted_together_are_one_write_on_several_threads() {
    let server = server().await;
    let (client, counter) = counted(&server).await;
    for _ in 0..200 {
        let before = counter.written();
        let [first, second] = client.raw().submit([sync(), sync()]);
        within(first).await.unwrap();
        within(second).await.unwrap();
        let both = Written {
            writes: 1,
            frames: 2,
        };
        assert_eq!(counter.since(before), both);
    }
}

#[tokio::test]
async fn methods_polled_together_share_a_write() {
    let server = server().await;
    let (client, counter) = counted(&server).await;
    let before = counter.written();
    let (first, second, third) = within(async {
        tokio::join!(
            client.get_children("/"),
            client.exists("/zookeeper"),
            client.sync("/")
        )
    })
    .await;
    assert!(first.is_ok() && second.is_ok() && third.is_ok());
    let all = Written {
        writes: 1,
        frames: 3,
    };
    assert_eq!(counter.since(before), all);
}

#[tokio::test]
async fn a_hundred_concurrent_reads_take_few_writes() {
    let server = server().await;
    let (client, counter) = counted(&server).await;
    let before = counter.written();
    let mut reads = tokio::task::JoinSet::new();
    for _ in 0..100 {
        let client = client.clone();
        reads.spawn(async move { client.get_data("/").await.map(drop) });
    }
    for read in within(reads.join_all()).await {
        read.unwrap();
    }
    let written = counter.since(before);
    assert_eq!(written.frames, 100);
    assert!(written.writes <= 4, "{} writes", written.writes);
}

/// A request is sent at the first poll of its future, and not before.
#[tokio::test]
async fn a_future_that_is_not_polled_sends_nothing() {
    let server = server().await;
    let (client, counter) = counted(&server).await;
    let before = counter.written();
    let never = client.get_data("/");
    within(client.sync("/")).await.unwrap();
    drop(never);
    within(client.sync("/")).await.unwrap();
    assert_eq!(counter.since(before).frames, 2);
}
