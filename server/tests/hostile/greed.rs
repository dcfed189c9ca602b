//! Clients that ask for more than they read, for very much at once, or for something slow.

use std::time::Duration;

use lockkeeper_proto::{
    Acl, AddWatchMode, CreateMode, ErrorCode, Id, Perms, Request, Response, Xid, Zxid,
    multi::{MultiReadRequest, MultiRequest},
    records::{
        AddWatchRequest, CreateRequest, Empty, GetAllChildrenNumberRequest, GetDataRequest,
        SetWatches,
    },
};
use lockkeeper_server::Server;

use super::{
    common::{PATIENCE, Peer, auth, create, create_with, get_data, now, request_frame, set_data},
    is_served, takes_less_than, until,
};

const MIB: u64 = 1 << 20;

/// The number of unread bytes at which the server cuts a connection. The buffer with these bytes
/// may just be growing to twice its length.
const UNREAD: u64 = 16 * MIB;

#[test]
fn a_client_that_asks_and_never_reads_takes_little_memory_and_is_closed() {
    // The node, its request and its reply, and two or three more replies for the client.
    takes_less_than(16 * MIB, "a client that never reads", || async {
        let server = Server::builder().tick_time(Duration::from_millis(50));
        let server = server.start().await.unwrap();
        let mut other = Peer::join_for(&server, 60_000).await;
        let large = vec![1; 1_000_000];
        other
            .call(&create("/n", &large, CreateMode::Persistent))
            .await
            .unwrap();
        let mut peer = Peer::join_for(&server, 300).await;
        let request = request_frame(Xid(1), &get_data("/n", false));
        peer.raw.send(&request.repeat(500)).await;
        // The session expires, because the server does not read from it. Then the server ends the
        // connection with its unread output.
        until(&server, |report| report.sessions.len() == 1).await;
        is_served(&mut other).await;
        let begin = now();
        while !peer.raw.is_reset_or_over().await {
            assert!(
                begin.elapsed() < PATIENCE,
                "the server still keeps the connection"
            );
        }
        until(&server, |report| report.connections == 1).await;
    });
}

#[test]
fn a_client_that_gets_more_events_than_it_reads_is_cut() {
    takes_less_than(2 * UNREAD + 16 * MIB, "events without a reader", || async {
        let server = Server::start().await.unwrap();
        let mut peer = Peer::join_for(&server, 60_000).await;
        let mut other = Peer::join_for(&server, 60_000).await;
        // The longer the path, the fewer events are needed.
        let path = format!("/{}", "n".repeat(60_000));
        other.create(&path, CreateMode::Persistent).await.unwrap();
        let watch = AddWatchRequest {
            path: path.clone(),
            mode: AddWatchMode::PERSISTENT,
        };
        peer.call(&Request::AddWatch(watch)).await.unwrap();
        let mut told = 0;
        while server.report().watches > 0 {
            other.call(&set_data(&path, b"")).await.unwrap();
            told += 60_000;
            assert!(told < 4 * UNREAD, "the server still sends events");
        }
        assert!(told > UNREAD, "{told}");
        until(&server, |report| report.connections == 1).await;
        is_served(&mut other).await;
    });
}

/// A request of 300 kB could make the server build a reply of ten gigabytes.
#[test]
fn a_multi_read_with_a_reply_above_the_limit_is_refused() {
    takes_less_than(64 * MIB, "a multi-read of 8 MiB", || async {
        let server = Server::start().await.unwrap();
        let mut peer = Peer::join(&server).await;
        let large = vec![1; 1_000_000];
        peer.call(&create("/n", &large, CreateMode::Persistent))
            .await
            .unwrap();
        let read = |times: usize| {
            let request = GetDataRequest {
                path: "/n".to_owned(),
                watch: false,
            };
            let ops = vec![Request::GetData(request); times];
            Request::MultiRead(MultiReadRequest { ops })
        };
        let refused = peer.call(&read(10_000)).await;
        assert_eq!(refused.unwrap_err(), ErrorCode::MARSHALLING_ERROR);
        // A reply as long as clients accept is sent.
        match peer.call(&read(8)).await.unwrap() {
            Response::MultiRead(response) => assert_eq!(response.results.len(), 8),
            other => panic!("{other:?}"),
        }
    });
}

/// Watches on missing nodes cost the client least: a few bytes of a list for each.
#[test]
fn nodes_and_watches_take_memory_in_proportion_to_the_requests() {
    const WATCHES: usize = 80_000;
    const NODES: usize = 10_000;
    let sent = (WATCHES * (4 + 5)) as u64;
    takes_less_than(100 * sent, &format!("watches, {sent} sent"), || async {
        let server = Server::start().await.unwrap();
        let mut peer = Peer::join(&server).await;
        let watches = SetWatches {
            relative_zxid: Zxid::ZERO,
            data_watches: vec![],
            exist_watches: (0..WATCHES).map(|number| format!("{number:x}")).collect(),
            child_watches: vec![],
        };
        peer.call(&Request::SetWatches(watches)).await.unwrap();
        assert_eq!(server.report().watches, WATCHES);
    });

    let sent = (NODES * (9 + 8 + 4 + 27 + 4)) as u64;
    takes_less_than(40 * sent, &format!("nodes, {sent} sent"), || async {
        let server = Server::start().await.unwrap();
        let mut peer = Peer::join(&server).await;
        let create = |number: usize| {
            Request::Create(CreateRequest {
                path: format!("/{number:x}"),
                data: None,
                acl: Some(Acl::OPEN_UNSAFE.into()),
                flags: CreateMode::Ephemeral.flags(),
            })
        };
        let ops = (0..NODES).map(create).collect();
        peer.call(&Request::Multi(MultiRequest { ops }))
            .await
            .unwrap();
        assert_eq!(server.report().nodes, NODES);
    });
}

/// Each `auth` entry of an ACL is replaced by all identities of the client, so the numbers
/// multiply.
#[tokio::test]
async fn identities_times_acl_entries_are_limited() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    for number in 0..31 {
        let proved = peer.call(&auth(&format!("u{number}:p"))).await;
        assert!(proved.is_ok(), "{number}");
    }
    let entry = |perms: i32| Acl {
        perms: Perms(perms),
        id: Id {
            scheme: "auth".into(),
            id: "".into(),
        },
    };
    let mut with = async |entries: i32| {
        let acl = (1..=entries).map(entry).collect();
        let create = create_with("/n-", b"", CreateMode::PersistentSequential, acl);
        peer.call(&create).await.err()
    };
    assert_eq!(with(8).await, None);
    assert_eq!(with(9).await, Some(ErrorCode::INVALID_ACL));
    assert_eq!(with(40_000).await, Some(ErrorCode::INVALID_ACL));
    // One identity too many, and one that is too long.
    let too_many = peer.call(&auth("one:more")).await;
    assert_eq!(too_many.unwrap_err(), ErrorCode::AUTH_FAILED);
    peer.raw.assert_ended().await;
    let mut peer = Peer::join(&server).await;
    let too_long = peer.call(&auth(&"u".repeat(5000))).await;
    assert_eq!(too_long.unwrap_err(), ErrorCode::AUTH_FAILED);
    peer.raw.assert_ended().await;
}

/// Counting all nodes takes time in proportion to their number. A client that asks for it many
/// times must not delay others.
#[tokio::test]
async fn long_requests_are_handled_in_turns() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let mut other = Peer::join(&server).await;
    for _ in 0..300 {
        peer.create("/n-", CreateMode::PersistentSequential)
            .await
            .unwrap();
    }
    let count = Request::GetAllChildrenNumber(GetAllChildrenNumberRequest {
        path: "/".to_owned(),
    });
    // A few slow requests, and very many quick ones.
    for (requests, request) in [(700, count), (20_000, Request::WhoAmI(Empty {}))] {
        let op = request.op();
        peer.raw
            .send(&request_frame(Xid(1), &request).repeat(requests))
            .await;
        is_served(&mut other).await;
        let done = server.counters().requests_of(op);
        println!("{done} of {requests} {op} were done before another client's request");
        assert!(done < requests as u64, "{op}");
        for _ in 0..requests {
            peer.raw.frame().await;
        }
        assert_eq!(server.counters().requests_of(op), requests as u64);
    }
}
