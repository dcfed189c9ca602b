//! Contenders that stop waiting: they leave no node and block nobody.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use lockkeeper::LockError;

use crate::{
    kinds::Kind,
    rig::{
        Dropped, LONG, dropped_after, nodes, rival, soon, until, until_free, until_quiet,
        until_waiting,
    },
    support::Ensemble,
};

pub(crate) async fn a_timeout_leaves_nothing(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("timeout");
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let rival = rival(kind, &other, &path).await;
    let before = nodes(kind, &other, &path).await.len();
    let (wait, started) = (Duration::from_millis(150), Instant::now());
    let lock = kind.at(&client, &path);
    let error = lock.try_lock_for(wait).await.err().expect("it is held");
    let named = error.path().unwrap_or_default();
    assert!(named.starts_with(&path), "{error}");
    let LockError::TimedOut { waited, .. } = error else {
        panic!("{error:?}");
    };
    assert!(waited == wait && started.elapsed() >= wait);
    until!(nodes(kind, &other, &path).await.len() == before);
    until_quiet(ensemble, &client).await;
    drop(rival);
    let held = lock.try_lock_for(LONG).await.unwrap();
    held.release().await.unwrap();
}

/// Drops the future at its first poll, then at its second, and so on until it ends: without a rival
/// and behind one.
pub(crate) async fn an_attempt_dropped_at_any_poll_leaves_nothing(kind: Kind, ensemble: &Ensemble) {
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    for contended in [false, true] {
        let path = ensemble.unique_path("cancel");
        // Without a rival the directory is missing at first, so there are more points at which the
        // future can be dropped.
        let rival = if contended {
            Some(rival(kind, &other, &path).await)
        } else {
            None
        };
        let before = nodes(kind, &other, &path).await.len();
        let mut polls = 0;
        loop {
            // The client is the same in each round, so a node left by the last round would block
            // this one.
            let lock = kind.at(&client, &path);
            let outcome = dropped_after(polls, &client, lock.lock()).await;
            until("the rival is alone", async || {
                let held = usize::from(matches!(outcome, Dropped::Ended(Ok(_))))
                    * kind.directories("").len();
                nodes(kind, &other, &path).await.len() <= before + held
            })
            .await;
            match outcome {
                Dropped::Midway => polls += 1,
                Dropped::Waiting => {
                    assert!(contended, "an uncontended attempt waits");
                    break;
                }
                Dropped::Ended(held) => {
                    assert!(!contended, "the rival holds it");
                    held.unwrap().release().await.unwrap();
                    break;
                }
            }
        }
        assert!(polls > 1, "the attempt ended at its first poll");
        drop(rival);
        let held = soon(kind.at(&other, &path).lock()).await.unwrap();
        held.release().await.unwrap();
        until_free(kind, &other, &path).await;
        until_quiet(ensemble, &client).await;
    }
}

/// A waiter leaves the queue. The next waiter is not granted the lock for that: it waits for the
/// rival.
pub(crate) async fn a_waiter_that_gives_up_is_skipped(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("skip");
    let (one, two) = (ensemble.client().await, ensemble.client().await);
    let other = ensemble.client().await;
    let rival = rival(kind, &other, &path).await;
    let (first, second) = (kind.at(&one, &path), kind.at(&two, &path));
    let first = tokio::spawn(async move { first.lock().await.map(drop) });
    until_waiting(kind, &other, &path, 1).await;
    let mut second = pin!(second.lock());
    let waits = dropped_after(usize::MAX, &two, second.as_mut()).await;
    assert!(matches!(waits, Dropped::Waiting));
    until_waiting(kind, &other, &path, 2).await;
    first.abort();
    until_waiting(kind, &other, &path, 1).await;
    let waits = dropped_after(usize::MAX, &two, second.as_mut()).await;
    assert!(
        matches!(waits, Dropped::Waiting),
        "the waiter holds it beside the rival"
    );
    drop(rival);
    let held = soon(second).await.unwrap();
    held.release().await.unwrap();
}

/// A drop releases on any thread, also on one outside the runtime.
pub(crate) async fn a_guard_dropped_outside_a_runtime_releases(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("drop");
    let client = ensemble.client().await;
    let lock = kind.at(&client, &path);
    let held = lock.lock().await.unwrap();
    std::thread::spawn(move || drop(held)).join().unwrap();
    until_free(kind, &client, &path).await;
    let held = soon(lock.lock()).await.unwrap();
    std::thread::spawn(move || drop((held, lock)))
        .join()
        .unwrap();
    until_free(kind, &client, &path).await;
}

/// The delete of a dropped hold is sent before any later request, so the client never waits for its
/// own old node.
pub(crate) async fn a_dropped_lock_can_be_taken_again_at_once(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("again");
    let client = ensemble.client().await;
    let lock = kind.at(&client, &path);
    let mut tokens = Vec::new();
    for _ in 0..20 {
        let held = soon(lock.lock()).await.unwrap();
        tokens.push(held.token());
        drop(held);
    }
    assert!(tokens.windows(2).all(|pair| pair[0] < pair[1]));
    until_free(kind, &client, &path).await;
    until_quiet(ensemble, &client).await;
}

/// A refused try writes nothing and waits for nobody. The holder may be of the same session or of
/// another one.
pub(crate) async fn a_try_takes_a_free_lock_and_refuses_a_held_one(
    kind: Kind,
    ensemble: &Ensemble,
) {
    let path = ensemble.unique_path("try");
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let lock = kind.at(&client, &path);
    let held = lock.try_lock().await.unwrap().expect("it is free");
    held.release().await.unwrap();
    let rival = rival(kind, &client, &path).await;
    let mut nodes_before = nodes(kind, &client, &path).await;
    assert!(lock.try_lock().await.unwrap().is_none());
    assert!(kind.at(&other, &path).try_lock().await.unwrap().is_none());
    let mut nodes_after = nodes(kind, &client, &path).await;
    nodes_before.sort();
    nodes_after.sort();
    assert_eq!(nodes_before, nodes_after);
    drop(rival);
    until_free(kind, &client, &path).await;
    let held = lock.try_lock().await.unwrap().expect("it is free again");
    held.release().await.unwrap();
}
