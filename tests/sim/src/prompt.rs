//! Runs a task in the middle of another task of its process: as soon as that one wakes it, as a
//! second thread may.
//!
//! A client's task wakes callers one after the other while it hands over replies and events, and a
//! caller wakes the client's task with each request. Here the woken task sometimes runs before the
//! waking one goes on. Both must be right in any case.

use std::{
    cell::Cell,
    future::Future,
    pin::Pin,
    sync::{Arc, Mutex, PoisonError, TryLockError, Weak},
    task::{Context, Poll, Wake, Waker},
};

use crate::gate::Gate;

thread_local! {
    /// The process whose task is being polled: the address of its gate.
    static POLLED: Cell<usize> = const { Cell::new(0) };
}

/// A future that may run when it is woken, and not only when its owner polls it.
pub(crate) struct Prompt<F: Future> {
    inner: Arc<Inner<F>>,
    waker: Arc<PromptWaker>,
}

struct Inner<F: Future>(Mutex<Progress<F>>);

enum Progress<F: Future> {
    Running(Pin<Box<F>>),
    Ready(F::Output),
    Taken,
}

/// Runs the future, or at least wakes its owner.
struct PromptWaker {
    gate: Arc<Gate>,
    future: Weak<dyn Run>,
    owner: Mutex<Waker>,
}

trait Run: Send + Sync {
    /// Polls the future, unless it is being polled already.
    fn run(&self, waker: Waker);
}

impl<F> Prompt<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    pub(crate) fn new(gate: &Arc<Gate>, future: F) -> Self {
        let inner = Arc::new(Inner(Mutex::new(Progress::Running(Box::pin(future)))));
        let future: Weak<Inner<F>> = Arc::downgrade(&inner);
        let waker = PromptWaker {
            gate: gate.clone(),
            future,
            owner: Mutex::new(Waker::noop().clone()),
        };
        Self {
            inner,
            waker: Arc::new(waker),
        }
    }

    pub(crate) fn poll(&mut self, cx: &Context<'_>) -> Poll<F::Output> {
        let mut owner = (self.waker.owner.lock()).unwrap_or_else(PoisonError::into_inner);
        owner.clone_from(cx.waker());
        drop(owner);
        self.inner.run(Waker::from(self.waker.clone()));
        let mut progress = (self.inner.0.lock()).unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *progress, Progress::Taken) {
            Progress::Ready(output) => Poll::Ready(output),
            other => {
                *progress = other;
                Poll::Pending
            }
        }
    }
}

impl<F> Run for Inner<F>
where
    F: Future + Send,
    F::Output: Send,
{
    fn run(&self, waker: Waker) {
        let mut progress = match self.0.try_lock() {
            Ok(progress) => progress,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => return,
        };
        if let Progress::Running(future) = &mut *progress
            && let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker))
        {
            *progress = Progress::Ready(output);
        }
    }
}

impl Wake for PromptWaker {
    fn wake(self: Arc<Self>) {
        let owner = (self.owner.lock()).unwrap_or_else(PoisonError::into_inner);
        owner.wake_by_ref();
        drop(owner);
        if POLLED.get() == self.gate.address()
            && self.gate.runs_promptly()
            && let Some(future) = self.future.upgrade()
        {
            future.run(Waker::from(self));
        }
    }
}

/// Says that a task of this process is being polled.
pub(crate) fn polling<R>(gate: &Gate, poll: impl FnOnce() -> R) -> R {
    let before = POLLED.replace(gate.address());
    let polled = poll();
    POLLED.set(before);
    polled
}
