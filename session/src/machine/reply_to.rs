//! What a reply is for, and how the watches speak to the world and to the requests.

use super::{
    Encoded, Event, Notice, Output, WatchId,
    output::Outbox,
    requests::Requests,
    watches::{Ask, PendingWatch, Tell},
};
use crate::Error;

/// What a reply is for.
#[derive(Debug)]
pub(super) enum ReplyTo<T> {
    /// The caller, and the watch that the request leaves. `None` when the deadline of the caller has
    /// come. The request may still leave a watch.
    Caller(Option<T>, Option<PendingWatch>),
    /// An identity of this scheme. `None` for one that each connection sends.
    Identity(Option<T>, String),
    /// The watches.
    Watches(Ask),
    /// The lease: the request keeps it proved.
    Proof,
    /// The end of the session.
    Close,
}

/// What the watches say goes to these.
pub(super) struct Voice<'a, T> {
    pub(super) out: &'a mut Outbox<T>,
    pub(super) requests: &'a mut Requests<ReplyTo<T>>,
}

impl<T> Tell for Voice<'_, T> {
    fn tell(&mut self, id: WatchId, last: Result<Event, Error>) {
        self.out.push(Output::Watch(id, last));
    }

    fn notice(&mut self, id: WatchId, notice: Notice) {
        self.out.push(Output::Notice(id, notice));
    }

    fn send(&mut self, request: Encoded, ask: Ask) -> Result<u64, Error> {
        match self.requests.unsupported(request.op()) {
            Some(error) => Err(error),
            None => Ok(self.requests.push(request, ReplyTo::Watches(ask), None)),
        }
    }
}
