//! SASL tokens that are malformed, too many, too long, or out of turn. The server refuses them and
//! still serves others.

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Response, Xid,
    header::ReplyHeader,
    jute::{Decode, Reader},
    records::SaslRequest,
};
use lockkeeper_server::Server;

use super::{
    common::{Peer, Raw, exists, new_session, request_frame},
    is_served, measured, until,
};

async fn server() -> Server {
    let builder = Server::builder().user("alice", "hunter2");
    builder.start().await.unwrap()
}

async fn stranger(server: &Server) -> Raw {
    let mut raw = Raw::connect(server.local_addr()).await;
    raw.handshake(&new_session(30_000)).await.unwrap();
    raw
}

fn token(bytes: &[u8]) -> Vec<u8> {
    let token = Some(bytes.to_vec().into());
    request_frame(Xid(1), &Request::Sasl(SaslRequest { token }))
}

/// The answer to a token: the server's token, or the error. After an error the token is null and
/// the server closes the connection.
async fn answer(raw: &mut Raw) -> Result<Vec<u8>, ErrorCode> {
    let mut reader = Reader::new(raw.frame().await);
    let header = ReplyHeader::decode(&mut reader).unwrap();
    let Response::Sasl(response) = Response::decode(OpCode::SASL, &mut reader).unwrap() else {
        unreachable!()
    };
    if header.err.is_ok() {
        return Ok(response.token.unwrap().to_vec());
    }
    assert_eq!(response.token, None);
    raw.assert_closed().await;
    Err(header.err)
}

#[tokio::test]
async fn a_malformed_token_is_refused_and_its_connection_closed() {
    let server = server().await;
    let mut other = Peer::join(&server).await;
    let mut challenges = Vec::new();
    let long = [b"a=".to_vec(), vec![b'x'; 4095]].concat();
    let huge = vec![b'"'; 1_000_000];
    let commas = vec![b','; 4096];
    let quotes = [b"a=\"".to_vec(), vec![b'\\'; 4090]].concat();
    for bad in [
        &b""[..],
        b"=",
        b"username",
        b"username=\"alice",
        b"\0\xff\xfe\x80",
        &long,
        &huge,
        &commas,
        &quotes,
    ] {
        let mut raw = stranger(&server).await;
        raw.send(&token(b"")).await;
        challenges.push(answer(&mut raw).await.unwrap());
        raw.send(&token(bad)).await;
        let shown = &bad[..bad.len().min(20)];
        assert_eq!(
            answer(&mut raw).await,
            Err(ErrorCode::AUTH_FAILED),
            "{shown:?}"
        );
        is_served(&mut other).await;
    }
    // They are too long as first tokens, too.
    for bad in [&long, &huge] {
        let mut raw = stranger(&server).await;
        raw.send(&token(bad)).await;
        assert_eq!(answer(&mut raw).await, Err(ErrorCode::AUTH_FAILED));
    }
    challenges.sort();
    challenges.dedup();
    assert_eq!(challenges.len(), 9, "a nonce came twice");
}

#[tokio::test]
async fn the_second_of_a_thousand_empty_tokens_ends_the_connection() {
    let server = server().await;
    let mut other = Peer::join(&server).await;
    let mut raw = stranger(&server).await;
    raw.send(&token(b"").repeat(1000)).await;
    answer(&mut raw).await.unwrap();
    assert_eq!(answer(&mut raw).await, Err(ErrorCode::AUTH_FAILED));
    is_served(&mut other).await;
    until(&server, |report| report.connections == 1).await;
}

#[test]
fn unfinished_exchanges_take_little_memory() {
    const STRANGERS: u64 = 200;
    let of = |begins: bool| {
        measured(|| async move {
            let server = server().await;
            let mut strangers = Vec::new();
            for _ in 0..STRANGERS {
                let mut raw = stranger(&server).await;
                if begins {
                    raw.send(&token(b"")).await;
                    answer(&mut raw).await.unwrap();
                }
                strangers.push(raw);
            }
            until(&server, |report| report.connections as u64 == STRANGERS).await;
        })
    };
    let (without, with) = (of(false).bytes_max, of(true).bytes_max);
    let each = with.saturating_sub(without) / STRANGERS;
    println!("{each} bytes for an unfinished exchange");
    assert!(each < 1024, "{each} bytes each: {with}, {without} without");
}

#[tokio::test]
async fn a_client_in_an_unfinished_exchange_is_not_logged_in() {
    let builder = Server::builder().user("alice", "hunter2").require_sasl();
    let server = builder.start().await.unwrap();
    let mut raw = stranger(&server).await;
    raw.send(&token(b"")).await;
    answer(&mut raw).await.unwrap();
    raw.send(&request_frame(Xid(2), &exists("/", false))).await;
    let mut reader = Reader::new(raw.frame().await);
    let err = ReplyHeader::decode(&mut reader).unwrap().err;
    assert_eq!(err, ErrorCode::SESSION_CLOSED_REQUIRE_SASL_AUTH);
    assert_eq!(reader.left(), 0);
    raw.assert_closed().await;
}
