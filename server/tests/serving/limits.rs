//! Four-letter words, requests behind the handshake, and the shutdown.
//!
//! Not here: what a real server does, too (`tests/conformance`), clients that do not read
//! (`hostile`).

use lockkeeper_test_support::peer as common;

use common::{PATIENCE, Peer, Raw, create, framed, get_data, new_session, request_frame};
use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, SessionId, Xid, Zxid,
    connect::ConnectResponse,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
    records::Empty,
};
use lockkeeper_server::{Cluster, Server};

/// ZooKeeper 3.8.0 reads the bodies of these requests first. So this is no case for both servers.
#[tokio::test]
async fn operations_that_clients_may_not_send_are_unimplemented() {
    let server = Server::start().await.unwrap();
    for op in [OpCode::CREATE_SESSION, OpCode::CHECK, OpCode(20)] {
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

/// Both recorded servers took them (`proto/tests/golden/pipelined_handshake.*`). The conformance
/// cases wait for the answer to a handshake, so none of them shows this.
#[tokio::test]
async fn requests_may_follow_the_handshake_in_one_write() {
    let alone = Server::start().await.unwrap();
    let cluster = Cluster::start(3).await.unwrap();
    // More than the server builds before the client has read some of it.
    let xids: Vec<_> = [Xid::PING].into_iter().chain((1..30).map(Xid)).collect();
    let look = |xid: &Xid| match *xid {
        Xid::PING => request_frame(*xid, &Request::Ping(Empty {})),
        _ => request_frame(*xid, &get_data("/n", false)),
    };
    let requests: Vec<u8> = xids.iter().flat_map(look).collect();
    let together = [framed(&new_session(10_000)), requests].concat();
    for server in [&alone, &cluster] {
        let mut writer = Peer::join(server).await;
        let node = create("/n", &vec![1; 100_000], CreateMode::Persistent);
        writer.call(&node).await.unwrap();
    }
    let both = [alone.connect_string(), cluster.connect_string()].join(",");
    for address in both.split(',') {
        let mut raw = Raw::connect(address.parse().unwrap()).await;
        raw.send(&together).await;
        let mut answer = Reader::new(raw.frame().await);
        let session = ConnectResponse::decode(&mut answer).unwrap();
        assert_ne!(session.session_id, SessionId::NONE);
        for xid in &xids {
            let mut reply = Reader::new(raw.frame().await);
            let header = ReplyHeader::decode(&mut reply).unwrap();
            assert_eq!((header.xid, header.err), (*xid, ErrorCode::OK));
        }
    }
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
    assert_eq!(ask("ruok\n").await, "imok");
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
    assert!(ask("envi").await.contains("zookeeper.version=3.9.3"));
    assert!(ask("conf").await.contains("tickTime=500\n"));
    assert!(ask("dump").await.contains("not in the whitelist"));
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
