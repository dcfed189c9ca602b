//! Servers that close the connection on an operation that they do not know, instead of answering: `ClickHouse` Keeper,
//! and servers like it.
//!
//! A connection that ends while an operation is unanswered proves nothing. So the operation becomes a suspect, if no
//! server has answered it yet. The next time it is sent alone: the server has answered something on that connection, a
//! ping if nothing else, and has nothing else to answer. If the server closes the connection again, [`limit`] times,
//! the operation counts as unknown, as if the server had said so (`unsupported`). The machine repeats no request for
//! this: the next time is when a caller submits the operation again, or when watches are restored.
//!
//! A server may close the connection on every operation, or know fewer than the one before. So after several
//! connections in a row that ended without any answer, the machine forgets what it knew of operations.

use std::time::Instant;

use bytes::BytesMut;
use lockkeeper_proto::OpCode;

use super::{in_flight::InFlight, in_flight::ReplyTo, unsupported::UnsupportedReason};
use crate::{
    Cause, Effect, Error, Lost, Peer,
    machine::{Machine, link::connection::Connection},
};

/// After so many connections in a row that ended without an answer, it is not known what servers know.
const UNANSWERED_LIMIT: u8 = 3;

/// Operations, one bit for each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Ops(u128);

impl Ops {
    fn of(op: OpCode) -> Self {
        // The numbers of operations lie between -11 and 107.
        Self(1 << (op.0 & 127))
    }

    fn has(self, op: OpCode) -> bool {
        self.0 & Self::of(op).0 != 0
    }

    fn without(self, others: Self) -> Self {
        Self(self.0 & !others.0)
    }

    fn add(&mut self, others: Self) {
        self.0 |= others.0;
    }
}

/// What the ends of connections say about operations.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    /// Operations that were answered on this connection.
    answered: Ops,
    /// Operations that were answered on connections before it.
    known: Ops,
    /// Operations on which a server may have closed the connection.
    suspects: Ops,
    /// How often each of them was alone when a connection was closed.
    counts: Vec<(OpCode, u8)>,
    /// Connections in a row that ended without an answer.
    unanswered_connections: u8,
}

impl Probation {
    /// A server has answered this operation, with success or an error.
    pub(crate) fn answered(&mut self, op: OpCode) {
        self.answered.add(Ops::of(op));
    }

    /// Whether the operation is to be sent alone.
    fn suspects(&self, op: OpCode) -> bool {
        self.suspects.without(self.answered).has(op)
    }

    fn has_suspects(&self) -> bool {
        self.suspects.without(self.answered) != Ops::default()
    }

    fn has_answers(&self) -> bool {
        self.answered != Ops::default()
    }

    /// An established connection is lost. Returns the operation that counts as unknown now, and the only operation on
    /// which the server may have closed it.
    pub(crate) fn lost<T>(
        &mut self,
        connection: &Connection<T>,
        cause: &Cause,
    ) -> (Option<OpCode>, Option<OpCode>) {
        if matches!(cause, Cause::ClosedByServer | Cause::Io { .. }) {
            let in_flight = connection.in_flight.iter();
            let unanswered: Vec<_> = in_flight.map(|request| request.op).collect();
            self.ended(&unanswered)
        } else {
            self.forget_connection();
            (None, None)
        }
    }

    /// The server has ended a connection while these operations were unanswered.
    fn ended(&mut self, unanswered: &[OpCode]) -> (Option<OpCode>, Option<OpCode>) {
        let unknown = match unanswered {
            [op] if self.suspects(*op) && self.has_answers() => {
                (self.count_against(*op) >= limit(*op)).then_some(*op)
            }
            _ => None,
        };
        self.unanswered_connections = if self.has_answers() {
            0
        } else {
            self.unanswered_connections.saturating_add(1)
        };
        self.forget_connection();
        if self.unanswered_connections >= UNANSWERED_LIMIT {
            self.known = Ops::default();
        }
        let mut unproven: Vec<_> = (unanswered.iter().copied())
            .filter(|op| is_optional(*op) && !self.known.has(*op))
            .collect();
        for op in &unproven {
            self.suspects.add(Ops::of(*op));
        }
        unproven.dedup();
        match unproven[..] {
            [op] => (unknown, Some(op)),
            _ => (unknown, None),
        }
    }

    /// The operation was alone when a connection was closed. Returns how often that has happened.
    fn count_against(&mut self, op: OpCode) -> u8 {
        if let Some((_, times)) = self.counts.iter_mut().find(|(counted, _)| *counted == op) {
            *times = times.saturating_add(1);
            return *times;
        }
        self.counts.push((op, 1));
        1
    }

    /// The connection is gone.
    fn forget_connection(&mut self) {
        self.known.add(std::mem::take(&mut self.answered));
        self.suspects = self.suspects.without(self.known);
        let known = self.known;
        self.counts.retain(|(op, _)| !known.has(*op));
    }
}

/// Whether some servers do not know the operation: releases before 3.5, and for `setWatches` `ClickHouse` Keeper.
fn is_optional(op: OpCode) -> bool {
    op == OpCode::SET_WATCHES || op.since().is_some_and(|since| since >= "3.5")
}

/// How often an operation must have been alone when a connection was closed, before it counts as unknown.
///
/// For operations that locks need, the count is high: a network that fails again and again must not end a wait that
/// could go on. Nobody waits for the reply to `removeWatches`, so it is often under way when a connection happens to
/// end.
fn limit(op: OpCode) -> u8 {
    match op {
        OpCode::CREATE2
        | OpCode::CREATE_CONTAINER
        | OpCode::SET_WATCHES
        | OpCode::SET_WATCHES2
        | OpCode::REMOVE_WATCHES => 8,
        _ => 1,
    }
}

impl<T> Machine<T> {
    /// Whether the next queued request may be sent now. A suspect is sent alone, behind a ping if the server has
    /// answered nothing yet; this sends that ping.
    pub(crate) fn may_send_next(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        if !self.probation.has_suspects() {
            return true;
        }
        if self.must_wait() {
            return false;
        }
        let needs_ping = self.is_suspect_next() && !self.probation.has_answers();
        if needs_ping {
            self.send_ping(now);
            self.flush_control(out);
        }
        !needs_ping
    }

    /// Whether queued requests must wait. There are two reasons:
    ///
    /// - An operation was sent alone, and is not answered yet.
    /// - The next operation is to be sent alone, and other requests are not answered yet.
    pub(crate) fn must_wait(&self) -> bool {
        let Some(connection) = &self.connection else {
            return false;
        };
        if !self.probation.has_suspects() {
            return false;
        }
        let is_suspect = |request: &InFlight<T>| self.probation.suspects(request.op);
        let waits_for_pong = !self.probation.has_answers() && connection.ping.is_some();
        connection.in_flight.iter().any(is_suspect)
            || self.is_suspect_next() && (!connection.is_idle() || waits_for_pong)
    }

    fn is_suspect_next(&self) -> bool {
        let next = self.queue.first();
        next.is_some_and(|request| self.probation.suspects(request.op()))
    }

    /// The server has closed the connection on the only request that was not answered: its operation counts as unknown.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_has_a_bit_of_its_own() {
        let all: Vec<_> = (-11..=107)
            .map(OpCode)
            .filter(|op| op.name().is_some())
            .collect();
        assert!(all.len() > 25);
        let mut ops = Ops::default();
        for op in all {
            assert!(!ops.has(op), "{op}");
            ops.add(Ops::of(op));
            assert!(ops.has(op), "{op}");
        }
    }

    #[test]
    fn operations_that_every_server_knows_are_never_suspects() {
        let mut probation = Probation::default();
        for _ in 0..10 {
            let ops = [
                OpCode::CREATE,
                OpCode::MULTI,
                OpCode::GET_DATA,
                OpCode::SYNC,
            ];
            assert_eq!(probation.ended(&ops), (None, None));
            assert!(!probation.has_suspects());
        }
    }

    #[test]
    fn an_answered_operation_is_a_suspect_only_after_three_connections_without_answers() {
        let op = OpCode::WHO_AM_I;
        let mut probation = Probation::default();
        probation.answered(op);
        for _ in 0..3 {
            assert_eq!(probation.ended(&[op]), (None, None));
            assert!(!probation.suspects(op));
        }
        // The third connection in a row without any answer: it is not known any more what these servers know.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        assert!(probation.suspects(op));
        // The operation was alone, but nothing was answered: the server may close every connection.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        probation.answered(OpCode::PING);
        assert_eq!(probation.ended(&[op]), (Some(op), Some(op)));
    }

    /// Once, two watchers were dropped, each right before a connection was cut. From then on the client removed no
    /// watch from the server.
    #[test]
    fn an_operation_that_locks_need_counts_as_unknown_only_after_many_connections() {
        for op in [OpCode::REMOVE_WATCHES, OpCode::CREATE2, OpCode::SET_WATCHES] {
            let mut probation = Probation::default();
            for time in 0..=limit(op) {
                probation.answered(OpCode::PING);
                let unknown = (time == limit(op)).then_some(op);
                assert_eq!(probation.ended(&[op]), (unknown, Some(op)));
            }
            probation.answered(op);
            for _ in 0..20 {
                assert_eq!(probation.ended(&[op]), (None, None));
                probation.answered(OpCode::PING);
            }
        }
    }

    #[test]
    fn several_unanswered_operations_become_suspects_and_none_is_unknown() {
        let (one, other) = (OpCode::WHO_AM_I, OpCode::CREATE_TTL);
        let mut probation = Probation::default();
        for _ in 0..5 {
            probation.answered(OpCode::PING);
            assert_eq!(probation.ended(&[one, other]), (None, None));
        }
        assert!(probation.suspects(one) && probation.suspects(other));
        probation.answered(one);
        assert!(!probation.suspects(one));
        assert_eq!(probation.ended(&[other]), (Some(other), Some(other)));
        assert!(!probation.suspects(one));
    }
}
