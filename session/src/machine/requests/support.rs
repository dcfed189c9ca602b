//! Operations that servers do not know, so that the machine does not send them again.
//!
//! A server that does not know an operation says so and closes the connection, with everything else
//! that is under way on it. The machine believes it for the next connection, which follows at once,
//! and forgets it with the one after: servers are restarted to be upgraded.
//!
//! Other servers close the connection without an answer: `ClickHouse` Keeper, and servers like it. A
//! connection that ends while an operation is unanswered proves nothing. So the operation becomes a
//! suspect, if no server has answered it yet. The next time it is sent alone: the server has
//! answered something on that connection, a ping if nothing else, and has nothing else to answer. If
//! the server closes the connection again, [`limit`] times, the operation counts as unknown, as if
//! the server had said so. The machine repeats no request for this: the next time is when a caller
//! submits the operation again, or when watches are restored.
//!
//! A server may close the connection on every operation, or know fewer than the one before. So
//! after several connections in a row that ended without any answer, the machine forgets what it
//! knew of operations.

use std::mem;

use lockkeeper_proto::{ErrorCode, OpCode, Zxid, header::ReplyHeader};

use crate::{Cause, Effect, Error, Peer, UnsupportedReason};

/// After so many connections in a row that ended without an answer, it is not known what servers
/// know.
const UNANSWERED_LIMIT: u8 = 3;

/// The zxid in the header of an answer that the server does not know the operation. Source:
/// `FinalRequestProcessor`, `ZooKeeperServer.processPacket`.
const NO_TRANSACTION: Zxid = Zxid(-1);

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

#[derive(Debug)]
struct Unknown {
    op: OpCode,
    /// The last connection on which this is believed.
    until: u64,
    reason: UnsupportedReason,
    /// The server that did not know the operation.
    peer: Peer,
}

/// Which operations servers know, as far as their answers and the ends of connections say it.
#[derive(Debug, Default)]
pub(crate) struct Support {
    unknown: Vec<Unknown>,
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

impl Support {
    /// A server did not know the operation, on the connection of this number.
    pub(crate) fn is_unknown(
        &mut self,
        op: OpCode,
        connection: u64,
        reason: UnsupportedReason,
        peer: &Peer,
    ) {
        self.unknown.retain(|unknown| unknown.op != op);
        self.unknown.push(Unknown {
            op,
            until: connection + 1,
            reason,
            peer: peer.clone(),
        });
    }

    /// The connection of this number is established.
    pub(crate) fn connected(&mut self, connection: u64) {
        self.unknown.retain(|unknown| unknown.until >= connection);
    }

    /// The error for a caller of an unknown operation. Nothing is sent.
    pub(crate) fn refusal(&self, op: OpCode) -> Option<Error> {
        let unknown = self.unknown.iter().find(|unknown| unknown.op == op)?;
        Some(Error::Unsupported {
            op,
            reason: unknown.reason,
            effect: Effect::NotApplied,
            peer: unknown.peer.clone(),
        })
    }

    /// A server has answered this operation, with success or an error.
    pub(crate) fn answered(&mut self, op: OpCode) {
        self.answered.add(Ops::of(op));
    }

    /// Whether the operation is to be sent alone.
    pub(crate) fn suspects(&self, op: OpCode) -> bool {
        self.suspects.without(self.answered).has(op)
    }

    pub(crate) fn has_suspects(&self) -> bool {
        self.suspects.without(self.answered) != Ops::default()
    }

    /// Whether the server has answered anything on this connection.
    pub(crate) fn has_answers(&self) -> bool {
        self.answered != Ops::default()
    }

    /// An established connection is lost while these operations were unanswered. Returns the
    /// operation that counts as unknown now, and the only operation on which the server may have
    /// closed it.
    pub(crate) fn lost(
        &mut self,
        unanswered: &[OpCode],
        cause: &Cause,
    ) -> (Option<OpCode>, Option<OpCode>) {
        if !matches!(cause, Cause::ClosedByServer | Cause::Io { .. }) {
            self.forget_connection();
            return (None, None);
        }
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
        let is_unproven = |op: &OpCode| is_optional(*op) && !self.known.has(*op);
        let mut unproven: Vec<_> = unanswered.iter().copied().filter(is_unproven).collect();
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
        let mut counts = self.counts.iter_mut();
        if let Some((_, times)) = counts.find(|(counted, _)| *counted == op) {
            *times = times.saturating_add(1);
            return *times;
        }
        self.counts.push((op, 1));
        1
    }

    /// The connection is gone.
    fn forget_connection(&mut self) {
        self.known.add(mem::take(&mut self.answered));
        self.suspects = self.suspects.without(self.known);
        let known = self.known;
        self.counts.retain(|(op, _)| !known.has(*op));
    }
}

/// Whether a reply says that the server does not know the operation.
///
/// Servers that know `createTTL` and `reconfig` and do not have them enabled answer with the same
/// code.
pub(crate) fn is_unknown(op: OpCode, header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED
        && (overtakes(header) || !matches!(op, OpCode::CREATE_TTL | OpCode::RECONFIG))
}

/// Whether a reply says so before the server has answered the requests ahead of it.
pub(crate) fn overtakes(header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED && header.zxid == NO_TRANSACTION
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

    /// The server has closed the connection while these operations were unanswered.
    fn ended(support: &mut Support, unanswered: &[OpCode]) -> (Option<OpCode>, Option<OpCode>) {
        support.lost(unanswered, &Cause::ClosedByServer)
    }

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
        let mut support = Support::default();
        for _ in 0..10 {
            let ops = [
                OpCode::CREATE,
                OpCode::MULTI,
                OpCode::GET_DATA,
                OpCode::SYNC,
            ];
            assert_eq!(ended(&mut support, &ops), (None, None));
            assert!(!support.has_suspects());
        }
    }

    #[test]
    fn an_answered_operation_is_a_suspect_only_after_three_connections_without_answers() {
        let op = OpCode::WHO_AM_I;
        let mut support = Support::default();
        support.answered(op);
        for _ in 0..3 {
            assert_eq!(ended(&mut support, &[op]), (None, None));
            assert!(!support.suspects(op));
        }
        // The third connection in a row without any answer: it is not known any more what these
        // servers know.
        assert_eq!(ended(&mut support, &[op]), (None, Some(op)));
        assert!(support.suspects(op));
        // The operation was alone, but nothing was answered: the server may close every connection.
        assert_eq!(ended(&mut support, &[op]), (None, Some(op)));
        support.answered(OpCode::PING);
        assert_eq!(ended(&mut support, &[op]), (Some(op), Some(op)));
    }

    /// Once, two watchers were dropped, each right before a connection was cut. From then on the
    /// client removed no watch from the server.
    #[test]
    fn an_operation_that_locks_need_counts_as_unknown_only_after_many_connections() {
        for op in [OpCode::REMOVE_WATCHES, OpCode::CREATE2, OpCode::SET_WATCHES] {
            let mut support = Support::default();
            for time in 0..=limit(op) {
                support.answered(OpCode::PING);
                let unknown = (time == limit(op)).then_some(op);
                assert_eq!(ended(&mut support, &[op]), (unknown, Some(op)));
            }
            support.answered(op);
            for _ in 0..20 {
                assert_eq!(ended(&mut support, &[op]), (None, None));
                support.answered(OpCode::PING);
            }
        }
    }

    #[test]
    fn several_unanswered_operations_become_suspects_and_none_is_unknown() {
        let (one, other) = (OpCode::WHO_AM_I, OpCode::CREATE_TTL);
        let mut support = Support::default();
        for _ in 0..5 {
            support.answered(OpCode::PING);
            assert_eq!(ended(&mut support, &[one, other]), (None, None));
        }
        assert!(support.suspects(one) && support.suspects(other));
        support.answered(one);
        assert!(!support.suspects(one));
        assert_eq!(ended(&mut support, &[other]), (Some(other), Some(other)));
        assert!(!support.suspects(one));
    }

    #[test]
    fn an_operation_stays_unknown_for_one_more_connection() {
        let mut support = Support::default();
        let (op, peer) = (OpCode::WHO_AM_I, Peer::default());
        support.is_unknown(op, 3, UnsupportedReason::Answered, &peer);
        assert!(support.refusal(OpCode::MULTI_READ).is_none());
        for (connection, is_refused) in [(3, true), (4, true), (5, false)] {
            support.connected(connection);
            assert_eq!(support.refusal(op).is_some(), is_refused);
        }
    }
}
