//! The recipe of a contender, as the name of its node tells it.
//!
//! Not here: whether the node is that of a contender (`queue::other_kinds`).

use std::fmt;

use super::name;

/// The recipe of a contender, and its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// A mutex of this crate, of Curator, of go-zk or of kazoo. kazoo's writers have the same names
    /// as its mutexes.
    Mutex,
    /// A read/write lock, as a reader.
    Read,
    /// A read/write lock, as a writer.
    Write,
    /// A leader election.
    Latch,
    /// A semaphore of this crate, of Curator or of kazoo.
    Semaphore,
    /// A plain lock.
    Plain,
}

impl fmt::Display for Recipe {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Mutex => "a mutex",
            Self::Read => "a reader of a read/write lock",
            Self::Write => "a writer of a read/write lock",
            Self::Latch => "a leader election",
            Self::Semaphore => "a semaphore",
            Self::Plain => "a plain lock",
        })
    }
}

impl Recipe {
    /// The kind of lock to which a child with this name may belong, and its number in the queue, if
    /// it has one.
    pub(crate) fn of(child: &str) -> Option<(Self, Option<i32>)> {
        const MARKERS: [&str; 7] = [
            name::LOCK,
            name::READ,
            name::WRITE,
            name::KAZOO_LOCK,
            name::KAZOO_READ,
            name::LATCH,
            name::LEASE,
        ];
        if child == name::PLAIN {
            return Some((Self::Plain, None));
        }
        if child == name::LEASES {
            return Some((Self::Semaphore, None));
        }
        let (marker, number) = name::parse(child, &MARKERS)?;
        let recipe = match marker {
            name::READ | name::KAZOO_READ => Self::Read,
            name::WRITE => Self::Write,
            name::LATCH => Self::Latch,
            name::LEASE => Self::Semaphore,
            _ => Self::Mutex,
        };
        Some((recipe, Some(number)))
    }

    /// Whether contenders of the two kinds on one path exclude each other.
    pub(crate) fn excludes(self, other: Self) -> bool {
        let is_of_queue = |recipe| matches!(recipe, Self::Mutex | Self::Read | Self::Write);
        self == other || is_of_queue(self) && is_of_queue(other)
    }
}

/// Whether a child that is not in the queue may belong to another kind of lock, and came before the
/// contender with this number. Whoever comes later is refused itself.
pub(crate) fn may_be_ahead(child: &str, own: i32) -> bool {
    Recipe::of(child).is_some_and(|(_, number)| number.is_none_or(|number| number < own))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_look_like_those_of_another_kind_are_suspect() {
        let of = |child| Recipe::of(child).map(|(recipe, _)| recipe);
        assert_eq!(of("lock"), Some(Recipe::Plain));
        assert_eq!(of("leases"), Some(Recipe::Semaphore));
        assert_eq!(of("x-lease-0000000001"), Some(Recipe::Semaphore));
        assert_eq!(of("x-latch-0000000001"), Some(Recipe::Latch));
        assert_eq!(of("x-lock-0000000001"), Some(Recipe::Mutex));
        assert_eq!(of("x__WRIT__0000000001"), Some(Recipe::Write));
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
