//! SASL: a client proves its identity in an exchange of tokens, before the server answers anything
//! else.
//!
//! The engine passes tokens on and knows no mechanism. Without a mechanism it answers every token
//! with null, and the client continues without an identity.
//!
//! Not here: mechanisms (`digest_md5`), what an identity may do (`acl`), who must log in
//! (`requests`).
//!
//! Source: `ZooKeeperServer.processSasl`, `AuthenticationHelper.enforceAuthentication`.

use std::fmt;

use bytes::Bytes;
use sha1::{Digest, Sha1};

/// A mechanism with its users. Its `Debug` must not show their secrets.
pub(crate) trait Mechanism: fmt::Debug + Send + Sync {
    /// The answer to a connection's token with this number, counted from 0; `None` if the token
    /// proves nothing or comes out of turn. The nonce is that of the connection, and no client can
    /// predict it.
    fn answer(&self, nonce: &str, turn: u32, token: &[u8]) -> Option<Step>;
}

/// The result of one step of an exchange.
pub(crate) struct Step {
    /// The token for the client.
    pub(crate) token: Bytes,
    /// The user's name, once the client has proved it.
    pub(crate) identity: Option<String>,
}

/// The scheme of ACL entries that name a SASL user.
pub(crate) const SCHEME: &str = "sasl";

/// 160 bits that depend on the seed and do not reveal it.
pub(crate) fn nonce(seed: u64, connection: u64) -> String {
    let hash = Sha1::new()
        .chain_update("SASL")
        .chain_update(seed.to_be_bytes())
        .chain_update(connection.to_be_bytes());
    format!("{:x}", hash.finalize())
}
