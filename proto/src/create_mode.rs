//! The kinds of node, and the operation and flags that create each kind.
//!
//! Not here: the requests that create nodes (`records`).

use core::time::Duration;

/// The kind of node that a create makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// The node stays until a client deletes it.
    #[default]
    Persistent,
    /// The node stays as a `Persistent` one, with a ten-digit number appended to the name.
    PersistentSequential,
    /// The server deletes the node when the session that created it ends.
    Ephemeral,
    /// The node ends as an `Ephemeral` one, with a ten-digit number appended to the name.
    EphemeralSequential,
    /// The server deletes the node some time after its last child was deleted.
    ///
    /// Needs a server from 3.5.1.
    Container,
    /// The server deletes the node when it has no children and its data was not set for this long.
    ///
    /// The time is 1 ms to 2^40-1 ms, in whole milliseconds. Needs a server from 3.5.3 with
    /// extended types enabled.
    PersistentWithTtl(Duration),
    /// The node ends as a `PersistentWithTtl` one, with a ten-digit number appended to the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// The longest time to live, in milliseconds. Source: `EphemeralType.TTL`, 40 bits.
    pub const MAX_TTL_MS: i64 = 0xff_ffff_ffff;

    /// The mode that these flags mean; `None` for unknown flags.
    ///
    /// `ttl_ms` is the TTL of a `createTTL`, and 0 for other operations.
    #[must_use]
    pub fn from_flags(flags: i32, ttl_ms: i64) -> Option<Self> {
        let ttl = || Duration::from_millis(u64::try_from(ttl_ms).unwrap_or(0));
        Some(match flags {
            0 => Self::Persistent,
            1 => Self::Ephemeral,
            2 => Self::PersistentSequential,
            3 => Self::EphemeralSequential,
            4 => Self::Container,
            5 => Self::PersistentWithTtl(ttl()),
            6 => Self::PersistentSequentialWithTtl(ttl()),
            _ => return None,
        })
    }

    /// The flags on the wire. With an operation other than `createContainer`, 4 makes a plain
    /// persistent node.
    #[must_use]
    pub fn flags(self) -> i32 {
        match self {
            Self::Persistent => 0,
            Self::Ephemeral => 1,
            Self::PersistentSequential => 2,
            Self::EphemeralSequential => 3,
            Self::Container => 4,
            Self::PersistentWithTtl(_) => 5,
            Self::PersistentSequentialWithTtl(_) => 6,
        }
    }

    /// Whether the server appends a number to the name.
    #[must_use]
    pub fn is_sequential(self) -> bool {
        matches!(
            self,
            Self::PersistentSequential
                | Self::EphemeralSequential
                | Self::PersistentSequentialWithTtl(_)
        )
    }

    /// Whether the server deletes the node when its session ends.
    #[must_use]
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// The time to live in milliseconds; `None` for a mode without one.
    #[must_use]
    pub fn ttl_ms(self) -> Option<i64> {
        match self {
            Self::PersistentWithTtl(ttl) | Self::PersistentSequentialWithTtl(ttl) => {
                Some(i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX))
            }
            _ => None,
        }
    }
}
