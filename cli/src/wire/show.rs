//! A field of a message: its name and its value, as text or JSON.

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode,
    jute::{Traced, TracedValue},
};
use serde_json::{Value, json};

use crate::text;

/// Fields whose values let others in.
const SECRETS: [&str; 5] = [
    "AuthPacket.auth",
    "SaslRequest.token",
    "SaslResponse.token",
    "ConnectRequest.password",
    "ConnectResponse.password",
];

/// The parts of the names of fields whose values are written in hexadecimal everywhere.
const IDS: [&str; 3] = ["zxid", "session_id", "owner"];

/// A field of these bytes as an object. If its value must be hidden, it has neither the value nor the bytes.
pub(super) fn json(field: &Traced, bytes: &Bytes, hide: bool) -> Value {
    let bytes = bytes.slice(field.offset..field.offset + field.length);
    json!({
        "name": field.field,
        "offset": field.offset,
        "bytes": field.length,
        "value": value(field, hide),
        "hex": (!hide || !is_secret(field)).then(|| hex::encode(bytes)),
    })
}

/// A field as a word, with a short name.
pub(super) fn word(field: &Traced, hide: bool) -> String {
    format!(" {}={}", short(field), value(field, hide))
}

fn is_secret(field: &Traced) -> bool {
    SECRETS.contains(&field.field)
}

/// The name of a field without that of its record.
fn short(field: &Traced) -> &str {
    let name = field.field.split_once('.');
    name.map_or(field.field, |(_, name)| name)
}

/// The value of a field, in the form that its meaning asks for.
fn value(field: &Traced, hide: bool) -> String {
    let name = short(field);
    match &field.value {
        _ if hide && is_secret(field) => "(not shown)".to_owned(),
        TracedValue::Int(op) if name == "op" => {
            let name = OpCode(*op).name();
            name.map_or(op.to_string(), |name| format!("{op} ({name})"))
        }
        TracedValue::Int(error) if name == "err" => ErrorCode(*error).to_string(),
        TracedValue::Int(int) => int.to_string(),
        TracedValue::Long(long) if IDS.iter().any(|id| name.contains(id)) => format!("0x{long:x}"),
        TracedValue::Long(long) => long.to_string(),
        TracedValue::Fixed(bytes) if name != "bytes" && **bytes == [0] => "false".to_owned(),
        TracedValue::Fixed(bytes) if name != "bytes" && **bytes == [1] => "true".to_owned(),
        TracedValue::Fixed(bytes) | TracedValue::Buffer(Some(bytes)) => readable(bytes),
        TracedValue::Text(Some(text)) => format!("\"{}\"", text::harmless(text)),
        TracedValue::Count(Some(1)) => "1 element".to_owned(),
        TracedValue::Count(Some(count)) => format!("{count} elements"),
        _ => "null".to_owned(),
    }
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
