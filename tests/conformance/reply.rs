//! Messages of a server, as the lines of a script.
//!
//! Not here: the names of paths, transactions and sessions (`names`), which fields a reply has
//! (`request`).

use bytes::Bytes;
use lockkeeper::proto::{
    Acl, ErrorCode, EventType, KeeperState, OpCode, Stat, WatcherEvent, Zxid,
    header::ReplyHeader,
    jute::{self, Decode, Reader},
    records::ClientInfo,
};

use super::{
    names::Names,
    request::{PERMS, fields_of},
    words::{bare, quoted},
};

/// The line of a watch event.
pub(crate) fn event(header: ReplyHeader, reader: &mut Reader, names: &Names) -> String {
    // Since 3.9 the header shows the transaction behind the event, before that -1. Catch-up events
    // always show -1.
    let zxid = header.zxid;
    assert!(zxid == Zxid(-1) || zxid > Zxid::ZERO, "an event at {zxid}");
    assert_eq!(header.err, ErrorCode::OK, "an event with an error");
    let event: WatcherEvent = get(reader);
    assert_eq!(reader.left(), 0, "more than an event: {event:?}");
    assert_eq!(event.state, KeeperState::SYNC_CONNECTED);
    let what = match event.event_type {
        EventType::NODE_CREATED => "created",
        EventType::NODE_DELETED => "deleted",
        EventType::NODE_DATA_CHANGED => "changed",
        EventType::NODE_CHILDREN_CHANGED => "children",
        other => panic!("no server sends {other}"),
    };
    format!("event {what} {}", names.shorten(&event.path))
}

/// The lines of a reply: the transaction of a write, the outcome, and the content.
pub(crate) fn reply(
    op: OpCode,
    header: ReplyHeader,
    reader: &mut Reader,
    names: &mut Names,
) -> Vec<String> {
    let zxid = zxid(op, header, names);
    if !header.err.is_ok() {
        // The bytes behind the header of an error mean nothing.
        return vec![zxid + error(header.err)];
    }
    let mut lines = vec![zxid + "ok"];
    if fields_of(op)[1] == "results" {
        lines.extend(std::iter::from_fn(|| result(reader, names)));
    } else {
        lines[0] += &content(op, reader, names);
    }
    assert_eq!(reader.left(), 0, "more than a reply to {op}");
    lines
}

/// Checks which transaction a header shows, and returns its name if the request itself made it.
fn zxid(op: OpCode, header: ReplyHeader, names: &mut Names) -> String {
    match (op, header.err) {
        // The server answers these without a look at the tree.
        (OpCode::AUTH | OpCode::SASL, _) => assert_eq!(header.zxid, Zxid::ZERO, "{op}"),
        (_, ErrorCode::UNIMPLEMENTED) if !op.is_transaction() => {
            assert_eq!(header.zxid, Zxid(-1), "{op}");
        }
        // Before 3.9, a write that the server cannot parse uses a transaction; since 3.9 it does
        // not.
        (_, ErrorCode::MARSHALLING_ERROR) => names.read(header.zxid),
        _ if op.is_transaction() => return names.written(header.zxid) + " ",
        _ => names.read(header.zxid),
    }
    String::new()
}

fn error(code: ErrorCode) -> &'static str {
    code.name().unwrap_or("?")
}

/// The next result of a list; `None` at its end.
fn result(reader: &mut Reader, names: &mut Names) -> Option<String> {
    let (op, is_end, _): (OpCode, bool, ErrorCode) = (get(reader), get(reader), get(reader));
    let text = match op {
        _ if is_end => return None,
        OpCode::ERROR => format!(" {}", error(get(reader))),
        OpCode::CREATE => " created".to_owned() + &content(op, reader, names),
        // Before 3.7.2, 3.8.2 and 3.9 the server answers a `create2` without its Stat.
        OpCode::CREATE2 => {
            let path = content(OpCode::CREATE, reader, names);
            get::<Stat>(reader);
            format!(" created{path}")
        }
        OpCode::DELETE => " deleted".to_owned(),
        OpCode::CHECK => " checked".to_owned(),
        OpCode::SET_DATA => " set".to_owned() + &content(op, reader, names),
        OpCode::GET_DATA | OpCode::GET_CHILDREN => content(op, reader, names),
        other => panic!("no text for a result of {other}"),
    };
    Some(format!("+{text}"))
}

/// The fields of a successful reply, with a blank before each.
fn content(op: OpCode, reader: &mut Reader, names: &mut Names) -> String {
    let mut text = String::new();
    for field in fields_of(op)[1].split_whitespace() {
        let field = match field {
            "path" => names.shorten(&get::<String>(reader)),
            "stat" => names.stat(&get(reader)),
            "data" | "token" => {
                let data: Option<Bytes> = get(reader);
                data.map_or("null".to_owned(), |data| quoted(&data))
            }
            "acl" => acl(&get::<Vec<_>>(reader)),
            "names" => sorted(get::<jute::Names>(reader).iter()),
            "paths" => {
                let paths: Vec<String> = get(reader);
                sorted(paths.iter().map(|path| names.shorten(path)))
            }
            "count" => get::<i32>(reader).to_string(),
            "identities" => {
                let ids: Vec<ClientInfo> = get(reader);
                let ids = ids
                    .iter()
                    .map(|id| format!("{}:{}", id.auth_scheme, id.user));
                sorted(ids).replace(&names.ip, "$ip")
            }
            "err" => {
                assert_eq!(get::<ErrorCode>(reader), ErrorCode::OK, "{op}");
                continue;
            }
            _ => panic!("no field of a reply: {field}"),
        };
        text = text + " " + &field;
    }
    text
}

fn get<T: Decode>(reader: &mut Reader) -> T {
    T::decode(reader).unwrap_or_else(|error| panic!("a message cannot be decoded: {error}"))
}

/// A list without a defined order, sorted.
fn sorted<N: AsRef<str>>(list: impl IntoIterator<Item = N>) -> String {
    let mut list: Vec<_> = list.into_iter().map(|word| bare(word.as_ref())).collect();
    list.sort();
    format!("[{}]", list.join(" "))
}

fn acl(list: &[Acl]) -> String {
    let entry = |acl: &Acl| {
        let bits = acl.perms.0;
        let letters = (0..)
            .zip(PERMS.chars())
            .filter(|(bit, _)| bits >> bit & 1 == 1);
        let perms = match bits {
            1..32 => letters.map(|(_, letter)| letter).collect(),
            other => other.to_string(),
        };
        format!("{}:{}:{perms}", acl.id.scheme, acl.id.id)
    };
    list.iter().map(entry).collect::<Vec<_>>().join(",")
}
