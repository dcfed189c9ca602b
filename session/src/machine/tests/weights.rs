//! The bound on the bytes that wait to be sent, for each operation of the table.

use std::collections::BTreeSet;

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    Acl, AddWatchMode, Id, OpCode, Perms, Request, Version, WatcherType, Xid, Zxid, frame,
    header::RequestHeader,
    jute::{Decode, Reader},
    multi::{MultiReadRequest, MultiRequest},
    records::{
        AddWatchRequest, AuthPacket, CheckVersionRequest, CheckWatchesRequest, CreateRequest,
        CreateTtlRequest, DeleteRequest, Empty, ExistsRequest, GetAclRequest,
        GetAllChildrenNumberRequest, GetChildrenRequest, GetDataRequest, GetEphemeralsRequest,
        ReconfigRequest, RemoveWatchesRequest, SaslRequest, SetAclRequest, SetDataRequest,
        SetWatches, SetWatches2, SyncRequest,
    },
};

use super::{
    pair::{Pair, SECOND},
    requests::sync,
};
use crate::{
    ErrorKind,
    machine::{Auth, Encoded, RequestOptions},
};

/// The limit of the test. Callers that cannot wait have twice as much.
const LIMIT: usize = 64 << 10;

/// Makes a list of requests: of the operation, and its record.
macro_rules! requests {
    ($($op:ident $record:ident { $($fields:tt)* })*) => {
        vec![$(Request::$op($record { $($fields)* })),*]
    };
}

/// One request of each operation, each with the text once in every field that can be long.
fn samples(text: &str) -> Vec<Request> {
    let path = || text.to_owned();
    let (data, version) = (|| Some(Bytes::from(path())), Version(1));
    let acl = || {
        let (scheme, id) = (path().into(), path().into());
        let id = Id { scheme, id };
        Some(
            vec![Acl {
                perms: Perms::ALL,
                id,
            }]
            .into(),
        )
    };
    let create = || CreateRequest {
        path: path(),
        data: data(),
        acl: acl(),
        flags: 0,
    };
    let (paths, relative_zxid) = (|| vec![path(), path()], Zxid(1));
    let (watcher_type, watch) = (WatcherType::ANY, true);
    requests! {
        Create CreateRequest { ..create() }
        Create2 CreateRequest { ..create() }
        CreateContainer CreateRequest { ..create() }
        CreateTtl CreateTtlRequest { path: path(), data: data(), acl: acl(), flags: 5, ttl_ms: 1 }
        Delete DeleteRequest { path: path(), version }
        Exists ExistsRequest { path: path(), watch }
        GetData GetDataRequest { path: path(), watch }
        SetData SetDataRequest { path: path(), data: data(), version }
        GetAcl GetAclRequest { path: path() }
        SetAcl SetAclRequest { path: path(), acl: acl(), version }
        GetChildren GetChildrenRequest { path: path(), watch: false }
        GetChildren2 GetChildrenRequest { path: path(), watch: false }
        GetAllChildrenNumber GetAllChildrenNumberRequest { path: path() }
        GetEphemerals GetEphemeralsRequest { prefix_path: Some(path()) }
        Sync SyncRequest { path: path() }
        Ping Empty {}
        Check CheckVersionRequest { path: path(), version }
        Multi MultiRequest { ops: vec![Request::Create(create()), Request::Create2(create())] }
        MultiRead MultiReadRequest { ops: requests! { GetChildren GetChildrenRequest { path: path(), watch: false } } }
        Reconfig ReconfigRequest { joining_servers: Some(path()), leaving_servers: Some(path()), new_members: Some(path()), cur_config_id: -1 }
        SetWatches SetWatches { relative_zxid, data_watches: paths(), exist_watches: paths(), child_watches: paths() }
        SetWatches2 SetWatches2 {
            relative_zxid, data_watches: paths(), exist_watches: paths(), child_watches: paths(),
            persistent_watches: paths(), persistent_recursive_watches: paths()
        }
        AddWatch AddWatchRequest { path: path(), mode: AddWatchMode::PERSISTENT }
        CheckWatches CheckWatchesRequest { path: path(), watcher_type }
        RemoveWatches RemoveWatchesRequest { path: path(), watcher_type }
        Auth AuthPacket { auth_type: 0, scheme: path(), auth: data() }
        Sasl SaslRequest { token: data() }
        WhoAmI Empty {}
        CloseSession Empty {}
    }
}

#[test]
fn a_request_from_the_pieces_of_its_path_is_the_same() {
    let pieces = ["/a", "/", "b"];
    let frame = |mut request: Encoded| {
        let mut out = BytesMut::new();
        request.send(Xid(7), &mut out);
        out
    };
    let mut compared = 0;
    for mut request in samples(&pieces.concat()) {
        let op = request.op();
        let made = match &mut request {
            Request::Delete(delete) => Encoded::delete(&pieces, delete.version),
            Request::Exists(read) => {
                read.watch = false;
                Encoded::read(op, &pieces)
            }
            Request::GetData(read) => {
                read.watch = false;
                Encoded::read(op, &pieces)
            }
            Request::GetChildren(_) | Request::GetChildren2(_) => Encoded::read(op, &pieces),
            _ => continue,
        };
        assert_eq!(frame(made), frame(request.into()), "{op}");
        compared += 1;
    }
    assert_eq!(compared, 5);
}

/// Once, operations that a list had forgotten counted as empty: with a limit of 64 KiB, 60 read
/// transactions of 500 kB waited, and no caller did.
#[test]
fn the_bound_in_bytes_holds_for_each_operation_of_the_table() {
    let sampled: BTreeSet<_> = samples("/").iter().map(Request::op).collect();
    let table = OpCode::NAMED.iter().filter(|op| op.class().is_some());
    assert_eq!(sampled, table.copied().collect());
    for text in ["/", &"/long".repeat(700)] {
        for request in samples(text) {
            let op = request.op();
            let mut encoded = Encoded::from(request.clone());
            let (length, mut out) = (encoded.len(), BytesMut::new());
            encoded.send(Xid(7), &mut out);
            let frame = frame::split(&mut out, length).unwrap().unwrap();
            let mut reader = Reader::new(frame);
            let header = RequestHeader::decode(&mut reader).unwrap();
            assert_eq!(header, RequestHeader { xid: Xid(7), op });
            assert_eq!(Request::decode(op, &mut reader).as_ref(), Ok(&request));
            assert_eq!((out.len(), reader.left()), (0, 0), "{op}");
            let mut pair = Pair::connected(|config| config.max_queued_bytes = LIMIT);
            let refused = (1..).find_map(|submitted: usize| {
                let (token, _) = pair.submit_quietly(request.clone());
                pair.drain();
                let queued = pair.machine.metrics().queued_bytes;
                assert!(queued <= 2 * LIMIT, "{op}: {queued}");
                pair.is_settled(token).then_some((submitted, token))
            });
            let (submitted, token) = refused.expect("an end");
            assert!(submitted * length > 2 * LIMIT, "{op}: {submitted}");
            assert_too_many(&mut pair, token);
        }
    }
}

fn assert_too_many(pair: &mut Pair, token: u32) {
    let error = pair.error(token);
    let is_too_many = matches!(error.kind(), ErrorKind::TooManyRequests { .. });
    assert!(is_too_many, "{error:?}");
}

#[test]
fn identities_that_wait_are_bounded_too() {
    let mut pair = Pair::new(|config| config.max_queued_bytes = LIMIT);
    for token in 0..1000 {
        let auth = Auth {
            scheme: "digest".to_owned(),
            credentials: Bytes::from(vec![0; 1000]),
        };
        let options = RequestOptions::at(pair.now);
        pair.machine.add_auth(pair.now, token, auth, options);
        pair.drain();
        if pair.is_settled(token) {
            assert_too_many(&mut pair, token);
            assert!(token as usize * 1000 > 3 * LIMIT / 2);
            return;
        }
    }
    panic!("there is no bound");
}

#[test]
fn a_request_that_is_withdrawn_makes_room() {
    let mut pair = Pair::new(|_| {});
    let (token, _) = pair.submit_within(SECOND, sync("/"));
    let queued = |pair: &Pair| pair.machine.metrics().queued_bytes;
    assert_eq!(queued(&pair), Encoded::from(sync("/")).len());
    pair.wait(SECOND);
    assert!(pair.is_settled(token));
    assert_eq!(queued(&pair), 0);
}
