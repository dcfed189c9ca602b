//! The first waiter of a semaphore while the servers prove no lease.
//!
//! Not here: an outage of the whole connection (`tests/contract/permits.rs`).

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, OpCode};
use lockkeeper_recipes::{Loss, Semaphore, break_lock, inspect};
use lockkeeper_server::When;
use lockkeeper_session::Client;

use crate::support::{
    below, client, server,
    waiting::{soon, until},
};

/// The place in the queue goes with the session. Another waiter may be the first one by the time
/// the permit is created.
#[tokio::test]
async fn a_permit_in_a_later_session_than_the_place_is_not_granted() {
    let server = server().await;
    let client = client(&server).await;
    let session = client.snapshot().session_id;
    let semaphore = Semaphore::new(&client, "/s", 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    server
        .faults()
        .cut_before(When::create().within("/s/leases"));
    server.faults().refuse_handshakes(true);
    let acquiring = tokio::spawn(async move { semaphore.enqueue().await?.wait().await });
    until!(server.faults().pending() == 0 && !client.snapshot().state.is_connected());
    assert!(server.faults().expire_early(session));
    server.faults().refuse_handshakes(false);
    let error = soon(acquiring).await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Expired));
    until!(below(&server, "/s/leases") == 0 && below(&server, "/s/locks") == 0);
}

/// An earlier version listed the permits again and again without a pause.
#[tokio::test]
async fn a_first_waiter_without_a_lease_waits_for_a_change() {
    for is_deleted in [false, true] {
        let server = server().await;
        let other = client(&server).await;
        let semaphore = |client: &Client| Semaphore::new(client, "/s", 1).unwrap();
        let held = semaphore(&other).acquire().await.unwrap();
        let builder = Client::builder(&server.connect_string()).unwrap();
        let builder = builder.session_timeout(Duration::from_secs(4));
        let first = builder.connect().await.unwrap();
        let mine = semaphore(&first);
        let waiting = tokio::spawn(async move { mine.acquire().await });
        until!(below(&server, "/s/leases") == 2);
        // Reads and pings are answered, and no write proves anything.
        let proof = When::op(OpCode::MULTI).of_session(first.snapshot().session_id);
        for nth in 1..1000 {
            let proof = proof.clone().nth(nth);
            server.faults().refuse(proof, ErrorCode::THROTTLED_OP);
        }
        until!(!first.lease().is_valid);
        let requests = || server.counters().all_requests();
        let before = requests();
        tokio::time::sleep(Duration::from_millis(300)).await;
        let sent = requests() - before;
        assert!(sent < 20, "{sent} requests");
        if is_deleted {
            let place = inspect(&other, "/s").await.unwrap().pop().unwrap();
            break_lock(&other, &place.path).await.unwrap();
            server.faults().clear();
            let error = soon(waiting).await.unwrap().unwrap_err();
            assert_eq!(error.loss(), Some(Loss::Deleted));
        } else {
            server.faults().clear();
            held.release().await.unwrap();
            drop(soon(waiting).await.unwrap().unwrap());
        }
    }
}
