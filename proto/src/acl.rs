//! Access control lists.

use alloc::{borrow::Cow, string::String};

use crate::jute::{Decode, DecodeError, Encode, Reader, Writer, record};

/// An ACL list as it travels: the well-known ones are static, so that sending them allocates nothing.
pub type Acls = Cow<'static, [Acl]>;

/// Whom an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// `world`, `auth`, `digest`, `ip`, `sasl`, `x509`, ..
    pub scheme: Cow<'static, str>,
    /// What the scheme says it is: `anyone`, `user:hash`, `10.0.0.0/8`, ..
    pub id: Cow<'static, str>,
}

record! {
    /// One entry: what one id may do.
    #[derive(Hash)]
    pub struct Acl {
        /// What is allowed.
        pub perms: Perms,
        /// To whom.
        pub id: Id,
    }
}

impl Encode for Id {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.scheme.encode(writer);
        self.id.encode(writer);
    }
}

/// Null is read as empty where servers do not mind it: as a scheme, which is then one that nobody knows, and as the id of
/// `auth`, which nobody looks at. kazoo writes every empty string as null, and so its `CREATOR_ALL_ACL`.
impl Decode for Id {
    const SMALLEST: usize = 8;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        reader.enter("Id.scheme");
        let scheme = reader.take_string()?.unwrap_or_default();
        reader.enter("Id.id");
        let id = match scheme.as_str() {
            "auth" => reader.take_string()?.unwrap_or_default(),
            _ => String::decode(reader)?,
        };
        Ok(Self {
            scheme: Cow::Owned(scheme),
            id: Cow::Owned(id),
        })
    }
}

crate::ids::wire_integer! {
    /// A set of permissions.
    Perms(i32)
}

impl Perms {
    /// Read data and list children.
    pub const READ: Self = Self(1);
    /// Set data.
    pub const WRITE: Self = Self(2);
    /// Create children.
    pub const CREATE: Self = Self(4);
    /// Delete children.
    pub const DELETE: Self = Self(8);
    /// Set the ACL.
    pub const ADMIN: Self = Self(16);
    /// Everything.
    pub const ALL: Self = Self(31);

    /// Whether any permission of `needed` is in this set.
    #[must_use]
    pub fn allows_any_of(self, needed: Self) -> bool {
        self.0 & needed.0 != 0
    }
}

impl core::ops::BitOr for Perms {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl Acl {
    /// Anyone may do everything. The default of every create.
    pub const OPEN_UNSAFE: &'static [Self] = &[Self::of_static(Perms::ALL, "world", "anyone")];
    /// Anyone may read.
    pub const READ_UNSAFE: &'static [Self] = &[Self::of_static(Perms::READ, "world", "anyone")];
    /// Whoever creates the node may do everything; needs an authenticated connection.
    pub const CREATOR_ALL: &'static [Self] = &[Self::of_static(Perms::ALL, "auth", "")];

    const fn of_static(perms: Perms, scheme: &'static str, id: &'static str) -> Self {
        Self {
            perms,
            id: Id {
                scheme: Cow::Borrowed(scheme),
                id: Cow::Borrowed(id),
            },
        }
    }

    /// An entry for one id.
    #[must_use]
    pub fn new(
        perms: Perms,
        scheme: impl Into<Cow<'static, str>>,
        id: impl Into<Cow<'static, str>>,
    ) -> Self {
        Self {
            perms,
            id: Id {
                scheme: scheme.into(),
                id: id.into(),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    #[test]
    fn null_is_nobody_known_and_the_whole_of_auth() {
        let decode = |bytes: &'static [u8]| Id::decode(&mut Reader::new(Bytes::from_static(bytes)));
        let auth = decode(b"\0\0\0\x04auth\xff\xff\xff\xff").unwrap();
        assert_eq!((&*auth.scheme, &*auth.id), ("auth", ""));
        let nobody = decode(b"\xff\xff\xff\xff\0\0\0\x01x").unwrap();
        assert_eq!((&*nobody.scheme, &*nobody.id), ("", "x"));
        let error = decode(b"\0\0\0\x05world\xff\xff\xff\xff").unwrap_err();
        assert_eq!((error.field, error.offset), ("Id.id", 9));
    }
}
