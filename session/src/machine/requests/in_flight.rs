//! Requests that were sent on a connection: what each reply is for.
//!
//! Invariant: replies come in the order of the requests, and answers to identities in their own
//! order, ahead of requests that the server has not processed yet. A reply whose xid is not that of
//! the oldest request ends the connection.

use std::{collections::VecDeque, time::Instant};

use lockkeeper_proto::{OpCode, Xid, Zxid};

use super::asked::Asked;
use crate::machine::{RequestOptions, WatchId, spare::give_back, watches::PendingWatch};

/// A request that was handed to the transport.
#[derive(Debug)]
pub(crate) struct Sent<T> {
    pub(crate) xid: Xid,
    pub(crate) op: OpCode,
    pub(crate) asked: Asked,
    /// When it was handed over. The server cannot have received it earlier.
    pub(crate) at: Instant,
    pub(crate) reply_to: ReplyTo<T>,
    pub(crate) options: RequestOptions,
    /// As in the queue. It grows from the oldest to the newest.
    pub(crate) number: u64,
}

/// What a reply is for.
#[derive(Debug)]
pub(crate) enum ReplyTo<T> {
    /// The caller, and the watch that the request leaves. `None` when the deadline of the caller has
    /// come. The request may still leave a watch.
    Caller(Option<T>, Option<PendingWatch>),
    /// An identity of this scheme. `None` for one that each connection sends.
    Identity(Option<T>, String),
    /// The machine.
    Own(Own),
}

/// What the machine asks for. It is not sent again on another connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// It restores watches, or sets new ones on existing nodes. The server reports changes newer
    /// than `since`.
    SetWatches { since: Zxid, restore: bool },
    /// It removes a watch without listeners.
    RemoveWatches,
    /// It keeps the lease proved.
    Proof,
    /// It ends the session.
    Close,
}

impl<T> ReplyTo<T> {
    /// Whether somebody waits for the reply: such a request outlives a connection if it was not sent.
    pub(crate) fn has_caller(&self) -> bool {
        matches!(self, Self::Caller(..) | Self::Identity(Some(_), _))
    }

    /// What the machine asks for, if it is a request of its own.
    pub(crate) fn own(&self) -> Option<Own> {
        match self {
            Self::Own(own) => Some(*own),
            _ => None,
        }
    }
}

impl<T> Sent<T> {
    /// The listener to the watch that the request leaves.
    pub(crate) fn watch(&self) -> Option<WatchId> {
        match &self.reply_to {
            ReplyTo::Caller(_, Some(watch)) => Some(watch.id()),
            _ => None,
        }
    }
}

/// The requests that are not answered, oldest first.
#[derive(Debug)]
pub(crate) struct InFlight<T> {
    sent: VecDeque<Sent<T>>,
    /// When the last request was answered, or else when the connection was established.
    last_answered: Instant,
}

impl<T> InFlight<T> {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            sent: VecDeque::new(),
            last_answered: now,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.sent.len()
    }

    /// Whether everything that was sent is answered, except for pings.
    pub(crate) fn is_idle(&self) -> bool {
        self.sent.is_empty()
    }

    pub(crate) fn push(&mut self, sent: Sent<T>) {
        self.sent.push_back(sent);
    }

    /// The oldest request, if it is the machine's own.
    pub(crate) fn oldest_own(&self) -> Option<(OpCode, Own)> {
        let mut requests = self.sent.iter().filter(|sent| sent.xid != Xid::AUTH);
        let oldest = requests.next()?;
        Some((oldest.op, oldest.reply_to.own()?))
    }

    /// Since when the server could have answered the oldest request, or the oldest identity, which
    /// waits for no request.
    pub(crate) fn waits_since(&self) -> Option<Instant> {
        let oldest = self.sent.front()?;
        if oldest.xid == Xid::AUTH {
            return Some(oldest.at);
        }
        let identity = self.sent.iter().find(|sent| sent.xid == Xid::AUTH);
        let request = oldest.at.max(self.last_answered);
        Some(identity.map_or(request, |identity| request.min(identity.at)))
    }

    fn position(&self, is_it: impl Fn(Xid) -> bool) -> Option<usize> {
        self.sent.iter().position(|sent| is_it(sent.xid))
    }

    /// Takes out the oldest identity, which is answered.
    pub(crate) fn identity_answered(&mut self) -> Option<Sent<T>> {
        let at = self.position(|xid| xid == Xid::AUTH)?;
        self.sent.remove(at)
    }

    /// Takes out the oldest request, which is answered, if it has this number; `None` for any.
    /// Otherwise returns its number.
    pub(crate) fn answered(
        &mut self,
        now: Instant,
        got: Option<Xid>,
    ) -> Result<Sent<T>, Option<Xid>> {
        let at = self.position(|xid| xid != Xid::AUTH).ok_or(None)?;
        let expected = self.sent.get(at).map(|sent| sent.xid);
        if got.is_some() && got != expected {
            return Err(expected);
        }
        // The time of those behind it counts from here: replies come in order, so the server could
        // not have answered them earlier.
        self.last_answered = now;
        self.sent.remove(at).ok_or(expected)
    }

    pub(crate) fn has(&self, xid: Xid) -> bool {
        self.position(|other| other == xid).is_some()
    }

    /// Takes out this request, whose answer has overtaken others.
    pub(crate) fn overtaken(&mut self, xid: Xid) -> Option<Sent<T>> {
        let at = self.position(|other| other == xid)?;
        self.sent.remove(at)
    }

    /// The deadline of the caller of this request has come: it is told, and its reply is ignored.
    /// Returns the request, and its caller.
    pub(crate) fn abandon(&mut self, number: u64) -> Option<(&Sent<T>, T)> {
        let found = self.sent.binary_search_by_key(&number, |sent| sent.number);
        let sent = self.sent.get_mut(found.ok()?)?;
        let ReplyTo::Caller(caller, _) = &mut sent.reply_to else {
            return None;
        };
        let caller = caller.take()?;
        Some((sent, caller))
    }

    /// Frees the room that a burst has left.
    pub(crate) fn give_back_room(&mut self) {
        give_back(&mut self.sent);
    }

    /// Everything that was not answered: the connection is over.
    pub(crate) fn into_lost(self) -> impl Iterator<Item = Sent<T>> {
        self.sent.into_iter()
    }
}
