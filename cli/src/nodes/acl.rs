//! `lockkeeper getacl`, `setacl` and `whoami`, and entries of ACLs as text.
//!
//! An entry is `SCHEME:ID:PERMISSIONS`, as in ZooKeeper's own command. An id may contain colons, a scheme and permissions may not.

use std::fmt;

use lockkeeper::{
    Client, Version,
    node::{Acl, Perms},
};

use super::args::{GetAclArgs, SetAclArgs};
use crate::{exit::Failure, text};

/// The letters of the permissions, in the order in which they are printed.
const LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

pub(super) async fn get(args: &GetAclArgs, client: &Client) -> Result<(), Failure> {
    let answer = client.get_acl(args.path.as_str()).await;
    let acl = answer.map_err(Failure::Refused)?.acl;
    let lines: String = acl
        .iter()
        .map(|entry| text::name(&show(entry)) + "\n")
        .collect();
    text::print(lines)
}

pub(super) async fn set(args: &SetAclArgs, client: &Client) -> Result<(), Failure> {
    let version = args.version.map_or(Version::ANY, Version);
    let set = client.set_acl(args.path.as_str(), args.acl.clone(), version);
    set.await.map(drop).map_err(Failure::Refused)
}

pub(super) async fn who_am_i(client: &Client) -> Result<(), Failure> {
    let mut ids = client.who_am_i().await.map_err(Failure::Refused)?;
    ids.sort_by(|one, other| (&one.auth_scheme, &one.user).cmp(&(&other.auth_scheme, &other.user)));
    let line = |scheme: &str, user: &str| text::name(&format!("{scheme}:{user}")) + "\n";
    let lines: String = ids
        .iter()
        .map(|id| line(&id.auth_scheme, &id.user))
        .collect();
    text::print(lines)
}

/// Whether the server has put an `x` in the place of a user's digest. It does so for clients that may not change the ACL.
pub(super) fn is_hidden(entry: &Acl) -> bool {
    entry.id.scheme == "digest" && entry.id.id.ends_with(":x")
}

/// An entry as text.
pub(super) fn show(entry: &Acl) -> String {
    let may = |(_, perms): &&(char, Perms)| entry.perms.allows_any_of(*perms);
    let letters: String = LETTERS
        .iter()
        .filter(may)
        .map(|(letter, _)| *letter)
        .collect();
    format!("{}:{}:{letters}", entry.id.scheme, entry.id.id)
}

/// Parses an entry.
pub(super) fn entry(text: &str) -> Result<Acl, BadEntry> {
    let (id, letters) = text.rsplit_once(':').ok_or(BadEntry)?;
    let (scheme, id) = id.split_once(':').ok_or(BadEntry)?;
    let mut perms = Perms(0);
    for letter in letters.chars() {
        let known = LETTERS.iter().find(|(known, _)| *known == letter);
        perms = perms | known.ok_or(BadEntry)?.1;
    }
    if scheme.is_empty() {
        return Err(BadEntry);
    }
    Ok(Acl::new(perms, scheme.to_owned(), id.to_owned()))
}

/// The text is not an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct BadEntry;

impl fmt::Display for BadEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an entry looks like world:anyone:cdrwa, auth::cdrwa or digest:USER:HASH:r")
    }
}

impl std::error::Error for BadEntry {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_read_and_printed_again() {
        for text in [
            "world:anyone:cdrwa",
            "auth::r",
            "digest:a:b=:cd",
            "ip:10.0.0.0/8:",
        ] {
            assert_eq!(show(&entry(text).unwrap()), text);
        }
        for text in ["", "world", "world:anyone", "world:anyone:x", "::r"] {
            assert_eq!(entry(text), Err(BadEntry), "{text}");
        }
    }
}
