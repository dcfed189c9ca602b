//! What no lock may do after a loss, or when there is no capacity: work on, or leave nodes behind.
//!
//! Not here: the plain lock after its node is gone (`plain`), programs that end (`runtime_ends`).

mod support;

use std::{
    pin::pin,
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use lockkeeper_recipes::{Election, Loss, Mutex, Semaphore};
use lockkeeper_session::Client;
use tokio::sync::Notify;

use support::{
    below, client, server,
    waiting::{soon, until},
};

/// The work may not go on when it is known that another contender may lead. Both are ready at the same poll here.
#[tokio::test]
async fn a_leader_that_has_lost_the_lead_does_no_more_work() {
    let server = server().await;
    let leader = client(&server).await;
    let (go_on, is_late) = (Notify::new(), AtomicBool::new(false));
    let election = Election::new(&leader, "/e").unwrap();
    let mut leading = pin!(election.lead(async |_| {
        go_on.notified().await;
        is_late.store(true, Ordering::Relaxed);
        std::future::pending::<()>().await;
    }));
    let has_work = async {
        while below(&server, "/e") == 0 {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    };
    tokio::select! {
        _ = &mut leading => panic!("it leads"),
        () = has_work => {}
    }
    let session = leader.snapshot().session_id;
    server.faults().expire(session);
    until("the client knows", async || {
        leader.snapshot().session_id != session
    })
    .await;
    go_on.notify_one();
    let outcome = soon(leading).await.unwrap();
    assert_eq!(outcome.loss, Some(Loss::Expired));
    assert!(!is_late.load(Ordering::Relaxed), "work after the loss");
}

#[tokio::test]
async fn the_first_limit_makes_the_nodes_above_it() {
    let server = server().await;
    let client = client(&server).await;
    let semaphore = Semaphore::with_shared_limit(&client, "/a/s", "/b/c/limit").unwrap();
    semaphore.set_limit(2).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
}

/// A clean-up used to be refused when there was no capacity for its request, and then forgotten.
#[tokio::test]
async fn nodes_are_deleted_although_there_is_no_capacity_for_requests() {
    let server = server().await;
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = builder.max_outstanding(4).connect().await.unwrap();
    for is_released in [false, true] {
        let mut guards = Vec::new();
        for number in 0..40 {
            let mutex = Mutex::new(&client, &format!("/m/{number}")).unwrap();
            guards.push(soon(mutex.lock()).await.unwrap());
        }
        if is_released {
            let released = guards.into_iter().map(lockkeeper_recipes::Guard::release);
            for released in futures::future::join_all(released).await {
                released.unwrap();
            }
        } else {
            drop(guards);
        }
        let locks = || {
            (0..40)
                .map(|number| below(&server, &format!("/m/{number}")))
                .sum::<usize>()
        };
        until("no node is left", async || locks() == 0).await;
    }
}
