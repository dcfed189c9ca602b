//! Stops, resumes and kills all tasks of one simulated process. Also delays polls at random, like
//! an unfair scheduler.

use std::{
    future::Future,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::{Context, Poll, Waker},
};

use tokio::time::Instant;

use crate::{
    prompt::{self, Prompt},
    rng::Rng,
};

/// How many polls of one process within one virtual millisecond count as an endless loop.
const ENDLESS_POLLS: u64 = 200_000;

/// How often one poll may look at the clock. Whatever a client does, it looks at its clock: more is
/// an endless loop.
const ENDLESS_LOOKS: u64 = 100_000;

/// The gate of one process. Its tasks run only while the process is neither paused nor dead.
#[derive(Debug)]
pub(crate) struct Gate {
    state: Mutex<State>,
    /// How often the present poll of a task has looked at the clock.
    looks: AtomicU64,
    /// Whether one has looked without end.
    has_looped: AtomicBool,
}

#[derive(Debug)]
struct State {
    paused: bool,
    dead: bool,
    rng: Rng,
    yield_per_mille: u64,
    prompt_per_mille: u64,
    /// For each task: the waker to call when the process resumes or dies.
    tasks: Vec<Option<Waker>>,
    at: Instant,
    polls: u64,
}

impl Gate {
    pub(crate) fn new(rng: Rng, yield_per_mille: u64, prompt_per_mille: u64) -> Arc<Self> {
        let state = State {
            paused: false,
            dead: false,
            rng,
            yield_per_mille,
            prompt_per_mille,
            tasks: Vec::new(),
            at: Instant::now(),
            polls: 0,
        };
        Arc::new(Self {
            state: Mutex::new(state),
            looks: AtomicU64::new(0),
            has_looped: AtomicBool::new(false),
        })
    }

    /// The client looks at its clock.
    ///
    /// # Panics
    /// Once, if one poll does so without end. Not again, since a task that panics still cleans up.
    pub(crate) fn looks_at_clock(&self) {
        if self.looks.fetch_add(1, Ordering::Relaxed) == ENDLESS_LOOKS {
            self.has_looped.store(true, Ordering::Relaxed);
            panic!("a client loops: it looks at its clock {ENDLESS_LOOKS} times in one poll");
        }
    }

    /// Whether a task of the process has ended because of a loop. Then the process is of no use.
    pub(crate) fn has_looped(&self) -> bool {
        self.has_looped.load(Ordering::Relaxed)
    }

    pub(crate) fn set_paused(&self, paused: bool) {
        let mut state = self.lock();
        state.paused = paused;
        if !paused {
            state.wake_all();
        }
    }

    pub(crate) fn kill(&self) {
        let mut state = self.lock();
        state.dead = true;
        state.wake_all();
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.lock().dead
    }

    /// What tells this process from others.
    pub(crate) fn address(&self) -> usize {
        std::ptr::from_ref(self).addr()
    }

    /// Whether a task that is woken now runs at once.
    pub(crate) fn runs_promptly(&self) -> bool {
        let mut state = self.lock();
        let per_mille = state.prompt_per_mille;
        let may_run = per_mille > 0 && !state.paused && !state.dead;
        may_run && state.rng.chance(per_mille)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn wake_all(&mut self) {
        for waker in self.tasks.iter_mut().filter_map(Option::take) {
            waker.wake();
        }
    }
}

/// A task of a process. It returns `None` when the process dies.
pub(crate) struct Task<F: Future> {
    gate: Arc<Gate>,
    slot: usize,
    inner: Option<Prompt<F>>,
}

impl<F> Task<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    pub(crate) fn new(gate: &Arc<Gate>, inner: F) -> Self {
        let mut state = gate.lock();
        state.tasks.push(None);
        Self {
            slot: state.tasks.len() - 1,
            gate: gate.clone(),
            inner: Some(Prompt::new(gate, inner)),
        }
    }
}

impl<F> Future for Task<F>
where
    F: Future + Send + 'static,
    F::Output: Send,
{
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        let mut state = this.gate.lock();
        if state.dead {
            drop(state);
            this.inner = None;
            return Poll::Ready(None);
        }
        let now = Instant::now();
        if state.at < now {
            (state.at, state.polls) = (now, 0);
        }
        state.polls += 1;
        assert!(
            state.polls < ENDLESS_POLLS,
            "a client loops: {ENDLESS_POLLS} polls in 1 ms"
        );
        if let Some(slot) = state.tasks.get_mut(this.slot) {
            *slot = Some(cx.waker().clone());
        }
        if state.paused {
            return Poll::Pending;
        }
        let per_mille = state.yield_per_mille;
        if per_mille > 0 && state.rng.chance(per_mille) {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        drop(state);
        this.gate.looks.store(0, Ordering::Relaxed);
        match &mut this.inner {
            Some(inner) => prompt::polling(&this.gate, || inner.poll(cx)).map(Some),
            None => Poll::Ready(None),
        }
    }
}

/// Polls a future at most `polls` times. If it is still pending then, drops it and returns `None`.
pub(crate) async fn at_most<F: Future>(polls: u64, future: F) -> Option<F::Output> {
    let mut future = Box::pin(future);
    let mut left = polls;
    std::future::poll_fn(|cx| {
        let polled = future.as_mut().poll(cx).map(Some);
        left = left.saturating_sub(1);
        if polled.is_pending() && left == 0 {
            return Poll::Ready(None);
        }
        polled
    })
    .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[should_panic(expected = "a client loops: it looks at its clock")]
    fn a_loop_inside_one_poll_is_found() {
        let gate = Gate::new(Rng::from_seed(1), 0, 0);
        let looping = gate.clone();
        let task = Task::new(&gate, async move {
            loop {
                looping.looks_at_clock();
            }
        });
        let mut cx = Context::from_waker(Waker::noop());
        let _ = Box::pin(task).as_mut().poll(&mut cx);
    }
}
