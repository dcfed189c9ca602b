//! Servers that accept no writes, and a client that moves from them to a server that does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    SessionId, Xid,
    connect::{ConnectRequest, ConnectResponse},
    frame,
    header::RequestHeader,
    jute::{Decode, Encode, Reader},
};
use lockkeeper_session::{Client, State};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
};

use super::{
    server::{message, reply, sound},
    waiting::soon,
};

/// A server that answers the word `isro`, and whose answer can be changed.
struct Member {
    address: String,
    takes_writes: Arc<AtomicBool>,
    /// How many times it was asked.
    asked: Arc<AtomicUsize>,
}

impl Member {
    async fn start(takes_writes: bool) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let member = Self {
            address: listener.local_addr().unwrap().to_string(),
            takes_writes: Arc::new(AtomicBool::new(takes_writes)),
            asked: Arc::default(),
        };
        let (takes_writes, asked) = (member.takes_writes.clone(), member.asked.clone());
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serve(stream, takes_writes.clone(), asked.clone()));
            }
        });
        member
    }
}

async fn serve(mut stream: TcpStream, takes_writes: Arc<AtomicBool>, asked: Arc<AtomicUsize>) {
    let mut read = BytesMut::new();
    let mut session = None;
    loop {
        if !stream
            .read_buf(&mut read)
            .await
            .is_ok_and(|bytes| bytes > 0)
        {
            return;
        }
        let takes_writes = takes_writes.load(Ordering::Relaxed);
        if &read[..] == b"isro" {
            asked.fetch_add(1, Ordering::Relaxed);
            let answer: &[u8] = if takes_writes { b"rw" } else { b"ro" };
            stream.write_all(answer).await.unwrap();
            return;
        }
        while let Some(message_in) = frame::split(&mut read, usize::MAX).unwrap() {
            let mut reader = Reader::new(message_in);
            let out = if session.is_none() {
                let request = ConnectRequest::decode(&mut reader).unwrap();
                assert_eq!(request.read_only, Some(true));
                // No other server knows the session of a read-only server, so the client asks for a
                // new one.
                assert_eq!(request.session_id, SessionId::NONE);
                session = Some(SessionId(if takes_writes { 2 } else { 1 }));
                accepted(session.unwrap(), request.timeout_ms, !takes_writes)
            } else {
                let RequestHeader { xid, op } = RequestHeader::decode(&mut reader).unwrap();
                if xid == Xid::PING {
                    reply(
                        xid,
                        &lockkeeper_proto::Response::Ping(lockkeeper_proto::records::Empty {}),
                    )
                } else {
                    let request = lockkeeper_proto::Request::decode(op, &mut reader).unwrap();
                    reply(xid, &sound(&request))
                }
            };
            if stream.write_all(&out).await.is_err() {
                return;
            }
        }
    }
}

fn accepted(session_id: SessionId, timeout_ms: i32, is_read_only: bool) -> Bytes {
    message(|writer| {
        ConnectResponse {
            protocol_version: 0,
            timeout_ms,
            session_id,
            password: Some(Bytes::from_static(&[7; 16])),
            read_only: Some(is_read_only),
        }
        .encode(writer);
    })
}

#[tokio::test]
async fn a_client_of_a_read_only_server_moves_to_one_that_accepts_writes() {
    let read_only = Member::start(false).await;
    let other = Member::start(false).await;
    let servers = format!("{},{}", read_only.address, other.address);
    let builder = Client::builder(&servers).unwrap().read_only(true);
    let client = soon(builder.connect()).await.unwrap();
    assert_eq!(client.snapshot().state, State::ReadOnly);
    assert!(!client.lease().is_valid, "a read-only session has no lease");
    let (_, watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let here = client.snapshot().server.unwrap().to_string();
    let (here, there) = if here == read_only.address {
        (&read_only, &other)
    } else {
        (&other, &read_only)
    };
    let mut snapshots = client.snapshots();
    soon(async {
        while there.asked.load(Ordering::Relaxed) < 2 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
    assert_eq!(
        here.asked.load(Ordering::Relaxed),
        0,
        "the client does not ask its own server"
    );
    assert_eq!(client.snapshot().connections, 1);
    there.takes_writes.store(true, Ordering::Relaxed);
    let moved = |now: &lockkeeper_session::Snapshot| now.state == State::Connected;
    let moved = soon(snapshots.wait_for(moved)).await.unwrap().clone();
    assert_eq!(moved.server.unwrap().to_string(), there.address);
    assert_eq!((moved.session_id, moved.connections), (SessionId(2), 2));
    assert_eq!(client.metrics().expired_sessions, 0);
    assert_eq!(client.metrics().watches, 1);
    assert!(client.lease().is_valid);
    drop(watcher);
    soon(client.get_data("/a")).await.unwrap();
}
