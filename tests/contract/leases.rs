//! What a semaphore must do beyond the rules, while its limit and its sessions change.
//!
//! A test of the faults of the embedded server says so; the others run on both arms.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, LockError, Loss, Semaphore, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::{
    rig::{soon, until, until_quiet},
    support::{
        Arm, Ensemble, on_both_arms, run,
        waiting::{driven, idle, poll_once},
    },
};

fn leases(client: &Client, path: &str) -> Semaphore {
    Semaphore::with_shared_limit(client, path, &format!("{path}-limit")).unwrap()
}

on_both_arms! {
    /// Whenever the limit is lowered, nobody is let in from then on who is beyond it: not even who has read the limit
    /// before, and lists the leases afterwards.
    async fn a_limit_that_was_lowered_lets_nobody_in(ensemble: &Ensemble) {
        let (operator, holder) = (ensemble.client().await, ensemble.client().await);
        let waiter = ensemble.client().await;
        for steps in 0..9 {
            let path = ensemble.unique_path("lowered");
            let limit = leases(&operator, &path);
            limit.set_limit(2).await.unwrap();
            let first = leases(&holder, &path).acquire().await.unwrap();
            let second = leases(&holder, &path).acquire().await.unwrap();
            let semaphore = leases(&waiter, &path);
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

/// The place of the head goes with its session. Who has none goes on for no lease, beside the next head: it is told.
async fn a_lease_is_not_taken_in_a_later_session_than_the_place(ensemble: &Ensemble) {
    let server = ensemble.server().expect("the embedded server");
    let path = ensemble.unique_path("later");
    let client = ensemble.client().await;
    let semaphore = Semaphore::new(&client, &path, 1).unwrap();
    semaphore.acquire().await.unwrap().release().await.unwrap();
    until_quiet(ensemble, &client).await;
    let session = client.snapshot().session_id;
    let create = When::op(OpCode::CREATE2).within(format!("{path}/leases"));
    server.faults().cut_before(create);
    let mut attempt = pin!(semaphore.acquire());
    while server.faults().pending() > 0 {
        assert!(poll_once(attempt.as_mut()).is_none());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    server.faults().expire(session);
    let error = soon(attempt).await.unwrap_err();
    assert_eq!(error, LockError::Lost(Loss::Expired));
    until("no lease is left", async || nodes(server, &path) == 0).await;
}

#[tokio::test]
async fn a_lease_is_not_taken_in_a_later_session_than_the_place_embedded() {
    run(
        Arm::Embedded,
        a_lease_is_not_taken_in_a_later_session_than_the_place,
    )
    .await;
}

/// An outage that is longer than the lease, and shorter than the session, costs a waiter nothing but time.
async fn a_head_that_waits_keeps_its_place_in_an_outage(ensemble: &Ensemble) {
    let server = ensemble.server().expect("the embedded server");
    let path = ensemble.unique_path("outage");
    let (holder, waiter) = (ensemble.client().await, ensemble.client().await);
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

#[tokio::test]
async fn a_head_that_waits_keeps_its_place_in_an_outage_embedded() {
    run(
        Arm::Embedded,
        a_head_that_waits_keeps_its_place_in_an_outage,
    )
    .await;
}

/// How many nodes there are below the semaphore's two directories.
fn nodes(server: &Server, path: &str) -> usize {
    let is_below = |node: &String| {
        let places = [format!("{path}/leases/"), format!("{path}/locks/")];
        places.iter().any(|place| node.starts_with(place))
    };
    server.paths().into_iter().filter(is_below).count()
}
