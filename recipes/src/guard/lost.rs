//! How sure a holder can be of its lock, and what tells it of the loss: the deletion of its node, and
//! the ends of its session and of its lease.

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use lockkeeper_proto::{EventType, SessionId, path};
use lockkeeper_session::{
    Client,
    sync::select::{Either, select},
};

use crate::{backoff::Rounds, error::Loss, node::session_loss};

/// How late a holder hears of the end of its lease, at most, after the computer has slept.
const LONGEST_SLEEP: Duration = Duration::from_millis(500);

/// How sure a holder can be of its lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockState {
    /// The client is connected, and its lease is valid.
    Held,
    /// The connection is lost. No other client can get the lock before `until`, on the clock of
    /// [`Instant::now`].
    Suspended {
        /// The end of the lease.
        until: Instant,
    },
    /// The lease has ended, and no server has renewed it: stop. It may turn out later that the lock
    /// was never lost.
    Elapsed,
    /// The lock is lost for good.
    Lost(Loss),
}

impl LockState {
    /// Why the lock cannot be relied on, if it cannot.
    pub(crate) fn loss(self) -> Option<Loss> {
        match self {
            Self::Held | Self::Suspended { .. } => None,
            Self::Elapsed => Some(Loss::Elapsed),
            Self::Lost(loss) => Some(loss),
        }
    }
}

/// Waits for the deletion of a node, the end of its session, or the end of the session's lease.
pub(crate) async fn lost(client: &Client, path: &str, session_id: SessionId) -> Loss {
    let (mut watches, server_path) = (None, client.raw().server_path(path));
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
        if watches.is_none()
            && watch_at <= now
            && let Some(parent) = path::parent(&server_path)
        {
            let group = watches.insert(raw.watch_group());
            group.watch(parent, vec![path::name(&server_path).into()]);
        }
        // Timers stand still while the computer sleeps; the client's clock does not.
        let left = until.saturating_duration_since(now);
        let pause = watch_at.saturating_duration_since(now);
        let longest = if pause.is_zero() {
            LONGEST_SLEEP
        } else {
            pause
        };
        let happened = {
            let event = async {
                match &watches {
                    Some(group) => group.next().await,
                    None => std::future::pending().await,
                }
            };
            let elapsed = raw.sleep(left.min(longest));
            let (event, changed, elapsed) = (pin!(event), pin!(changed), pin!(elapsed));
            select(event, select(changed, elapsed)).await
        };
        match happened {
            Either::Left(Ok(event)) if event.event_type == EventType::NODE_DELETED => {
                return session_loss(client, session_id).unwrap_or(Loss::Deleted);
            }
            // The data changed, or the watch has ended: look again.
            Either::Left(_) => {
                watches = None;
                watch_at = client.now();
                watch_at += rounds.begin(watch_at);
            }
            Either::Right(_) => {}
        }
    }
}
