//! Requests that were sent on a connection, and which of them a reply answers.
//!
//! Invariant: replies come in the order of the requests, and answers to identities in their own
//! order, ahead of requests that the server has not processed yet. A reply whose xid is not that of
//! the oldest request ends the connection.

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{OpCode, Xid, header::ReplyHeader};

use super::overtakes;
use crate::machine::{encoded::Asked, output::RequestOptions, spare::give_back};

/// A request that was handed to the transport.
#[derive(Debug)]
pub(crate) struct Sent<R> {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) asked: Asked,
    /// When it was handed over. The server cannot have received it earlier.
    pub(crate) at: Instant,
    pub(crate) reply_to: R,
    pub(super) options: Option<RequestOptions>,
    /// As in the queue. It grows from the oldest to the newest.
    pub(crate) number: u64,
}

/// The requests that are not answered, oldest first.
#[derive(Debug)]
pub(super) struct InFlight<R> {
    sent: VecDeque<Sent<R>>,
    /// When the last request was answered, or else when the connection was established.
    last_answered: Instant,
}

impl<R> InFlight<R> {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sent: VecDeque::new(),
            last_answered: now,
        }
    }

    pub(super) fn len(&self) -> usize {
        self.sent.len()
    }

    pub(super) fn push(&mut self, sent: Sent<R>) {
        self.sent.push_back(sent);
    }

    /// The oldest request, except for identities.
    pub(super) fn oldest(&self) -> Option<&Sent<R>> {
        self.sent.iter().find(|sent| sent.xid != Xid::AUTH)
    }

    /// Since when the server could have answered the oldest request, or the oldest identity, which
    /// waits for no request.
    pub(super) fn waits_since(&self) -> Option<Instant> {
        let oldest = self.sent.front()?;
        if oldest.xid == Xid::AUTH {
            return Some(oldest.at);
        }
        let identity = self.sent.iter().find(|sent| sent.xid == Xid::AUTH);
        let request = oldest.at.max(self.last_answered);
        Some(identity.map_or(request, |identity| request.min(identity.at)))
    }

    fn position(&self, is_it: impl Fn(Xid) -> bool) -> Option<usize> {
        let mut places = 0..self.sent.len();
        places.find(|at| self.sent.get(*at).is_some_and(|sent| is_it(sent.xid)))
    }

    /// The place of the request that is answered: the oldest identity for an answer to one; for any
    /// other the oldest request, whose number it must have. Only the answer that the server does not
    /// know an operation may overtake others.
    ///
    /// # Errors
    /// The number of the request whose reply should have come.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        header: Option<&ReplyHeader>,
    ) -> Result<usize, Option<Xid>> {
        let got = header.map(|header| header.xid);
        if header.is_some_and(overtakes)
            && let Some(at) = self.position(|xid| Some(xid) == got)
        {
            return Ok(at);
        }
        let is_identity = got == Some(Xid::AUTH);
        let at = self.position(|xid| (xid == Xid::AUTH) == is_identity);
        let at = at.ok_or(None)?;
        let expected = self.sent.get(at).map(|sent| sent.xid);
        if got.is_some() && got != expected {
            return Err(expected);
        }
        if !is_identity {
            // The time of those behind it counts from here: replies come in order, so the server
            // could not have answered them earlier.
            self.last_answered = now;
        }
        Ok(at)
    }

    /// Takes out the request at this place. Mostly it is the oldest of all. Inline, as a request is
    /// long.
    #[inline]
    pub(super) fn take(&mut self, at: usize) -> Option<Sent<R>> {
        match at {
            0 => self.sent.pop_front(),
            at => self.sent.remove(at),
        }
    }

    /// The request with this number.
    pub(super) fn find(&mut self, number: u64) -> Option<&mut Sent<R>> {
        let found = self.sent.binary_search_by_key(&number, |sent| sent.number);
        self.sent.get_mut(found.ok()?)
    }

    /// Frees the room that a burst has left.
    pub(super) fn give_back_room(&mut self) {
        give_back(&mut self.sent);
    }
}
