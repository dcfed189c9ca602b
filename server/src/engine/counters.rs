//! Counts of what has happened since the start.

use std::collections::BTreeMap;

use lockkeeper_proto::OpCode;

/// Counts of what has happened since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections accepted.
    pub connections: u64,
    /// Sessions started.
    pub sessions: u64,
    /// Sessions expired. Closed sessions do not count.
    pub expired: u64,
    /// Transactions that elections have lost: no member had learned of them.
    pub lost: u64,
    /// Requests by operation, including those that failed. Handshakes count as
    /// [`OpCode::CREATE_SESSION`].
    pub requests: BTreeMap<OpCode, u64>,
    /// Watch events sent.
    pub notifications: u64,
    /// Reads from sockets that returned bytes.
    pub reads: u64,
}

impl Counters {
    /// The number of requests of one operation.
    #[must_use]
    pub fn requests_of(&self, op: OpCode) -> u64 {
        self.requests.get(&op).copied().unwrap_or(0)
    }

    /// The number of requests, without handshakes and pings.
    #[must_use]
    pub fn all_requests(&self) -> u64 {
        let is_counted = |op: OpCode| !matches!(op, OpCode::PING | OpCode::CREATE_SESSION);
        let counted = self.requests.iter().filter(|(op, _)| is_counted(**op));
        counted.map(|(_, count)| count).sum()
    }

    pub(super) fn note(&mut self, op: OpCode) {
        count(self.requests.entry(op).or_default());
    }
}

/// Counts one more.
pub(super) fn count(counter: &mut u64) {
    *counter = counter.saturating_add(1);
}
