//! Locks whose requests are longer than the servers take (`jute.maxbuffer`). The embedded server takes
//! 1 MiB.
//!
//! Not here: when a request is blamed (`session/src/machine/tests/window.rs`).

use crate::support::{below, server, waiting::soon};
use futures::future::join3;
use lockkeeper_recipes::{LockError, Mutex, PlainMutex};
use lockkeeper_session::{Cause, Client, ErrorKind};

/// The client came back for ever, and said nothing.
#[tokio::test]
async fn a_lock_whose_node_is_larger_than_servers_take_ends_with_the_reason() {
    let server = server().await;
    let large = async || {
        let client = Client::builder(&server.connect_string()).unwrap();
        client.max_request(4 << 20).connect().await.unwrap()
    };
    let (one, other, third) = (large().await, large().await, large().await);
    let data = "x".repeat(2 << 20);
    let mutex = Mutex::new(&one, "/m").unwrap().with_data(data.clone());
    let plain = PlainMutex::new(&other, "/p").unwrap().with_data(data);
    // Servers do not take the look for its node either.
    let long = Mutex::new(&third, &format!("/{}", "x".repeat(1 << 20))).unwrap();
    let refused = soon(join3(mutex.lock(), plain.lock(), long.lock())).await;
    let refused: [_; 3] = refused.into();
    for refused in refused {
        let Some(LockError::Session(error)) = refused.err() else {
            panic!("not the error of the request");
        };
        let ErrorKind::ConnectionLost(Cause::ClosedAtRequest { length, .. }) = error.kind() else {
            panic!("{error}");
        };
        assert!(*length > 1 << 20 && !error.is_transient());
        assert!(error.to_string().contains("jute.maxbuffer"), "{error}");
    }
    // Nothing of them goes on.
    for client in [&one, &other, &third] {
        let mutex = Mutex::new(client, "/m").unwrap();
        let mut connections = 0;
        for round in 0..10 {
            soon(mutex.lock()).await.unwrap().release().await.unwrap();
            let now = client.metrics().connections;
            assert!(round == 0 || now == connections, "it has connected again");
            connections = now;
        }
    }
    assert_eq!(below(&server, "/p"), 0);
}
