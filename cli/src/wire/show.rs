//! A message as text: a line for each field, or one line for all. And a message as JSON.
//!
//! Invariant: later versions may add keys to the JSON, but remove none.

use lockkeeper_proto::{
    ErrorCode, OpCode,
    jute::{Traced, TracedValue},
};
use serde_json::{Value, json};

use super::conversation::Message;
use crate::text;

/// Fields whose values let others in.
const SECRETS: [&str; 5] = [
    "AuthPacket.auth",
    "SaslRequest.token",
    "SaslResponse.token",
    "ConnectRequest.password",
    "ConnectResponse.password",
];

/// What is in the place of a secret.
const HIDDEN: &str = "(not shown)";

/// A line for the message, and one for each of its fields.
pub(super) fn lines(message: &Message) -> String {
    let row = |field: &Traced| {
        [
            format!("{:>6}", field.offset),
            format!("{:>4}", field.length),
            field.field.to_owned(),
            value(field, true),
        ]
    };
    let rows: Vec<_> = message.fields.iter().map(row).collect();
    format!("{}\n{}\n", summary(message, ""), text::table(&rows))
}

/// All in one line, with short names of the fields.
pub(super) fn line(message: &Message, secrets: bool) -> String {
    let fields = message.fields.iter().filter(|it| it.offset > 0);
    let fields = fields.map(|field| format!(" {}={}", short(field), value(field, secrets)));
    summary(message, &fields.collect::<String>())
}

fn summary(message: &Message, fields: &str) -> String {
    let (side, what, offset) = (message.side.name(), &message.what, message.offset);
    let error = message.error.as_ref().map(|error| format!(": {error}"));
    let (length, error) = (message.bytes.len(), error.unwrap_or_default());
    format!("{side}  {what}, {length} bytes at {offset}{fields}{error}")
}

/// An object. Without `secrets`, it has neither the values of secret fields, nor their bytes.
pub(super) fn json(message: &Message, secrets: bool) -> Value {
    let field = |field: &Traced| {
        let bytes = message.bytes.get(field.offset..field.offset + field.length);
        let shown = bytes.filter(|_| secrets || !is_secret(field));
        json!({
            "name": field.field,
            "offset": field.offset,
            "bytes": field.length,
            "value": value(field, secrets),
            "hex": shown.map(hex::encode),
        })
    };
    json!({
        "from": message.side.name(),
        "what": message.what,
        "offset": message.offset,
        "bytes": message.bytes.len(),
        "error": message.error,
        "fields": message.fields.iter().map(field).collect::<Vec<_>>(),
    })
}

fn is_secret(field: &Traced) -> bool {
    SECRETS.contains(&field.field)
}

/// The value of a field, in the form that its meaning asks for.
fn value(field: &Traced, secrets: bool) -> String {
    match &field.value {
        _ if !secrets && is_secret(field) => HIDDEN.to_owned(),
        TracedValue::Int(int) if short(field) == "op" => match OpCode(*int).name() {
            Some(name) => format!("{int} ({name})"),
            None => int.to_string(),
        },
        TracedValue::Int(int) if short(field) == "err" => ErrorCode(*int).to_string(),
        TracedValue::Int(int) => int.to_string(),
        TracedValue::Long(long) if is_id(field.field) => format!("0x{long:x}"),
        TracedValue::Long(long) => long.to_string(),
        TracedValue::Fixed(bytes) => match **bytes {
            [byte @ 0..=1] if field.field != "bytes" => (byte == 1).to_string(),
            _ => readable(bytes),
        },
        TracedValue::Buffer(None) | TracedValue::Text(None) | TracedValue::Count(None) => {
            "null".to_owned()
        }
        TracedValue::Buffer(Some(bytes)) => readable(bytes),
        TracedValue::Text(Some(text)) => format!("\"{}\"", text::harmless(text)),
        TracedValue::Count(Some(1)) => "1 element".to_owned(),
        TracedValue::Count(Some(count)) => format!("{count} elements"),
    }
}

/// The name of a field without that of its record.
fn short(field: &Traced) -> &str {
    let name = field.field.split_once('.');
    name.map_or(field.field, |(_, name)| name)
}

/// Whether the number is a transaction or a session, which are written in hexadecimal everywhere.
fn is_id(name: &str) -> bool {
    ["zxid", "session_id", "owner"]
        .iter()
        .any(|part| name.contains(part))
}

/// Bytes as text, if they are visible text; else in hexadecimal.
fn readable(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.chars().any(|c| c.is_control() && c != '\n') => {
            format!("\"{}\"", text::harmless(text))
        }
        _ => format!("0x{}", hex::encode(bytes)),
    }
}
