//! The identities of a connection: its address, and what it proves with auth packets.
//!
//! Not here: what an id may do (`acl`).

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

use base64::{Engine as _, prelude::BASE64_STANDARD};
use lockkeeper_proto::{
    Id,
    records::{AuthPacket, ClientInfo},
};
use sha1::{Digest, Sha1};

/// The ids plus those that an auth packet proves; `None` if it proves nothing.
///
/// Source: `DigestAuthenticationProvider.handleAuthentication`.
pub(crate) fn proved(
    ids: &Arc<[Id]>,
    packet: &AuthPacket,
    remote: IpAddr,
    super_digest: Option<&str>,
) -> Option<Arc<[Id]>> {
    let identity = identity(packet, remote)?;
    if super_digest == Some(&*identity.id) {
        let ids = with(ids, id(SUPER, String::new()))?;
        return with(&ids, identity);
    }
    with(ids, identity)
}

fn identity(packet: &AuthPacket, remote: IpAddr) -> Option<Id> {
    match &*packet.scheme {
        "ip" => Some(address_id(remote)),
        "digest" => {
            let credentials = packet.auth.as_deref()?;
            Some(id("digest", digest(&String::from_utf8_lossy(credentials))))
        }
        _ => None,
    }
}

/// The scheme of a client that has proved to be the user `super`. An ACL cannot contain it.
pub(crate) const SUPER: &str = "super";

/// The id of a remote address. Every connection has one.
pub(crate) fn address_id(remote: IpAddr) -> Id {
    let text = match remote.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => in_full(address),
    };
    id("ip", text)
}

/// The ids plus a new one; an id that is already there is not added again.
///
/// `None` if there would be too many: each id is compared with each entry of an ACL, and an `auth`
/// entry stores all ids.
fn with(ids: &Arc<[Id]>, new: Id) -> Option<Arc<[Id]>> {
    if ids.contains(&new) {
        return Some(Arc::clone(ids));
    }
    let length = |id: &Id| id.scheme.len().saturating_add(id.id.len());
    let all = ids.iter().map(length).sum::<usize>();
    let fits = ids.len() < MOST_IDS && all.saturating_add(length(&new)) <= MOST_TEXT;
    fits.then(|| ids.iter().cloned().chain([new]).collect())
}

/// The ids for the reply to `whoAmI`: without password hashes.
pub(crate) fn client_info(ids: &[Id]) -> Vec<ClientInfo> {
    let user = |id: &Id| match &*id.scheme {
        "digest" => id.id.split(':').next().unwrap_or_default().to_owned(),
        _ => id.id.to_string(),
    };
    ids.iter()
        .map(|id| ClientInfo {
            auth_scheme: id.scheme.to_string(),
            user: user(id),
        })
        .collect()
}

/// The digest of `user:password` as it stands in an ACL: the user, and a hash of the whole text.
///
/// Source: `DigestAuthenticationProvider.generateDigest`.
pub(crate) fn digest(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = BASE64_STANDARD.encode(Sha1::digest(credentials.as_bytes()));
    format!("{user}:{hash}")
}

/// Eight groups without leading zeros, as Java prints an address.
fn in_full(address: Ipv6Addr) -> String {
    let groups = address.segments().map(|group| format!("{group:x}"));
    groups.join(":")
}

fn id(scheme: &'static str, id: String) -> Id {
    Id {
        scheme: scheme.into(),
        id: id.into(),
    }
}

/// The maximum number of identities of one connection, including its address.
const MOST_IDS: usize = 32;

/// The maximum length of all these identities together, in bytes.
const MOST_TEXT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_written_as_java_does() {
        let text = |address: &str| address_id(address.parse().unwrap()).id.into_owned();
        assert_eq!(text("127.0.0.1"), "127.0.0.1");
        assert_eq!(text("::1"), "0:0:0:0:0:0:0:1");
        assert_eq!(text("::ffff:10.0.0.1"), "10.0.0.1");
    }
}
