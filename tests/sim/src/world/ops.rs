//! Finds the operations in a stream of requests.
//!
//! Not here: decoding whole requests for the log (`record`).

use bytes::Buf;

/// Finds the operations of requests whose bytes come in pieces.
#[derive(Debug, Default)]
pub(super) struct Ops {
    /// The first bytes of a request whose operation is not known yet.
    head: Vec<u8>,
    /// How many bytes of the last request are still to come.
    rest: usize,
}

impl Ops {
    /// Takes the next bytes, and returns the operations that become known with them.
    pub(super) fn in_these(&mut self, mut bytes: &[u8]) -> Vec<i32> {
        let mut ops = Vec::new();
        loop {
            let (skipped, left) = bytes.split_at(self.rest.min(bytes.len()));
            self.rest -= skipped.len();
            let (more, left) = left.split_at((HEAD - self.head.len()).min(left.len()));
            self.head.extend_from_slice(more);
            bytes = left;
            if self.head.len() < HEAD {
                return ops;
            }
            let mut head = &*self.head;
            let length = usize::try_from(head.get_i32()).unwrap_or(0);
            let (_, op) = (head.get_i32(), head.get_i32());
            self.rest = (4 + length).saturating_sub(HEAD);
            self.head.clear();
            ops.push(op);
        }
    }
}

/// How many bytes the length, xid and operation of a request have together.
const HEAD: usize = 12;
