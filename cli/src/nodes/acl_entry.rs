//! Entries of ACLs as text: `SCHEME:ID:PERMISSIONS`, as in ZooKeeper's own command.
//!
//! An id may contain colons, a scheme and permissions may not. Not here: the commands (`acl`).

use lockkeeper::node::{Acl, Perms};

/// The letters of the permissions, in the order in which they are printed.
const LETTERS: [(char, Perms); 5] = [
    ('c', Perms::CREATE),
    ('d', Perms::DELETE),
    ('r', Perms::READ),
    ('w', Perms::WRITE),
    ('a', Perms::ADMIN),
];

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
pub(super) fn entry(text: &str) -> Result<Acl, &'static str> {
    let parse = || {
        let (id, letters) = text.rsplit_once(':')?;
        let (scheme, id) = id
            .split_once(':')
            .filter(|(scheme, _)| !scheme.is_empty())?;
        let mut perms = letters
            .chars()
            .map(|letter| LETTERS.iter().find(|(it, _)| *it == letter));
        let perms = perms.try_fold(Perms(0), |all, it| Some(all | it?.1))?;
        Some(Acl::new(perms, scheme.to_owned(), id.to_owned()))
    };
    parse().ok_or("an entry looks like world:anyone:cdrwa, auth::cdrwa or digest:USER:HASH:r")
}

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
            assert!(entry(text).is_err(), "{text}");
        }
    }
}
