//! Permissions: which ACL is stored for a create or setACL, and which operations an ACL allows.
//!
//! Not here: the identities of a connection (`auth`).

use std::{net::Ipv4Addr, sync::Arc};

use lockkeeper_proto::{Acl, ErrorCode, Id, Perms};

use super::{auth, tree::AclList};

/// Whether a connection with these ids has at least one of the permissions in `need`. The user
/// `super` has all.
///
/// Source: `ZooKeeperServer.checkACL`.
pub(crate) fn allows(acl: &[Acl], need: Perms, ids: &[Id]) -> bool {
    acl.is_empty()
        || acl.iter().any(|entry| {
            entry.perms.allows_any_of(need)
                && (is_anyone(&entry.id) || ids.iter().any(|own| matches(own, &entry.id)))
        })
        || ids.iter().any(|own| own.scheme == auth::SUPER)
}

/// Like [`allows`], with an error if the answer is no.
pub(crate) fn check(acl: &[Acl], need: Perms, ids: &[Id]) -> Result<(), ErrorCode> {
    let may = allows(acl, need, ids);
    may.then_some(()).ok_or(ErrorCode::NO_AUTH)
}

/// The list to store for the list that a client sent: duplicates are dropped, then the ids of the
/// connection replace `auth`.
///
/// Duplicates that the replacement makes stay. Source: `PrepRequestProcessor.fixupACL`. The limit of
/// 256 entries is ours.
pub(crate) fn normalise(sent: Option<&[Acl]>, ids: &[Id]) -> Result<AclList, ErrorCode> {
    let sent = sent.unwrap_or_default();
    if sent == Acl::OPEN_UNSAFE {
        return Ok(Arc::from(Acl::OPEN_UNSAFE));
    }
    if sent.len() > MOST_ENTRIES {
        return Err(ErrorCode::INVALID_ACL);
    }
    let mut list: Vec<Acl> = Vec::with_capacity(sent.len());
    for (index, entry) in sent.iter().enumerate() {
        if sent.iter().take(index).any(|earlier| earlier == entry) {
            continue;
        }
        match &*entry.id.scheme {
            "auth" => {
                let before = list.len();
                let (perms, own) = (entry.perms, ids.iter().cloned());
                list.extend(own.filter(is_authentication).map(|id| Acl { perms, id }));
                if list.len() == before {
                    return Err(ErrorCode::INVALID_ACL);
                }
            }
            _ if is_valid(&entry.id) => list.push(entry.clone()),
            _ => return Err(ErrorCode::INVALID_ACL),
        }
    }
    if list.is_empty() || list.len() > MOST_ENTRIES {
        return Err(ErrorCode::INVALID_ACL);
    }
    Ok(Arc::from(list))
}

/// The list that a client without ADMIN may see: without password hashes.
///
/// Source: `FinalRequestProcessor`, `getACL`.
pub(crate) fn redacted(acl: &[Acl]) -> Vec<Acl> {
    let redact = |entry: &Acl| {
        if entry.id.scheme == "digest" {
            let user = entry.id.id.split(':').next().unwrap_or_default();
            Acl::new(entry.perms, "digest", format!("{user}:x"))
        } else {
            entry.clone()
        }
    };
    acl.iter().map(redact).collect()
}

/// The maximum number of entries. Storing a list compares each entry with all before it, and each
/// check reads the list.
const MOST_ENTRIES: usize = 256;

fn is_anyone(id: &Id) -> bool {
    id.scheme == "world" && id.id == "anyone"
}

/// Whether an id is a proof of identity and so may replace `auth`. An address is not.
fn is_authentication(id: &Id) -> bool {
    id.scheme == "digest"
}

/// Whether the server accepts an id in an ACL list. It knows the schemes of a ZooKeeper without SASL
/// and TLS.
fn is_valid(id: &Id) -> bool {
    match &*id.scheme {
        "world" => id.id == "anyone",
        "ip" => network(&id.id).is_some(),
        "digest" => is_valid_digest(&id.id),
        _ => false,
    }
}

/// Whether the id has two parts, as Java's `split(":")` counts them: it ignores empty parts at the
/// end.
///
/// Source: `DigestAuthenticationProvider.isValid`.
fn is_valid_digest(id: &str) -> bool {
    id.trim_end_matches(':').matches(':').count() == 1
}

/// Whether the entry `wanted` covers a connection with the id `own`.
fn matches(own: &Id, wanted: &Id) -> bool {
    own.scheme == wanted.scheme
        && match &*own.scheme {
            "ip" => match (network(&wanted.id), own.id.parse::<Ipv4Addr>()) {
                (Some((address, mask)), Ok(own)) => own.to_bits() & mask == address & mask,
                _ => false,
            },
            _ => own.id == wanted.id,
        }
}

/// An IPv4 network: an address and a mask. Source: `IPAuthenticationProvider`; IPv6 comes only with
/// 3.10.
fn network(text: &str) -> Option<(u32, u32)> {
    let (address, bits) = match text.split_once('/') {
        None => (text, 32),
        Some((address, bits)) => (address, bits.parse::<u32>().ok()?),
    };
    let mask = match bits {
        0 => 0,
        1..=32 => u32::MAX << 32_u32.saturating_sub(bits),
        _ => return None,
    };
    Some((parse_address(address)?.to_bits(), mask))
}

/// Four numbers. Unlike in Rust, leading zeros are allowed. Source:
/// `IPAuthenticationProvider.v4addr2Bytes`.
fn parse_address(text: &str) -> Option<Ipv4Addr> {
    let bytes: Result<Vec<u8>, _> = text.split('.').map(str::parse).collect();
    <[u8; 4]>::try_from(bytes.ok()?).ok().map(Ipv4Addr::from)
}
