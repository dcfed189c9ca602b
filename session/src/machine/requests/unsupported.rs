//! Operations that the servers do not know, so that they are not asked for again.
//!
//! A server answers an operation that it does not know and closes the connection, with whatever else is on its way; others
//! close it without an answer (`probation`). What is known of that holds for the next connection, which follows at once; it is forgotten with the one after it, since servers
//! are restarted to be upgraded.

use std::collections::HashMap;

use lockkeeper_proto::{ErrorCode, OpCode, Xid, Zxid, header::ReplyHeader};

use crate::machine::{Machine, ReplyTo};
use crate::{Cause, Effect, Error, Peer};

/// What a server answers in place of how far it is when it does not know the operation. Source:
/// `FinalRequestProcessor`, `ZooKeeperServer.processPacket`.
const NO_TRANSACTION: Zxid = Zxid(-1);

/// What shows that a server does not know an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum UnsupportedReason {
    /// It said so.
    Answered,
    /// It has closed the connection in place of an answer, more than once; the last time nothing else was on its way, and it
    /// had answered something right before.
    ClosedConnection,
}

/// The operations that count as unknown.
#[derive(Debug, Default)]
pub(crate) struct Unsupported {
    ops: HashMap<OpCode, Unknown>,
}

#[derive(Debug)]
struct Unknown {
    /// Up to which connection.
    until: u64,
    reason: UnsupportedReason,
    /// Which server did not know it.
    peer: Peer,
}

impl Unsupported {
    /// A server does not know the operation, on the connection of this number.
    pub(crate) fn note(
        &mut self,
        op: OpCode,
        connection: u64,
        reason: UnsupportedReason,
        peer: &Peer,
    ) {
        let unknown = Unknown {
            until: connection + 1,
            reason,
            peer: peer.clone(),
        };
        self.ops.insert(op, unknown);
    }

    /// The connection of this number stands.
    pub(crate) fn connected(&mut self, connection: u64) {
        self.ops.retain(|_, unknown| unknown.until >= connection);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(crate) fn includes(&self, op: OpCode) -> bool {
        self.ops.contains_key(&op)
    }

    /// What whoever asks for the operation is told; nothing is sent.
    pub(crate) fn refusal(&self, op: OpCode) -> Option<Error> {
        let unknown = self.ops.get(&op)?;
        Some(Error::Unsupported {
            op,
            reason: unknown.reason,
            effect: Effect::NotApplied,
            peer: unknown.peer.clone(),
        })
    }
}

/// Whether a reply says that the server does not know the operation.
///
/// `createTTL` and `reconfig` are also answered so by servers that know them and are not set up for them.
pub(crate) fn is_unknown(op: OpCode, header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED
        && (header.zxid == NO_TRANSACTION || !matches!(op, OpCode::CREATE_TTL | OpCode::RECONFIG))
}

impl<T> Machine<T> {
    /// Whether a reply of this number says that its operation is unknown, wherever the request is in the line: the
    /// server says so before it has come to the requests ahead of it.
    pub(crate) fn says_unknown(&self, header: &ReplyHeader) -> bool {
        header.zxid == NO_TRANSACTION
            && header.err == ErrorCode::UNIMPLEMENTED
            && self.position(header.xid).is_some()
    }

    fn position(&self, xid: Xid) -> Option<usize> {
        self.in_flight.iter().position(|request| request.xid == xid)
    }

    /// Settles the request of this number: the server does not know its operation.
    pub(crate) fn unknown_operation(&mut self, now: std::time::Instant, xid: Xid) {
        let position = self.position(xid);
        let Some(request) = position.and_then(|position| self.in_flight.remove(position)) else {
            return;
        };
        self.forget_deadline(&request.options, request.number);
        self.settle_unknown(now, request.op, request.reply_to);
    }

    /// Settles a request whose operation the server does not know.
    pub(crate) fn settle_unknown(
        &mut self,
        now: std::time::Instant,
        op: OpCode,
        reply_to: ReplyTo<T>,
    ) {
        tracing::debug!(%op, "the server does not know the operation");
        let (reason, peer) = (UnsupportedReason::Answered, self.peer());
        self.unsupported.note(op, self.connections, reason, &peer);
        match reply_to {
            ReplyTo::Caller { .. } | ReplyTo::Nobody { .. } | ReplyTo::Auth { .. } => {
                let error = Error::Unsupported {
                    op,
                    reason,
                    effect: Effect::NotApplied,
                    peer,
                };
                self.fail(op, reply_to, error);
            }
            ReplyTo::SetWatches { .. } => {
                if op == OpCode::SET_WATCHES2 {
                    self.end_persistent(reason, &peer);
                }
                self.give_up(now, Cause::WatchesRefused(ErrorCode::UNIMPLEMENTED));
            }
            ReplyTo::RemoveWatches => {}
            ReplyTo::Close => self.end(crate::machine::State::Closed, Cause::ByClient),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_does_not_know_is_believed_for_one_more_connection() {
        let mut unsupported = Unsupported::default();
        let (op, peer) = (OpCode::WHO_AM_I, Peer::default());
        unsupported.note(op, 3, UnsupportedReason::Answered, &peer);
        assert!(unsupported.includes(OpCode::WHO_AM_I));
        assert!(!unsupported.includes(OpCode::MULTI_READ));
        unsupported.connected(4);
        assert!(unsupported.includes(OpCode::WHO_AM_I));
        unsupported.connected(5);
        assert!(!unsupported.includes(OpCode::WHO_AM_I));
    }
}
