//! Messages of a server, as the lines of a script.
//!
//! Not here: the names of paths, transactions and sessions (`names`).

use bytes::Bytes;
use lockkeeper::proto::{
    Acl, ErrorCode, EventType, KeeperState, OpCode, Response, WatcherEvent, Zxid,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::{Create2Response, CreateResponse, GetChildrenResponse, GetDataResponse},
};

use super::{
    fields::PERMS,
    names::Names,
    words::{bare, quoted},
};

/// The line of a watch event.
pub(crate) fn event(header: ReplyHeader, body: Bytes, names: &Names) -> String {
    // Since 3.9 the header shows the transaction behind the event, before that -1. Catch-up events
    // always show -1.
    assert!(
        header.zxid == Zxid(-1) || header.zxid > Zxid::ZERO,
        "an event shows {}",
        header.zxid
    );
    assert_eq!(header.err, ErrorCode::OK, "an event with an error");
    let mut reader = Reader::new(body);
    let event = WatcherEvent::decode(&mut reader).expect("a watch event");
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
    body: Bytes,
    names: &mut Names,
) -> Vec<String> {
    let mut line = zxid(op, header, names);
    if !header.err.is_ok() {
        // The bytes behind the header of an error mean nothing.
        line += header.err.name().unwrap_or("?");
        return vec![line];
    }
    line += "ok";
    let mut more = Vec::new();
    let mut reader = Reader::new(body);
    match Response::decode(op, &mut reader) {
        Ok(response) => {
            let text = response_text(&response, names, &mut more);
            if !text.is_empty() {
                line = format!("{line} {text}");
            }
        }
        Err(error) => panic!("{op} cannot be decoded: {error}"),
    }
    assert_eq!(reader.left(), 0, "more than a reply to {op}");
    let mut lines = vec![line];
    lines.extend(more);
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

fn response_text(response: &Response, names: &mut Names, more: &mut Vec<String>) -> String {
    match response {
        Response::Create(created) => names.shorten(&created.path),
        Response::Create2(created)
        | Response::CreateContainer(created)
        | Response::CreateTtl(created) => {
            format!(
                "{} {}",
                names.shorten(&created.path),
                names.stat(&created.stat)
            )
        }
        Response::Exists(found) => names.stat(&found.stat),
        Response::SetData(set) | Response::SetAcl(set) => names.stat(&set.stat),
        Response::GetData(read) | Response::Reconfig(read) => node(read, names),
        Response::GetAcl(read) => format!("{} {}", acl(&read.acl), names.stat(&read.stat)),
        Response::GetChildren(list) => children(list),
        Response::GetChildren2(list) => {
            format!(
                "{} {}",
                sorted(list.children.iter()),
                names.stat(&list.stat)
            )
        }
        Response::GetAllChildrenNumber(count) => count.total_number.to_string(),
        Response::GetEphemerals(list) => {
            let paths: Vec<_> = list
                .ephemerals
                .iter()
                .map(|path| names.shorten(path))
                .collect();
            sorted(&paths)
        }
        Response::Sync(echo) => names.shorten(&echo.path),
        Response::AddWatch(answer) => {
            assert!(answer.err.is_ok(), "addWatch answers {}", answer.err);
            String::new()
        }
        Response::Sasl(answer) => answer.token.as_deref().map_or("null".to_owned(), quoted),
        Response::WhoAmI(answer) => {
            let ids = answer.client_info.iter();
            let ids: Vec<_> = ids
                .map(|id| format!("{}:{}", id.auth_scheme, id.user))
                .collect();
            names.hide_address(&sorted(&ids))
        }
        Response::Multi(answer) | Response::MultiRead(answer) => {
            more.extend(
                answer
                    .results
                    .iter()
                    .map(|result| one_result(result, names)),
            );
            String::new()
        }
        _ => String::new(),
    }
}

fn one_result(result: &Result<Response, ErrorCode>, names: &mut Names) -> String {
    let text = match result {
        // Before 3.7.2, 3.8.2 and 3.9 the server answers a `create2` without its Stat.
        Ok(
            Response::Create(CreateResponse { path })
            | Response::Create2(Create2Response { path, .. }),
        ) => {
            format!("created {}", names.shorten(path))
        }
        Ok(Response::Delete(_)) => "deleted".to_owned(),
        Ok(Response::Check(_)) => "checked".to_owned(),
        Ok(Response::SetData(set)) => format!("set {}", names.stat(&set.stat)),
        Ok(Response::GetData(read)) => node(read, names),
        Ok(Response::GetChildren(list)) => children(list),
        Err(code) => code.name().unwrap_or("?").to_owned(),
        other => panic!("no text for this result: {other:?}"),
    };
    format!("+ {text}")
}

fn node(read: &GetDataResponse, names: &mut Names) -> String {
    let data = read.data.as_deref().map_or("null".to_owned(), quoted);
    format!("{data} {}", names.stat(&read.stat))
}

fn children(list: &GetChildrenResponse) -> String {
    sorted(list.children.iter())
}

/// A list without a defined order, sorted.
fn sorted<N: AsRef<str>>(list: impl IntoIterator<Item = N>) -> String {
    let mut list: Vec<_> = list.into_iter().map(|word| bare(word.as_ref())).collect();
    list.sort();
    format!("[{}]", list.join(" "))
}

fn acl(list: &[Acl]) -> String {
    let entry = |acl: &Acl| {
        let perms = match acl.perms.0 {
            bits @ 0..32 => letters(bits),
            other => other.to_string(),
        };
        format!("{}:{}:{perms}", acl.id.scheme, acl.id.id)
    };
    let list: Vec<_> = list.iter().map(entry).collect();
    list.join(",")
}

fn letters(bits: i32) -> String {
    let of_bit = |(bit, letter): (usize, char)| (bits >> bit & 1 == 1).then_some(letter);
    let letters: String = PERMS.chars().enumerate().filter_map(of_bit).collect();
    if letters.is_empty() {
        "0".to_owned()
    } else {
        letters
    }
}
