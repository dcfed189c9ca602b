//! What the rules are checked with: looking at the line from outside, waiting for conditions, dropping futures midway.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

use lockkeeper::{Client, proto::path};

pub(crate) use crate::support::waiting::{LONG, idle, soon, until};
use crate::{kinds::Kind, support::Ensemble};

/// The nodes in the directories of a lock; none where there is no directory.
pub(crate) async fn nodes<K: Kind>(client: &Client, at: &str) -> Vec<String> {
    let mut nodes = Vec::new();
    for line in K::lines(at) {
        let names = client.get_children(&line).await.unwrap_or_default();
        nodes.extend(names.iter().map(|name| path::join(&line, name)));
    }
    nodes
}

/// A rival that has what it wants, and has left what it does not need for that.
pub(crate) async fn rival<K: Kind>(client: &Client, path: &str) -> K::Rival {
    let rival = soon(K::rival(client, path)).await.unwrap();
    until_waiting::<K>(client, path, 0).await;
    rival
}

/// Waits until so many stand in the line behind a rival; where there is no line nobody can see them.
pub(crate) async fn until_waiting<K: Kind>(client: &Client, path: &str, count: usize) {
    let count = if K::WAITS_IN_LINE { count } else { 0 };
    let (line, length) = (&K::lines(path)[0], K::RIVALS_IN_LINE + count);
    until(&format!("{count} wait at {path}"), async || {
        let nodes = client.get_children(line).await.unwrap_or_default();
        nodes.len() == length
    })
    .await;
}

/// Waits until no node of the lock is left.
pub(crate) async fn until_free<K: Kind>(client: &Client, path: &str) {
    until("no node is left", async || {
        nodes::<K>(client, path).await.is_empty()
    })
    .await;
}

/// Waits until a client has nothing under way and nothing watched; the server must agree.
pub(crate) async fn until_quiet(ensemble: &Ensemble, client: &Client) {
    until("no request and no watch is left", async || {
        let session = client.snapshot().session_id;
        let on_server = ensemble.server().map_or(0, |server| {
            let report = server.report();
            report.sessions.get(&session).map_or(0, |own| own.watches)
        });
        (client.outstanding(), client.watch_count(), on_server) == (0, 0, 0)
    })
    .await;
}

/// What came of a future that was to be dropped midway.
pub(crate) enum Dropped<T> {
    /// It was dropped at this poll.
    Midway,
    /// It has ended before.
    Ended(T),
    /// It waits, and is not woken any more; dropped, too.
    Waiting,
}

/// Polls a future so many times, each time when it was woken, and drops it. Its requests are those of this client.
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
