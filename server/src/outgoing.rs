//! The send queue of one connection. The tasks that call the engine fill it; the connection's own
//! task empties it.
//!
//! One write sends everything that was queued since the last write. The queue has two limits. Above
//! the first, the server stops reading requests of this client: it asks faster than it reads. Above
//! the second, the server cuts the connection: the client gets more events than it reads. Bytes
//! that are being written count until the operating system has taken all of them.
//!
//! Not here: sockets.

use std::sync::{Mutex, MutexGuard, PoisonError};

use bytes::BytesMut;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use crate::engine::CUT_ABOVE;

/// The queue of one connection.
#[derive(Debug)]
pub(crate) struct Outgoing {
    queue: Mutex<Queue>,
    /// Notified when the queue has bytes, or is ending. Only the writer waits on it.
    filled: Notify,
    /// Notified when the bytes that were taken are written. Only the reader waits on it.
    emptied: Notify,
    /// Notified when requests that have waited can be handled. Only the reader waits on it.
    pub(crate) resumed: Notify,
    /// Cancelled to drop the connection together with its queued bytes.
    pub(crate) cut: CancellationToken,
    /// Cancelled when nothing more will be appended.
    pub(crate) over: CancellationToken,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: BytesMut,
    /// The number of bytes that the writer has taken and is writing.
    taken: usize,
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
            resumed: Notify::new(),
            cut,
            over: CancellationToken::new(),
        }
    }

    /// Appends bytes.
    pub(crate) fn push(&self, bytes: BytesMut) {
        let mut queue = self.lock();
        if queue.len() > CUT_ABOVE {
            tracing::warn!("connection cut: the client does not read, over 16 MiB queued");
            return self.cut.cancel();
        }
        // This copies nothing while the queue is empty, which is the usual case.
        queue.bytes.unsplit(bytes);
        drop(queue);
        self.filled.notify_one();
    }

    /// Nothing more will be appended.
    pub(crate) fn end(&self) {
        self.over.cancel();
        self.filled.notify_one();
    }

    /// Waits for bytes and takes all of them; `None` when the queue has ended. The call also
    /// reports the bytes that were taken before as written.
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
                if self.over.is_cancelled() {
                    return None;
                }
            }
            self.filled.notified().await;
        }
    }

    /// Waits until the client has read enough of its replies.
    pub(crate) async fn wait_for_capacity(&self) {
        while self.lock().len() > READ_BELOW {
            self.emptied.notified().await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The number of queued bytes above which the server reads no further request.
const READ_BELOW: usize = 256 << 10;
