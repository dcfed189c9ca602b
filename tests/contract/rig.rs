//! Helpers of the rules: they look at the lock's nodes from outside, wait for conditions, and drop
//! futures midway.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
    time::Instant,
};

use lockkeeper::{Client, CreateMode, error::Loss, locks::GuardView, proto::path};

pub(crate) use crate::support::waiting::{LONG, idle, soon, until, until_another_session};
use crate::{
    kinds::{Held, Kind, Rival},
    support::Ensemble,
};

/// Makes a test of each function, on the embedded server, because it needs its faults.
macro_rules! on_the_embedded_arm {
    ($($test:ident)*) => {$(
        mod $test {
            #[tokio::test]
            async fn embedded() {
                crate::support::run(crate::support::Arm::Embedded, super::$test).await;
            }
        }
    )*};
}

pub(crate) use on_the_embedded_arm;

/// Creates a node beside the lock, with the data `0`. Tests write to it under the lock.
pub(crate) async fn register(client: &Client, path: &str) -> String {
    let path = format!("{path}-register");
    let created = client.create(&path, "0", CreateMode::Persistent).await;
    created.unwrap();
    path
}

/// The nodes in the directories of a lock; none if a directory does not exist.
pub(crate) async fn nodes(kind: Kind, client: &Client, at: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for directory in kind.directories(at) {
        let names = client.get_children(&directory).await.unwrap_or_default();
        nodes.extend(names.iter().map(|name| path::join(&directory, name)));
    }
    nodes
}

/// Acquires a rival. Returns when only the nodes that the rival needs are left in the queue.
pub(crate) async fn rival(kind: Kind, client: &Client, path: &str) -> Rival {
    let rival = soon(kind.rival(client, path)).await.unwrap();
    until_waiting(kind, client, path, 0).await;
    rival
}

/// Waits until `count` waiters are in the queue behind a rival. A lock without a queue shows no
/// waiters: then it checks only the rival.
pub(crate) async fn until_waiting(kind: Kind, client: &Client, path: &str, count: usize) {
    let count = if kind.has_queue() { count } else { 0 };
    let (directory, length) = (&kind.directories(path)[0], kind.rivals_in_queue() + count);
    until(&format!("{count} wait at {path}"), async || {
        let nodes = client.get_children(directory).await.unwrap_or_default();
        nodes.len() == length
    })
    .await;
}

/// Lets a rival wait for a held lock, and makes the holder lose it by `cause`. Checks that the
/// holder is told before the rival is granted the lock. Returns what the holder is told, and the
/// rival.
pub(crate) async fn lose_to_a_rival(
    kind: Kind,
    held: &dyn Held,
    other: &Client,
    path: &str,
    cause: impl FnOnce(),
) -> (Option<Loss>, Rival) {
    let (loss, views) = (held.lost(), held.views());
    assert!(views.iter().all(GuardView::is_valid));
    let told = tokio::spawn(async move {
        let told = (loss.await, Instant::now());
        // A handler on another task hears of it no later.
        assert!(views.is_empty() || !views.iter().all(GuardView::is_valid));
        told
    });
    let before = nodes(kind, other, path).await.len();
    let granted = tokio::spawn({
        let (other, path) = (other.clone(), path.to_owned());
        async move { (kind.rival(&other, &path).await.unwrap(), Instant::now()) }
    });
    until("the rival waits", async || {
        if kind.has_queue() {
            nodes(kind, other, path).await.len() > before
        } else {
            other.metrics().watches > 0
        }
    })
    .await;
    cause();
    let (loss, told) = soon(told).await.unwrap();
    let (rival, granted) = soon(granted).await.unwrap();
    assert!(told < granted, "{path}: told {:?} too late", told - granted);
    (loss, rival)
}

/// Waits until the lock has no node.
pub(crate) async fn until_free(kind: Kind, client: &Client, path: &str) {
    until!(nodes(kind, client, path).await.is_empty());
}

/// Waits until the client has no request under way and no watch, and the server has no watch of the
/// client.
pub(crate) async fn until_quiet(ensemble: &Ensemble, client: &Client) {
    until("no request and no watch is left", async || {
        let session = client.snapshot().session_id;
        let on_server = ensemble.server().map_or(0, |server| {
            let report = server.report();
            report
                .sessions
                .get(&session)
                .map_or(0, |own| own.watches.len())
        });
        (
            client.metrics().outstanding(),
            client.metrics().watches,
            on_server,
        ) == (0, 0, 0)
    })
    .await;
}

/// The result of a future that was to be dropped midway.
pub(crate) enum Dropped<T> {
    /// The future was dropped at this poll.
    Midway,
    /// The future ended before.
    Ended(T),
    /// The future waited and nothing woke it. It was dropped, too.
    Waiting,
}

/// Polls a future at most `polls` times, each time after it was woken, and then drops it. `client`
/// sends its requests.
pub(crate) async fn dropped_after<F: Future>(
    polls: usize,
    client: &Client,
    future: F,
) -> Dropped<F::Output> {
    let mut future = pin!(future);
    let mut left = polls;
    let polled = poll_fn(|cx| {
        if left == 0 {
            return Poll::Ready(Dropped::Midway);
        }
        left -= 1;
        match future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Dropped::Ended(output)),
            Poll::Pending if left == 0 => Poll::Ready(Dropped::Midway),
            Poll::Pending => Poll::Pending,
        }
    });
    tokio::select! {
        biased;
        outcome = polled => outcome,
        () = idle(client) => Dropped::Waiting,
    }
}
