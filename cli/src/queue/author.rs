//! Which client program has written the node of a contender, as far as its name and its data tell.
//!
//! Names of lockkeeper are those of Curator. Only the data tell one from the other: Curator's default data are the address of its
//! host, and `lockkeeper run` writes its host and process.

use std::net::IpAddr;

use lockkeeper::{
    locks::{Kind, QueueEntry},
    proto::path,
};

use crate::run;

/// The prefix of a name of lockkeeper, Curator or go-zk, before a UUID.
const PROTECTED: &str = "_c_";
/// The data of a plain lock of lockkeeper begin with as many bytes, which `inspect` has left out.
const MARK: i32 = 40;

/// The name of the program. `None` if that cannot be told.
pub(super) fn of(entry: &QueueEntry) -> Option<&'static str> {
    let data = std::str::from_utf8(entry.data.as_deref().unwrap_or_default()).ok()?;
    if entry.kind == Kind::Plain {
        let rest = i32::try_from(data.len()).ok()?;
        return (entry.stat.data_length == rest + MARK).then_some("lockkeeper");
    }
    let name = path::name(&entry.path);
    let Some(name) = name.strip_prefix(PROTECTED) else {
        return is_kazoo(name).then_some("kazoo");
    };
    if hexadecimal(name).is_some_and(|rest| rest.starts_with("-lock-")) {
        return Some("go-zk");
    }
    let is_address = data.parse::<IpAddr>().is_ok();
    match () {
        () if !is_dashed_uuid(name) => None,
        () if is_address => Some("curator"),
        () if run::wrote(data) => Some("lockkeeper"),
        () => None,
    }
}

/// Whether kazoo names nodes so: a UUID without dashes, and for all but leases a marker and a number. The last marker is for kazoo with
/// the names of Curator.
fn is_kazoo(name: &str) -> bool {
    hexadecimal(name).is_some_and(|rest| {
        rest.is_empty()
            || ["__lock__", "__rlock__", "-lock-"]
                .iter()
                .any(|it| rest.starts_with(it))
    })
}

/// What follows a UUID without dashes.
fn hexadecimal(name: &str) -> Option<&str> {
    let (uuid, rest) = name.split_at_checked(32)?;
    uuid.bytes()
        .all(|it| it.is_ascii_hexdigit())
        .then_some(rest)
}

/// Whether a name begins with a UUID in its usual form, and a dash.
fn is_dashed_uuid(name: &str) -> bool {
    let parts: Vec<_> = name.split('-').take(5).collect();
    let is_hexadecimal = |part: &&str| part.bytes().all(|it| it.is_ascii_hexdigit());
    let lengths = parts.iter().map(|part| part.len());
    lengths.eq([8, 4, 4, 4, 12]) && parts.iter().all(is_hexadecimal) && name[36..].starts_with('-')
}
