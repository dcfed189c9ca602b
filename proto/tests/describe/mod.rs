//! Describes a decoded value in the notation of the recordings, field by field.
//!
//! `golden.rs` compares the description with the recorder's comment above the message. The recorder
//! decoded the bytes without this crate.

use std::fmt::Write;

use lockkeeper_proto::{
    Acl, ErrorCode, EventType, KeeperState, OpCode, Request, Response, SessionId, Stat,
    WatcherEvent, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    header::{ReplyHeader, RequestHeader},
    multi::{MultiOp, MultiReadOp, MultiResponse, MultiResult},
    records::{CreateRequest, CreateTtlRequest, SetWatches, SetWatches2, WhoAmIResponse},
};

/// The fields of a message, in order.
type Said = Vec<String>;

pub(crate) fn connect_request(it: &ConnectRequest) -> Said {
    vec![
        int("protocolVersion", it.protocol_version),
        format!("lastZxidSeen={}", zxid(it.last_zxid_seen)),
        int("timeOut", it.timeout_ms),
        format!("sessionId={}", it.session_id),
        buffer("passwd", it.password.as_deref()),
        read_only(it.read_only),
    ]
}

pub(crate) fn connect_response(it: &ConnectResponse) -> Said {
    vec![
        int("protocolVersion", it.protocol_version),
        int("timeOut", it.timeout_ms),
        format!("sessionId={}", it.session_id),
        buffer("passwd", it.password.as_deref()),
        read_only(it.read_only),
    ]
}

pub(crate) fn request_header(it: RequestHeader) -> Said {
    vec![int("xid", it.xid.0), format!("type={}", op(it.op))]
}

pub(crate) fn reply_header(it: &ReplyHeader) -> Said {
    vec![
        int("xid", it.xid.0),
        format!("zxid={}", zxid(it.zxid)),
        format!("err={}", error(it.err)),
    ]
}

pub(crate) fn event(it: &WatcherEvent) -> Said {
    let kind = match it.event_type {
        EventType::NODE_CREATED => "NodeCreated",
        EventType::NODE_DELETED => "NodeDeleted",
        EventType::NODE_DATA_CHANGED => "NodeDataChanged",
        EventType::NODE_CHILDREN_CHANGED => "NodeChildrenChanged",
        other => panic!("{other}"),
    };
    assert_eq!(it.state, KeeperState::SYNC_CONNECTED);
    let (number, path) = (it.event_type.0, string("path", Some(&it.path)));
    vec![format!(
        "WatcherEvent{{type={number}({kind}) state=3(SyncConnected) {path}}}"
    )]
}

pub(crate) fn request(it: &Request) -> Said {
    let watch = |path: &str, watch: bool| vec![string("path", Some(path)), flag("watch", watch)];
    match it {
        Request::Create(it) | Request::Create2(it) | Request::CreateContainer(it) => create(it),
        Request::CreateTtl(it) => create_ttl(it),
        Request::Delete(it) => with_version(&it.path, it.version.0),
        Request::Check(it) => with_version(&it.path, it.version.0),
        Request::Exists(it) => watch(&it.path, it.watch),
        Request::GetData(it) => watch(&it.path, it.watch),
        Request::GetChildren(it) | Request::GetChildren2(it) => watch(&it.path, it.watch),
        Request::SetData(it) => vec![
            string("path", Some(&it.path)),
            buffer("data", it.data.as_deref()),
            int("version", it.version.0),
        ],
        Request::GetAcl(it) => vec![string("path", Some(&it.path))],
        Request::SetAcl(it) => vec![
            string("path", Some(&it.path)),
            acls(it.acl.as_deref()),
            int("version", it.version.0),
        ],
        Request::GetAllChildrenNumber(it) => vec![string("path", Some(&it.path))],
        Request::GetEphemerals(it) => vec![string("prefixPath", it.prefix_path.as_deref())],
        Request::Sync(it) => vec![string("path", Some(&it.path))],
        Request::Multi(it) => list(it.ops.iter().map(|it| (it.op(), -1, multi_op(it)))),
        Request::MultiRead(it) => list(it.ops.iter().map(|it| (it.op(), -1, multi_read_op(it)))),
        Request::Reconfig(it) => vec![
            string("joining", it.joining_servers.as_deref()),
            string("leaving", it.leaving_servers.as_deref()),
            string("newMembers", it.new_members.as_deref()),
            format!("curConfigId={}", it.cur_config_id),
        ],
        Request::SetWatches(it) => set_watches(it),
        Request::SetWatches2(it) => set_watches2(it),
        Request::AddWatch(it) => vec![string("path", Some(&it.path)), int("mode", it.mode.0)],
        Request::CheckWatches(it) => {
            vec![
                string("path", Some(&it.path)),
                int("type", it.watcher_type.0),
            ]
        }
        Request::RemoveWatches(it) => {
            vec![
                string("path", Some(&it.path)),
                int("type", it.watcher_type.0),
            ]
        }
        Request::Auth(it) => vec![
            int("authType", it.auth_type),
            string("scheme", Some(&it.scheme)),
            buffer("auth", it.auth.as_deref()),
        ],
        Request::Sasl(it) => vec![buffer("token", it.token.as_deref())],
        Request::Ping(_) | Request::WhoAmI(_) | Request::CloseSession(_) => vec![],
        other => panic!("no description for {other:?}"),
    }
}

pub(crate) fn response(it: &Response) -> Said {
    match it {
        Response::Create(it) => vec![string("path", Some(&it.path))],
        Response::Create2(it) | Response::CreateContainer(it) | Response::CreateTtl(it) => {
            vec![string("path", Some(&it.path)), stat(&it.stat)]
        }
        Response::Exists(it) | Response::SetData(it) | Response::SetAcl(it) => vec![stat(&it.stat)],
        Response::GetData(it) => vec![buffer("data", it.data.as_deref()), stat(&it.stat)],
        Response::GetAcl(it) => vec![acls(Some(&it.acl)), stat(&it.stat)],
        Response::GetChildren(it) => vec![strings("children", &it.children)],
        Response::GetChildren2(it) => vec![strings("children", &it.children), stat(&it.stat)],
        Response::GetAllChildrenNumber(it) => vec![int("totalNumber", it.total_number)],
        Response::GetEphemerals(it) => vec![strings("ephemerals", &it.ephemerals)],
        Response::Sync(it) => vec![string("path", Some(&it.path))],
        Response::Multi(it) | Response::MultiRead(it) => results(it),
        Response::AddWatch(it) => vec![int("ErrorResponse.err", it.err.0)],
        Response::Sasl(it) => vec![buffer("token", it.token.as_deref())],
        Response::WhoAmI(it) => vec![who_am_i(it)],
        Response::Ping(_)
        | Response::Delete(_)
        | Response::SetWatches(_)
        | Response::SetWatches2(_)
        | Response::CheckWatches(_)
        | Response::RemoveWatches(_)
        | Response::Auth(_)
        | Response::CloseSession(_) => vec![no_body()],
        other => panic!("no description for {other:?}"),
    }
}

/// The description of a missing body.
pub(crate) fn no_body() -> String {
    "(no body)".to_owned()
}

fn create(it: &CreateRequest) -> Said {
    vec![
        string("path", Some(&it.path)),
        buffer("data", it.data.as_deref()),
        acls(it.acl.as_deref()),
        int("flags", it.flags),
    ]
}

fn create_ttl(it: &CreateTtlRequest) -> Said {
    vec![
        string("path", Some(&it.path)),
        buffer("data", it.data.as_deref()),
        acls(it.acl.as_deref()),
        int("flags", it.flags),
        format!("ttl={}", it.ttl_ms),
    ]
}

fn with_version(path: &str, version: i32) -> Said {
    vec![string("path", Some(path)), int("version", version)]
}

fn multi_op(it: &MultiOp) -> Said {
    match it {
        MultiOp::Create(it) | MultiOp::Create2(it) | MultiOp::CreateContainer(it) => create(it),
        MultiOp::CreateTtl(it) => create_ttl(it),
        MultiOp::Delete(it) => with_version(&it.path, it.version.0),
        MultiOp::Check(it) => with_version(&it.path, it.version.0),
        MultiOp::SetData(it) => request(&Request::SetData(it.clone())),
        other => panic!("no description for {other:?}"),
    }
}

fn multi_read_op(it: &MultiReadOp) -> Said {
    match it {
        MultiReadOp::GetData(it) => request(&Request::GetData(it.clone())),
        MultiReadOp::GetChildren(it) => request(&Request::GetChildren(it.clone())),
        other => panic!("no description for {other:?}"),
    }
}

fn results(it: &MultiResponse) -> Said {
    list(it.results.iter().map(|result| match result {
        MultiResult::Create(it) => (OpCode::CREATE, 0, response(&Response::Create(it.clone()))),
        MultiResult::Create2(it) => (OpCode::CREATE2, 0, response(&Response::Create2(it.clone()))),
        MultiResult::Delete => (OpCode::DELETE, 0, vec![no_body()]),
        MultiResult::Check => (OpCode::CHECK, 0, vec![no_body()]),
        MultiResult::SetData(it) => (OpCode::SET_DATA, 0, vec![stat(&it.stat)]),
        MultiResult::GetData(it) => (
            OpCode::GET_DATA,
            0,
            response(&Response::GetData(it.clone())),
        ),
        MultiResult::GetChildren(it) => {
            let body = response(&Response::GetChildren(it.clone()));
            (OpCode::GET_CHILDREN, 0, body)
        }
        MultiResult::Error(code) => {
            let body = vec![format!("ErrorResponse.err={}", error(*code))];
            (OpCode::ERROR, code.0, body)
        }
        other => panic!("no description for {other:?}"),
    }))
}

/// Describes a list of operations or results: each with its header, then the header that ends the
/// list.
fn list(parts: impl Iterator<Item = (OpCode, i32, Said)>) -> Said {
    let mut said = Vec::new();
    for (code, err, body) in parts {
        let code = op(code);
        said.push(format!("MultiHeader{{type={code} done=false err={err}}}"));
        said.extend(body);
    }
    said.push("MultiHeader{type=-1(end) done=true err=-1}".to_owned());
    said
}

fn set_watches(it: &SetWatches) -> Said {
    vec![
        format!("relativeZxid={}", zxid(it.relative_zxid)),
        strings("dataWatches", &it.data_watches),
        strings("existWatches", &it.exist_watches),
        strings("childWatches", &it.child_watches),
    ]
}

fn set_watches2(it: &SetWatches2) -> Said {
    vec![
        format!("relativeZxid={}", zxid(it.relative_zxid)),
        strings("dataWatches", &it.data_watches),
        strings("existWatches", &it.exist_watches),
        strings("childWatches", &it.child_watches),
        strings("persistentWatches", &it.persistent_watches),
        strings(
            "persistentRecursiveWatches",
            &it.persistent_recursive_watches,
        ),
    ]
}

fn who_am_i(it: &WhoAmIResponse) -> String {
    let infos = it.client_info.iter();
    let each = infos.map(|it| format!("authScheme=\"{}\" user=\"{}\"", it.auth_scheme, it.user));
    vector("clientInfo", &each.collect::<Vec<_>>())
}

fn stat(it: &Stat) -> String {
    let owner = match it.ephemeral_owner {
        SessionId::NONE => "0".to_owned(),
        owner => owner.to_string(),
    };
    format!(
        "stat{{czxid={} mzxid={} ctime={} mtime={} version={} cversion={} aversion={} ephemeralOwner={owner} \
         dataLength={} numChildren={} pzxid={}}}",
        zxid(it.czxid),
        zxid(it.mzxid),
        it.ctime,
        it.mtime,
        it.version,
        it.cversion,
        it.aversion,
        it.data_length,
        it.num_children,
        zxid(it.pzxid),
    )
}

fn acls(it: Option<&[Acl]>) -> String {
    let Some(list) = it else {
        return "acl=null(-1)".to_owned();
    };
    let each = list.iter().map(|it| {
        let (perms, scheme, id) = (it.perms.0, &it.id.scheme, &it.id.id);
        format!("perms={perms} scheme=\"{scheme}\" id=\"{id}\"")
    });
    vector("acl", &each.collect::<Vec<_>>())
}

fn strings(name: &str, list: &[String]) -> String {
    let each = list.iter().map(|it| format!("\"{it}\""));
    vector(name, &each.collect::<Vec<_>>())
}

fn vector(name: &str, each: &[String]) -> String {
    format!("{name}=[{}]{{{}}}", each.len(), each.join(", "))
}

fn string(name: &str, value: Option<&str>) -> String {
    match value {
        Some(text) => format!("{name}=({})\"{text}\"", text.len()),
        None => format!("{name}=null(-1)"),
    }
}

fn buffer(name: &str, value: Option<&[u8]>) -> String {
    let Some(bytes) = value else {
        return format!("{name}=null(-1)");
    };
    let mut said = format!("{name}=({} bytes)", bytes.len());
    for byte in bytes {
        write!(said, "{byte:02x}").unwrap();
    }
    said
}

fn read_only(value: Option<bool>) -> String {
    value.map_or("(readOnly absent)".to_owned(), |it| flag("readOnly", it))
}

fn flag(name: &str, value: bool) -> String {
    format!("{name}={value}({:02x})", u8::from(value))
}

fn int(name: &str, value: i32) -> String {
    format!("{name}={value}")
}

/// Prints -1 in decimal, because it means "no transaction".
fn zxid(value: Zxid) -> String {
    match value {
        Zxid(-1) => "-1".to_owned(),
        value => value.to_string(),
    }
}

fn op(code: OpCode) -> String {
    format!("{}({})", code.0, code.name().unwrap_or("unknown"))
}

/// The code, with its name in Java.
fn error(code: ErrorCode) -> String {
    let name = match code {
        ErrorCode::OK => "OK",
        ErrorCode::RUNTIME_INCONSISTENCY => "RUNTIMEINCONSISTENCY",
        ErrorCode::MARSHALLING_ERROR => "MARSHALLINGERROR",
        ErrorCode::UNIMPLEMENTED => "UNIMPLEMENTED",
        ErrorCode::BAD_ARGUMENTS => "BADARGUMENTS",
        ErrorCode::NO_NODE => "NONODE",
        ErrorCode::NO_AUTH => "NOAUTH",
        ErrorCode::BAD_VERSION => "BADVERSION",
        ErrorCode::NO_CHILDREN_FOR_EPHEMERALS => "NOCHILDRENFOREPHEMERALS",
        ErrorCode::NODE_EXISTS => "NODEEXISTS",
        ErrorCode::NOT_EMPTY => "NOTEMPTY",
        ErrorCode::INVALID_ACL => "INVALIDACL",
        ErrorCode::AUTH_FAILED => "AUTHFAILED",
        ErrorCode::NO_WATCHER => "NOWATCHER",
        ErrorCode::RECONFIG_DISABLED => "RECONFIGDISABLED",
        other => panic!("no name for {other}"),
    };
    format!("{}({name})", code.0)
}
