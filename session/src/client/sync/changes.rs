//! The newest value of something that changes, for any number of receivers.

use std::sync::Arc;

use super::{
    notify::Notify,
    os::{Mutex, lock},
};
use crate::{Error, ErrorKind};

/// Sets the value. Dropping it tells the receivers that it changes no more.
#[derive(Debug)]
pub struct Teller<T>(Arc<Told<T>>);

/// Follows the newest value.
///
/// A slow receiver sees the newest value, not every one. Receivers are woken in the order in which
/// they began to wait.
#[derive(Debug)]
pub struct Changes<T> {
    told: Arc<Told<T>>,
    /// How many changes this receiver has seen.
    seen: u64,
}

#[derive(Debug)]
struct Told<T> {
    /// The value, and whether it is the last one.
    value: Mutex<(T, bool)>,
    changed: Notify,
}

impl<T> Told<T> {
    fn look<R>(&self, look: impl FnOnce(&T, bool) -> R) -> R {
        let told = lock(&self.value);
        look(&told.0, told.1)
    }
}

impl<T> Teller<T> {
    /// Begins with this value.
    #[must_use]
    pub fn new(value: T) -> Self {
        Self(Arc::new(Told {
            value: Mutex::new((value, false)),
            changed: Notify::default(),
        }))
    }

    /// A receiver that has seen the present value.
    #[must_use]
    pub fn changes(&self) -> Changes<T> {
        Changes {
            seen: self.0.changed.changes(),
            told: self.0.clone(),
        }
    }

    /// Sets the value, unless it changes no more. With `is_last`, this is the last change.
    pub fn set(&self, value: T, is_last: bool) {
        let mut told = lock(&self.0.value);
        if !told.1 {
            *told = (value, is_last);
        }
        drop(told);
        self.0.changed.notify_waiters();
    }

    /// Looks at the present value.
    pub fn look<R>(&self, look: impl FnOnce(&T) -> R) -> R {
        self.0.look(|value, _| look(value))
    }

    /// Who waits for a change of the value.
    #[must_use]
    pub fn changed(&self) -> &Notify {
        &self.0.changed
    }
}

impl<T> Drop for Teller<T> {
    fn drop(&mut self) {
        lock(&self.0.value).1 = true;
        self.0.changed.notify_waiters();
    }
}

impl<T: Clone> Changes<T> {
    /// The newest value.
    #[must_use]
    pub fn latest(&self) -> T {
        self.told.look(|value, _| value.clone())
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
        let is_last = self.told.look(|_, is_last| is_last);
        if is_last && self.seen == self.told.changed.changes() {
            return Err(ErrorKind::Closed.into());
        }
        self.told.changed.changed_since(self.seen).await;
        self.seen = self.told.changed.changes();
        Ok(self.latest())
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
        loop {
            self.seen = self.told.changed.changes();
            let (found, is_last) =
                (self.told).look(|value, is_last| (is_it(value).then(|| value.clone()), is_last));
            match found {
                Some(value) => return Ok(value),
                None if is_last => return Err(ErrorKind::Closed.into()),
                None => self.told.changed.changed_since(self.seen).await,
            }
        }
    }
}

impl<T> Clone for Changes<T> {
    fn clone(&self) -> Self {
        Self {
            told: self.told.clone(),
            seen: self.seen,
        }
    }
}
