//! A message as text: a line for each field, or one line for all. And a message as JSON.
//!
//! Invariant: later versions may add keys to the JSON, but remove none.

use lockkeeper_proto::{ErrorCode, OpCode, jute::TracedValue};
use serde_json::{Map, Value, json};

use super::conversation::{Field, Message};
use crate::text;

/// Fields whose values let others in.
const SECRETS: [&str; 5] = [
    "AuthPacket.auth",
    "SaslRequest.token",
    "SaslResponse.token",
    "RequestBase.password",
    "ResponseBase.password",
];

/// What is in the place of a secret.
const HIDDEN: &str = "(not shown)";

/// A line for the message, and one for each of its fields.
pub(super) fn lines(message: &Message) -> String {
    let row = |field: &Field| {
        [
            format!("{:>6}", field.offset),
            format!("{:>4}", field.length),
            field.name.to_owned(),
            value(field),
        ]
    };
    let rows: Vec<_> = message.fields.iter().map(row).collect();
    let table = text::table(&rows);
    format!("{}{}\n{table}\n", head(message), error(message))
}

/// All in one line, with short names of the fields.
pub(super) fn line(message: &Message, secrets: bool) -> String {
    let fields = message.fields.iter().skip(1).map(|field| {
        let name = short(field);
        let value = if secrets || !SECRETS.contains(&field.name) {
            value(field)
        } else {
            HIDDEN.to_owned()
        };
        format!(" {name}={value}")
    });
    let fields: String = fields.collect();
    format!("{}{fields}{}", head(message), error(message))
}

fn head(message: &Message) -> String {
    let Message { side, what, .. } = message;
    let (length, offset) = (message.bytes.len(), message.offset);
    format!("{}  {what}, {length} bytes at {offset}", side.name())
}

fn error(message: &Message) -> String {
    let error = message.error.as_ref();
    error.map_or(String::new(), |error| format!(": {error}"))
}

/// An object. Without `secrets`, it has neither the bytes of a message with secrets, nor the values of these fields.
pub(super) fn json(message: &Message, secrets: bool) -> Map<String, Value> {
    let is_secret = |field: &Field| !secrets && SECRETS.contains(&field.name);
    let fields: Vec<_> = (message.fields.iter())
        .map(|field| {
            let end = field.offset + field.length;
            let bytes = message.bytes.get(field.offset..end).unwrap_or_default();
            let hidden = is_secret(field);
            json!({
                "name": field.name,
                "offset": field.offset,
                "bytes": field.length,
                "value": if hidden { HIDDEN.to_owned() } else { value(field) },
                "hex": (!hidden).then(|| hex::encode(bytes)),
            })
        })
        .collect();
    let object = json!({
        "from": message.side.name(),
        "what": message.what,
        "offset": message.offset,
        "bytes": message.bytes.len(),
        "error": message.error,
        "fields": fields,
    });
    match object {
        Value::Object(object) => object,
        _ => Map::new(),
    }
}

/// The value of a field, in the form that its meaning asks for.
fn value(field: &Field) -> String {
    match &field.value {
        TracedValue::Int(int) if short(field) == "op" => match OpCode(*int).name() {
            Some(name) => format!("{int} ({name})"),
            None => int.to_string(),
        },
        TracedValue::Int(int) if short(field) == "err" => ErrorCode(*int).to_string(),
        TracedValue::Int(int) => int.to_string(),
        TracedValue::Long(long) if is_id(field.name) => format!("0x{long:x}"),
        TracedValue::Long(long) => long.to_string(),
        TracedValue::Fixed(bytes) => match **bytes {
            [byte @ 0..=1] if field.name != "bytes" => (byte == 1).to_string(),
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
fn short(field: &Field) -> &str {
    let name = field.name.split_once('.');
    name.map_or(field.name, |(_, name)| name)
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
