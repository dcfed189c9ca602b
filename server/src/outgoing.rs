//! What is to be sent on one connection: filled by whoever holds the engine, emptied by the connection's own task.
//!
//! Everything that has gathered since the last write goes out in one write. The queue is bounded twice: a client that
//! asks faster than it reads is not read from, and one that is told more than it reads is cut off.
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
    /// The queue was emptied. One waits: the reader.
    emptied: Notify,
    /// Cancelled to drop the connection with whatever is still queued.
    pub(crate) cut: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: BytesMut,
    ending: bool,
}

impl Outgoing {
    pub(crate) fn new(cut: CancellationToken) -> Self {
        Self {
            queue: Mutex::default(),
            filled: Notify::new(),
            emptied: Notify::new(),
            cut,
        }
    }

    /// Appends bytes.
    pub(crate) fn push(&self, bytes: BytesMut) {
        let mut queue = self.lock();
        if queue.bytes.len() > CUT_ABOVE {
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
    }

    /// Waits for bytes and takes all of them; `None` after the last.
    pub(crate) async fn take(&self) -> Option<BytesMut> {
        loop {
            {
                let mut queue = self.lock();
                if !queue.bytes.is_empty() {
                    let bytes = std::mem::take(&mut queue.bytes);
                    drop(queue);
                    self.emptied.notify_one();
                    return Some(bytes);
                }
                if queue.ending {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until the client has read enough of what it asked for.
    pub(crate) async fn room(&self) {
        while self.lock().bytes.len() > READ_BELOW {
            self.emptied.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Queued bytes above which no further request is read.
const READ_BELOW: usize = 256 << 10;

/// Queued bytes above which the connection is given up: only notifications come that far, since no request is read by then.
const CUT_ABOVE: usize = 32 << 20;
