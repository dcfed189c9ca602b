//! Futures that run in the client's task. In each turn only those are polled that were woken: a
//! crowd that cleans up has thousands.
//!
//! Not here: what runs there (`Raw::run_in_background`).

use std::{
    mem,
    sync::Arc,
    task::{Context, Poll, Wake, Waker},
};

use super::sync::{
    BoxFuture,
    os::{Mutex, lock},
};

type Task = BoxFuture<'static, ()>;

/// The futures of one client.
#[derive(Default)]
pub(crate) struct Background {
    /// Each future has a place, and each place a waker of its own. A wake-up of a former future of
    /// the place polls the present one for nothing.
    places: Vec<(Option<Task>, Waker)>,
    free: Vec<usize>,
    woken: Arc<Woken>,
}

/// Which places were woken since the last turn, and who is to be told of the next one.
#[derive(Default)]
struct Woken(Mutex<(Vec<usize>, Option<Waker>)>);

struct PlaceWaker {
    place: usize,
    woken: Arc<Woken>,
}

impl Wake for PlaceWaker {
    fn wake(self: Arc<Self>) {
        let mut woken = lock(&self.woken.0);
        woken.0.push(self.place);
        let driver = woken.1.take();
        drop(woken);
        if let Some(driver) = driver {
            driver.wake();
        }
    }
}

impl Background {
    pub(crate) fn add(&mut self, task: Task) {
        let place = self.free.pop().unwrap_or(self.places.len());
        if let Some((free, _)) = self.places.get_mut(place) {
            *free = Some(task);
        } else {
            let woken = self.woken.clone();
            let waker = Waker::from(Arc::new(PlaceWaker { place, woken }));
            self.places.push((Some(task), waker));
        }
        lock(&self.woken.0).0.push(place);
    }

    /// Polls the futures that were woken. True if others were woken by that.
    pub(crate) fn run(&mut self, cx: &Context<'_>) -> bool {
        if self.places.is_empty() {
            return false;
        }
        let woken = mem::take(&mut lock(&self.woken.0).0);
        for place in woken {
            if let Some((task, waker)) = self.places.get_mut(place)
                && let Some(running) = task
                && let Poll::Ready(()) = running.as_mut().poll(&mut Context::from_waker(waker))
            {
                *task = None;
                self.free.push(place);
            }
        }
        let mut woken = lock(&self.woken.0);
        let has_more = !woken.0.is_empty();
        woken.1 = (!has_more).then(|| cx.waker().clone());
        has_more
    }

    /// Drops all futures, in the order of their places.
    pub(crate) fn clear(&mut self) {
        self.free.clear();
        for place in mem::take(&mut self.places) {
            drop(place);
        }
    }
}
