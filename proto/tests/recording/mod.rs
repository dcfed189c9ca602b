//! The recorded exchanges in `golden/`, line by line: who sent what, on which connection, and what the recorder says of it.
//!
//! Two standalone Java servers, 3.8.0 and 3.9.3, answered the same script; `golden/<exchange>.<version>.hex` is what
//! went over the wire. `C>` and `S>` are bytes of the client and of the server in hex, with the length that stands
//! before a message; `#` is a comment, and the one above a message lists its fields in order.
//! Not here: what the bytes mean (`golden.rs`).

#![allow(
    dead_code,
    reason = "shared by several test programs, none of which needs all"
)]

use std::{fs, path::PathBuf};

/// One exchange with one server.
pub(crate) struct Recording {
    /// What it is about: `create2`.
    pub(crate) exchange: String,
    /// The server's: `3.9.3`.
    pub(crate) version: String,
    /// Everything sent, in order.
    pub(crate) sent: Vec<Sent>,
}

/// One line of bytes.
pub(crate) struct Sent {
    pub(crate) side: Side,
    pub(crate) bytes: Vec<u8>,
    /// The comments since the line of bytes before it.
    pub(crate) comments: Vec<String>,
    /// Which connection of the exchange, from 0: a new one follows each end of file.
    pub(crate) connection: usize,
    /// The file and line, for failures.
    pub(crate) place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Sent {
    /// The comment right above: the fields of the message in order.
    pub(crate) fn said(&self) -> &str {
        self.comments.last().map_or("", String::as_str)
    }
}

/// All recordings, by file name. Panics when the folder, or a line of a file, is not as the head of this file says.
pub(crate) fn all() -> Vec<Recording> {
    some(|_| true)
}

/// Those of which the file's name is `wanted`, in order.
pub(crate) fn some(wanted: impl Fn(&str) -> bool) -> Vec<Recording> {
    if cfg!(miri) {
        let these = UNDER_MIRI.iter().filter(|(name, _)| wanted(name));
        return these.map(|(name, text)| parse(name, text)).collect();
    }
    let folder = PathBuf::from(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../proto/tests/golden"
    ));
    let entries =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut names: Vec<String> = entries
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    names
        .into_iter()
        .filter(|name| wanted(name))
        .map(|name| {
            let text = fs::read_to_string(folder.join(&name)).unwrap();
            parse(&name, &text)
        })
        .collect()
}

fn parse(name: &str, text: &str) -> Recording {
    let (exchange, version) = name
        .strip_suffix(".hex")
        .and_then(|stem| stem.split_once('.'))
        .unwrap_or_else(|| panic!("{name} is not <exchange>.<version>.hex"));
    let mut sent = Vec::new();
    let mut connection = 0;
    let mut comments = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let place = format!("golden/{name}:{}", index + 1);
        let (mark, rest) = line.split_at_checked(2).unwrap_or((line, ""));
        let side = match mark {
            "C>" => Side::Client,
            "S>" => Side::Server,
            "# " => {
                comments.push(rest.to_owned());
                connection += usize::from(rest == "server closes the connection (EOF)");
                continue;
            }
            _ => panic!("{place}: neither a comment nor bytes: {line}"),
        };
        sent.push(Sent {
            side,
            bytes: bytes_of_hex(rest.trim()).unwrap_or_else(|| panic!("{place}: not hex")),
            comments: std::mem::take(&mut comments),
            connection,
            place,
        });
    }
    Recording {
        exchange: exchange.to_owned(),
        version: version.to_owned(),
        sent,
    }
}

/// A file's name and its text.
macro_rules! in_place {
    ($name:literal) => {
        ($name, include_str!(concat!("../golden/", $name)))
    };
}

/// The only ones under miri, where all take an hour and files are out of reach: of each server, requests and replies of as
/// many shapes as there are, and some that break the rules.
const UNDER_MIRI: &[(&str, &str)] = &[
    in_place!("4lw_srvr.3.9.3.hex"),
    in_place!("addWatch_recursive.3.9.3.hex"),
    in_place!("create2.3.9.3.hex"),
    in_place!("error_marshalling.3.8.0.hex"),
    in_place!("error_negative_vector_count.3.8.0.hex"),
    in_place!("error_negative_vector_count.3.9.3.hex"),
    in_place!("frame_too_long.3.8.0.hex"),
    in_place!("getACL.3.8.0.hex"),
    in_place!("getChildren2.3.8.0.hex"),
    in_place!("getEphemerals.3.9.3.hex"),
    in_place!("multiRead.3.8.0.hex"),
    in_place!("multi_success.3.9.3.hex"),
    in_place!("setWatches2.3.9.3.hex"),
    in_place!("whoAmI.3.8.0.hex"),
];

fn bytes_of_hex(digits: &str) -> Option<Vec<u8>> {
    digits
        .as_bytes()
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok())
        .collect()
}
