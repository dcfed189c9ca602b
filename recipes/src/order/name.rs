//! Names of nodes, and the kinds of lock that they belong to: written as Curator writes them, and
//! read as Curator, go-zk and kazoo write them.
//!
//! The name of a contender ends with a marker of its kind and the ten digits that the server
//! appended. The text before the marker does not matter: each implementation has its own. A node
//! with another ending is not a contender.
//!
//! Not here: which contender is ahead (`rank`).

use std::{fmt, str};

use bytes::Bytes;
use lockkeeper_proto::path::SEQUENCE_DIGITS;
use lockkeeper_session::{AsRaw, Client};

/// The prefix of protected nodes in Curator. Source: `ProtectedUtils.PROTECTED_PREFIX`.
const PROTECTED_PREFIX: &str = "_c_";
/// The length of a protection in bytes: the prefix, a UUID in its usual form, a dash.
const PROTECTION_LEN: usize = PROTECTED_PREFIX.len() + 36 + 1;

/// The name of the node of a plain lock.
pub(crate) const PLAIN: &str = "lock";
/// The queue of a semaphore of Curator or of this crate: a child of the semaphore's path.
pub(crate) const LOCKS: &str = "locks";
/// The directory of a semaphore's permits: a child of the semaphore's path.
pub(crate) const LEASES: &str = "leases";
/// kazoo appends this suffix to the path of a semaphore. The result is the path of its queue.
pub(crate) const KAZOO_LOCKS: &str = "-__lock__";

/// A kind of lock, and the role of a contender in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// A mutex of this crate, of Curator, of go-zk or of kazoo. kazoo's writers have the same names
    /// as its mutexes.
    Mutex,
    /// A read/write lock, as a reader.
    Read,
    /// A read/write lock, as a writer.
    Write,
    /// A leader election.
    Latch,
    /// A semaphore of this crate, of Curator or of kazoo. Its waiters have the names of a mutex, in
    /// a directory of their own.
    Semaphore,
    /// A plain lock.
    Plain,
}

/// The markers in the names of nodes, first those of this crate and of Curator. No marker is the end
/// of another one.
const MARKERS: [(&str, Kind); 7] = [
    ("lock-", Kind::Mutex),
    ("__READ__", Kind::Read),
    ("__WRIT__", Kind::Write),
    ("latch-", Kind::Latch),
    ("lease-", Kind::Semaphore),
    ("__lock__", Kind::Mutex),
    ("__rlock__", Kind::Read),
];

impl Kind {
    /// Its name in the log and in errors.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Mutex => "mutex",
            Self::Read => "read lock",
            Self::Write => "write lock",
            Self::Latch => "latch",
            Self::Semaphore => "semaphore",
            Self::Plain => "plain mutex",
        }
    }

    /// How the names of our own nodes end before the number. A plain lock has one node, without a
    /// number.
    pub(crate) fn marker(self) -> &'static str {
        let own = MARKERS.iter().find(|(_, kind)| *kind == self);
        own.map_or(PLAIN, |(marker, _)| marker)
    }

    /// Whether it waits for every contender ahead, and no contender ahead can become another one
    /// with the same number.
    pub(crate) fn is_plain_queue(self) -> bool {
        matches!(self, Self::Mutex | Self::Latch)
    }

    /// Whether contenders of the two kinds on one path exclude each other. They are in one queue,
    /// then.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let is_of_queue = |kind| matches!(kind, Self::Mutex | Self::Read | Self::Write);
        self == other || is_of_queue(self) && is_of_queue(other)
    }

    /// The kind and the number of another contender in this queue, from its name. `None` for a child
    /// that is not in this queue.
    #[inline]
    pub(crate) fn contender(self, child: &str) -> Option<(Self, i32)> {
        parse(child).filter(|(kind, _)| self.excludes(*kind))
    }

    /// The kind of lock to which a child with this name may belong, and its number in the queue, if
    /// it has one.
    pub(crate) fn of(child: &str) -> Option<(Self, Option<i32>)> {
        match child {
            PLAIN => Some((Self::Plain, None)),
            LEASES => Some((Self::Semaphore, None)),
            _ => parse(child).map(|(kind, number)| (kind, Some(number))),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a {}", self.name())
    }
}

/// Whether a child that is not in the queue may belong to another kind of lock, and came before the
/// contender with this number. Whoever comes later is refused itself.
pub(crate) fn may_be_ahead(child: &str, own: i32) -> bool {
    Kind::of(child).is_some_and(|(_, number)| number.is_none_or(|number| number < own))
}

/// Reads the name of a node with a number: whose marker stands before the number, and the number
/// that the server gave to it. It is negative after the directory's counter has overflowed. `None`
/// for a name without a marker or number.
pub(crate) fn parse(name: &str) -> Option<(Kind, i32)> {
    let (before, last) = name.as_bytes().split_last_chunk::<SEQUENCE_DIGITS>()?;
    let kind_of = |text: &[u8]| {
        let of_text = |(marker, _): &&(&str, Kind)| text.ends_with(marker.as_bytes());
        MARKERS.iter().find(of_text).map(|(_, kind)| *kind)
    };
    // The server formats the number with `%010d`: a minus sign takes one of the ten places, unless
    // the number has ten digits. Another text, such as -0 or a zero too many, is no number.
    let (kind, number) = match (last, value(last)) {
        ([first, ..], Some(number)) => match kind_of(before) {
            Some(kind) => (kind, number),
            None if *first == b'0' => return None,
            None => (kind_of(before.strip_suffix(b"-")?)?, -number),
        },
        ([b'-', digits @ ..], None) => {
            let mut padded = [b'0'; SEQUENCE_DIGITS];
            *padded.last_chunk_mut()? = *digits;
            let number = value(&padded).filter(|number| *number > 0)?;
            (kind_of(before)?, -number)
        }
        _ => return None,
    };
    Some((kind, i32::try_from(number).ok()?))
}

/// The number that these digits say; `None` if one of them is no digit.
fn value(digits: &[u8; SEQUENCE_DIGITS]) -> Option<i64> {
    // Each name of a listing is read, so eight digits are read at once: pairs of neighbours become
    // one number, then pairs of these. The first digit is in the lowest byte.
    let (two, eight) = digits.split_last_chunk::<8>()?;
    let each = u64::from_le_bytes(*eight) ^ 0x3030_3030_3030_3030;
    let is_above_nine = (each.wrapping_add(0x7676_7676_7676_7676) | each) & 0x8080_8080_8080_8080;
    if is_above_nine != 0 || !two.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let twos = (each * 10 + (each >> 8)) & 0x00ff_00ff_00ff_00ff;
    let fours = (twos * 100 + (twos >> 16)) & 0x0000_ffff_0000_ffff;
    let low = (fours * 10_000 + (fours >> 32)) & 0xffff_ffff;
    let high = two
        .iter()
        .fold(0, |high, digit| high * 10 + i64::from(digit - b'0'));
    Some(high * 100_000_000 + i64::try_from(low).ok()?)
}

/// The number of a node, of any kind.
pub(crate) fn number(name: &str) -> Option<i32> {
    parse(name).map(|(_, number)| number)
}

/// Whether kazoo names a permit of a semaphore like this: a UUID in hexadecimal digits, and nothing
/// else.
pub(crate) fn is_kazoo_permit(name: &str) -> bool {
    name.len() == 32 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The part of a name that identifies the node of one attempt: a random UUID in Curator's format.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Protection([u8; PROTECTION_LEN]);

impl Protection {
    /// A new protection. Each attempt has its own, so that a late request of one cannot touch the
    /// node of another.
    pub(crate) fn random(client: &Client) -> Self {
        Self::of([client.raw().random_u64(), client.raw().random_u64()])
    }

    fn of([high, low]: [u64; 2]) -> Self {
        // Version 4, variant 1: RFC 9562.
        let high = (high & 0xffff_ffff_ffff_0fff) | 0x4000;
        let low = (low & 0x3fff_ffff_ffff_ffff) | 0x8000_0000_0000_0000;
        // By hand, since `format!` takes several times as long, and each attempt has a name.
        let digit = |value: u8| value + if value < 10 { b'0' } else { b'a' - 10 };
        let bytes = (u128::from(high) << 64 | u128::from(low)).to_be_bytes();
        let digits = bytes.map(|byte| [digit(byte >> 4), digit(byte & 0xf)]);
        let mut text = *b"_c_00000000-0000-0000-0000-000000000000-";
        let places = [3, 5, 7, 9, 12, 14, 17, 19, 22, 24, 27, 29, 31, 33, 35, 37];
        for (place, two) in places.into_iter().zip(digits) {
            if let Some(slot) = text.get_mut(place..).and_then(<[u8]>::first_chunk_mut) {
                *slot = two;
            }
        }
        Self(text)
    }

    /// Its text: the name to request begins with it.
    pub(crate) fn text(&self) -> &str {
        str::from_utf8(&self.0).unwrap_or_default()
    }

    /// Puts this protection in front of data, for a node with a fixed name: there the data identify
    /// the attempt.
    pub(crate) fn mark(&self, data: &Bytes) -> Bytes {
        [&self.0, &data[..]].concat().into()
    }

    /// Whether the data begin with this protection.
    pub(crate) fn marks(&self, data: &[u8]) -> bool {
        data.starts_with(&self.0)
    }

    /// Removes the protection from the start of data, of any attempt. Data without a protection
    /// stay as they are.
    pub(crate) fn unmarked(data: &Bytes) -> Bytes {
        let marked = data.starts_with(PROTECTED_PREFIX.as_bytes())
            && data.get(PROTECTION_LEN - 1) == Some(&b'-');
        let start = if marked { PROTECTION_LEN } else { 0 };
        data.slice(start..)
    }
}

impl fmt::Debug for Protection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn names_of_every_implementation_are_read() {
        for (name, number) in [
            (
                "_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-lock-0000000012",
                Some(12),
            ),
            (
                "_c_0f9e8d7c6b5a49388271605f4e3d2c1b-lock-0000000003",
                Some(3),
            ),
            (
                "0f9e8d7c6b5a49388271605f4e3d2c1b__lock__0000000007",
                Some(7),
            ),
            (
                "0f9e8d7c6b5a49388271605f4e3d2c1b__rlock__0000000008",
                Some(8),
            ),
            ("lock-0000000001", Some(1)),
            ("a-lock-b-lock-0000000009", Some(9)),
            ("lock-2147483647", Some(i32::MAX)),
            ("lock--2147483648", Some(i32::MIN)),
            ("lock--000000005", Some(-5)),
            ("lock--00000005", None),
            ("lock--0636053164", None),
            ("lock--000000000", None),
            ("lock-000000001", None),
            ("lock-00000000001", None),
            ("lock-9999999999", None),
            ("lock-+000000001", None),
            ("lock-", None),
            ("notalock", None),
            ("000", None),
            ("0000000001", None),
            (
                "_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-lease-0000000001",
                None,
            ),
        ] {
            let parsed = Kind::Mutex.contender(name).map(|(_, number)| number);
            assert_eq!(parsed, number, "{name}");
        }
    }

    proptest! {
        #[test]
        fn a_number_is_read_as_the_server_writes_it(number: i32, last in "[ -~é]{9,11}", digits in "[/-:]{10}") {
            let read = |text: &str| parse(&format!("x-lock-{text}"));
            prop_assert_eq!(read(&format!("{number:010}")), Some((Kind::Mutex, number)));
            for text in [last, digits] {
                let number = text.parse().ok().filter(|number: &i32| format!("{number:010}") == text);
                prop_assert_eq!(read(&text), number.map(|number| (Kind::Mutex, number)), "{}", text);
            }
        }
    }

    #[test]
    fn a_protected_name_has_the_format_of_curator_and_is_unique() {
        let name = Protection::of([u64::MAX, 0]);
        let name = [name.text(), "lock-"].concat();
        assert_eq!(
            name.len(),
            "_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-lock-".len()
        );
        let dashes: Vec<_> = name.match_indices('-').map(|(at, _)| at).collect();
        assert_eq!(dashes, [11, 16, 21, 26, 39, 44]);
        assert_eq!(&name[17..18], "4");
        let many: HashSet<_> = (0..10_000)
            .flat_map(|number| [[number << 16, 7], [7, number]])
            .map(|random| Protection::of(random).0)
            .collect();
        assert_eq!(many.len(), 20_000);
    }

    #[test]
    fn only_nodes_that_look_like_those_of_another_kind_are_suspect() {
        let of = |child| Kind::of(child).map(|(recipe, _)| recipe);
        assert_eq!(of("lock"), Some(Kind::Plain));
        assert_eq!(of("leases"), Some(Kind::Semaphore));
        assert_eq!(of("x-lease-0000000001"), Some(Kind::Semaphore));
        assert_eq!(of("x-latch-0000000001"), Some(Kind::Latch));
        assert_eq!(of("x-lock-0000000001"), Some(Kind::Mutex));
        assert_eq!(of("x__WRIT__0000000001"), Some(Kind::Write));
        for child in ["locks", "lock-", "leases2", "000", "x-latch-", "worker-1"] {
            assert_eq!(of(child), None, "{child}");
        }
    }

    #[test]
    fn whoever_comes_later_is_refused_itself() {
        assert!(may_be_ahead("x-latch-0000000001", 2));
        assert!(!may_be_ahead("x-latch-0000000003", 2));
        assert!(may_be_ahead("lock", 2) && may_be_ahead("leases", 2));
    }
}
