//! Servers that close the connection on an operation that they do not know, in place of an answer: `ClickHouse` Keeper, and
//! what is built like it.
//!
//! That a connection ends while an operation is unanswered proves nothing. So the operation is suspected, when no server has
//! answered it yet, and the next time it is sent alone: the server has answered something on that connection, if need be a
//! ping, and has nothing else to answer. When it closes the connection again, once or often enough (`enough`), it is taken for
//! one that does not know the operation, as if it had said so (`unsupported`). No request is repeated for it: the next time is when a caller asks again,
//! or when watches are to be restored.
//!
//! A server may do so with every operation, or know less than another one did: where several connections in a row end
//! without any answer, what was known of operations is forgotten.

use std::time::Instant;

use bytes::BytesMut;
use lockkeeper_proto::OpCode;

use crate::machine::{InFlight, Machine, ReplyTo, requests::unsupported::UnsupportedReason};
use crate::{Cause, Effect, Error, Lost, Peer};

/// So many connections that end without an answer, and nobody knows any more what servers know.
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

/// What the ends of connections say of operations.
#[derive(Debug, Default)]
pub(crate) struct Probation {
    /// Those that were answered on this connection.
    answered: Ops,
    /// Those that were answered on connections before it.
    known: Ops,
    /// Those that may have been what a connection was closed for.
    suspects: Ops,
    /// How often each of them was alone when a connection was closed.
    counts: Vec<(OpCode, u8)>,
    /// Connections in a row that ended without an answer.
    unanswered_connections: u8,
}

impl Probation {
    /// A server has answered this operation, whatever it said.
    pub(crate) fn answered(&mut self, op: OpCode) {
        self.answered.add(Ops::of(op));
    }

    /// Whether the operation is to be sent alone.
    fn suspects(&self, op: OpCode) -> bool {
        self.suspects.without(self.answered).has(op)
    }

    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.without(self.answered) != Ops::default()
    }

    fn has_answers(&self) -> bool {
        self.answered != Ops::default()
    }

    /// A connection has ended with these operations unanswered, the server's doing. Returns the one for which it was ended,
    /// and the only one that may have been it.
    fn ended(&mut self, unanswered: &[OpCode]) -> (Option<OpCode>, Option<OpCode>) {
        let guilty = match unanswered {
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
            [op] => (guilty, Some(op)),
            _ => (guilty, None),
        }
    }

    /// The operation was alone when a connection was closed. Returns how often by now.
    fn count_against(&mut self, op: OpCode) -> u8 {
        if let Some((_, times)) = self.counts.iter_mut().find(|(counts, _)| *counts == op) {
            *times = times.saturating_add(1);
            return *times;
        }
        self.counts.push((op, 1));
        1
    }

    /// The connection is no more.
    fn forget_connection(&mut self) {
        self.known.add(std::mem::take(&mut self.answered));
        self.suspects = self.suspects.without(self.known);
        let known = self.known;
        self.counts.retain(|(op, _)| !known.has(*op));
    }
}

/// Whether there are servers that do not know the operation: releases before 3.5, and of `setWatches` `ClickHouse` Keeper.
fn is_optional(op: OpCode) -> bool {
    op == OpCode::SET_WATCHES || op.since().is_some_and(|since| since >= "3.5")
}

/// How often an operation has to have been alone when a connection was closed.
///
/// What locks rely on must not be misjudged because a network fails again and again: that would end a wait that could go on.
/// And nobody waits for the answer to a watch that is taken back, so that it is often what is under way when a connection
/// happens to end.
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

/// Whether it may have changed what is in the tree.
fn is_write(op: OpCode) -> bool {
    matches!(
        op,
        OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL | OpCode::RECONFIG
    )
}

impl<T> Machine<T> {
    /// Whether what waits has to wait on: for the answer to an operation that is sent alone, or for the others' before it.
    pub(crate) fn is_held(&self) -> bool {
        if !self.probation.has_suspects() {
            return false;
        }
        let is_out = |request: &InFlight<T>| self.probation.suspects(request.op);
        self.in_flight.iter().any(is_out)
            || self.is_suspect_next()
                && (!self.in_flight.is_empty()
                    || self.pending_auth_since().is_some()
                    || !self.probation.has_answers() && self.ping_sent.is_some())
    }

    fn is_suspect_next(&self) -> bool {
        let next = self.queue.first();
        next.is_some_and(|request| self.probation.suspects(request.op()))
    }

    /// Asks the server for a sign of life where one is wanted before an operation that is sent alone. True when it is asked.
    pub(crate) fn request_sign_of_life(&mut self, now: Instant, out: &mut BytesMut) -> bool {
        let wanted = self.probation.has_suspects()
            && self.is_suspect_next()
            && !self.probation.has_answers()
            && self.ping_sent.is_none();
        if wanted {
            self.send_ping(now);
            out.extend_from_slice(&self.control);
            self.control.clear();
        }
        wanted
    }

    /// A connection is lost. Returns the operation for which the server has ended it, and the only one that may have been it.
    pub(crate) fn connection_ended(&mut self, cause: &Cause) -> (Option<OpCode>, Option<OpCode>) {
        if matches!(cause, Cause::ClosedByServer | Cause::Io(_)) {
            let unanswered: Vec<_> = self.in_flight.iter().map(|request| request.op).collect();
            self.probation.ended(&unanswered)
        } else {
            self.probation.forget_connection();
            (None, None)
        }
    }

    /// The server has closed the connection on the one request that is on its way: it does not know the operation.
    pub(crate) fn settle_unanswered(&mut self, lost: &Lost) {
        let Some(InFlight {
            op,
            reply_to,
            options,
            number,
            ..
        }) = self.in_flight.pop_front()
        else {
            return;
        };
        tracing::debug!(%op, %lost, "the server closes the connection on an operation, and does not seem to know it");
        let (reason, peer) = (UnsupportedReason::ClosedConnection, Peer::from(lost));
        self.unsupported.note(op, self.connections, reason, &peer);
        self.forget_deadline(&options, number);
        match reply_to {
            ReplyTo::Caller { .. } | ReplyTo::Nobody { .. } | ReplyTo::Auth { .. } => {
                let effect = if is_write(op) {
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
            ReplyTo::SetWatches { .. } if op == OpCode::SET_WATCHES2 => {
                self.end_persistent(reason, &peer);
            }
            ReplyTo::SetWatches { .. } => self.end_one_shot(),
            ReplyTo::RemoveWatches | ReplyTo::Close => {}
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
    fn what_every_server_knows_is_never_suspected() {
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
    fn what_was_answered_is_not_suspected_until_nothing_is_answered_any_more() {
        let op = OpCode::WHO_AM_I;
        let mut probation = Probation::default();
        probation.answered(op);
        for _ in 0..3 {
            assert_eq!(probation.ended(&[op]), (None, None));
            assert!(!probation.suspects(op));
        }
        // The third connection without any answer: whatever was known, these servers do not say.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        assert!(probation.suspects(op));
        // Alone, and with nothing answered: it is not the operation.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        probation.answered(OpCode::PING);
        assert_eq!(probation.ended(&[op]), (Some(op), Some(op)));
    }

    /// Two watchers were dropped, each right before a connection was cut: from then on no watch was taken back.
    #[test]
    fn what_locks_rely_on_is_unknown_to_a_server_only_when_it_was_alone_very_often() {
        for op in [OpCode::REMOVE_WATCHES, OpCode::CREATE2, OpCode::SET_WATCHES] {
            let mut probation = Probation::default();
            for time in 0..=limit(op) {
                probation.answered(OpCode::PING);
                let guilty = (time == limit(op)).then_some(op);
                assert_eq!(probation.ended(&[op]), (guilty, Some(op)));
            }
            probation.answered(op);
            for _ in 0..20 {
                assert_eq!(probation.ended(&[op]), (None, None));
                probation.answered(OpCode::PING);
            }
        }
    }

    #[test]
    fn of_several_none_is_guilty_and_each_is_to_be_sent_alone() {
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
