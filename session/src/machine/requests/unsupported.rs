//! Operations that the servers do not know, so that the machine does not send them again.
//!
//! A server that does not know an operation says so and closes the connection, with everything else that is under way on it.
//! Other servers close it without an answer (`probation`). The machine believes it for the next connection, which follows at
//! once, and forgets it with the one after: servers are restarted to be upgraded.

use std::{collections::HashMap, time::Instant};

use lockkeeper_proto::{ErrorCode, OpCode, Xid, Zxid, header::ReplyHeader};

use super::in_flight::ReplyTo;
use crate::{
    Cause, Effect, Error, Peer,
    machine::{Machine, State},
};

/// The zxid in the header of such an answer. Source: `FinalRequestProcessor`, `ZooKeeperServer.processPacket`.
const NO_TRANSACTION: Zxid = Zxid(-1);

/// Why an operation counts as unknown to a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum UnsupportedReason {
    /// The server answered that it does not know the operation.
    Answered,
    /// The server closed the connection instead of answering, more than once. The last time nothing else was under way, and
    /// the server had answered something just before.
    ClosedConnection,
}

/// The operations that count as unknown.
#[derive(Debug, Default)]
pub(crate) struct Unsupported {
    ops: HashMap<OpCode, Unknown>,
}

#[derive(Debug)]
struct Unknown {
    /// The last connection on which this is believed.
    until: u64,
    reason: UnsupportedReason,
    /// The server that did not know the operation.
    peer: Peer,
}

impl Unsupported {
    /// A server did not know the operation, on the connection of this number.
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

    /// The connection of this number is established.
    pub(crate) fn connected(&mut self, connection: u64) {
        self.ops.retain(|_, unknown| unknown.until >= connection);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.ops.is_empty()
    }

    pub(crate) fn includes(&self, op: OpCode) -> bool {
        self.ops.contains_key(&op)
    }

    /// The error for a caller of an unknown operation. Nothing is sent.
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
/// Servers that know `createTTL` and `reconfig` and do not have them enabled answer with the same code.
pub(crate) fn is_unknown(op: OpCode, header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED
        && (header.zxid == NO_TRANSACTION || !matches!(op, OpCode::CREATE_TTL | OpCode::RECONFIG))
}

impl<T> Machine<T> {
    /// Whether a reply says that the operation of any request under way is unknown. The server says so before it has
    /// answered the requests ahead of it.
    pub(crate) fn says_unknown(&self, header: &ReplyHeader) -> bool {
        header.zxid == NO_TRANSACTION
            && header.err == ErrorCode::UNIMPLEMENTED
            && self.position(header.xid).is_some()
    }

    fn position(&self, xid: Xid) -> Option<usize> {
        let mut in_flight = self.connection.as_ref()?.in_flight.iter();
        in_flight.position(|request| request.xid == xid)
    }

    /// Settles the request of this number: the server does not know its operation.
    pub(crate) fn unknown_operation(&mut self, now: Instant, xid: Xid) {
        let position = self.position(xid);
        let Some(connection) = &mut self.connection else {
            return;
        };
        if let Some(request) = position.and_then(|at| connection.in_flight.remove(at)) {
            self.write_answered(now, &request, None);
            self.forget_deadline(&request.options, request.number);
            self.settle_unknown(now, request.op, request.reply_to);
        }
    }

    /// Settles a request whose operation the server does not know.
    pub(crate) fn settle_unknown(&mut self, now: Instant, op: OpCode, reply_to: ReplyTo<T>) {
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
            ReplyTo::SetWatches { since, .. } => {
                self.session.not_watched(since);
                if op == OpCode::SET_WATCHES2 {
                    self.end_persistent(reason, &peer);
                }
                self.give_up(now, Cause::WatchesRefused(ErrorCode::UNIMPLEMENTED));
            }
            ReplyTo::RemoveWatches | ReplyTo::Proof => {}
            ReplyTo::Close => self.end(State::Closed, Cause::ByClient),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_stays_unknown_for_one_more_connection() {
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
