//! The fields and options that several requests have in common.
//!
//! Not here: requests that share nothing with others (`request`).

use bytes::{Bytes, BytesMut};
use lockkeeper::proto::{
    Acl, Acls, Perms, Version,
    jute::Encode,
    records::{
        CheckVersionRequest, CreateRequest, CreateTtlRequest, DeleteRequest, GetChildrenRequest,
        GetDataRequest, SetDataRequest, SetWatches2,
    },
};

use super::{request::encode, words::Words};

/// The option `data=`. Without it: empty.
pub(crate) fn data(words: &mut Words<'_>) -> Option<Bytes> {
    words.option_bytes("data", Some(Vec::new()))
}

pub(crate) fn create(words: &mut Words<'_>, default_mode: i32) -> CreateRequest {
    let path = words.text();
    let acl = acl(words);
    let flags = mode(words).unwrap_or(default_mode);
    let data = match words.number::<usize>("fill") {
        // So many bytes that the message, with its header and this record, has that length.
        Some(message) => {
            let mut rest = BytesMut::new();
            let record = CreateRequest {
                path: path.clone(),
                data: None,
                acl: acl.clone(),
                flags,
            };
            encode(&mut rest, |writer| record.encode(writer));
            Some(vec![b'x'; message - 8 - rest.len()].into())
        }
        None => data(words),
    };
    CreateRequest {
        path,
        data,
        acl,
        flags,
    }
}

pub(crate) fn create_ttl(words: &mut Words<'_>) -> CreateTtlRequest {
    let CreateRequest {
        path,
        data,
        acl,
        flags,
    } = create(words, 5);
    let ttl_ms = words.number("ttl").expect("a ttl");
    CreateTtlRequest {
        path,
        data,
        acl,
        flags,
        ttl_ms,
    }
}

pub(crate) fn delete(words: &mut Words<'_>) -> DeleteRequest {
    DeleteRequest {
        path: words.text(),
        version: version(words),
    }
}

pub(crate) fn get_data(words: &mut Words<'_>) -> GetDataRequest {
    GetDataRequest {
        path: words.text(),
        watch: words.flag("watch"),
    }
}

pub(crate) fn get_children(words: &mut Words<'_>) -> GetChildrenRequest {
    GetChildrenRequest {
        path: words.text(),
        watch: words.flag("watch"),
    }
}

pub(crate) fn set_data(words: &mut Words<'_>) -> SetDataRequest {
    SetDataRequest {
        path: words.text(),
        data: data(words),
        version: version(words),
    }
}

pub(crate) fn check(words: &mut Words<'_>) -> CheckVersionRequest {
    CheckVersionRequest {
        path: words.text(),
        version: version(words),
    }
}

pub(crate) fn set_watches(words: &mut Words<'_>) -> SetWatches2 {
    let zxid = words.option("zxid").expect("a zxid");
    SetWatches2 {
        relative_zxid: words.names().zxid_called(&zxid),
        data_watches: words.paths("data"),
        exist_watches: words.paths("exist"),
        child_watches: words.paths("child"),
        persistent_watches: Vec::new(),
        persistent_recursive_watches: Vec::new(),
    }
}

/// The option `version=`. Without it: any version.
pub(crate) fn version(words: &mut Words<'_>) -> Version {
    words.number("version").map_or(Version::ANY, Version)
}

fn mode(words: &mut Words<'_>) -> Option<i32> {
    const MODES: [&str; 7] = [
        "persistent",
        "ephemeral",
        "sequential",
        "ephemeral-sequential",
        "container",
        "ttl",
        "ttl-sequential",
    ];
    let mode = words.option("mode")?;
    let named = (0..).zip(MODES).find(|(_, name)| *name == mode);
    Some(named.map_or_else(|| mode.parse().expect("a number"), |(flags, _)| flags))
}

pub(crate) fn kind(words: &mut Words<'_>, kinds: &[(&str, i32)]) -> i32 {
    let kind = words.option("kind").expect("a kind");
    let named = kinds.iter().find(|(name, _)| *name == kind);
    named.map_or_else(|| kind.parse().expect("a number"), |(_, number)| *number)
}

/// `acl=SCHEME:ID:PERMS,...`. Without it, anyone may do everything. `none` is an empty list.
pub(crate) fn acl(words: &mut Words<'_>) -> Option<Acls> {
    let entry = |entry: &str| {
        let (scheme, rest) = entry.split_once(':').expect("a scheme");
        let (id, perms) = rest.rsplit_once(':').expect("permissions");
        Acl::new(perms_called(perms), scheme.to_owned(), id.to_owned())
    };
    match words.option("acl").as_deref() {
        None => Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
        Some("null") => None,
        Some("none") => Some(Acls::Owned(Vec::new())),
        Some(list) => {
            let list = words.names().expand(list);
            Some(Acls::Owned(list.split(',').map(entry).collect()))
        }
    }
}

/// Permissions as zkCli writes them, in the order of their bits.
pub(crate) const PERMS: &str = "rwcda";

fn perms_called(text: &str) -> Perms {
    let letter = |letter| PERMS.find(letter).map(|bit| 1 << bit);
    let letters: Option<i32> = text.chars().map(letter).sum();
    Perms(letters.unwrap_or_else(|| text.parse().expect("a number")))
}
