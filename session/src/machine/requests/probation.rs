//! Servers that close the connection on an operation that they do not know, instead of answering:
//! `ClickHouse` Keeper, and servers like it.
//!
//! A connection that ends while an operation is unanswered proves nothing. So the operation becomes
//! a suspect, if no server has answered it yet. The next time it is sent alone: the server has
//! answered something on that connection, a ping if nothing else, and has nothing else to answer.
//! If the server closes the connection again, [`limit`] times, the operation counts as unknown, as
//! if the server had said so (`unsupported`). The machine repeats no request for this: the next
//! time is when a caller submits the operation again, or when watches are restored.
//!
//! A server may close the connection on every operation, or know fewer than the one before. So
//! after several connections in a row that ended without any answer, the machine forgets what it
//! knew of operations.

use std::collections::HashMap;

use lockkeeper_proto::OpCode;

use crate::{Cause, Effect, Error, Peer, UnsupportedReason};

/// After so many connections in a row that ended without an answer, it is not known what servers
/// know.
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
    pub(super) fn suspects(&self, op: OpCode) -> bool {
        self.suspects.without(self.answered).has(op)
    }

    pub(super) fn has_suspects(&self) -> bool {
        self.suspects.without(self.answered) != Ops::default()
    }

    pub(super) fn has_answers(&self) -> bool {
        self.answered != Ops::default()
    }

    /// An established connection is lost. Returns the operation that counts as unknown now, and the
    /// only operation on which the server may have closed it.
    pub(crate) fn lost(
        &mut self,
        unanswered: impl Iterator<Item = OpCode>,
        cause: &Cause,
    ) -> (Option<OpCode>, Option<OpCode>) {
        if matches!(cause, Cause::ClosedByServer | Cause::Io { .. }) {
            self.ended(&unanswered.collect::<Vec<_>>())
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

/// Whether some servers do not know the operation: releases before 3.5, and for `setWatches`
/// `ClickHouse` Keeper.
fn is_optional(op: OpCode) -> bool {
    op == OpCode::SET_WATCHES || op.since().is_some_and(|since| since >= "3.5")
}

/// How often an operation must have been alone when a connection was closed, before it counts as
/// unknown.
///
/// For operations that locks need, the count is high: a network that fails again and again must not
/// end a wait that could go on. Nobody waits for the reply to `removeWatches`, so it is often under
/// way when a connection happens to end.
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
        // The third connection in a row without any answer: it is not known any more what these
        // servers know.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        assert!(probation.suspects(op));
        // The operation was alone, but nothing was answered: the server may close every connection.
        assert_eq!(probation.ended(&[op]), (None, Some(op)));
        probation.answered(OpCode::PING);
        assert_eq!(probation.ended(&[op]), (Some(op), Some(op)));
    }

    /// Once, two watchers were dropped, each right before a connection was cut. From then on the
    /// client removed no watch from the server.
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
