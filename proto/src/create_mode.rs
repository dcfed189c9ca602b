//! The kinds of node, and which operation and flags create each.

use core::time::Duration;

use crate::OpCode;

/// What kind of node a create makes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum CreateMode {
    /// Stays until it is deleted.
    #[default]
    Persistent,
    /// As `Persistent`, with a ten-digit number appended to the name.
    PersistentSequential,
    /// Goes with the session that created it.
    Ephemeral,
    /// As `Ephemeral`, with a ten-digit number appended to the name.
    EphemeralSequential,
    /// Deleted by the server some time after its last child was. Servers from 3.5.1.
    Container,
    /// Deleted by the server when it has no children and its data were not set for that long.
    /// Servers from 3.5.3 that have extended types enabled; 1 ms to 2^40-1 ms, whole milliseconds.
    PersistentWithTtl(Duration),
    /// As `PersistentWithTtl`, with a ten-digit number appended to the name.
    PersistentSequentialWithTtl(Duration),
}

impl CreateMode {
    /// The longest time to live, in milliseconds. Source: `EphemeralType.TTL`, 40 bits.
    pub const MAX_TTL_MS: i64 = 0xff_ffff_ffff;

    /// The mode of these flags, given the TTL of a `createTTL` (0 otherwise); `None` for flags that mean nothing.
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

    /// The flags on the wire.
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

    /// The operation that creates such a node and answers with its `Stat`.
    ///
    /// Flag 4 under any other operation makes a plain persistent node: the mistake that leaks lock directories.
    #[must_use]
    pub fn op_code(self) -> OpCode {
        match self {
            Self::Container => OpCode::CREATE_CONTAINER,
            Self::PersistentWithTtl(_) | Self::PersistentSequentialWithTtl(_) => OpCode::CREATE_TTL,
            _ => OpCode::CREATE2,
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

    /// Whether the node goes with its session.
    #[must_use]
    pub fn is_ephemeral(self) -> bool {
        matches!(self, Self::Ephemeral | Self::EphemeralSequential)
    }

    /// The time to live in milliseconds, where the mode has one.
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
