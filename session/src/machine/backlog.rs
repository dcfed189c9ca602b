//! Requests that were not handed to the transport yet: their order, their bytes, the terms on which they were made.
//!
//! Invariant: the numbers of the requests grow from front to back, so that one of them is found by its number.
//! Not here: what is on its way (`in_flight`), who waits for room (`client::room`).

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{Request, multi::MultiOp};

use super::Purpose;

/// On what terms a request is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Terms {
    /// Since when the caller waits; not before the machine began.
    pub since: Instant,
    /// When the caller waits no longer; `None` for as long as the session's own limits let it.
    pub deadline: Option<Instant>,
    /// Whether it fails where it would have to wait for a connection.
    pub fail_fast: bool,
}

impl Terms {
    /// Without a deadline, and waiting for a connection.
    #[must_use]
    pub fn patient(since: Instant) -> Self {
        Self {
            since,
            deadline: None,
            fail_fast: false,
        }
    }
}

/// A request that was not handed to the transport yet.
#[derive(Debug)]
pub(super) struct Queued<T> {
    pub(super) request: Request,
    pub(super) purpose: Purpose<T>,
    pub(super) terms: Terms,
    /// Unique among the requests of callers; 0 for watches that are restored.
    pub(super) number: u64,
    weight: usize,
}

impl<T> Queued<T> {
    /// A request of the machine's own that is sent right behind this one.
    pub(super) fn behind(&self, request: Request, now: Instant) -> Self {
        Self {
            request,
            purpose: Purpose::SetWatches { restore: false },
            terms: Terms::patient(now),
            number: self.number + 1,
            weight: 0,
        }
    }
}

/// All of them, oldest first.
#[derive(Debug)]
pub(super) struct Backlog<T> {
    queue: VecDeque<Queued<T>>,
    bytes: usize,
    last_number: u64,
}

impl<T> Backlog<T> {
    pub(super) fn new() -> Self {
        Self {
            queue: VecDeque::new(),
            bytes: 0,
            last_number: 0,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.queue.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.queue.is_empty()
    }

    /// The bytes of the requests of callers, as [`request_bytes`] counts them.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The oldest request.
    pub(super) fn first(&self) -> Option<&Request> {
        self.queue.front().map(|queued| &queued.request)
    }

    /// The terms of the oldest request.
    pub(super) fn oldest(&self) -> Option<&Terms> {
        self.queue.front().map(|queued| &queued.terms)
    }

    /// Puts a request behind all others, and returns its number.
    pub(super) fn push(&mut self, request: Request, purpose: Purpose<T>, terms: Terms) -> u64 {
        // Between two numbers there is one for what the first request makes necessary.
        self.last_number += 2;
        let weight = match &purpose {
            Purpose::Caller { .. } => request_bytes(&request),
            _ => 0,
        };
        self.bytes += weight;
        self.queue.push_back(Queued {
            request,
            purpose,
            terms,
            number: self.last_number,
            weight,
        });
        self.last_number
    }

    /// Puts requests of the machine itself before all others, in this order.
    pub(super) fn put_first(&mut self, requests: Vec<(Request, Purpose<T>)>, now: Instant) {
        for (request, purpose) in requests.into_iter().rev() {
            self.queue.push_front(Queued {
                request,
                purpose,
                terms: Terms::patient(now),
                number: 0,
                weight: 0,
            });
        }
    }

    /// Takes out the oldest request.
    pub(super) fn pop(&mut self) -> Option<Queued<T>> {
        let queued = self.queue.pop_front()?;
        self.bytes -= queued.weight;
        Some(queued)
    }

    /// Takes out the request of this number.
    pub(super) fn withdraw(&mut self, number: u64) -> Option<Queued<T>> {
        let index = (self.queue)
            .binary_search_by_key(&number, |queued| queued.number)
            .ok()?;
        let queued = self.queue.remove(index)?;
        self.bytes -= queued.weight;
        Some(queued)
    }

    /// Takes out those that do not outlive a connection: the machine's own, and those that do not wait for another one.
    pub(super) fn disconnect(&mut self) -> VecDeque<Queued<T>> {
        let stays = |queued: &Queued<T>| queued.purpose.is_a_callers() && !queued.terms.fail_fast;
        if self.queue.iter().all(stays) {
            return VecDeque::new();
        }
        let (stay, go): (VecDeque<_>, VecDeque<_>) = self.queue.drain(..).partition(stays);
        self.queue = stay;
        self.bytes = self.queue.iter().map(|queued| queued.weight).sum();
        go
    }

    /// Takes out all of them.
    pub(super) fn take(&mut self) -> VecDeque<Queued<T>> {
        self.bytes = 0;
        std::mem::take(&mut self.queue)
    }
}

/// The bytes of a request's paths and data: nearly what it takes on the wire, and never more.
#[must_use]
pub fn request_bytes(request: &Request) -> usize {
    let data = |data: &Option<bytes::Bytes>| data.as_ref().map_or(0, bytes::Bytes::len);
    match request {
        Request::Create(r) | Request::Create2(r) | Request::CreateContainer(r) => {
            r.path.len() + data(&r.data)
        }
        Request::CreateTtl(r) => r.path.len() + data(&r.data),
        Request::SetData(r) => r.path.len() + data(&r.data),
        Request::Delete(r) => r.path.len(),
        Request::Exists(r) => r.path.len(),
        Request::GetData(r) => r.path.len(),
        Request::GetChildren(r) | Request::GetChildren2(r) => r.path.len(),
        Request::Sync(r) => r.path.len(),
        Request::Multi(r) => r.ops.iter().map(op_weight).sum(),
        // Small, or rare.
        _ => 0,
    }
}

fn op_weight(op: &MultiOp) -> usize {
    let data = |data: &Option<bytes::Bytes>| data.as_ref().map_or(0, bytes::Bytes::len);
    // Before each operation stands a header: type, whether it is the last one, error code.
    let header = 9;
    header
        + match op {
            MultiOp::Create(r) | MultiOp::Create2(r) | MultiOp::CreateContainer(r) => {
                r.path.len() + data(&r.data)
            }
            MultiOp::CreateTtl(r) => r.path.len() + data(&r.data),
            MultiOp::SetData(r) => r.path.len() + data(&r.data),
            MultiOp::Delete(r) => r.path.len(),
            MultiOp::Check(r) => r.path.len(),
            _ => 0,
        }
}
