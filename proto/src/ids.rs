//! Newtypes for the protocol's integers, so that they cannot be mixed up, and the macros that
//! declare them.

/// Declares a newtype around a wire integer. It is encoded as that integer, and `Display` and
/// `Debug` print it in this format. Without a format, the caller implements `Display`.
macro_rules! wire_integer {
    ($($(#[$meta:meta])* $name:ident($inner:ty) $($format:literal)?)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $inner);

        impl $crate::jute::Encode for $name {
            #[inline]
            fn encode(&self, writer: &mut $crate::jute::Writer<'_>) {
                self.0.encode(writer);
            }
        }

        impl $crate::jute::Decode for $name {
            const SMALLEST: usize = <$inner as $crate::jute::Decode>::SMALLEST;

            #[inline]
            fn decode(reader: &mut $crate::jute::Reader) -> Result<Self, $crate::jute::DecodeError> {
                Ok(Self(<$inner>::decode(reader)?))
            }
        }

        $(impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, $format, self.0)
            }
        })?

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                core::fmt::Display::fmt(self, f)
            }
        }
    )*};
}

/// Declares a newtype around a wire `int` with named values. Other values are kept, and print as
/// their number.
macro_rules! wire_enum {
    (
        $(#[$meta:meta])* $name:ident {
            $($(#[$value_meta:meta])* $value:ident = $number:literal $text:literal,)*
        }
    ) => {
        $crate::ids::wire_integer! { $(#[$meta])* $name(i32) }

        impl $name {
            $($(#[$value_meta])* pub const $value: Self = Self($number);)*

            /// Every value that has a name.
            pub const NAMED: &'static [Self] = &[$(Self::$value),*];

            /// The name of the value; `None` for a value without a name.
            #[must_use]
            pub fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($number => Some($text),)*
                    _ => None,
                }
            }
        }

        impl core::fmt::Display for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self.name() {
                    Some(name) => write!(f, "{name} ({})", self.0),
                    None => write!(f, concat!("unknown ", stringify!($name), " {}"), self.0),
                }
            }
        }
    };
}

pub(crate) use {wire_enum, wire_integer};

wire_integer! {
    /// A transaction id: the epoch of the leader in the high half, a counter in the low one. It
    /// orders all changes.
    Zxid(i64) "{:#x}"
    /// The id of a session. It is opaque, and never 0 for an existing session.
    SessionId(i64) "{:#x}"
    /// The number that pairs a reply with its request. Negative values are reserved: see the
    /// constants.
    Xid(i32) "{}"
    /// A node's version: data (`version`), children (`cversion`) or ACL (`aversion`). It wraps at
    /// 2^31.
    Version(i32) "{}"
}

impl Zxid {
    /// The zxid before any transaction.
    pub const ZERO: Self = Self(0);
}

impl SessionId {
    /// "No session". A client sends it to ask for a new session; a server sends it to refuse a
    /// session.
    pub const NONE: Self = Self(0);
}

impl Xid {
    /// A notification: a frame from the server that answers no request.
    pub const NOTIFICATION: Self = Self(-1);
    /// A ping and its reply.
    pub const PING: Self = Self(-2);
    /// An auth packet and its reply.
    pub const AUTH: Self = Self(-4);
    /// The xid that the C client gives to a `setWatches`.
    pub const SET_WATCHES: Self = Self(-8);
}

impl Version {
    /// Matches every version, so the operation is not conditional.
    pub const ANY: Self = Self(-1);
}
