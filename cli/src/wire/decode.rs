//! `lockkeeper wire decode`: prints the messages of recordings and captures.

use std::{
    fs::File,
    io::{self, BufReader, Read},
    path::Path,
    time::Duration,
};

use serde_json::Value;

use super::{
    DecodeArgs, Side,
    conversation::{Conversation, Message},
    pcap::{self, Capture},
    show,
    streams::{Heard, Streams},
};
use crate::{
    exit::{self, Failure},
    text,
};

/// The comment after which a recording goes on with another connection.
const CLOSED: &str = "# server closes the connection (EOF)";

pub(super) fn run(args: &DecodeArgs) -> Result<u8, Failure> {
    for file in &args.files {
        let unread = |error| Failure::File(file.clone(), error);
        let mut input = open(file).map_err(unread)?;
        let mut start = Vec::new();
        let magic = input.by_ref().take(MAGIC).read_to_end(&mut start);
        magic.map_err(unread)?;
        let magic = start.first_chunk().copied();
        let is_capture = |magic: &_| args.from.is_none() && pcap::is_capture(*magic);
        if let Some(magic) = magic.filter(is_capture) {
            capture(args, file, magic, input)?;
        } else {
            input.read_to_end(&mut start).map_err(unread)?;
            text::print(shown(args, file, &start)?)?;
        }
    }
    Ok(exit::OK)
}

/// How many bytes tell a capture from a recording.
const MAGIC: u64 = 4;

fn open(file: &Path) -> io::Result<Box<dyn Read>> {
    Ok(if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(File::open(file)?))
    })
}

/// The messages of a recording.
fn shown(args: &DecodeArgs, file: &Path, bytes: &[u8]) -> Result<String, Failure> {
    let messages = match args.from {
        Some(side) => stream(side, bytes),
        None => recording(bytes).map_err(|number| Failure::NotRecorded(file.to_owned(), number))?,
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

/// Prints the messages of a capture, packet by packet: it may be made while we read.
fn capture(
    args: &DecodeArgs,
    file: &Path,
    magic: [u8; 4],
    input: impl Read,
) -> Result<(), Failure> {
    let failed = |problem| Failure::Capture(file.to_owned(), problem);
    let mut capture = Capture::open(magic, input).map_err(failed)?;
    let mut streams = Streams::new(args.port);
    let mut now = Duration::ZERO;
    loop {
        let next = capture.next();
        let is_end = !matches!(next, Ok(Some(_)));
        let heard = match &next {
            Ok(Some((time, segment))) => {
                now = *time;
                segment.as_ref().map(|segment| streams.take(segment))
            }
            _ => Some(streams.end()),
        };
        let lines = heard
            .iter()
            .flatten()
            .map(|heard| captured(args, now, heard));
        let lines: String = lines.collect();
        if !lines.is_empty() {
            text::print(lines)?;
        }
        next.map_err(failed)?;
        if is_end {
            return Ok(());
        }
    }
}

fn captured(args: &DecodeArgs, time: Duration, heard: &Heard) -> String {
    if args.json {
        let mut object = show::json(&heard.message, true);
        object.insert("time_ms".to_owned(), text::millis(time).into());
        object.insert("connection".to_owned(), heard.connection.into());
        object.insert("client".to_owned(), heard.client.to_string().into());
        object.insert("server".to_owned(), heard.server.to_string().into());
        format!("{}\n", Value::Object(object))
    } else {
        let (time, number) = (text::moment(time), heard.connection);
        let (from, to) = match heard.message.side {
            Side::Client => (heard.client, heard.server),
            Side::Server => (heard.server, heard.client),
        };
        let message = show::lines(&heard.message);
        format!("{time}  {number}  {from} to {to}\n{message}")
    }
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
        let bytes = text::bytes(hex.trim()).ok_or(number)?;
        messages.extend(conversation.hear(side, &bytes));
    }
    messages.extend(conversation.end());
    Ok(messages)
}
