//! Access control lists.

use alloc::borrow::Cow;

use crate::jute::record;

/// An ACL list as it travels: the well-known ones are static, so that sending them allocates nothing.
pub type Acls = Cow<'static, [Acl]>;

record! {
    /// Whom an entry is about.
    #[derive(Hash)]
    pub struct Id {
        /// `world`, `auth`, `digest`, `ip`, `sasl`, `x509`, ..
        pub scheme: Cow<'static, str>,
        /// What the scheme says it is: `anyone`, `user:hash`, `10.0.0.0/8`, ..
        pub id: Cow<'static, str>,
    }

    /// One entry: what one id may do.
    #[derive(Hash)]
    pub struct Acl {
        /// What is allowed.
        pub perms: Perms,
        /// To whom.
        pub id: Id,
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
