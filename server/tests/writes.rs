//! Transactions, create flags and permissions: the cases that the recordings do not contain.

mod common;

use bytes::Bytes;
use common::{Peer, create, create_with, delete, framed, get_data, request_frame, set_data};
use lockkeeper_proto::{
    Acl,
    CreateMode::{Ephemeral, Persistent},
    ErrorCode, OpCode, Perms, Request, Response, Version, Xid, Zxid,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
    multi::{MultiOp, MultiRequest, MultiResponse, MultiResult},
    records::{
        AuthPacket, CheckVersionRequest, CreateRequest, CreateTtlRequest, DeleteRequest,
        SetDataRequest,
    },
};
use lockkeeper_server::Server;

fn record(path: &str, flags: i32) -> CreateRequest {
    CreateRequest {
        path: path.to_owned(),
        data: None,
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags,
    }
}

fn with_ttl(path: &str, flags: i32, ttl_ms: i64) -> CreateTtlRequest {
    CreateTtlRequest {
        path: path.to_owned(),
        data: None,
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags,
        ttl_ms,
    }
}

async fn multi(peer: &mut Peer, ops: Vec<MultiOp>) -> Result<MultiResponse, ErrorCode> {
    match peer.call(&Request::Multi(MultiRequest { ops })).await? {
        Response::Multi(response) => Ok(response),
        other => panic!("{other:?}"),
    }
}

fn with_stat(results: &[MultiResult]) -> Vec<bool> {
    let has_stat = |result: &MultiResult| match result {
        MultiResult::Create(_) => false,
        MultiResult::Create2(_) => true,
        other => panic!("{other:?}"),
    };
    results.iter().map(has_stat).collect()
}

#[tokio::test]
async fn a_transaction_sees_its_own_effects_and_takes_one_zxid() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let before = server.report().zxid;
    let set = |version| {
        MultiOp::SetData(SetDataRequest {
            path: "/p".to_owned(),
            data: None,
            version: Version(version),
        })
    };
    let check = |path: &str| {
        MultiOp::Check(CheckVersionRequest {
            path: path.to_owned(),
            version: Version::ANY,
        })
    };
    let ops = vec![
        MultiOp::Create(record("/p", 0)),
        MultiOp::Create(record("/p/c", 1)),
        check("/p/c"),
        set(0),
        set(1),
        MultiOp::Create2(record("/p/s-", 3)),
    ];
    let response = multi(&mut peer, ops).await.unwrap();
    assert_eq!(response.failure(), None);
    match response.results.last() {
        Some(MultiResult::Create2(created)) => {
            assert_eq!(created.path, "/p/s-0000000001");
            assert_eq!(created.stat.czxid, Zxid(before.0 + 1));
            assert_eq!(created.stat.ephemeral_owner, peer.session);
        }
        other => panic!("{other:?}"),
    }
    // A failed transaction takes a zxid, too, and changes nothing.
    let ops = vec![
        MultiOp::Delete(DeleteRequest {
            path: "/p/c".to_owned(),
            version: Version::ANY,
        }),
        check("/none"),
        set(0),
    ];
    let response = multi(&mut peer, ops).await.unwrap();
    assert_eq!(response.failure(), Some((1, ErrorCode::NO_NODE)));
    assert_eq!(server.report().zxid, Zxid(before.0 + 2));
    assert_eq!(server.report().nodes, 3);
}

#[tokio::test]
async fn a_multi_accepts_the_create_flags_of_the_real_server() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let ops = vec![
        // Flag 4 makes a container with any create. Operation 19 makes a container with any flag.
        MultiOp::Create(record("/a", 4)),
        MultiOp::CreateContainer(record("/b", 0)),
        MultiOp::Create2(record("/c", 0)),
        MultiOp::CreateTtl(with_ttl("/d", 5, 1000)),
        // Without a TTL flag this makes a plain node.
        MultiOp::CreateTtl(with_ttl("/e", 0, -1)),
    ];
    let response = multi(&mut peer, ops).await.unwrap();
    assert_eq!(
        with_stat(&response.results),
        [true, true, true, true, false]
    );
    let before = server.report().zxid;
    for malformed in [record("/x", 5), record("/x", 6)] {
        let ops = vec![MultiOp::Create(record("/y", 0)), MultiOp::Create(malformed)];
        let refused = multi(&mut peer, ops).await;
        assert_eq!(refused, Err(ErrorCode::MARSHALLING_ERROR));
    }
    assert_eq!(server.report().zxid, Zxid(before.0 + 2));
    let ops = vec![MultiOp::CreateTtl(with_ttl("/x", 5, 0))];
    let response = multi(&mut peer, ops).await.unwrap();
    assert_eq!(response.failure(), Some((0, ErrorCode::BAD_ARGUMENTS)));
    assert_eq!(server.report().nodes, 5);
}

#[tokio::test]
async fn a_single_create_accepts_the_flags_of_the_real_server() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let mut call = async |request| peer.call(&request).await.map(|_| ());
    for flags in [5, 6, 7, -1] {
        let bad = Err(ErrorCode::BAD_ARGUMENTS);
        assert_eq!(call(Request::Create(record("/x", flags))).await, bad);
        assert_eq!(call(Request::Create2(record("/x", flags))).await, bad);
        assert_eq!(
            call(Request::CreateContainer(record("/x", flags))).await,
            bad
        );
    }
    for (flags, ttl_ms) in [(0, 1000), (4, 1000), (0, -1), (5, 0), (5, -1), (5, 1 << 40)] {
        let refused = call(Request::CreateTtl(with_ttl("/x", flags, ttl_ms))).await;
        assert_eq!(refused, Err(ErrorCode::BAD_ARGUMENTS), "{flags} {ttl_ms}");
    }
    call(Request::CreateTtl(with_ttl("/t", 5, (1 << 40) - 1)))
        .await
        .unwrap();
    // Flag 4 in a plain create makes a plain node. A container create makes a container with each flag from 0 to 4.
    call(Request::Create(record("/plain", 4))).await.unwrap();
    for (path, flags) in [("/c0", 0), ("/c1", 1), ("/c2-", 2), ("/c3-", 3), ("/c4", 4)] {
        call(Request::CreateContainer(record(path, flags)))
            .await
            .unwrap();
    }
    assert_eq!(
        server.paths(),
        [
            "/c0",
            "/c1",
            "/c2-0000000004",
            "/c3-0000000005",
            "/c4",
            "/plain",
            "/t"
        ]
    );
    let ephemerals = &server.report().sessions[&peer.session].ephemerals;
    assert_eq!(ephemerals, &Vec::<String>::new());
}

fn auth(scheme: &str, credentials: Option<&'static [u8]>) -> Request {
    Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: scheme.to_owned(),
        auth: credentials.map(Bytes::from_static),
    })
}

#[tokio::test]
async fn ids_belong_to_the_connection() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let mine = || create_with("/mine", b"", Persistent, Acl::CREATOR_ALL.to_vec());
    assert_eq!(peer.call(&mine()).await, Err(ErrorCode::INVALID_ACL));
    peer.call(&auth("digest", Some(b"u:p"))).await.unwrap();
    peer.call(&auth("digest", Some(b"nocolon"))).await.unwrap();
    peer.call(&auth("ip", None)).await.unwrap();
    peer.call(&mine()).await.unwrap();
    server.faults().cut(peer.session);
    let mut peer = peer.resume(&server).await.unwrap();
    let denied = peer.call(&set_data("/mine", b"x")).await;
    assert_eq!(denied, Err(ErrorCode::NO_AUTH));
    // A delete checks the ACL of the parent, not of the node.
    peer.call(&delete("/mine")).await.unwrap();

    let here = vec![Acl::new(Perms::ALL, "ip", "127.0.0.0/8")];
    let there = vec![Acl::new(Perms::ALL, "ip", "10.0.0.0/8")];
    for (path, acl) in [("/here", here), ("/there", there)] {
        peer.call(&create_with(path, b"", Persistent, acl))
            .await
            .unwrap();
    }
    peer.call(&get_data("/here", false)).await.unwrap();
    let denied = peer.call(&get_data("/there", false)).await;
    assert_eq!(denied, Err(ErrorCode::NO_AUTH));
    let denied = peer.call(&create("/there/x", b"", Ephemeral)).await;
    assert_eq!(denied, Err(ErrorCode::NO_AUTH));
}

#[tokio::test]
async fn failing_to_prove_an_id_ends_the_connection() {
    let server = Server::start().await.unwrap();
    for refused in [
        auth("digest", None),
        auth("world", Some(b"anyone")),
        auth("sasl", Some(b"me")),
    ] {
        let mut peer = Peer::join(&server).await;
        // The request behind it is not executed.
        let both = [
            request_frame(Xid::AUTH, &refused),
            request_frame(Xid(1), &create("/n", b"", Persistent)),
        ];
        peer.raw.send(&both.concat()).await;
        let reply = ReplyHeader::decode(&mut Reader::new(peer.raw.frame().await)).unwrap();
        let expected = ReplyHeader {
            xid: Xid::AUTH,
            zxid: Zxid::ZERO,
            err: ErrorCode::AUTH_FAILED,
        };
        assert_eq!(reply, expected);
        peer.raw.assert_closed().await;
    }
    let mut peer = Peer::join(&server).await;
    let op = OpCode::AUTH;
    peer.raw
        .send(&framed(&RequestHeader { xid: Xid::AUTH, op }))
        .await;
    peer.raw.assert_closed().await;
    assert_eq!(server.report().nodes, 0);
}
