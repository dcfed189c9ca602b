//! Access control lists: who may do what with a node.
//!
//! Not here: the check of a request against an ACL. The embedded server does it.

use alloc::{borrow::Cow, string::String};

use crate::jute::{Decode, DecodeError, Encode, Reader, Writer, record};

/// An ACL list in a message. The well-known lists are static, so sending them allocates nothing.
pub type Acls = Cow<'static, [Acl]>;

/// The identity that an entry is about.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Id {
    /// `world`, `auth`, `digest`, `ip`, `sasl`, `x509`, ..
    pub scheme: Cow<'static, str>,
    /// The identity within the scheme: `anyone`, `user:hash`, `10.0.0.0/8`, ..
    pub id: Cow<'static, str>,
}

record! {
    /// One entry of a list: what one identity may do.
    #[derive(Hash)]
    pub struct Acl {
        /// The permissions.
        pub perms: Perms,
        /// The identity that has them.
        pub id: Id,
    }
}

impl Id {
    /// Everyone: the identity in most lists.
    const ANYONE: Self = Self::named("world", "anyone");
    /// [`ANYONE`](Self::ANYONE), encoded.
    const ANYONE_ENCODED: &'static [u8] = b"\0\0\0\x05world\0\0\0\x06anyone";

    const fn named(scheme: &'static str, id: &'static str) -> Self {
        Self {
            scheme: Cow::Borrowed(scheme),
            id: Cow::Borrowed(id),
        }
    }
}

impl Encode for Id {
    fn encode(&self, writer: &mut Writer<'_>) {
        self.scheme.encode(writer);
        self.id.encode(writer);
    }
}

/// Reads null as an empty string in the two places where servers accept it:
///
/// - as a scheme; no server knows an empty scheme;
/// - as the id of the scheme `auth`; no server looks at this id.
///
/// kazoo writes every empty string as null, so its `CREATOR_ALL_ACL` contains a null.
impl Decode for Id {
    const SMALLEST: usize = 8;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        if reader.take_if(Self::ANYONE_ENCODED) {
            return Ok(Self::ANYONE);
        }
        reader.enter("Id.scheme");
        let scheme = reader.take_string()?.unwrap_or_default();
        reader.enter("Id.id");
        let id = match reader.take_string()? {
            Some(id) => id,
            None if scheme == "auth" => String::new(),
            None => return Err(reader.null()),
        };
        Ok(Self {
            scheme: Cow::Owned(scheme),
            id: Cow::Owned(id),
        })
    }
}

crate::ids::wire_integer! {
    /// A set of permissions.
    Perms(i32) "{}"
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
    /// All permissions.
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
    /// Anyone may do everything. This is the default of every create.
    pub const OPEN_UNSAFE: &'static [Self] = &[Self::of(Perms::ALL, Id::ANYONE)];
    /// Anyone may read.
    pub const READ_UNSAFE: &'static [Self] = &[Self::of(Perms::READ, Id::ANYONE)];
    /// Every identity of the connection that creates the node may do everything: with a client
    /// certificate, everybody who has it. The create needs an authenticated connection.
    pub const CREATOR_ALL: &'static [Self] = &[Self::of(Perms::ALL, Id::named("auth", ""))];

    const fn of(perms: Perms, id: Id) -> Self {
        Self { perms, id }
    }

    /// Makes an entry for one identity.
    #[must_use]
    pub fn new(
        perms: Perms,
        scheme: impl Into<Cow<'static, str>>,
        id: impl Into<Cow<'static, str>>,
    ) -> Self {
        let (scheme, id) = (scheme.into(), id.into());
        Self::of(perms, Id { scheme, id })
    }
}

#[cfg(test)]
mod tests {
    use bytes::{Bytes, BytesMut};

    use super::*;

    #[test]
    fn everyone_is_read_without_a_copy_and_nobody_else_counts_as_everyone() {
        let mut everyone = BytesMut::new();
        Id::ANYONE.encode(&mut Writer::new(&mut everyone));
        assert_eq!(&everyone[..], Id::ANYONE_ENCODED);
        let decode = |bytes: &[u8]| Id::decode(&mut Reader::new(Bytes::copy_from_slice(bytes)));
        let read = decode(&everyone).unwrap();
        assert_eq!(read, Id::ANYONE);
        assert!(matches!(
            (read.scheme, read.id),
            (Cow::Borrowed(_), Cow::Borrowed(_))
        ));
        *everyone.last_mut().unwrap() = b'x';
        assert_eq!(&*decode(&everyone).unwrap().id, "anyonx");
        let short = decode(&everyone[..everyone.len() - 1]).unwrap_err();
        assert_eq!(short.field, "Id.id");
    }

    #[test]
    fn null_is_read_as_an_empty_scheme_and_as_the_empty_id_of_auth() {
        let decode = |bytes: &'static [u8]| Id::decode(&mut Reader::new(Bytes::from_static(bytes)));
        let auth = decode(b"\0\0\0\x04auth\xff\xff\xff\xff").unwrap();
        assert_eq!((&*auth.scheme, &*auth.id), ("auth", ""));
        let unknown = decode(b"\xff\xff\xff\xff\0\0\0\x01x").unwrap();
        assert_eq!((&*unknown.scheme, &*unknown.id), ("", "x"));
        let error = decode(b"\0\0\0\x05world\xff\xff\xff\xff").unwrap_err();
        assert_eq!((error.field, error.offset), ("Id.id", 9));
    }
}
