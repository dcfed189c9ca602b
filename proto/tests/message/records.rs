//! Strategies for records and for their fields. `operations` makes requests and replies of them.
//!
//! The values are small, so that a test has time to cut a message at each of its bytes.

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, ErrorCode, EventType, Id, KeeperState, OpCode, Perms, SessionId, Stat, Version,
    WatcherEvent, Xid, Zxid,
    connect::{ConnectRequest, ConnectResponse},
    header::{ReplyHeader, RequestHeader},
    records::{
        CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
        DeleteRequest, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
        SetDataRequest, SetWatches, SetWatches2, StatResponse,
    },
};
use proptest::{collection::vec, option, prelude::*, strategy::Union};

/// A strategy for a record, made from one strategy for each field. The fields may be in any order.
macro_rules! record {
    ($name:ident { $($field:ident: $strategy:expr),* $(,)? }) => {
        ($($strategy,)*).prop_map(|($($field,)*)| $name { $($field),* })
    };
}

pub(super) use record;

pub(super) fn connect_request() -> impl Strategy<Value = ConnectRequest> {
    record!(ConnectRequest {
        protocol_version: any::<i32>(),
        last_zxid_seen: zxid(),
        timeout_ms: any::<i32>(),
        session_id: session_id(),
        password: buffer(),
        read_only: any::<Option<bool>>(),
    })
}

pub(super) fn connect_response() -> impl Strategy<Value = ConnectResponse> {
    record!(ConnectResponse {
        protocol_version: any::<i32>(),
        timeout_ms: any::<i32>(),
        session_id: session_id(),
        password: buffer(),
        read_only: any::<Option<bool>>(),
    })
}

pub(super) fn request_header() -> impl Strategy<Value = RequestHeader> {
    record!(RequestHeader {
        xid: any::<i32>().prop_map(Xid),
        op: any::<i32>().prop_map(OpCode),
    })
}

pub(super) fn reply_header() -> impl Strategy<Value = ReplyHeader> {
    record!(ReplyHeader {
        xid: any::<i32>().prop_map(Xid),
        zxid: zxid(),
        err: error_code(),
    })
}

pub(super) fn watcher_event() -> impl Strategy<Value = WatcherEvent> {
    record!(WatcherEvent {
        event_type: any::<i32>().prop_map(EventType),
        state: any::<i32>().prop_map(KeeperState),
        path: text(),
    })
}

pub(super) fn create() -> impl Strategy<Value = CreateRequest> {
    record!(CreateRequest {
        path: text(),
        data: buffer(),
        acl: option::of(acls()),
        flags: any::<i32>(),
    })
}

pub(super) fn create_ttl() -> impl Strategy<Value = CreateTtlRequest> {
    record!(CreateTtlRequest {
        path: text(),
        data: buffer(),
        acl: option::of(acls()),
        flags: any::<i32>(),
        ttl_ms: any::<i64>(),
    })
}

pub(super) fn delete() -> impl Strategy<Value = DeleteRequest> {
    record!(DeleteRequest {
        path: text(),
        version: version(),
    })
}

pub(super) fn check() -> impl Strategy<Value = CheckVersionRequest> {
    record!(CheckVersionRequest {
        path: text(),
        version: version(),
    })
}

pub(super) fn get_data() -> impl Strategy<Value = GetDataRequest> {
    record!(GetDataRequest {
        path: text(),
        watch: any::<bool>(),
    })
}

pub(super) fn set_data() -> impl Strategy<Value = SetDataRequest> {
    record!(SetDataRequest {
        path: text(),
        data: buffer(),
        version: version(),
    })
}

pub(super) fn get_children() -> impl Strategy<Value = GetChildrenRequest> {
    record!(GetChildrenRequest {
        path: text(),
        watch: any::<bool>(),
    })
}

pub(super) fn set_watches() -> impl Strategy<Value = SetWatches> {
    record!(SetWatches {
        relative_zxid: zxid(),
        data_watches: texts(),
        exist_watches: texts(),
        child_watches: texts(),
    })
}

pub(super) fn set_watches2() -> impl Strategy<Value = SetWatches2> {
    record!(SetWatches2 {
        relative_zxid: zxid(),
        data_watches: texts(),
        exist_watches: texts(),
        child_watches: texts(),
        persistent_watches: texts(),
        persistent_recursive_watches: texts(),
    })
}

pub(super) fn created() -> impl Strategy<Value = CreateResponse> {
    record!(CreateResponse { path: text() })
}

pub(super) fn created2() -> impl Strategy<Value = Create2Response> {
    record!(Create2Response {
        path: text(),
        stat: stat(),
    })
}

pub(super) fn stat_only() -> impl Strategy<Value = StatResponse> {
    record!(StatResponse { stat: stat() })
}

pub(super) fn data() -> impl Strategy<Value = GetDataResponse> {
    record!(GetDataResponse {
        data: buffer(),
        stat: stat(),
    })
}

pub(super) fn children() -> impl Strategy<Value = GetChildrenResponse> {
    record!(GetChildrenResponse { children: texts() })
}

pub(super) fn stat() -> impl Strategy<Value = Stat> {
    record!(Stat {
        czxid: zxid(),
        mzxid: zxid(),
        ctime: any::<i64>(),
        mtime: any::<i64>(),
        version: version(),
        cversion: version(),
        aversion: version(),
        ephemeral_owner: session_id(),
        data_length: any::<i32>(),
        num_children: any::<i32>(),
        pzxid: zxid(),
    })
}

pub(super) fn acls() -> impl Strategy<Value = Acls> {
    vec(acl(), 0..4).prop_map(Acls::Owned)
}

pub(super) fn acl() -> impl Strategy<Value = Acl> {
    let whom = record!(Id {
        scheme: text().prop_map(Into::into),
        id: text().prop_map(Into::into),
    });
    record!(Acl {
        perms: any::<i32>().prop_map(Perms),
        id: whom,
    })
}

/// Text that looks like a path, or text of arbitrary characters.
pub(super) fn text() -> impl Strategy<Value = String> {
    Union::new([
        "(/[a-z.]{0,3}){0,4}".boxed(),
        vec(any::<char>(), 0..6).prop_map(String::from_iter).boxed(),
    ])
}

pub(super) fn texts() -> impl Strategy<Value = Vec<String>> {
    vec(text(), 0..4)
}

pub(super) fn buffer() -> impl Strategy<Value = Option<Bytes>> {
    option::of(vec(any::<u8>(), 0..20).prop_map(Bytes::from))
}

pub(super) fn version() -> impl Strategy<Value = Version> {
    any::<i32>().prop_map(Version)
}

pub(super) fn zxid() -> impl Strategy<Value = Zxid> {
    any::<i64>().prop_map(Zxid)
}

pub(super) fn session_id() -> impl Strategy<Value = SessionId> {
    any::<i64>().prop_map(SessionId)
}

pub(super) fn error_code() -> impl Strategy<Value = ErrorCode> {
    any::<i32>().prop_map(ErrorCode)
}
