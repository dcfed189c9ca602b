//! Operations that the servers do not know, so that the machine does not send them again.
//!
//! A server that does not know an operation says so and closes the connection, with everything else
//! that is under way on it. Other servers close it without an answer. The machine believes it for
//! the next connection, which follows at once, and forgets it with the one after: servers are
//! restarted to be upgraded.
//!
//! Not here: what is known of operations (`probation`).

use std::time::Instant;

use lockkeeper_proto::{ErrorCode, OpCode, Xid, Zxid, header::ReplyHeader};

use super::in_flight::{InFlight, ReplyTo};
use crate::{
    Cause, Effect, Error, Lost, Peer, UnsupportedReason,
    machine::{Machine, State, link::connection::Connection},
};

/// The zxid in the header of such an answer. Source: `FinalRequestProcessor`,
/// `ZooKeeperServer.processPacket`.
const NO_TRANSACTION: Zxid = Zxid(-1);

/// Whether a reply says that the server does not know the operation.
///
/// Servers that know `createTTL` and `reconfig` and do not have them enabled answer with the same
/// code.
pub(crate) fn is_unknown(op: OpCode, header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED
        && (header.zxid == NO_TRANSACTION || !matches!(op, OpCode::CREATE_TTL | OpCode::RECONFIG))
}

impl<T> Machine<T> {
    /// Whether a reply says that the operation of any request under way is unknown. The server says
    /// so before it has answered the requests ahead of it.
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

    /// The server has closed the connection on the only request that was not answered: its
    /// operation counts as unknown.
    pub(crate) fn settle_unanswered(&mut self, connection: &mut Connection<T>, lost: &Lost) {
        let Some(InFlight {
            op,
            reply_to,
            options,
            number,
            ..
        }) = connection.in_flight.pop_front()
        else {
            return;
        };
        tracing::debug!(%op, %lost, "the server closes the connection on an operation, and does not seem to know it");
        let (reason, peer) = (UnsupportedReason::ClosedConnection, Peer::from(lost));
        self.unsupported.note(op, self.connections, reason, &peer);
        self.forget_deadline(&options, number);
        match reply_to {
            ReplyTo::Caller { .. } | ReplyTo::Nobody { .. } | ReplyTo::Auth { .. } => {
                let effect = if op.is_transaction() {
                    Effect::Unknown
                } else {
                    Effect::NotApplied
                };
                let error = Error::Unsupported {
                    op,
                    reason,
                    effect,
                    peer,
                };
                self.fail(op, reply_to, error);
            }
            ReplyTo::SetWatches { since, .. } if op == OpCode::SET_WATCHES2 => {
                self.session.not_watched(since);
                self.end_persistent(reason, &peer);
            }
            ReplyTo::SetWatches { .. } => self.end_one_shot(),
            ReplyTo::RemoveWatches | ReplyTo::Proof | ReplyTo::Close => {}
        }
    }
}
