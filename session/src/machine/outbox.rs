//! What the world must hear of, in order, and what is counted on the way.

use std::collections::VecDeque;

use lockkeeper_proto::{OpCode, Response};

use super::{Metrics, Output, spare::give_back};
use crate::Error;

/// Outputs that the world has not taken yet.
#[derive(Debug)]
pub(crate) struct Outbox<T> {
    queue: VecDeque<Output<T>>,
    /// The counters. A snapshot fills in what other parts know.
    metrics: Metrics,
}

impl<T> Outbox<T> {
    pub(crate) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            metrics: Metrics::default(),
        }
    }

    pub(crate) fn push(&mut self, output: Output<T>) {
        self.queue.push_back(output);
    }

    pub(crate) fn pop(&mut self) -> Option<Output<T>> {
        self.queue.pop_front()
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
