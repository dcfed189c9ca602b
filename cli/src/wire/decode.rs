//! `lockkeeper wire decode`: prints the messages of recordings.

use std::{
    fs,
    io::{self, Read as _},
    path::Path,
};

use serde_json::Value;

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
        let bytes = if file == Path::new("-") {
            let mut bytes = Vec::new();
            io::stdin().lock().read_to_end(&mut bytes).map(|_| bytes)
        } else {
            fs::read(file)
        };
        let bytes = bytes.map_err(|error| Failure::file(file, &error))?;
        text::print(shown(args, file, &bytes)?)?;
    }
    Ok(exit::OK)
}

/// The messages of a recording.
fn shown(args: &DecodeArgs, file: &Path, bytes: &[u8]) -> Result<String, Failure> {
    let messages = match args.from {
        Some(side) => stream(side, bytes),
        None => recording(bytes).map_err(|number| {
            failure!(
                USAGE,
                "{}, line {number}: neither C> nor S> with hexadecimal digits, nor a comment; \
                 raw bytes need --from client or --from server",
                file.display()
            )
        })?,
    };
    let shown = |message: &Message| {
        if args.json {
            format!("{}\n", Value::Object(show::json(message, true)))
        } else {
            show::lines(message)
        }
    };
    Ok(messages.iter().map(shown).collect())
}

/// The bytes of one side.
fn stream(side: Side, bytes: &[u8]) -> Vec<Message> {
    let mut conversation = Conversation::default();
    let mut messages = conversation.hear(side, bytes);
    messages.extend(conversation.end());
    messages
}

/// Lines in hexadecimal.
///
/// # Errors
/// The number of a line that is none of a recording.
fn recording(text: &[u8]) -> Result<Vec<Message>, usize> {
    let mut conversation = Conversation::default();
    let mut messages = Vec::new();
    let lines = String::from_utf8_lossy(text);
    for (number, line) in (1..).zip(lines.lines()) {
        let line = line.trim();
        if line == CLOSED {
            messages.extend(conversation.end());
            conversation = Conversation::default();
        }
        let (side, hex) = match line.split_at_checked(2) {
            Some(("C>", hex)) => (Side::Client, hex),
            Some(("S>", hex)) => (Side::Server, hex),
            _ if line.is_empty() || line.starts_with('#') => continue,
            _ => return Err(number),
        };
        let bytes = hex::decode(hex.trim()).map_err(|_| number)?;
        messages.extend(conversation.hear(side, &bytes));
    }
    messages.extend(conversation.end());
    Ok(messages)
}
