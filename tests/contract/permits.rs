//! Tests of the semaphore beyond the rules, while its limit changes and in outages.
//! Not here: sessions that end (`recipes/tests/locks/head.rs`).
//!
//! The tests that need faults run on the embedded server (`on_the_embedded_arm`), the others on
//! both arms.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, Semaphore, client::LeasePolicy};

use crate::{
    rig::{on_the_embedded_arm, soon, until},
    support::{
        Ensemble, on_both_arms,
        waiting::{driven, idle, poll_once},
    },
};

fn permits(client: &Client, path: &str) -> Semaphore {
    Semaphore::with_shared_limit(client, path, &format!("{path}-limit")).unwrap()
}

on_the_embedded_arm! {
    the_head_of_the_queue_keeps_its_place_in_an_outage
}

on_both_arms! {
    /// After the limit is lowered, nobody is granted a permit beyond it. This includes a waiter
    /// that has read the old limit and lists the permits afterwards.
    async fn a_lowered_limit_grants_no_further_permit(ensemble: &Ensemble) {
        let (operator, holder) = (ensemble.client().await, ensemble.client().await);
        let waiter = ensemble.client().await;
        for steps in 0..9 {
            let path = ensemble.unique_path("lowered");
            let limit = permits(&operator, &path);
            limit.set_limit(2).await.unwrap();
            let first = permits(&holder, &path).acquire().await.unwrap();
            let second = permits(&holder, &path).acquire().await.unwrap();
            let semaphore = permits(&waiter, &path);
            let mut waiting = pin!(semaphore.acquire());
            for _ in 0..steps {
                assert!(poll_once(waiting.as_mut()).is_none(), "{steps}");
                idle(&waiter).await;
            }
            limit.set_limit(1).await.unwrap();
            second.release().await.unwrap();
            assert!(driven(&waiter, waiting.as_mut()).await.is_none(), "{steps}");
            first.release().await.unwrap();
            soon(waiting).await.unwrap().release().await.unwrap();
        }
    }
}

/// An outage that is longer than the client's lease and shorter than the session costs a waiter
/// only time. Runs on the embedded server.
async fn the_head_of_the_queue_keeps_its_place_in_an_outage(ensemble: &Ensemble) {
    let server = ensemble.server().expect("the embedded server");
    let path = ensemble.unique_path("outage");
    let holder = ensemble.client().await;
    // With this policy, the lease ends seconds before the session can.
    let waiter = Client::builder(&ensemble.servers())
        .unwrap()
        .session_timeout(Duration::from_secs(10))
        .lease_policy(LeasePolicy::Assumed { margin: None });
    let waiter = waiter.connect().await.unwrap();
    let held = Semaphore::new(&holder, &path, 1).unwrap();
    let held = held.acquire().await.unwrap();
    let semaphore = Semaphore::new(&waiter, &path, 1).unwrap();
    let mut waiting = pin!(semaphore.acquire());
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    let session = waiter.snapshot().session_id;
    server.faults().stall_session(session);
    let elapsed = until("the lease has run out", async || !waiter.lease().is_valid);
    tokio::select! {
        () = elapsed => {}
        outcome = waiting.as_mut() => panic!("{outcome:?}"),
    }
    server.faults().resume_session(session);
    assert!(driven(&waiter, waiting.as_mut()).await.is_none());
    assert_eq!(waiter.snapshot().session_id, session);
    held.release().await.unwrap();
    soon(waiting).await.unwrap().release().await.unwrap();
}
