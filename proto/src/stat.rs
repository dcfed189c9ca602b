//! The metadata of a node.

use core::time::Duration;

use crate::{SessionId, Version, Zxid, jute::record};

record! {
    /// A node's metadata: 68 bytes on the wire.
    #[derive(Copy, Default, Hash)]
    pub struct Stat {
        /// The transaction that created the node.
        pub czxid: Zxid,
        /// The transaction that last set its data.
        pub mzxid: Zxid,
        /// When it was created: milliseconds since 1970 by the server's clock.
        pub ctime: i64,
        /// When its data were last set: milliseconds since 1970 by the server's clock.
        pub mtime: i64,
        /// How often its data were set.
        pub version: Version,
        /// How often children were created or deleted.
        pub cversion: Version,
        /// How often its ACL was set.
        pub aversion: Version,
        /// The session that an ephemeral node belongs to.
        ///
        /// [`SessionId::NONE`] for every other node, including containers and TTL nodes.
        pub ephemeral_owner: SessionId,
        /// The length of the data in bytes; 0 for null and for empty data.
        pub data_length: i32,
        /// The number of direct children.
        pub num_children: i32,
        /// The transaction that last created or deleted a direct child; `czxid` before the first one.
        pub pzxid: Zxid,
    }
}

impl Stat {
    /// The length of an encoded `Stat` in bytes.
    pub const ENCODED_LEN: usize = 68;

    /// The number that the next sequential child would get.
    ///
    /// It is the number of children ever created below the node. Source: a server reports
    /// `cversion` = 2 x created - `num_children`.
    #[must_use]
    pub fn next_sequence(&self) -> i64 {
        let twice = i64::from(self.cversion.0).saturating_add(i64::from(self.num_children));
        twice.div_euclid(2)
    }

    /// When the node was created, since 1970 by the server's clock.
    #[must_use]
    pub fn created(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.ctime).unwrap_or(0))
    }

    /// When its data were last set, since 1970 by the server's clock.
    #[must_use]
    pub fn modified(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.mtime).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::jute::{Decode, Reader};

    #[test]
    fn the_encoded_length_is_the_sum_of_the_fields() {
        assert_eq!(Stat::SMALLEST, Stat::ENCODED_LEN);
    }

    #[test]
    fn the_next_sequence_number_counts_all_children_ever_created() {
        let zeros = Bytes::from_static(&[0; Stat::ENCODED_LEN]);
        let none = Stat::decode(&mut Reader::new(zeros)).unwrap();
        let number = |cversion, num_children| {
            let stat = Stat {
                cversion: Version(cversion),
                num_children,
                ..none
            };
            stat.next_sequence()
        };
        // No child yet; three created; three created and two deleted; the root of a new server.
        assert_eq!(number(0, 0), 0);
        assert_eq!(number(3, 3), 3);
        assert_eq!(number(5, 1), 3);
        assert_eq!(number(-1, 1), 0);
        assert_eq!(number(i32::MAX, i32::MAX), i64::from(i32::MAX));
    }
}
