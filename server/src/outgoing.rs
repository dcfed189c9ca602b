//! What is to be sent on one connection: filled by whoever holds the engine, emptied by the connection's own task.
//!
//! Everything that has gathered since the last write goes out in one write. The queue is bounded twice: a client that
//! asks faster than it reads is not read from, and one that is told more than it reads is cut off. What is being written
//! counts, until the operating system has all of it.
//! Not here: sockets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

/// The queue of one connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    /// The queue has something, or is ending. One waits: the writer.
    filled: Notify,
    /// What was taken is written. One waits: the reader.
    emptied: Notify,
    /// There may be requests left of those that were held back. One waits: the reader.
    nudged: Notify,
    /// Cancelled to drop the connection with whatever is still queued.
    pub(crate) cut: CancellationToken,
    /// Cancelled when nothing will be appended any more.
    over: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: BytesMut,
    /// How many bytes were taken and are being written.
    taken: usize,
    ending: bool,
}

impl Queue {
    fn len(&self) -> usize {
        self.bytes.len().saturating_add(self.taken)
    }
}

impl Outgoing {
    pub(crate) fn new(cut: CancellationToken) -> Self {
        Self {
            queue: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            nudged: Notify::new(),
            cut,
            over: CancellationToken::new(),
        }
    }

    /// Appends bytes.
    pub(crate) fn push(&self, bytes: BytesMut) {
        let mut queue = self.lock();
        if queue.len() > CUT_ABOVE {
            tracing::warn!("a client does not read what it is sent: cutting it off");
            return self.cut.cancel();
        }
        // No copy when the queue is empty, as it mostly is.
        queue.bytes.unsplit(bytes);
        drop(queue);
        self.filled.notify_one();
    }

    /// Nothing will be appended any more.
    pub(crate) fn end(&self) {
        self.lock().ending = true;
        self.filled.notify_one();
        self.over.cancel();
    }

    /// Waits until nothing will be appended any more.
    pub(crate) async fn ended(&self) {
        self.over.cancelled().await;
    }

    /// Waits for bytes and takes all of them; `None` after the last. Those that were taken before are written.
    pub(crate) async fn take(&self) -> Option<BytesMut> {
        self.lock().taken = 0;
        self.emptied.notify_one();
        loop {
            {
                let mut queue = self.lock();
                if !queue.bytes.is_empty() {
                    queue.taken = queue.bytes.len();
                    return Some(std::mem::take(&mut queue.bytes));
                }
                if queue.ending {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until the client has read enough of what it asked for.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.lock().len() > READ_BELOW {
            self.emptied.notified().await;
        }
    }

    /// There may be requests left that need no further bytes.
    pub(crate) fn nudge(&self) {
        self.nudged.notify_one();
    }

    /// Waits for [`nudge`](Self::nudge).
    pub(crate) async fn nudged(&self) {
        self.nudged.notified().await;
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queued bytes above which no further request is read.
const READ_BELOW: usize = 256 << 10;

/// Queued bytes above which the connection is given up: only notifications come that far, since no request is read by then.
const CUT_ABOVE: usize = 16 << 20;
