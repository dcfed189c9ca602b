//! Waiting for the loss of a lock.

use std::{pin::pin, time::Duration};

use futures::future::{Either, select};
use lockkeeper_proto::{EventType, SessionId};
use lockkeeper_session::Client;

use crate::{backoff::Rounds, error::Loss, node::lock_node::session_loss};

/// How late a holder hears of the end of its lease, at most, after the computer has slept.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// Waits for the deletion of a node, the end of its session, or the end of the session's lease.
pub(super) async fn lost(client: &Client, path: &str, session_id: SessionId) -> Loss {
    let mut watcher = None;
    // Not earlier: somebody may change the data of the node all the time, or the server may set no
    // watch.
    let (mut rounds, mut watch_at) = (Rounds::default(), client.now());
    loop {
        let raw = client.raw();
        let changed = raw.snapshot_changed();
        let lease = client.lease();
        if let Some(loss) = session_loss(client, session_id) {
            return loss;
        }
        let Some(until) = lease.valid_until.filter(|_| lease.is_valid) else {
            return Loss::Elapsed;
        };
        let now = client.now();
        if watcher.is_none() && watch_at <= now {
            let set = raw.watch_nodes(&[path]).ok();
            watcher = set.and_then(|mut watchers| watchers.pop());
        }
        let event = async {
            match watcher.as_mut() {
                Some(watcher) => watcher.await,
                None => std::future::pending().await,
            }
        };
        // Timers stand still while the computer sleeps; the client's clock does not.
        let left = until.saturating_duration_since(now);
        let pause = watch_at.saturating_duration_since(now);
        let longest = if pause.is_zero() {
            LONGEST_SLEEP
        } else {
            pause
        };
        let elapsed = raw.sleep(left.min(longest));
        let (event, changed, elapsed) = (pin!(event), pin!(changed), pin!(elapsed));
        let other = select(changed, elapsed);
        match select(event, other).await {
            Either::Left((Ok(event), _)) if event.event_type == EventType::NODE_DELETED => {
                return session_loss(client, session_id).unwrap_or(Loss::Deleted);
            }
            // The data changed, or the watch has ended: look again.
            Either::Left(_) => {
                watcher = None;
                watch_at = client.now();
                watch_at += rounds.begin(watch_at);
            }
            Either::Right(_) => {}
        }
    }
}
