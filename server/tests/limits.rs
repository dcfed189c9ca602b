//! What the server does with requests that break its limits; four-letter words; silent clients.

mod common;

use std::time::Duration;

use bytes::Bytes;
use common::{
    PATIENCE, Peer, Raw, create, framed, get_data, new_session, now, request_frame, set_data,
};
use lockkeeper_proto::{
    CreateMode, ErrorCode, EventType, OpCode, Response, Xid, Zxid,
    connect::ConnectRequest,
    frame::SERVER_LIMIT,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
};
use lockkeeper_server::Server;

#[tokio::test]
async fn frames_up_to_the_limit_are_accepted_and_longer_ones_end_the_connection() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let without_data = request_frame(Xid(1), &create("/n", b"", CreateMode::Persistent)).len() - 4;
    let data = vec![7; SERVER_LIMIT - without_data];
    peer.call(&create("/n", &data, CreateMode::Persistent))
        .await
        .unwrap();
    // The reply is longer than any request may be.
    match peer.call(&get_data("/n", false)).await.unwrap() {
        Response::GetData(response) => assert_eq!(response.data.unwrap(), data),
        other => panic!("{other:?}"),
    }
    peer.raw.send(&[0, 0x10, 0, 0]).await;
    peer.raw.assert_closed().await;
}

#[tokio::test]
async fn malformed_frames_end_the_connection_without_a_reply() {
    let server = Server::start().await.unwrap();
    for garbage in [
        &[0xff, 0xff, 0xff, 0xff][..],
        &[0, 0, 0, 0],
        &[0, 0, 0, 7, 1, 2, 3, 4, 5, 6, 7],
        b"ruok",
    ] {
        let mut peer = Peer::join(&server).await;
        peer.raw.send(garbage).await;
        peer.raw.assert_closed().await;
    }
    for garbage in [
        &[0, 0, 0, 27][..],
        &[0xff, 0xff, 0xff, 0xff],
        &[0, 0, 0, 0],
        b"zzzz",
        b"RUOK",
    ] {
        let mut raw = Raw::connect(server.local_addr()).await;
        raw.send(garbage).await;
        if garbage == [0, 0, 0, 27] {
            raw.send(&[0; 27]).await;
        }
        raw.assert_closed().await;
    }
}

#[tokio::test]
async fn operations_that_clients_may_not_send_are_unimplemented() {
    let server = Server::start().await.unwrap();
    for op in [0, 10, 13, 20, 23, 99, 108, 1000, -1, -2, -10, -100].map(OpCode) {
        let mut peer = Peer::join(&server).await;
        peer.raw
            .send(&framed(&RequestHeader { xid: Xid(9), op }))
            .await;
        let reply = ReplyHeader::decode(&mut Reader::new(peer.raw.frame().await)).unwrap();
        assert_eq!((reply.xid, reply.zxid), (Xid(9), Zxid(-1)), "{op}");
        assert_eq!(reply.err, ErrorCode::UNIMPLEMENTED);
        peer.raw.assert_closed().await;
    }
}

#[tokio::test]
async fn replies_repeat_the_xid_except_for_pings() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let mut reply_to = async |xid, op| {
        peer.raw.send(&framed(&RequestHeader { xid, op })).await;
        let reply = peer.raw.frame().await;
        ReplyHeader::decode(&mut Reader::new(reply)).unwrap().xid
    };
    assert_eq!(reply_to(Xid(5), OpCode::PING).await, Xid::PING);
    assert_eq!(reply_to(Xid(0), OpCode::WHO_AM_I).await, Xid(0));
    assert_eq!(reply_to(Xid(-7), OpCode::WHO_AM_I).await, Xid(-7));
}

#[tokio::test]
async fn timeouts_are_negotiated_again_on_every_connection() {
    let server = Server::builder()
        .min_session_timeout(Duration::from_secs(1))
        .max_session_timeout(Duration::from_secs(9))
        .start()
        .await
        .unwrap();
    let mut session: Option<ConnectRequest> = None;
    for (asked, granted) in [(0, 1000), (-5, 1000), (i32::MAX, 9000), (1234, 1234)] {
        let mut raw = Raw::connect(server.local_addr()).await;
        let request = ConnectRequest {
            timeout_ms: asked,
            // Servers ignore the version.
            protocol_version: 7,
            ..session.unwrap_or_else(|| new_session(0))
        };
        let response = raw.handshake(&request).await.unwrap();
        assert_eq!(
            (response.timeout_ms, response.protocol_version),
            (granted, 0)
        );
        session = Some(ConnectRequest {
            session_id: response.session_id,
            password: response.password,
            ..request
        });
    }
    assert_eq!(server.report().sessions.len(), 1);
}

#[tokio::test]
async fn resuming_needs_the_password_and_ends_the_older_connection() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let wrong = ConnectRequest {
        password: Some(Bytes::from_static(&[1; 16])),
        ..peer.resume_request()
    };
    let ahead = ConnectRequest {
        last_zxid_seen: Zxid(1 << 40),
        ..peer.resume_request()
    };
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&wrong).await, None);
    raw.assert_closed().await;
    let mut raw = Raw::connect(server.local_addr()).await;
    raw.send(&framed(&ahead)).await;
    raw.assert_closed().await;
    // Neither attempt affected the owner.
    peer.create("/n", CreateMode::Ephemeral).await.unwrap();

    let mut raw = Raw::connect(server.local_addr()).await;
    let response = raw.handshake(&peer.resume_request()).await.unwrap();
    assert_eq!(response.session_id, peer.session);
    assert_eq!(response.password, Some(peer.password.clone()));
    peer.raw.assert_closed().await;
    assert_eq!(server.report().nodes, 1);
}

#[tokio::test]
async fn a_session_survives_its_connection_and_expires_after_its_timeout() {
    let server = Server::builder()
        .tick_time(Duration::from_millis(20))
        .start()
        .await
        .unwrap();
    let mut peer = Peer::join_for(&server, 600).await;
    let mut watcher = Peer::join(&server).await;
    watcher.call(&common::exists("/e", true)).await.unwrap_err();
    let since = now();
    peer.create("/e", CreateMode::Ephemeral).await.unwrap();
    assert_eq!(watcher.event().await.event_type, EventType::NODE_CREATED);
    watcher.call(&common::exists("/e", true)).await.unwrap();
    let request = peer.resume_request();
    drop(peer);
    assert_eq!(watcher.event().await.event_type, EventType::NODE_DELETED);
    assert!(since.elapsed() >= Duration::from_millis(600));
    assert_eq!(server.report().nodes, 0);
    assert_eq!(server.counters().expired, 1);
    let mut raw = Raw::connect(server.local_addr()).await;
    assert_eq!(raw.handshake(&request).await, None);
}

#[tokio::test]
async fn four_letter_words_are_answered_and_the_connection_closed() {
    let server = Server::start().await.unwrap();
    let peer = Peer::join(&server).await;
    let ask = async |word: &str| {
        let mut raw = Raw::connect(server.local_addr()).await;
        raw.send(word.as_bytes()).await;
        String::from_utf8(raw.rest().await).unwrap()
    };
    assert_eq!(ask("ruok").await, "imok");
    assert_eq!(ask("ruok\n").await, "imok");
    assert_eq!(ask("isro").await, "rw");
    let srvr = ask("srvr").await;
    assert!(srvr.starts_with("Zookeeper version: 3.9.3-"), "{srvr}");
    assert!(
        srvr.ends_with("Mode: standalone\nNode count: 5\n"),
        "{srvr}"
    );
    assert!(ask("stat").await.contains("Clients:\n /127.0.0.1:"));
    assert!(ask("mntr").await.contains("zk_znode_count\t5\n"));
    let session = peer.session.to_string();
    assert!(
        ask("cons")
            .await
            .contains(&format!("sid={session},to=10000"))
    );
    assert!(ask("dump").await.contains(&session));
    assert!(ask("wchs").await.contains("Total watches:0"));
    assert!(ask("conf").await.contains("tickTime=500\n"));
    assert!(ask("envi").await.contains("zookeeper.version=3.9.3"));
    assert!(ask("wchc").await.contains("not in the whitelist"));
}

#[tokio::test]
async fn a_connection_without_a_handshake_is_closed() {
    let server = Server::builder()
        .handshake_timeout(Duration::from_millis(40))
        .start()
        .await
        .unwrap();
    let mut raw = Raw::connect(server.local_addr()).await;
    raw.send(&[0, 0, 0]).await;
    raw.assert_closed().await;
}

/// A client asks 1000 times for 100 kB and does not read. The server stops working for it, and continues when it reads.
#[tokio::test]
async fn the_server_stops_working_for_a_client_that_does_not_read() {
    const REQUESTS: i32 = 1000;
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    peer.call(&create("/n", &vec![1; 100_000], CreateMode::Persistent))
        .await
        .unwrap();
    let requests: Vec<u8> = (0..REQUESTS)
        .flat_map(|xid| request_frame(Xid(xid), &get_data("/n", false)))
        .collect();
    peer.raw.send(&requests).await;
    // Other clients are served meanwhile, and the server has not built all replies for the first one.
    let mut other = Peer::join(&server).await;
    other
        .call(&set_data("/n", &vec![2; 100_000]))
        .await
        .unwrap();
    let done = server.counters().requests_of(OpCode::GET_DATA);
    assert!(done < 500, "{done}");
    for xid in 0..REQUESTS {
        let mut reply = Reader::new(peer.raw.frame().await);
        assert_eq!(ReplyHeader::decode(&mut reply).unwrap().xid, Xid(xid));
    }
}

#[tokio::test]
async fn a_shutdown_ends_a_hundred_connections() {
    let server = Server::start().await.unwrap();
    let mut peers = Vec::new();
    for _ in 0..100 {
        peers.push(Peer::join(&server).await);
    }
    for peer in &mut peers {
        peer.create("/e-", CreateMode::EphemeralSequential)
            .await
            .unwrap();
    }
    let report = server.report();
    assert_eq!((report.nodes, report.sessions.len()), (100, 100));
    assert!(report.sessions.values().all(|session| session.is_connected));
    let address = server.local_addr();
    tokio::time::timeout(PATIENCE, server.shutdown())
        .await
        .expect("the shutdown does not end");
    for mut peer in peers {
        peer.raw.assert_closed().await;
    }
    assert!(tokio::net::TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn closing_a_session_deletes_its_ephemeral_nodes() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    peer.create("/e", CreateMode::Ephemeral).await.unwrap();
    let (session, password) = (peer.session, peer.password.clone());
    peer.close().await;
    let report = server.report();
    assert_eq!(
        (report.nodes, report.watches, report.sessions.len()),
        (0, 0, 0)
    );
    let mut raw = Raw::connect(server.local_addr()).await;
    let request = ConnectRequest {
        session_id: session,
        password: Some(password),
        ..new_session(10_000)
    };
    assert_eq!(raw.handshake(&request).await, None);
}
