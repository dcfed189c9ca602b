//! Locks whose requests are longer than the servers take (`jute.maxbuffer`). The embedded server takes
//! 1 MiB.
//!
//! Not here: when a request is blamed (`session/src/machine/tests/window.rs`).

mod support;

use lockkeeper_recipes::{LockError, Mutex, PlainMutex};
use lockkeeper_session::{Cause, Client, ErrorKind};
use support::{below, server, waiting::soon};

/// The client came back for ever, and said nothing.
#[tokio::test]
async fn a_lock_whose_node_is_larger_than_servers_take_ends_with_the_reason() {
    let server = server().await;
    let large = Client::builder(&server.connect_string()).unwrap();
    let large = large.max_request(4 << 20).connect().await.unwrap();
    let data = "x".repeat(2 << 20);
    // Its path is so long that no server takes the look for its node either.
    let path = format!("/{}", "x".repeat(1 << 20));
    let refused = [
        soon(
            Mutex::new(&large, "/m")
                .unwrap()
                .with_data(data.clone())
                .lock(),
        )
        .await,
        soon(
            PlainMutex::new(&large, "/p")
                .unwrap()
                .with_data(data)
                .lock(),
        )
        .await,
        soon(Mutex::new(&large, &path).unwrap().lock()).await,
    ];
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
    let mutex = Mutex::new(&large, "/m").unwrap();
    let mut connections = 0;
    for round in 0..10 {
        soon(mutex.lock()).await.unwrap().release().await.unwrap();
        let now = large.metrics().connections;
        assert!(round == 0 || now == connections, "it has connected again");
        connections = now;
    }
    assert_eq!(below(&server, "/p"), 0);
}
