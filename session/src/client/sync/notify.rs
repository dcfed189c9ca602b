//! Wakes all who wait for a change, in the order in which they began to wait.
//!
//! The order is a promise: a simulation repeats a history only if tasks run in the same order.

use std::{
    future::Future,
    pin::Pin,
    task::{Context, Poll, Waker},
};

use super::os::{Mutex, lock};

/// Where tasks wait for a change.
#[derive(Debug, Default)]
pub struct Notify(Mutex<Waiting>);

#[derive(Debug, Default)]
struct Waiting {
    /// How many changes there were.
    changes: u64,
    /// Those who wait, by their numbers, which grow. `None` is one that has given up.
    wakers: Vec<(u64, Option<Waker>)>,
    last: u64,
    given_up: usize,
}

impl Notify {
    /// Waits for the next change, counted from this call: also from before the future is polled.
    pub fn notified(&self) -> Notified<'_> {
        self.changed_since(self.changes())
    }

    /// How many changes there were.
    pub fn changes(&self) -> u64 {
        lock(&self.0).changes
    }

    /// Waits until there were more changes than this.
    pub fn changed_since(&self, changes: u64) -> Notified<'_> {
        Notified {
            notify: self,
            changes,
            number: None,
        }
    }

    /// Wakes all who wait.
    pub fn notify_waiters(&self) {
        let mut waiting = lock(&self.0);
        waiting.changes += 1;
        waiting.given_up = 0;
        let wakers = std::mem::take(&mut waiting.wakers);
        drop(waiting);
        wakers
            .into_iter()
            .filter_map(|(_, waker)| waker)
            .for_each(Waker::wake);
    }
}

impl Waiting {
    fn place(&mut self, number: u64) -> Option<&mut Option<Waker>> {
        let at = self.wakers.binary_search_by_key(&number, |(it, _)| *it);
        Some(&mut self.wakers.get_mut(at.ok()?)?.1)
    }
}

/// The future of a change. Made by [`Notify::notified`].
#[derive(Debug)]
#[must_use = "futures do nothing unless polled"]
pub struct Notified<'a> {
    notify: &'a Notify,
    changes: u64,
    number: Option<u64>,
}

impl Future for Notified<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut waiting = lock(&self.notify.0);
        if waiting.changes != self.changes {
            return Poll::Ready(());
        }
        let former = match self.number.and_then(|number| waiting.place(number)) {
            Some(Some(waker)) if waker.will_wake(cx.waker()) => None,
            Some(place) => place.replace(cx.waker().clone()),
            None => {
                waiting.last += 1;
                let number = waiting.last;
                waiting.wakers.push((number, Some(cx.waker().clone())));
                drop(waiting);
                self.number = Some(number);
                return Poll::Pending;
            }
        };
        // A waker may be the last handle of a task, whose futures take locks when they are dropped.
        drop(waiting);
        drop(former);
        Poll::Pending
    }
}

impl Drop for Notified<'_> {
    fn drop(&mut self) {
        let Some(number) = self.number else {
            return;
        };
        let mut waiting = lock(&self.notify.0);
        let former = waiting.place(number).and_then(Option::take);
        if former.is_some() {
            waiting.given_up += 1;
            // Otherwise one that waits long would keep all that come and go behind it.
            if waiting.given_up * 2 > waiting.wakers.len() {
                waiting.wakers.retain(|(_, waker)| waker.is_some());
                waiting.given_up = 0;
            }
        }
        drop(waiting);
        drop(former);
    }
}
