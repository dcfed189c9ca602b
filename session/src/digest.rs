//! Ids of the `digest` scheme: an ACL holds such an id in place of a password.
//!
//! A client gets such an identity with [`Builder::auth`](crate::Builder::auth), scheme `digest` and
//! credentials `user:password` in clear text. It sends them on each connection.
//!
//! Every client that can read a node's ACL sees its ids (servers from 3.7 hide the hash from most
//! clients). SHA-1 is fast, so an attacker can test many passwords against an id. Do not use a
//! password from a dictionary.
//!
//! ```
//! # use lockkeeper_server::Server;
//! # mod lockkeeper {
//! #     pub use lockkeeper_session::Client; pub use lockkeeper_proto::CreateMode;
//! #     pub mod client { pub use lockkeeper_session::digest; }
//! #     pub mod node { pub use lockkeeper_proto::Perms; }
//! # }
//! use lockkeeper::{Client, CreateMode, client::digest, node::Perms};
//!
//! # tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(async {
//! # let server = Server::builder().start().await?;
//! # let servers = server.connect_string();
//! let acl = vec![digest::acl(Perms::ALL, "alice", "open sesame")];
//! let alice = Client::builder(&servers)?
//!     .auth("digest", "alice:open sesame")
//!     .connect()
//!     .await?;
//! alice.create_with_acl("/hers", "", CreateMode::Persistent, acl).await?;
//! alice.get_data("/hers").await?;
//!
//! let bob = Client::connect(&servers).await?;
//! assert!(bob.get_data("/hers").await.is_err());
//! # Ok::<(), Box<dyn std::error::Error>>(()) })?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use base64::{Engine as _, engine::general_purpose::STANDARD};
use lockkeeper_proto::{Acl, Perms};
use sha1::{Digest as _, Sha1};

/// Returns the id of a user: `user:base64(sha1(user:password))`.
///
/// The user's name must not contain a colon: servers cut the name off there.
///
/// Source: `DigestAuthenticationProvider.java`, `generateDigest`.
///
/// ```
/// # mod lockkeeper { pub use lockkeeper_session as client; }
/// let id = lockkeeper::client::digest::id("super", "test");
/// assert_eq!(id, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
/// ```
#[must_use]
pub fn id(user: &str, password: &str) -> String {
    let hash = Sha1::digest(format!("{user}:{password}"));
    let user = user.split(':').next().unwrap_or_default();
    format!("{user}:{}", STANDARD.encode(hash))
}

/// Returns an entry of an ACL that gives these permissions to the user with this password.
#[must_use]
pub fn acl(perms: Perms, user: &str, password: &str) -> Acl {
    Acl::new(perms, "digest", id(user, password))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The expected ids are from ZooKeeper's `AuthTest.java` and from the documentation of
    /// `superDigest`.
    #[test]
    fn ids_match_those_of_zookeeper() {
        assert_eq!(id("super", "test"), "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
        assert_eq!(id("a:b", "c").split(':').next(), Some("a"));
        assert_eq!(
            id("a:b", "c").split_once(':').unwrap().1,
            id("a", "b:c").split_once(':').unwrap().1
        );
    }

    #[test]
    fn an_entry_holds_no_password() {
        let entry = acl(Perms::READ, "alice", "open sesame");
        assert_eq!((entry.perms, &*entry.id.scheme), (Perms::READ, "digest"));
        assert!(!format!("{entry:?}").contains("sesame"));
    }
}
