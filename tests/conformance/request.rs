//! Turns a request as a script writes it into bytes.
//!
//! Not here: fields and options that several requests share (`fields`), splitting a line into words
//! (`words`).

use bytes::{BufMut, Bytes, BytesMut};
use lockkeeper::proto::{
    AddWatchMode, OpCode, Request, WatcherType, Xid, frame,
    jute::{Encode, Writer},
    multi::{MultiReadRequest, MultiRequest},
    records::{
        AddWatchRequest, AuthPacket, CheckWatchesRequest, Empty, ExistsRequest, GetAclRequest,
        GetAllChildrenNumberRequest, GetEphemeralsRequest, ReconfigRequest, RemoveWatchesRequest,
        SaslRequest, SetAclRequest, SetWatches, SetWatches2, SyncRequest,
    },
};

use super::{
    fields::{
        acl, check, create, create_ttl, delete, get_children, get_data, kind, set_data,
        set_watches, version,
    },
    names::Names,
    words::Words,
};

/// A request, complete except for its xid.
pub(crate) struct Outgoing {
    pub(crate) op: OpCode,
    /// The xid, if the script asks for one.
    pub(crate) xid: Option<Xid>,
    /// Whether the transcript shows only success or failure.
    pub(crate) is_brief: bool,
    body: BytesMut,
}

impl Outgoing {
    /// Parses a request. `more` holds the operations of a list.
    pub(crate) fn parse(line: &str, more: &[String], names: &Names) -> Self {
        let mut words = Words::new(line, names);
        let name = words.next().expect("the name of an operation");
        let mut body = BytesMut::new();
        let op = if name == "raw" {
            raw(&mut words, &mut body)
        } else {
            let request = match name.as_str() {
                "multi" => Request::Multi(MultiRequest {
                    ops: more.iter().map(|line| multi_op(line, names)).collect(),
                }),
                "multiRead" => Request::MultiRead(MultiReadRequest {
                    ops: more.iter().map(|line| read_op(line, names)).collect(),
                }),
                _ => {
                    assert!(more.is_empty(), "{name} is no list");
                    request(&name, &mut words)
                }
            };
            encode(&mut body, |writer| request.encode(writer));
            request.op()
        };
        if let Some(cut) = words.number::<usize>("cut") {
            body.truncate(body.len() - cut);
        }
        if let Some(extra) = words.number::<usize>("extra") {
            body.put_bytes(0x5a, extra);
        }
        let xid = words.number("xid").map(Xid);
        let is_brief = words.flag("brief");
        words.end();
        Self {
            op,
            xid,
            is_brief,
            body,
        }
    }

    /// Appends the request as a frame.
    pub(crate) fn frame(&self, xid: Xid, out: &mut BytesMut) {
        frame::append(out, |writer| {
            xid.encode(writer);
            self.op.encode(writer);
            writer.put_slice(&self.body);
        })
        .expect("a frame");
    }
}

pub(crate) fn encode(out: &mut BytesMut, write: impl FnOnce(&mut Writer<'_>)) {
    let mut writer = Writer::new(out);
    write(&mut writer);
    writer.finish().expect("an encodable record");
}

/// `raw OP FIELD...`: a body of any fields, for bodies that the records cannot express.
fn raw(words: &mut Words<'_>, body: &mut BytesMut) -> OpCode {
    let op = words.next().expect("an operation");
    let op = op_called(&op).unwrap_or_else(|| OpCode(op.parse().expect("a number")));
    while let Some(field) = words.next() {
        let (kind, value) = field.split_once(':').expect("a field is KIND:VALUE");
        match kind {
            "i32" => body.put_i32(value.parse().expect("a number")),
            "i64" => body.put_i64(value.parse().expect("a number")),
            "bool" => body.put_u8(value.parse().expect("a number")),
            "str" => match words.value(value) {
                None => body.put_i32(-1),
                Some(bytes) => encode(body, |writer| writer.put_buffer(&bytes)),
            },
            _ => panic!("no kind of field: {kind}"),
        }
    }
    op
}

/// An operation by its name in ZooKeeper.
fn op_called(name: &str) -> Option<OpCode> {
    (-11..=107).map(OpCode).find(|op| op.name() == Some(name))
}

fn request(name: &str, words: &mut Words<'_>) -> Request {
    match name {
        "create" => Request::Create(create(words, 0)),
        "create2" => Request::Create2(create(words, 0)),
        "createContainer" => Request::CreateContainer(create(words, 4)),
        "createTTL" => Request::CreateTtl(create_ttl(words)),
        "delete" => Request::Delete(delete(words)),
        "exists" => Request::Exists(ExistsRequest {
            path: words.text(),
            watch: words.flag("watch"),
        }),
        "getData" => Request::GetData(get_data(words)),
        "setData" => Request::SetData(set_data(words)),
        "getACL" => Request::GetAcl(GetAclRequest { path: words.text() }),
        "setACL" => Request::SetAcl(SetAclRequest {
            path: words.text(),
            acl: acl(words),
            version: version(words),
        }),
        "getChildren" => Request::GetChildren(get_children(words)),
        "getChildren2" => Request::GetChildren2(get_children(words)),
        "getAllChildrenNumber" => {
            Request::GetAllChildrenNumber(GetAllChildrenNumberRequest { path: words.text() })
        }
        "getEphemerals" => Request::GetEphemerals(GetEphemeralsRequest {
            prefix_path: words
                .bytes()
                .map(|text| String::from_utf8(text).expect("UTF-8")),
        }),
        "sync" => Request::Sync(SyncRequest { path: words.text() }),
        "check" => Request::Check(check(words)),
        "ping" => Request::Ping(Empty {}),
        "whoAmI" => Request::WhoAmI(Empty {}),
        "closeSession" => Request::CloseSession(Empty {}),
        _ => rare_request(name, words),
    }
}

fn rare_request(name: &str, words: &mut Words<'_>) -> Request {
    match name {
        "addWatch" => Request::AddWatch(AddWatchRequest {
            path: words.text(),
            mode: AddWatchMode(kind(words, &[("persistent", 0), ("recursive", 1)])),
        }),
        "checkWatches" => Request::CheckWatches(CheckWatchesRequest {
            path: words.text(),
            watcher_type: WatcherType(kind(words, &WATCHER_TYPES)),
        }),
        "removeWatches" => Request::RemoveWatches(RemoveWatchesRequest {
            path: words.text(),
            watcher_type: WatcherType(kind(words, &WATCHER_TYPES)),
        }),
        "setWatches" => {
            let all = set_watches(words);
            Request::SetWatches(SetWatches {
                relative_zxid: all.relative_zxid,
                data_watches: all.data_watches,
                exist_watches: all.exist_watches,
                child_watches: all.child_watches,
            })
        }
        "setWatches2" => {
            let all = set_watches(words);
            Request::SetWatches2(SetWatches2 {
                persistent_watches: words.paths("persistent"),
                persistent_recursive_watches: words.paths("recursive"),
                ..all
            })
        }
        "auth" => Request::Auth(AuthPacket {
            auth_type: 0,
            scheme: words.text(),
            auth: words.bytes().map(Bytes::from),
        }),
        "sasl" => Request::Sasl(SaslRequest {
            token: words.bytes().map(Bytes::from),
        }),
        "reconfig" => Request::Reconfig(ReconfigRequest {
            joining_servers: words.option("joining"),
            leaving_servers: None,
            new_members: None,
            cur_config_id: -1,
        }),
        _ => panic!("no such request: {name}"),
    }
}

const WATCHER_TYPES: [(&str, i32); 5] = [
    ("children", 1),
    ("data", 2),
    ("any", 3),
    ("persistent", 4),
    ("recursive", 5),
];

/// One operation of a transaction.
fn multi_op(line: &str, names: &Names) -> Request {
    let mut words = Words::new(line, names);
    let name = words.next().expect("the name of an operation");
    let op = match name.as_str() {
        "create" => Request::Create(create(&mut words, 0)),
        "create2" => Request::Create2(create(&mut words, 0)),
        "createContainer" => Request::CreateContainer(create(&mut words, 4)),
        "createTTL" => Request::CreateTtl(create_ttl(&mut words)),
        "delete" => Request::Delete(delete(&mut words)),
        "setData" => Request::SetData(set_data(&mut words)),
        "check" => Request::Check(check(&mut words)),
        _ => panic!("not in a transaction: {name}"),
    };
    words.end();
    op
}

/// One operation of a multi-read.
fn read_op(line: &str, names: &Names) -> Request {
    let mut words = Words::new(line, names);
    let name = words.next().expect("the name of an operation");
    let op = match name.as_str() {
        "getData" => Request::GetData(get_data(&mut words)),
        "getChildren" => Request::GetChildren(get_children(&mut words)),
        _ => panic!("not in a multi-read: {name}"),
    };
    words.end();
    op
}
