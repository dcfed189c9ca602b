//! What the world must hear of, in order, and what is counted on the way.

use std::collections::VecDeque;

use lockkeeper_proto::{OpCode, Response};

use super::{
    Event, Metrics, Notice, Output, Snapshot, State, WatchId, spare::give_back, watches::Tell,
};
use crate::Error;

/// Outputs that the world has not taken yet.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    queue: VecDeque<Output<T>>,
    /// The state that was reported last.
    state: State,
    /// The counters. A snapshot fills in what other parts know.
    metrics: Metrics,
}

impl<T> Outbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            state: State::Connecting,
            metrics: Metrics::default(),
        }
    }

    pub(crate) fn push(&mut self, output: Output<T>) {
        self.queue.push_back(output);
    }

    pub(crate) fn pop(&mut self) -> Option<Output<T>> {
        self.queue.pop_front()
    }

    pub(crate) fn state(&self) -> State {
        self.state
    }

    /// Reports a session whose state has changed.
    pub(crate) fn report(&mut self, snapshot: Snapshot) {
        self.state = snapshot.state;
        self.push(Output::State(snapshot));
    }

    /// Gives a caller the result of its request.
    pub(crate) fn complete(&mut self, op: OpCode, token: T, result: Result<Response, Error>) {
        self.metrics.settled(result.as_ref().err());
        let result = result.map_err(|error| error.of(op));
        if let Err(error) = &result
            && error.code().is_none()
        {
            tracing::trace!(%op, %error, "request failed");
        }
        self.push(Output::Completed(token, result));
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    pub(crate) fn metrics_mut(&mut self) -> &mut Metrics {
        &mut self.metrics
    }

    /// Frees the room that a burst has left.
    pub(crate) fn give_back_room(&mut self) {
        give_back(&mut self.queue);
    }
}

impl<T> Tell for Outbox<T> {
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>) {
        self.push(Output::Watch(id, last));
    }

    fn notice(&mut self, id: WatchId, notice: Notice) {
        self.push(Output::Notice(id, notice));
    }
}
