//! The fencing token of a held lock: the number of the transaction that has created its node.
//!
//! Not here: the writes that it guards (`transaction`, `docs/guide/fencing.md`).

use std::fmt;

use lockkeeper_proto::Zxid;

/// A number that grows from holder to holder of a lock, across the whole ensemble. It grows also
/// when the lock's directory was deleted and made again.
///
/// It is the `czxid` of the lock node: the number of the transaction that created it.
///
/// A former holder may have been paused, and not know yet that it has lost the lock. A resource is
/// safe from it if it remembers the highest token it has seen, and refuses lower ones. The order
/// breaks only when the ensemble is rebuilt from nothing, or restored from an older backup.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(u64);

impl FencingToken {
    /// The token of the holder whose node this transaction has created.
    pub(crate) fn of(czxid: Zxid) -> Self {
        Self(u64::try_from(czxid.0).unwrap_or(0))
    }

    /// The number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl From<FencingToken> for u64 {
    fn from(token: FencingToken) -> Self {
        token.0
    }
}

/// For a column of the type BIGINT, which has a sign. No token is above `i64::MAX`, because
/// ZooKeeper's numbers of transactions have 64 bits with a sign.
impl From<FencingToken> for i64 {
    fn from(token: FencingToken) -> Self {
        Self::from_ne_bytes(token.0.to_ne_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_keeps_its_order_with_a_sign() {
        let [first, last] = [0, i64::MAX].map(|number| FencingToken::of(Zxid(number)));
        assert!(first < last && i64::from(first) < i64::from(last));
        assert_eq!((i64::from(last), u64::from(last)), (i64::MAX, last.get()));
    }
}
