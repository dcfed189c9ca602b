//! Who a connection is: the ids that it has by itself or proves by an auth packet.
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

/// The id that an auth packet proves; `None` when it proves nothing.
pub(crate) fn identity(packet: &AuthPacket, remote: IpAddr) -> Option<Id> {
    match &*packet.scheme {
        "ip" => Some(address_id(remote)),
        "digest" => {
            let credentials = packet.auth.as_deref()?;
            Some(id("digest", digest(&String::from_utf8_lossy(credentials))))
        }
        _ => None,
    }
}

/// The id of a remote address, which every connection has.
pub(crate) fn address_id(remote: IpAddr) -> Id {
    let text = match remote.to_canonical() {
        IpAddr::V4(address) => address.to_string(),
        IpAddr::V6(address) => in_full(address),
    };
    id("ip", text)
}

/// The ids with one more; a duplicate collapses. `None` when there would be too many: each is compared with each entry of
/// an ACL, and an entry for `auth` stores all of them.
pub(crate) fn with(ids: &Arc<[Id]>, new: Id) -> Option<Arc<[Id]>> {
    if ids.contains(&new) {
        return Some(Arc::clone(ids));
    }
    let length = |id: &Id| id.scheme.len().saturating_add(id.id.len());
    let all = ids.iter().map(length).sum::<usize>();
    let fits = ids.len() < MOST_IDS && all.saturating_add(length(&new)) <= MOST_TEXT;
    fits.then(|| ids.iter().cloned().chain([new]).collect())
}

/// The ids as `whoAmI` shows them: without hashes.
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

/// `user:password` as an ACL names it: the user, and a hash over the whole text.
///
/// Source: `DigestAuthenticationProvider.generateDigest`.
fn digest(credentials: &str) -> String {
    let user = credentials.split(':').next().unwrap_or_default();
    let hash = BASE64_STANDARD.encode(Sha1::digest(credentials.as_bytes()));
    format!("{user}:{hash}")
}

/// All eight groups without leading zeroes, as Java prints an address.
fn in_full(address: Ipv6Addr) -> String {
    address
        .segments()
        .map(|group| format!("{group:x}"))
        .join(":")
}

fn id(scheme: &'static str, id: String) -> Id {
    Id {
        scheme: scheme.into(),
        id: id.into(),
    }
}

/// Identities of one connection, its address included.
const MOST_IDS: usize = 32;

/// Bytes of all of them together.
const MOST_TEXT: usize = 4 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_java_server() {
        assert_eq!(digest("u:p"), "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=");
        assert_eq!(digest("user:pass"), "user:smGaoVKd/cQkjm7b88GyorAUz20=");
        assert!(digest("nocolon").starts_with("nocolon:"));
    }

    #[test]
    fn addresses_are_written_as_java_does() {
        let text = |address: &str| address_id(address.parse().unwrap()).id.into_owned();
        assert_eq!(text("127.0.0.1"), "127.0.0.1");
        assert_eq!(text("::1"), "0:0:0:0:0:0:0:1");
        assert_eq!(text("::ffff:10.0.0.1"), "10.0.0.1");
    }
}
