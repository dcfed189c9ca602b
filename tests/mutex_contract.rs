//! What a mutex promises, on the embedded server and on a real ZooKeeper.
//!
//! What takes a fault at an exact moment (a reply lost, a listing from a server that lags) is in
//! `recipes/tests/faults.rs`, on the embedded server alone.

mod support;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use lockkeeper::{Client, CreateMode, LockError, LockState, Loss, Mutex, Version};
use support::{Ensemble, on_both_arms};

/// Long enough for anything here on a busy machine.
const LONG: Duration = Duration::from_secs(30);

fn mutex(client: &Client, path: &str) -> Mutex {
    Mutex::new(client, path).unwrap()
}

/// The nodes in the lock's directory; none when there is no directory.
async fn line(client: &Client, path: &str) -> Vec<String> {
    client.get_children(path).await.unwrap_or_default()
}

/// Waits until the line has this length.
async fn until_line_has(client: &Client, path: &str, length: usize) {
    let deadline = Instant::now() + LONG;
    loop {
        let line = line(client, path).await;
        if line.len() == length {
            return;
        }
        assert!(Instant::now() < deadline, "{length} expected: {line:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// Reads the counter, lets others run, and writes one more: right only if nobody does so at the same time.
async fn increment(client: &Client, counter: &str) {
    let text = client.get_data(counter).await.unwrap().data.unwrap();
    let value: u32 = std::str::from_utf8(&text).unwrap().parse().unwrap();
    tokio::task::yield_now().await;
    let next = (value + 1).to_string();
    client.set_data(counter, next, Version::ANY).await.unwrap();
}

async fn counter(client: &Client, path: &str) -> String {
    let path = format!("{path}-counter");
    client
        .create(&path, "0", CreateMode::Persistent)
        .await
        .unwrap();
    path
}

on_both_arms! {
    async fn nobody_else_holds_it_and_tokens_grow(ensemble: &Ensemble) {
        const CLIENTS: usize = 4;
        const TASKS: usize = 3;
        const ROUNDS: usize = 10;
        let path = ensemble.unique_path("exclusion");
        let counter = counter(&ensemble.client().await, &path).await;
        let holders = Arc::new(AtomicUsize::new(0));
        let mut tasks = Vec::new();
        for _ in 0..CLIENTS {
            let client = ensemble.client().await;
            for _ in 0..TASKS {
                let (mutex, client) = (mutex(&client, &path), client.clone());
                let (holders, counter) = (holders.clone(), counter.clone());
                tasks.push(tokio::spawn(async move {
                    let mut tokens = Vec::new();
                    for _ in 0..ROUNDS {
                        let guard = mutex.lock().await.unwrap();
                        assert_eq!(holders.fetch_add(1, Ordering::SeqCst), 0, "two holders");
                        assert!(guard.is_valid());
                        increment(&client, &counter).await;
                        tokens.push(guard.fencing_token());
                        holders.fetch_sub(1, Ordering::SeqCst);
                        guard.release().await.unwrap();
                    }
                    tokens
                }));
            }
        }
        let mut tokens = Vec::new();
        for task in tasks {
            let own = task.await.unwrap();
            assert!(own.is_sorted());
            tokens.extend(own);
        }
        let client = ensemble.client().await;
        let total = client.get_data(&counter).await.unwrap().data.unwrap();
        assert_eq!(total, (CLIENTS * TASKS * ROUNDS).to_string());
        tokens.sort_unstable();
        tokens.dedup();
        assert_eq!(tokens.len(), CLIENTS * TASKS * ROUNDS, "a token twice");
        assert_eq!(line(&client, &path).await, [""; 0]);
    }

    async fn first_come_first_served(ensemble: &Ensemble) {
        let path = ensemble.unique_path("fairness");
        let holder = mutex(&ensemble.client().await, &path).lock().await.unwrap();
        let order = Arc::new(std::sync::Mutex::new(Vec::new()));
        let mut tasks = Vec::new();
        for number in 0..6 {
            let client = ensemble.client().await;
            let ticket = mutex(&client, &path).enqueue().await.unwrap();
            assert_eq!(ticket.position(), number + 1);
            let order = order.clone();
            tasks.push(tokio::spawn(async move {
                let guard = ticket.wait().await.unwrap();
                order.lock().unwrap().push(number);
                guard.release().await.unwrap();
            }));
        }
        holder.release().await.unwrap();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), [0, 1, 2, 3, 4, 5]);
    }

    async fn a_timeout_tells_the_place_in_line_and_leaves_nothing(ensemble: &Ensemble) {
        let path = ensemble.unique_path("timeout");
        let client = ensemble.client().await;
        let holder = mutex(&client, &path).lock().await.unwrap();
        let wait = Duration::from_millis(300);
        let started = Instant::now();
        let error = mutex(&ensemble.client().await, &path).lock_timeout(wait).await.unwrap_err();
        assert_eq!(error, LockError::TimedOut { waited: wait, ahead: Some(1) });
        assert!(started.elapsed() >= wait);
        until_line_has(&client, &path, 1).await;
        holder.release().await.unwrap();
    }

    async fn a_try_takes_a_free_lock_and_refuses_a_held_one(ensemble: &Ensemble) {
        let path = ensemble.unique_path("try");
        let (one, other) = (ensemble.client().await, ensemble.client().await);
        let guard = mutex(&one, &path).try_lock().await.unwrap().expect("a free lock");
        let before = one.exists(&path).await.unwrap().unwrap();
        assert!(mutex(&other, &path).try_lock().await.unwrap().is_none());
        assert!(mutex(&one, &path).try_lock().await.unwrap().is_none(), "not reentrant");
        let after = one.exists(&path).await.unwrap().unwrap();
        assert_eq!(before.cversion, after.cversion, "a refused try created a node");
        guard.release().await.unwrap();
        assert!(mutex(&other, &path).try_lock().await.unwrap().is_some());
    }

    /// The future is dropped after 0, 1, 2, .. wake-ups, in an empty line and behind a holder.
    async fn dropped_at_any_await_it_leaves_no_node_and_holds_nobody_up(ensemble: &Ensemble) {
        let client = ensemble.client().await;
        for held in [false, true] {
            let path = ensemble.unique_path("cancel");
            // The directory is missing at first, which makes for more places to be dropped at.
            let holder = if held { Some(mutex(&client, &path).lock().await.unwrap()) } else { None };
            let canceller = ensemble.client().await;
            for wakes in 0..12 {
                let contender = mutex(&canceller, &path);
                let done = dropped_after(wakes, contender.lock()).await;
                if let Some(guard) = done {
                    guard.unwrap().release().await.unwrap();
                }
                until_line_has(&client, &path, usize::from(held)).await;
            }
            if let Some(holder) = holder {
                holder.release().await.unwrap();
            }
            let guard = mutex(&client, &path).lock_timeout(LONG).await.unwrap();
            guard.release().await.unwrap();
            assert_eq!(canceller.watch_count(), 0);
        }
    }

    async fn a_waiter_that_gives_up_is_skipped(ensemble: &Ensemble) {
        let path = ensemble.unique_path("skip");
        let client = ensemble.client().await;
        let holder = mutex(&client, &path).lock().await.unwrap();
        let first = mutex(&ensemble.client().await, &path).enqueue().await.unwrap();
        let second = mutex(&ensemble.client().await, &path).enqueue().await.unwrap();
        assert_eq!((first.position(), second.position()), (1, 2));
        drop(first);
        until_line_has(&client, &path, 2).await;
        let mut waiting = pin!(second.wait());
        // The node just ahead has quit; that is no grant.
        assert!(tokio::time::timeout(Duration::from_millis(200), &mut waiting).await.is_err());
        holder.release().await.unwrap();
        let guard = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap();
        guard.release().await.unwrap();
    }

    /// go-zk granted the lock to a waiter whose node an operator had deleted, while another client held it.
    async fn a_waiter_whose_node_is_deleted_is_told_and_never_granted(ensemble: &Ensemble) {
        let path = ensemble.unique_path("deleted-waiter");
        let client = ensemble.client().await;
        let holder = mutex(&client, &path).lock().await.unwrap();
        let ticket = mutex(&ensemble.client().await, &path).enqueue().await.unwrap();
        let node = ticket.path();
        let waiting = tokio::spawn(ticket.wait());
        client.delete(&node, Version::ANY).await.unwrap();
        holder.release().await.unwrap();
        let error = tokio::time::timeout(LONG, waiting).await.unwrap().unwrap().unwrap_err();
        assert_eq!(error, LockError::Lost(Loss::Deleted));
    }

    async fn a_holder_whose_node_is_deleted_learns_it_in_every_way(ensemble: &Ensemble) {
        let path = ensemble.unique_path("deleted-holder");
        let client = ensemble.client().await;
        let guard = mutex(&client, &path).lock().await.unwrap();
        let data = counter(&client, &path).await;
        guard.transaction().set_data(&data, "1", Version::ANY).commit().await.unwrap();
        let lost = tokio::spawn(guard.lost());
        ensemble.client().await.delete(&guard.path(), Version::ANY).await.unwrap();
        let told = tokio::time::timeout(LONG, lost).await.unwrap().unwrap();
        assert_eq!(told, Loss::Deleted);
        assert_eq!(guard.state(), LockState::Lost(Loss::Deleted));
        assert!(!guard.is_valid());
        let refused = guard.transaction().set_data(&data, "2", Version::ANY).commit().await;
        assert_eq!(refused.unwrap_err(), LockError::Lost(Loss::Deleted));
        assert_eq!(client.get_data(&data).await.unwrap().data.unwrap(), "1");
        assert_eq!(guard.release().await.unwrap_err(), LockError::Lost(Loss::Deleted));
    }

    async fn writes_under_the_lock_release_it_in_the_same_transaction(ensemble: &Ensemble) {
        let path = ensemble.unique_path("release-with");
        let client = ensemble.client().await;
        let guard = mutex(&client, &path).lock().await.unwrap();
        let data = counter(&client, &path).await;
        let results = guard
            .release_with(|writes| writes.set_data(&data, "1", Version(0)))
            .await
            .unwrap();
        assert_eq!(results.len(), 1);
        assert_eq!(line(&client, &path).await, [""; 0]);
        // A write that is refused is named by its own number, nothing is written, and the lock is released all the same.
        let guard = mutex(&client, &path).lock().await.unwrap();
        let error = guard
            .release_with(|writes| writes.set_data(&data, "2", Version(7)))
            .await
            .unwrap_err();
        assert_eq!(error.to_string(), "transaction refused: operation 0: bad version (-103)");
        until_line_has(&client, &path, 0).await;
    }

    async fn children_of_strangers_do_not_count(ensemble: &Ensemble) {
        let path = ensemble.unique_path("strangers");
        let client = ensemble.client().await;
        client.create(&path, "", CreateMode::Persistent).await.unwrap();
        for name in ["000", "notalock", "lock-", "_c_x-lease-0000000000", "x-latch-0000000000"] {
            client.create(&format!("{path}/{name}"), "", CreateMode::Persistent).await.unwrap();
        }
        let guard = mutex(&client, &path).try_lock().await.unwrap().expect("a free lock");
        guard.release().await.unwrap();
        assert_eq!(line(&client, &path).await.len(), 5);
    }

    async fn nodes_of_other_implementations_are_waited_for(ensemble: &Ensemble) {
        for name in ["_c_0f9e8d7c6b5a49388271605f4e3d2c1b-lock-", "0f9e8d7c6b5a49388271605f4e3d2c1b__lock__"] {
            let path = ensemble.unique_path("others");
            let client = ensemble.client().await;
            client.create(&path, "", CreateMode::Persistent).await.unwrap();
            let node = format!("{path}/{name}");
            let theirs = client.create(&node, "", CreateMode::EphemeralSequential).await.unwrap();
            let ticket = mutex(&client, &path).enqueue().await.unwrap();
            assert_eq!(ticket.position(), 1);
            client.delete(&theirs.path, Version::ANY).await.unwrap();
            let guard = tokio::time::timeout(LONG, ticket.wait()).await.unwrap().unwrap();
            guard.release().await.unwrap();
        }
    }

    async fn a_guard_may_be_dropped_outside_a_runtime_and_on_another_thread(ensemble: &Ensemble) {
        let path = ensemble.unique_path("drop");
        let client = ensemble.client().await;
        let guard = mutex(&client, &path).lock().await.unwrap();
        std::thread::spawn(move || drop(guard)).join().unwrap();
        until_line_has(&client, &path, 0).await;
    }

    /// The delete of a dropped guard is sent before anything that is asked for later.
    async fn the_lock_can_be_taken_again_right_after_its_guard_was_dropped(ensemble: &Ensemble) {
        let path = ensemble.unique_path("again");
        let mutex = mutex(&ensemble.client().await, &path);
        for _ in 0..20 {
            drop(mutex.lock().await.unwrap());
            let ticket = mutex.enqueue().await.unwrap();
            assert_eq!(ticket.position(), 0);
            drop(ticket.wait().await.unwrap());
        }
    }

    async fn a_closed_client_ends_waits_and_holds(ensemble: &Ensemble) {
        let path = ensemble.unique_path("closed");
        let client = ensemble.client().await;
        let guard = mutex(&client, &path).lock().await.unwrap();
        let other = ensemble.client().await;
        let ticket = mutex(&other, &path).enqueue().await.unwrap();
        let waiting = tokio::spawn(ticket.wait());
        let late = mutex(&other, &path);
        other.close().await;
        let error = waiting.await.unwrap().unwrap_err();
        assert_eq!(error, LockError::Lost(Loss::Closed));
        assert_eq!(late.lock().await.unwrap_err(), LockError::Lost(Loss::Closed));
        let lost = guard.lost();
        client.close().await;
        assert_eq!(lost.await, Loss::Closed);
        assert_eq!(guard.state(), LockState::Lost(Loss::Closed));
        assert_eq!(guard.valid_until(), None);
        assert!(guard.release().await.is_err());
    }

    async fn the_data_of_a_contender_say_who_it_is(ensemble: &Ensemble) {
        let path = ensemble.unique_path("data");
        let client = ensemble.client().await;
        let mutex = mutex(&client, &path).with_data("host-1 pid 7");
        let guard = mutex.lock().await.unwrap();
        let node = client.get_data(&guard.path()).await.unwrap();
        assert_eq!(node.data.unwrap(), "host-1 pid 7");
        assert_eq!(node.stat.ephemeral_owner, client.snapshot().session_id);
        assert_eq!(u64::try_from(node.stat.czxid.0).unwrap(), guard.fencing_token().get());
    }

    async fn many_tasks_of_one_session_take_turns_and_leave_no_watch(ensemble: &Ensemble) {
        let path = ensemble.unique_path("one-session");
        let client = ensemble.client().await;
        let grants = Arc::new(std::sync::Mutex::new(BTreeMap::new()));
        let tasks: Vec<_> = (0..30)
            .map(|number| {
                let (mutex, grants) = (mutex(&client, &path), grants.clone());
                tokio::spawn(async move {
                    let guard = mutex.lock().await.unwrap();
                    grants.lock().unwrap().insert(guard.fencing_token(), number);
                    guard.release().await.unwrap();
                })
            })
            .collect();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(grants.lock().unwrap().len(), 30);
        assert_eq!(client.watch_count(), 0);
        assert_eq!(line(&client, &path).await, [""; 0]);
    }
}

/// Polls a future so many times, each time it was woken, and drops it; its output if it came earlier.
async fn dropped_after<F: Future>(wakes: usize, future: F) -> Option<F::Output> {
    let mut future = pin!(future);
    let mut polls = 0;
    let patience = Duration::from_millis(100);
    let polled = std::future::poll_fn(|cx| {
        if polls == wakes {
            return Poll::Ready(None);
        }
        polls += 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending if polls == wakes => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    });
    // One that waits for its turn is not woken any more.
    tokio::time::timeout(patience, polled).await.ok().flatten()
}
