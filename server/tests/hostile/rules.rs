//! Malformed messages. Not here: how they are split, which makes no difference (`fuzz/checks`).

use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Xid,
    frame::SERVER_LIMIT,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Reader},
    records::AuthPacket,
};
use lockkeeper_server::Server;

use super::{
    common::{Peer, Raw, create, framed, get_data, new_session, request_frame},
    is_served, until,
};

fn too_long() -> [u8; 4] {
    u32::try_from(SERVER_LIMIT + 1).unwrap().to_be_bytes()
}

/// Bytes that no connection can begin with.
fn beginnings() -> Vec<(&'static str, Vec<u8>)> {
    let truncated = {
        let mut handshake = framed(&new_session(4000));
        handshake.truncate(24);
        handshake[..4].copy_from_slice(&20_u32.to_be_bytes());
        handshake
    };
    let long_password = {
        let mut handshake = framed(&new_session(4000));
        handshake[28..32].copy_from_slice(&i32::MAX.to_be_bytes());
        handshake
    };
    vec![
        ("a negative length", vec![0xff; 8]),
        ("an empty frame", vec![0; 4]),
        ("a frame that is too long", too_long().to_vec()),
        ("half a handshake in a whole frame", truncated),
        ("a password of impossible length", long_password),
        (
            "a web browser",
            b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n".to_vec(),
        ),
        ("TLS", vec![0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]),
        ("a request", request_frame(Xid(1), &get_data("/", false))),
        ("text", b"hello, is there anybody?\n".to_vec()),
    ]
}

/// Bytes that no session can send.
fn breaches() -> Vec<(&'static str, Vec<u8>)> {
    vec![
        ("a negative length", vec![0x80, 0, 0, 0]),
        ("an empty frame", vec![0; 4]),
        ("a frame that is too long", too_long().to_vec()),
        ("half a header", vec![0, 0, 0, 7, 0, 0, 0, 1, 0, 0, 0]),
        ("a second handshake", framed(&new_session(4000))),
        ("a four-letter word", b"ruok".to_vec()),
        ("an unknown operation", header(999)),
        (
            "an internal operation of servers",
            header(OpCode::DELETE_CONTAINER.0),
        ),
        ("an unknown scheme", auth("kerberos")),
        ("garbage", (0..=255).rev().collect()),
    ]
}

fn header(op: i32) -> Vec<u8> {
    let (xid, op) = (Xid(1), OpCode(op));
    framed(&RequestHeader { xid, op })
}

fn auth(scheme: &str) -> Vec<u8> {
    let packet = AuthPacket {
        auth_type: 0,
        scheme: scheme.to_owned(),
        auth: None,
    };
    request_frame(Xid::AUTH, &Request::Auth(packet))
}

#[tokio::test]
async fn a_malformed_handshake_ends_the_connection_without_a_reply() {
    let server = Server::start().await.unwrap();
    let mut other = Peer::join(&server).await;
    for (what, bytes) in beginnings() {
        println!("{what}");
        let mut raw = Raw::connect(server.local_addr()).await;
        raw.send(&bytes).await;
        raw.assert_ended().await;
        is_served(&mut other).await;
        until(&server, |report| report.connections == 1).await;
    }
    assert_eq!(server.report().sessions.len(), 1);
}

#[tokio::test]
async fn a_malformed_request_ends_the_connection_and_not_the_session() {
    let server = Server::start().await.unwrap();
    let mut other = Peer::join(&server).await;
    for (what, bytes) in breaches() {
        println!("{what}");
        let mut peer = Peer::join(&server).await;
        peer.call(&create("/e", b"", CreateMode::Ephemeral))
            .await
            .unwrap();
        let request = peer.resume_request();
        peer.raw.send(&bytes).await;
        peer.raw.assert_ended().await;
        is_served(&mut other).await;
        until(&server, |report| report.connections == 1).await;
        // The session and its node live on, and a correct client can resume it.
        assert_eq!(server.paths(), ["/e"]);
        let mut raw = Raw::connect(server.local_addr()).await;
        assert!(raw.handshake(&request).await.is_some());
        raw.send(&request_frame(
            Xid(1),
            &Request::CloseSession(lockkeeper_proto::records::Empty {}),
        ))
        .await;
        raw.assert_ended().await;
        until(&server, |report| report.nodes == 0).await;
    }
}

/// If the body of a request cannot be decoded, the request fails and the connection stays.
#[tokio::test]
async fn a_malformed_body_fails_its_request_only() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    for op in (1..=107).map(OpCode) {
        // Tokens and credentials that cannot be decoded end the connection.
        let has_body = !matches!(
            op,
            OpCode::PING | OpCode::WHO_AM_I | OpCode::AUTH | OpCode::SASL
        );
        let Some(_) = Request::decode(op, &mut Reader::new(bytes::Bytes::new())).err() else {
            continue;
        };
        if !has_body || matches!(op, OpCode::CHECK) || op.name().is_none() {
            continue;
        }
        if matches!(op, OpCode::NOTIFICATION | OpCode::DELETE_CONTAINER) {
            continue;
        }
        let mut bytes = header(op.0);
        bytes.extend([0x7f, 0xff, 0xff, 0xff, 1, 2, 3]);
        bytes[3] += 7;
        peer.raw.send(&bytes).await;
        let mut reply = Reader::new(peer.raw.frame().await);
        let reply = ReplyHeader::decode(&mut reply).unwrap();
        assert_eq!(
            (reply.xid, reply.err),
            (Xid(1), ErrorCode::MARSHALLING_ERROR),
            "{op}"
        );
    }
    assert_eq!(server.counters().connections, 1);
}

/// Regression: every connection could add entries to the server's counters, without limit.
#[tokio::test]
async fn unknown_operations_leave_nothing_in_the_counters() {
    let server = Server::start().await.unwrap();
    for op in 1000..1050 {
        let mut peer = Peer::join(&server).await;
        peer.raw.send(&header(op)).await;
        peer.raw.assert_ended().await;
    }
    let counted = server.counters().requests;
    assert_eq!(
        counted.keys().copied().collect::<Vec<_>>(),
        [OpCode::CREATE_SESSION]
    );
}
