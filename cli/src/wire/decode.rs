//! `lockkeeper wire decode`: prints the messages of recordings.

use std::{fs, path::Path};

use super::{
    DecodeArgs, Side,
    conversation::{Conversation, Message},
    show,
};
use crate::{
    exit::{self, Failure},
    text,
};

/// The comment after which a recording goes on with another connection.
const CLOSED: &str = "# server closes the connection (EOF)";

pub(super) fn run(args: &DecodeArgs) -> Result<u8, Failure> {
    for file in &args.files {
        let is_stdin = file == Path::new("-");
        let bytes = fs::read(if is_stdin {
            Path::new("/dev/stdin")
        } else {
            file
        });
        let bytes = bytes.map_err(|error| Failure::file(file, &error))?;
        text::print(shown(args, file, &bytes)?)?;
    }
    Ok(exit::OK)
}

/// The messages of a recording.
fn shown(args: &DecodeArgs, file: &Path, bytes: &[u8]) -> Result<String, Failure> {
    let mut conversation = Conversation::default();
    let mut messages = Vec::new();
    if let Some(side) = args.from {
        messages.extend(conversation.hear(side, bytes));
    } else {
        for (number, line) in (1..).zip(String::from_utf8_lossy(bytes).lines()) {
            let line = line.trim();
            if line == CLOSED {
                messages.extend(conversation.end());
                conversation = Conversation::default();
            }
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (side, bytes) = spoken(line).ok_or_else(|| {
                failure!(
                    USAGE,
                    "{}, line {number}: neither C> nor S> with hexadecimal digits, nor a comment; \
                     raw bytes need --from client or --from server",
                    file.display()
                )
            })?;
            messages.extend(conversation.hear(side, &bytes));
        }
    }
    messages.extend(conversation.end());
    let shown = |message: &Message| {
        if args.json {
            format!("{}\n", show::json(message, true))
        } else {
            show::lines(message)
        }
    };
    Ok(messages.iter().map(shown).collect())
}

/// The bytes of a line in hexadecimal, and their side.
fn spoken(line: &str) -> Option<(Side, Vec<u8>)> {
    let (side, hex) = match line.split_at_checked(2)? {
        ("C>", hex) => (Side::Client, hex),
        ("S>", hex) => (Side::Server, hex),
        _ => return None,
    };
    Some((side, hex::decode(hex.trim()).ok()?))
}
