//! Replies that make no sense.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, Xid,
    frame::FrameError,
    jute::{DecodeError, DecodeErrorKind, Encode},
};
use lockkeeper_session::{Cause, Client, Error};

use super::{
    server::{
        ID, Server, assert_patient, assert_well, header, lost, message, raw_reply, reply, sound,
    },
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(4);

/// A server whose first `bad` connections answer every request with `answer`.
async fn answering(
    bad: usize,
    answer: impl Fn(Xid) -> Bytes + Clone + Send + Sync + 'static,
) -> Server {
    Server::bad(bad, move |mut peer| {
        let answer = answer.clone();
        async move {
            if peer.handshake().await {
                while let Some((xid, _)) = peer.request().await {
                    peer.send(&answer(xid)).await;
                }
            }
        }
    })
    .await
}

/// The error that a caller gets when the first connection answers like this. Also checks that the
/// second connection works, and that the client does not reconnect in a loop when all connections
/// answer like this.
async fn learnt<T: std::fmt::Debug>(
    answer: impl Fn(Xid) -> Bytes + Clone + Send + Sync + 'static,
    ask: impl AsyncFn(&Client) -> Result<T, Error>,
) -> Error {
    let server = answering(1, answer.clone()).await;
    let client = server.client(TIMEOUT).await.unwrap();
    let error = soon(ask(&client)).await.unwrap_err();
    let metrics = client.metrics();
    assert!(metrics.unknown > 0 && metrics.not_sent == 0, "{metrics:?}");
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);

    let server = answering(usize::MAX, answer).await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_patient(&server, &client).await;
    error
}

async fn get(client: &Client) -> Result<(), Error> {
    client.get_data("/a").await.map(drop)
}

/// What is wrong with a reply that cannot be decoded.
fn malformed(error: Error) -> (OpCode, &'static str, DecodeErrorKind) {
    match error {
        Error::Malformed { op, error, .. } => (op, error.field, error.kind),
        other => panic!("{other:?}"),
    }
}

fn prefix(length: i32) -> impl Fn(Xid) -> Bytes + Clone + Send + Sync + 'static {
    move |_| {
        let mut frame = length.to_be_bytes().to_vec();
        frame.resize(4 + usize::try_from(length.clamp(0, 100)).unwrap(), 0);
        frame.into()
    }
}

#[tokio::test]
async fn a_reply_frame_of_negative_length_ends_the_connection() {
    let error = learnt(prefix(-1), get).await;
    assert_eq!(lost(error), Cause::Frame(FrameError::Negative(-1)));
}

#[tokio::test]
async fn a_reply_frame_too_short_for_a_header_ends_the_connection() {
    for length in [0, 3] {
        let error = learnt(prefix(length), get).await;
        let left = usize::try_from(length).unwrap();
        let short = DecodeError {
            field: "ReplyHeader.xid",
            offset: 0,
            kind: DecodeErrorKind::Short { needed: 4, left },
        };
        assert_eq!(lost(error), Cause::Decode(short));
    }
}

#[tokio::test]
async fn a_frame_of_the_longest_possible_length_is_refused() {
    let error = learnt(prefix(i32::MAX), get).await;
    let Error::ReplyTooLarge { length, limit, .. } = error else {
        panic!("{error:?}");
    };
    assert_eq!((length, limit), (0x7fff_ffff, 8 << 20));
}

#[tokio::test]
async fn a_string_of_impossible_length_is_an_error() {
    let string = |length: i32| {
        move |xid| {
            let mut body = length.to_be_bytes().to_vec();
            body.push(b'/');
            raw_reply(xid, &body)
        }
    };
    let sync = async |client: &Client| client.sync("/a").await;
    let negative = malformed(learnt(string(-5), sync).await);
    let field = "SyncResponse.path";
    let kind = DecodeErrorKind::Negative(-5);
    assert_eq!(negative, (OpCode::SYNC, field, kind));
    let long = malformed(learnt(string(1 << 30), sync).await);
    let kind = DecodeErrorKind::TooLong {
        announced: 1 << 30,
        left: 1,
    };
    assert_eq!(long, (OpCode::SYNC, field, kind));
}

/// All other clients reserved memory for the announced number of children before they read the
/// first one. The process was aborted.
#[tokio::test]
async fn a_list_of_impossible_length_is_an_error() {
    let list = |count: i32| move |xid| raw_reply(xid, &count.to_be_bytes());
    let children = async |client: &Client| client.get_children("/a").await;
    let field = "GetChildrenResponse.children";
    let negative = malformed(learnt(list(-2), children).await);
    let kind = DecodeErrorKind::Negative(-2);
    assert_eq!(negative, (OpCode::GET_CHILDREN, field, kind));
    let long = malformed(learnt(list(i32::MAX), children).await);
    let kind = DecodeErrorKind::TooLong {
        announced: 0x7fff_ffff,
        left: 0,
    };
    assert_eq!(long, (OpCode::GET_CHILDREN, field, kind));
}

#[tokio::test]
async fn a_string_that_is_not_utf8_is_an_error() {
    let children = async |client: &Client| client.get_children("/a").await;
    let body = b"\0\0\0\x01\0\0\0\x02\xc3\x28";
    let error = malformed(learnt(|xid| raw_reply(xid, body), children).await);
    assert_eq!(error.2, DecodeErrorKind::NotUtf8);
}

#[tokio::test]
async fn a_reply_that_ends_early_is_an_error() {
    let error = malformed(learnt(|xid| raw_reply(xid, b"\0\0\0\x01x\0\0"), get).await);
    let kind = DecodeErrorKind::Short { needed: 8, left: 2 };
    assert_eq!(error, (OpCode::GET_DATA, "Stat.czxid", kind));
}

#[tokio::test]
async fn a_reply_to_an_unknown_request_ends_the_connection() {
    let stray = |xid: Xid| raw_reply(Xid(xid.0 + 70), &[0; 72]);
    let error = learnt(stray, get).await;
    let cause = Cause::UnexpectedReply {
        expected: Some(Xid(1)),
        got: Xid(71),
    };
    assert_eq!(lost(error), cause);
}

/// Two other clients gave the data of one node to the caller that had read another node.
#[tokio::test]
async fn replies_out_of_order_are_not_delivered() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        let first = peer.request().await.unwrap();
        let second = peer.request().await.unwrap();
        for (xid, request) in [second, first] {
            peer.send(&reply(xid, &sound(&request))).await;
        }
        peer.ignore().await;
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    let both = async { tokio::join!(client.get_data("/a"), client.get_data("/b")) };
    let (first, second) = soon(both).await;
    let cause = Cause::UnexpectedReply {
        expected: Some(Xid(1)),
        got: Xid(2),
    };
    assert_eq!(lost(first.unwrap_err()), cause);
    assert_eq!(lost(second.unwrap_err()), cause);
    assert_well(&client).await;
    assert_eq!(server.connections(), 2);
}

#[tokio::test]
async fn an_unknown_error_code_is_returned_and_the_connection_stays() {
    let code = ErrorCode(-4711);
    let server = answering(1, move |xid| {
        message(|writer| {
            header(xid, code).encode(writer);
            writer.put_slice(b"whatever");
        })
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    for _ in 0..3 {
        let error = soon(client.get_data("/a")).await.unwrap_err();
        let refused = Error::Refused {
            op: OpCode::GET_DATA,
            path: "/a".to_owned(),
            code,
            peer: server.peer(),
        };
        assert_eq!(error, refused);
        assert_eq!(
            error.to_string(),
            format!(
                "getData /a refused: unknown ErrorCode -4711 ({}, session {ID})",
                server.address
            )
        );
    }
    assert_eq!(server.connections(), 1);
}

/// Another client took the last 68 bytes for the metadata, and returned the bytes before them as
/// data.
#[tokio::test]
async fn bytes_behind_a_reply_are_ignored() {
    let server = Server::bad(1, |mut peer| async move {
        peer.handshake().await;
        while let Some((xid, request)) = peer.request().await {
            let more = message(|writer| {
                header(xid, ErrorCode::OK).encode(writer);
                sound(&request).encode(writer);
                writer.put_slice(&[0xee; 200]);
            });
            peer.send(&more).await;
        }
    })
    .await;
    let client = server.client(TIMEOUT).await.unwrap();
    assert_well(&client).await;
    assert_eq!(client.get_children("/a").await.unwrap(), ["child"]);
    let stat = client.exists("/a").await.unwrap().unwrap();
    assert_eq!(stat.version.0, 0);
    assert_eq!(server.connections(), 1);
}
