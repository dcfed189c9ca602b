//! A watch channel: the newest value of something that changes, for any number of receivers.

use std::sync::Arc;

use super::{
    Notify,
    os::{Mutex, lock},
};
use crate::{Error, ErrorKind};

/// Sets the value. Dropping it tells the receivers that it changes no more.
#[derive(Debug)]
pub struct Sender<T>(Arc<Channel<T>>);

/// Follows the newest value: the receiver of a watch channel.
///
/// A slow receiver sees the newest value, not every one. Receivers are woken in the order in which
/// they began to wait.
#[derive(Clone, Debug)]
pub struct Changes<T> {
    channel: Arc<Channel<T>>,
    /// How many changes this receiver has seen.
    seen: u64,
}

#[derive(Debug)]
struct Channel<T> {
    newest: Mutex<Newest<T>>,
    changed: Notify,
}

#[derive(Debug)]
struct Newest<T> {
    value: T,
    /// How many changes there were.
    changes: u64,
    is_last: bool,
}

impl<T> Sender<T> {
    /// Begins with this value.
    #[must_use]
    pub fn new(value: T) -> Self {
        let (changes, is_last) = (0, false);
        Self(Arc::new(Channel {
            newest: Mutex::new(Newest {
                value,
                changes,
                is_last,
            }),
            changed: Notify::new(),
        }))
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn changes(&self) -> Changes<T> {
        Changes {
            seen: lock(&self.0.newest).changes,
            channel: self.0.clone(),
        }
    }

    /// Sets the value. With `is_last`, this is the last change.
    pub fn set(&self, value: T, is_last: bool) {
        self.change(|newest| (newest.value, newest.is_last) = (value, is_last));
    }

    fn change(&self, change: impl FnOnce(&mut Newest<T>)) {
        let mut newest = lock(&self.0.newest);
        change(&mut newest);
        newest.changes += 1;
        drop(newest);
        self.0.changed.notify_waiters();
    }

    /// Looks at the present value.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        look(&lock(&self.0.newest).value)
    }

    /// Who waits for a change of the value.
    #[must_use]
    pub fn changed(&self) -> &Notify {
        &self.0.changed
    }
}

impl<T> Drop for Sender<T> {
    fn drop(&mut self) {
        self.change(|newest| newest.is_last = true);
    }
}

impl<T: Clone> Changes<T> {
    /// The newest value.
    #[must_use]
    pub fn latest(&self) -> T {
        lock(&self.channel.newest).value.clone()
    }

    /// Waits for a change after the last value that a method of this receiver has waited for, and
    /// returns the newest value. It may be equal to the former one.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed) when the value changes no more.
    ///
    /// # Cancel safety
    /// Safe: the change is still new to the next call.
    pub async fn changed(&mut self) -> Result<T, Error> {
        let seen = self.seen;
        self.newest(|_, changes| changes != seen).await
    }

    /// Waits for a value that is as it should be. The present one may be.
    ///
    /// # Errors
    /// [`Closed`](crate::ErrorKind::Closed) when the value changes no more, and is not as it should
    /// be.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn wait_for(&mut self, mut is_it: impl FnMut(&T) -> bool) -> Result<T, Error> {
        self.newest(|value, _| is_it(value)).await
    }

    /// Waits for a value, of which this is told, with the number of changes.
    async fn newest(&mut self, mut is_it: impl FnMut(&T, u64) -> bool) -> Result<T, Error> {
        loop {
            let channel = &self.channel;
            let changed = channel.changed.notified();
            {
                let newest = lock(&channel.newest);
                if is_it(&newest.value, newest.changes) {
                    self.seen = newest.changes;
                    return Ok(newest.value.clone());
                }
                if newest.is_last {
                    return Err(ErrorKind::Closed.into());
                }
            }
            changed.await;
        }
    }
}
