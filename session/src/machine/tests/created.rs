//! Replies to creates that name another node, or another transaction than that of the reply.

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, Stat, Zxid,
    jute::{Decode, DecodeErrorKind, Reader},
    multi::{MultiRequest, MultiResponse},
    records::{Create2Response, CreateRequest, CreateResponse, CreateTtlRequest, Empty},
};

use super::{pair::Pair, requests::delete};
use crate::{Effect, ErrorKind};

/// The transaction that the headers of the replies name.
const ZXID: i64 = 0x5_0000_0007;

fn stat(czxid: i64) -> Stat {
    let zeros = Bytes::from_static(&[0; Stat::ENCODED_LEN]);
    Stat {
        czxid: Zxid(czxid),
        ..Stat::decode(&mut Reader::new(zeros)).unwrap()
    }
}

fn create(mode: CreateMode) -> CreateRequest {
    CreateRequest {
        path: "/d/a-".to_owned(),
        data: None,
        acl: None,
        flags: mode.flags(),
    }
}

fn sequential() -> Request {
    Request::Create2(create(CreateMode::EphemeralSequential))
}

fn created(path: &str, czxid: i64) -> Create2Response {
    let (path, stat) = (path.to_owned(), stat(czxid));
    Create2Response { path, stat }
}

/// What the caller gets when the server answers a request with this reply; `None` for the reply
/// itself.
fn learnt(request: Request, zxid: i64, reply: &Response) -> Option<&'static str> {
    let mut pair = Pair::connected(|_| {});
    let op = request.op();
    let token = pair.submit(request);
    let (xid, _) = pair.request().unwrap();
    pair.reply(xid, zxid, Ok(reply.clone()));
    let error = match pair.result(token) {
        Ok(got) => {
            assert_eq!(&got, reply);
            assert!(pair.machine.link().is_connected());
            return None;
        }
        Err(error) => error,
    };
    assert_eq!(error.effect(), Effect::Unknown, "{error}");
    assert!(pair.machine.link().is_connected());
    match error.kind() {
        ErrorKind::Malformed { op: of, error } => {
            assert_eq!((*of, error.kind), (op, DecodeErrorKind::Unasked));
            Some(error.field)
        }
        other => panic!("{other:?}"),
    }
}

fn of_path(request: Request, path: &str) -> Option<&'static str> {
    let path = path.to_owned();
    let reply = match request.op() {
        OpCode::CREATE => Response::Create(CreateResponse { path }),
        OpCode::CREATE_CONTAINER => Response::CreateContainer(created(&path, ZXID)),
        OpCode::CREATE_TTL => Response::CreateTtl(created(&path, ZXID)),
        _ => Response::Create2(created(&path, ZXID)),
    };
    learnt(request, ZXID, &reply)
}

/// A lock took the node of somebody else for its own, granted it to all tasks of the process at
/// once, and deleted it.
#[test]
fn a_reply_that_names_another_node_is_not_believed() {
    let wrong = Some("CreateResponse.path");
    for (path, answer) in [
        ("/d/a-0000000012", None),
        ("/d/a--000000005", None),
        ("/d/a-2147483647", None),
        ("/d/a--2147483648", None),
        // Some servers count beyond 32 bits.
        ("/d/a-12345678901", None),
        ("/d/a-", wrong),
        ("/d/a-000000012", wrong),
        ("/d/a-00000000x2", wrong),
        ("/d/a-+000000012", wrong),
        ("/d/a-0000000012/b", wrong),
        ("/d/b-0000000012", wrong),
        ("/e/a-0000000012", wrong),
        ("/d/0000000012", wrong),
        ("/x/d/a-0000000012", wrong),
        ("", wrong),
    ] {
        assert_eq!(of_path(sequential(), path), answer, "{path}");
        let old = Request::Create(create(CreateMode::PersistentSequential));
        assert_eq!(of_path(old, path), answer, "{path}");
    }
    let ttl = |mode: CreateMode| {
        Request::CreateTtl(CreateTtlRequest {
            path: "/d/a-".to_owned(),
            data: None,
            acl: None,
            flags: mode.flags(),
            ttl_ms: 5000,
        })
    };
    let length = std::time::Duration::from_secs(5);
    let numbered = ttl(CreateMode::PersistentSequentialWithTtl(length));
    assert_eq!(of_path(numbered, "/d/a-0000000012"), None);
    for request in [
        Request::Create2(create(CreateMode::Ephemeral)),
        Request::CreateContainer(create(CreateMode::Container)),
        ttl(CreateMode::PersistentWithTtl(length)),
    ] {
        assert_eq!(of_path(request.clone(), "/d/a-"), None);
        for other in ["/d/a-0000000001", "/d/b-", "/d"] {
            assert_eq!(of_path(request.clone(), other), wrong, "{other}");
        }
    }
}

/// The fencing token of a lock is the `czxid`. The highest possible one would lock the resource for
/// ever.
#[test]
fn a_czxid_other_than_the_transaction_of_the_reply_is_not_believed() {
    let wrong = Some("Stat.czxid");
    for (zxid, czxid, answer) in [
        (ZXID, ZXID, None),
        (ZXID, ZXID - 1, wrong),
        (ZXID, ZXID + 1, wrong),
        (ZXID, 0, wrong),
        (ZXID, -1, wrong),
        (ZXID, i64::MAX, wrong),
        (0, 0, wrong),
        (-1, -1, wrong),
    ] {
        let reply = Response::Create2(created("/d/a-0000000012", czxid));
        assert_eq!(learnt(sequential(), zxid, &reply), answer, "{zxid} {czxid}");
    }
}

#[test]
fn the_nodes_that_a_transaction_creates_are_checked_too() {
    let request = || {
        let Request::Delete(delete) = delete("/d/b") else {
            panic!("a delete");
        };
        let create = Request::Create2(create(CreateMode::Ephemeral));
        let ops = vec![Request::Delete(delete), create];
        Request::Multi(MultiRequest { ops })
    };
    let reply = |second: Option<Result<Response, ErrorCode>>| {
        let results = [Some(Ok(Response::Delete(Empty {}))), second];
        let results = results.into_iter().flatten().collect();
        Response::Multi(MultiResponse { results })
    };
    let old = |path: &str| {
        let path = path.to_owned();
        Ok(Response::Create(CreateResponse { path }))
    };
    let new = |path, czxid| Ok(Response::Create2(created(path, czxid)));
    for (second, answer) in [
        (Some(new("/d/a-", ZXID)), None),
        // Servers before 3.7.2, 3.8.2 and 3.9.0.
        (Some(old("/d/a-")), None),
        (Some(new("/d/a-", ZXID + 1)), Some("Stat.czxid")),
        (Some(new("/d/c", ZXID)), Some("CreateResponse.path")),
        (Some(old("/d/c")), Some("CreateResponse.path")),
        (
            Some(Ok(Response::Delete(Empty {}))),
            Some("MultiResponse.results"),
        ),
        (None, Some("MultiResponse.results")),
    ] {
        let reply = reply(second);
        assert_eq!(learnt(request(), ZXID, &reply), answer, "{reply:?}");
    }
    // One that has failed has created nothing.
    let mut pair = Pair::connected(|_| {});
    let token = pair.submit(request());
    let (xid, _) = pair.request().unwrap();
    let results = vec![Err(ErrorCode::OK), Err(ErrorCode::NODE_EXISTS)];
    pair.reply(xid, ZXID, Ok(Response::Multi(MultiResponse { results })));
    let error = pair.result(token).unwrap_err();
    assert_eq!(error.effect(), Effect::NotApplied, "{error}");
    // Other requests may be answered with anything that can be read.
    assert_eq!(
        learnt(delete("/d/b"), ZXID, &Response::Delete(Empty {})),
        None
    );
}
