//! Every broken rule twice: all bytes at once, and one byte at a time. The caller must get the same
//! error, and the client must recover in the same way.

use std::time::Duration;

use bytes::Bytes;
use futures::future::join_all;
use lockkeeper_proto::{
    SessionId, Xid, connect::ConnectResponse, header::RequestHeader, jute::Encode,
};
use lockkeeper_session::{Client, Error};

use super::{
    server::{ID, Server, accepted, assert_well, message, raw_reply, sound, unreachable_because},
    waiting::soon,
};

const TIMEOUT: Duration = Duration::from_secs(6);
/// A session timeout that tests wait out, where all connections are bad.
const SHORT: Duration = Duration::from_millis(900);
/// The pause between two bytes. The longest answer has about a hundred bytes.
const PAUSE: Duration = Duration::from_millis(2);

/// How fast the bytes are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    AtOnce,
    ByteByByte,
}

impl Pace {
    /// The session timeout of a client that meets only bad servers, and how many connections it may
    /// make in that time.
    ///
    /// A slow answer must be complete before the client's share of the time for one server is over,
    /// also on a busy machine.
    fn bounds(self) -> (Duration, usize) {
        match self {
            Self::AtOnce => (SHORT, 6),
            Self::ByteByByte => (4 * SHORT, 12),
        }
    }

    async fn send(self, peer: &mut super::server::Peer, bytes: &[u8]) {
        match self {
            Self::AtOnce => peer.send(bytes).await,
            Self::ByteByByte => peer.drip(bytes, PAUSE).await,
        }
    }
}

/// Invalid answers to the handshake.
fn greetings() -> Vec<(&'static str, Bytes)> {
    let answer = |timeout_ms, session_id, password: Vec<u8>| {
        message(|writer| {
            ConnectResponse {
                protocol_version: 0,
                timeout_ms,
                session_id,
                password: Some(password.into()),
                read_only: Some(false),
            }
            .encode(writer);
        })
    };
    let forged = |at: usize, value: i32| {
        let mut answer = accepted(4000).to_vec();
        answer[at..at + 4].copy_from_slice(&value.to_be_bytes());
        Bytes::from(answer)
    };
    vec![
        ("a refusal", answer(0, SessionId::NONE, vec![0; 16])),
        ("no session", answer(4000, SessionId::NONE, vec![0; 16])),
        ("a negative timeout", answer(-1, ID, vec![7; 16])),
        ("no password", answer(4000, ID, vec![])),
        ("a password that is too long", answer(4000, ID, vec![7; 65])),
        ("a password of negative length", forged(20, -7)),
        ("a password of impossible length", forged(20, i32::MAX)),
        (
            "half an answer in a whole frame",
            Bytes::from_static(&[0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0x10, 0]),
        ),
        ("an empty frame", Bytes::from_static(&[0; 4])),
        ("a frame of negative length", Bytes::from_static(&[0xff; 4])),
        ("a frame that is too long", forged(0, i32::MAX)),
        (
            "a web server",
            Bytes::from_static(b"HTTP/1.1 400 Bad Request\r\n\r\n"),
        ),
        ("TLS", Bytes::from_static(&[0x15, 3, 3, 0, 2, 2, 70])),
    ]
}

#[tokio::test]
async fn a_bad_handshake_has_the_same_result_at_once_and_byte_by_byte() {
    let learnt = greetings().into_iter().map(async |(what, greeting)| {
        let told = async |pace: Pace| {
            let greeting = greeting.clone();
            let script = move |mut peer: super::server::Peer| {
                let greeting = greeting.clone();
                async move {
                    peer.hear_handshake().await;
                    pace.send(&mut peer, &greeting).await;
                    peer.ignore().await;
                }
            };
            let server = Server::bad(usize::MAX, script.clone()).await;
            let (timeout, most) = pace.bounds();
            let cause = unreachable_because(server.client(timeout).await.unwrap_err());
            let connections = server.connections();
            assert!(connections <= most, "{what}, {pace:?}: {connections}");
            if cause.is_permanent() {
                return cause; // the client does not try such a server again
            }
            let server = Server::bad(1, script).await;
            let client = server.client(TIMEOUT).await.unwrap();
            assert_well(&client).await;
            assert_eq!(server.connections(), 2, "{what}, {pace:?}");
            cause
        };
        let (at_once, slowly) = tokio::join!(told(Pace::AtOnce), told(Pace::ByteByByte));
        assert_eq!(at_once, slowly, "{what}");
    });
    join_all(learnt).await;
}

type Answer = fn(Xid) -> Bytes;

/// Invalid answers to `sync`.
fn answers() -> Vec<(&'static str, Answer)> {
    vec![
        ("a frame of negative length", |_| {
            Bytes::from_static(&[0x80, 0, 0, 0])
        }),
        ("an empty frame", |_| Bytes::from_static(&[0; 4])),
        ("three bytes of a header", |_| {
            Bytes::from_static(&[0, 0, 0, 3, 0, 0, 1])
        }),
        ("a frame that is too long", |_| {
            Bytes::from_static(&[0x7f, 0xff, 0xff, 0xff])
        }),
        ("no body", |xid| raw_reply(xid, b"")),
        ("a string of negative length", |xid| {
            raw_reply(xid, &[0xff, 0xff, 0xff, 0xf0])
        }),
        ("a string of impossible length", |xid| {
            raw_reply(xid, b"\x7f\0\0\0/")
        }),
        ("a string that is not UTF-8", |xid| {
            raw_reply(xid, b"\0\0\0\x02\xc3\x28")
        }),
        ("half a body", |xid| raw_reply(xid, b"\0\0\0\x04/a")),
        ("the reply to another request", |xid| {
            raw_reply(Xid(xid.0 + 1), b"\0\0\0\x02/a")
        }),
        ("the reply to a former request", |xid| {
            raw_reply(Xid(xid.0 - 1), b"\0\0\0\x02/a")
        }),
        ("the reply to nothing of this client", |_| {
            raw_reply(Xid(i32::MIN), b"\0\0\0\x02/a")
        }),
        ("a second answer to the handshake", |_| accepted(4000)),
        ("a request", |xid| {
            let op = lockkeeper_proto::OpCode::PING;
            message(|writer| RequestHeader { xid, op }.encode(writer))
        }),
        ("an event that cannot be read", |_| {
            raw_reply(Xid::NOTIFICATION, &[0, 0, 0, 1, 0])
        }),
    ]
}

/// The error that the caller got, without the server's address.
fn told(error: &Error) -> String {
    match error {
        Error::ConnectionLost(lost, _) => format!("{:?}", lost.cause),
        Error::ReplyTooLarge { length, limit, .. } => format!("{length} bytes, limit {limit}"),
        Error::Refused { code, .. } => format!("{code:?}"),
        Error::Malformed { op, error, .. } => format!("{op:?}, {error:?}"),
        other => format!("{other:?}"),
    }
}

#[tokio::test]
async fn a_bad_reply_has_the_same_result_at_once_and_byte_by_byte() {
    let learnt = answers().into_iter().map(async |(what, answer)| {
        let learnt = async |pace: Pace| {
            let server = Server::bad(1, move |mut peer| async move {
                peer.handshake().await;
                let (xid, request) = peer.request().await.unwrap();
                peer.answer(xid, &sound(&request)).await;
                while let Some((xid, _)) = peer.request().await {
                    pace.send(&mut peer, &answer(xid)).await;
                }
            })
            .await;
            let client = server.client(TIMEOUT).await.unwrap();
            assert_well(&client).await;
            let error = soon(client.sync("/a")).await.unwrap_err();
            (told(&error), after(&client, &server).await)
        };
        let (at_once, slowly) = tokio::join!(learnt(Pace::AtOnce), learnt(Pace::ByteByByte));
        assert_eq!(at_once, slowly, "{what}");
        println!("{what}: {}", at_once.0);
    });
    join_all(learnt).await;
}

/// Waits until the client works again, with the session that it had. Returns the number of
/// connections.
async fn after(client: &Client, server: &Server) -> usize {
    let well = async {
        while client.get_data("/well").await.is_err() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    soon(well).await;
    assert_well(client).await;
    assert_eq!(
        (client.metrics().outstanding(), client.metrics().watches),
        (0, 0)
    );
    server.connections()
}

/// Random bytes instead of a ZooKeeper, on every connection: 64 streams from a small generator.
#[tokio::test]
async fn random_bytes_instead_of_a_server_cause_no_hang_and_no_loop() {
    let noise = |seed: u64| {
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let bytes = std::iter::repeat_with(move || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            // Few distinct values, so that some frames are complete.
            let [byte, rest @ ..] = state.to_be_bytes();
            if rest[0] < 85 { byte % 24 } else { 0 }
        });
        bytes.take(4096).collect::<Vec<u8>>()
    };
    let clients = (0..64).map(async |seed| {
        let handshakes = seed % 2 == 0;
        let server = Server::bad(usize::MAX, move |mut peer| async move {
            if handshakes && !peer.handshake().await {
                return;
            }
            peer.send(&noise(seed)).await;
            peer.ignore().await;
        })
        .await;
        if let Ok(client) = server.client(SHORT).await {
            let _ = soon(client.get_data("/a")).await;
            soon(client.close()).await;
        }
        assert!(server.connections() <= 12, "{}", server.connections());
    });
    join_all(clients).await;
}
