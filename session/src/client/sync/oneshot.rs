//! One value for one receiver.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use super::mailbox::Mailbox;

/// Makes both ends.
pub fn channel<T>() -> (Sender<T>, Receiver<T>) {
    let slot = Arc::new(Mailbox::new(Slot::Empty));
    (Sender(slot.clone()), Receiver(slot))
}

/// The end that sends. Dropping it ends the wait of the receiver.
#[derive(Debug)]
pub struct Sender<T>(Arc<Mailbox<Slot<T>>>);

/// The end that waits: a future of the value, or of [`Dropped`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Receiver<T>(Arc<Mailbox<Slot<T>>>);

/// The sender was dropped without a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Dropped;

#[derive(Debug)]
enum Slot<T> {
    Empty,
    Full(T),
    /// The value was taken, or will not come.
    Over,
}

impl<T> Sender<T> {
    /// Sends the value. It is lost if the receiver is gone.
    pub fn send(self, value: T) {
        self.0.tell(|slot| *slot = Slot::Full(value));
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        if self.0.look(|slot| matches!(slot, Slot::Empty)) {
            self.0.tell(|slot| *slot = Slot::Over);
        }
    }
}

impl<T> Future for Receiver<T> {
    type Output = Result<T, Dropped>;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        self.0.poll(cx, |slot| match slot {
            Slot::Empty => None,
            Slot::Full(_) | Slot::Over => match mem::replace(slot, Slot::Over) {
                Slot::Full(value) => Some(Ok(value)),
                _ => Some(Err(Dropped)),
            },
        })
    }
}
