//! Reads the recorded exchanges in `golden/`: for each message its sender, its connection and the
//! recorder's comments.
//!
//! Two standalone Java servers, 3.8.0 and 3.9.3, answered the same script.
//! `golden/<exchange>.<version>.hex` has the bytes that went over the wire:
//!
//! - `C>`: bytes of the client in hex, including the length before each message;
//! - `S>`: bytes of the server, in the same form;
//! - `#`: a comment. The comment just above a message lists its fields in order.
//!
//! Not here: the meaning of the bytes (`golden.rs`).

#![allow(
    dead_code,
    reason = "shared by several test programs; each of them uses a part"
)]

use std::{fs, path::PathBuf};

/// One exchange with one server.
pub(crate) struct Recording {
    /// The name of the exchange: `create2`.
    pub(crate) exchange: String,
    /// The version of the server: `3.9.3`.
    pub(crate) version: String,
    /// The messages of both sides, in order.
    pub(crate) sent: Vec<Sent>,
}

/// One line of bytes.
pub(crate) struct Sent {
    pub(crate) side: Side,
    pub(crate) bytes: Vec<u8>,
    /// The comments since the previous line of bytes.
    pub(crate) comments: Vec<String>,
    /// The index of the connection in the exchange, from 0. A new connection follows each end of
    /// file.
    pub(crate) connection: usize,
    /// The file and line, for the message of a failed test.
    pub(crate) place: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Side {
    Client,
    Server,
}

impl Sent {
    /// The comment just above the message: its fields in order.
    pub(crate) fn said(&self) -> &str {
        self.comments.last().map_or("", String::as_str)
    }
}

/// All recordings, in the order of their file names.
///
/// Panics when the folder cannot be read, or when a line does not have the form that the head of
/// this file describes.
pub(crate) fn all() -> Vec<Recording> {
    some(|_| true)
}

/// The recordings with a `wanted` file name, in the order of the names.
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

/// The name and the text of a file, compiled into the program.
macro_rules! in_place {
    ($name:literal) => {
        ($name, include_str!(concat!("../golden/", $name)))
    };
}

/// The only recordings that are used under miri: miri cannot read files, and all recordings would
/// take an hour.
///
/// They contain, for each server, requests and replies of as many shapes as possible, and some
/// malformed messages.
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
