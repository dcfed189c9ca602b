//! Servers of older releases: their operations work, and the client reports missing ones without
//! asking for them each time.
//!
//! An old server is the embedded one behind a relay that knows the operations of one release. The
//! relay answers later operations with "unimplemented" and closes the connection, as servers do.
//! Another kind of relay closes the connection without an answer, as `ClickHouse` Keeper does.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    AddWatchMode, CreateMode, ErrorCode, EventType, OpCode, Version, Zxid, frame,
    header::{ReplyHeader, RequestHeader},
    jute::{Decode, Encode, Reader},
};
use lockkeeper_server::Server;
use lockkeeper_session::{Cause, Client, Effect, Error, UnsupportedReason, WatchNotice};
use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream, tcp::OwnedWriteHalf},
};

use super::{servers::server, waiting::soon};

/// An old server, and how many operations it got that it does not know.
struct Old {
    servers: String,
    asked: Arc<AtomicUsize>,
    /// The release whose operations it knows, as an index into [`RELEASES`];
    /// [`upgrade`](Self::upgrade) changes it.
    release: Arc<AtomicUsize>,
    server: Server,
}

const RELEASES: [&str; 5] = ["3.4.0", "3.5.0", "3.5.3", "3.6.0", "3.7.0"];

impl Old {
    async fn of(release: &str) -> Self {
        Self::new(release, true).await
    }

    async fn new(release: &str, answers: bool) -> Self {
        let server = server().await;
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let servers = listener.local_addr().unwrap().to_string();
        let asked = Arc::new(AtomicUsize::new(0));
        let index = RELEASES.iter().position(|known| *known == release).unwrap();
        let release = Arc::new(AtomicUsize::new(index));
        let (counter, newest, behind) = (asked.clone(), release.clone(), server.connect_string());
        tokio::spawn(async move {
            while let Ok((inbound, _)) = listener.accept().await {
                let (counter, newest, behind) = (counter.clone(), newest.clone(), behind.clone());
                tokio::spawn(async move {
                    let outbound = TcpStream::connect(behind).await.unwrap();
                    relay(inbound, outbound, &counter, &newest, answers).await;
                });
            }
        });
        Self {
            servers,
            asked,
            release,
            server,
        }
    }

    async fn client(&self) -> Client {
        soon(Client::connect(&self.servers)).await.unwrap()
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    fn upgrade(&self, release: &str) {
        let index = RELEASES.iter().position(|known| *known == release).unwrap();
        self.release.store(index, Ordering::Relaxed);
    }
}

async fn relay(
    inbound: TcpStream,
    outbound: TcpStream,
    asked: &AtomicUsize,
    newest: &AtomicUsize,
    answers: bool,
) {
    let (mut from_client, mut to_client) = inbound.into_split();
    let (mut from_server, mut to_server) = outbound.into_split();
    let there = async {
        let mut buffer = BytesMut::new();
        let mut is_handshake = true;
        while let Some(message) = next(&mut from_client, &mut buffer).await {
            if !std::mem::take(&mut is_handshake) {
                let header = RequestHeader::decode(&mut Reader::new(message.clone())).unwrap();
                let newest = RELEASES[newest.load(Ordering::Relaxed)];
                if header.op.since().is_some_and(|since| since > newest) {
                    asked.fetch_add(1, Ordering::Relaxed);
                    return Some(header);
                }
            }
            send(&mut to_server, &message).await;
        }
        None
    };
    let back = async {
        let mut buffer = BytesMut::new();
        while let Some(message) = next(&mut from_server, &mut buffer).await {
            send(&mut to_client, &message).await;
        }
    };
    let unknown = tokio::select! {
        unknown = there => unknown,
        () = back => None,
    };
    if let Some(RequestHeader { xid, .. }) = unknown.filter(|_| answers) {
        let (zxid, err) = (Zxid(-1), ErrorCode::UNIMPLEMENTED);
        let mut out = BytesMut::new();
        frame::append(&mut out, |writer| {
            ReplyHeader { xid, zxid, err }.encode(writer);
        })
        .unwrap();
        let _ = to_client.write_all(&out).await;
    }
}

async fn next(stream: &mut (impl AsyncRead + Unpin), buffer: &mut BytesMut) -> Option<Bytes> {
    loop {
        if let Some(message) = frame::split(buffer, usize::MAX).unwrap() {
            return Some(message);
        }
        if stream.read_buf(buffer).await.ok()? == 0 {
            return None;
        }
    }
}

async fn send(stream: &mut OwnedWriteHalf, message: &[u8]) {
    let mut out = BytesMut::new();
    frame::append(&mut out, |writer| writer.put_slice(message)).unwrap();
    let _ = stream.write_all(&out).await;
}

/// Checks that the request failed because the server is too old for this operation.
fn unsupported<T: std::fmt::Debug>(result: Result<T, Error>, op: OpCode) {
    let error = result.unwrap_err();
    assert!(
        matches!(error, Error::Unsupported { op: it, .. } if it == op),
        "{error:?}"
    );
    assert_eq!(error.effect(), Effect::NotApplied);
    let since = op.since().unwrap();
    assert!(error.to_string().contains(since), "{error}");
}

#[tokio::test]
async fn the_operations_of_a_3_4_server_work() {
    let old = Old::of("3.4.0").await;
    let client = old.client().await;
    let path = client.create_without_stat("/a", "1", CreateMode::Persistent);
    assert_eq!(soon(path).await.unwrap(), "/a");
    let (node, changed) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let stat = soon(client.set_data("/a", "2", node.stat.version)).await;
    assert_eq!(stat.unwrap().version, Version(1));
    assert_eq!(
        soon(changed).await.unwrap().event_type,
        EventType::NODE_DATA_CHANGED
    );
    let multi = client
        .transaction()
        .set_data("/a", "3", Version(1))
        .commit();
    assert_eq!(soon(multi).await.unwrap().len(), 1);
    soon(client.add_auth("digest", "ann:secret")).await.unwrap();
    assert_eq!(
        soon(client.get_children_with_stat("/"))
            .await
            .unwrap()
            .children
            .len(),
        2
    );
    assert_eq!((old.asked(), client.snapshot().connections), (0, 1));
}

/// Repeats a request until the connection that an unknown operation has ended is replaced.
async fn answered<T>(ask: impl AsyncFn() -> Result<T, Error>) -> Result<T, Error> {
    loop {
        match soon(ask()).await {
            Err(Error::ConnectionLost(..)) => {}
            answer => return answer,
        }
    }
}

#[tokio::test]
async fn an_unknown_operation_is_reported_and_sent_only_once() {
    let old = Old::of("3.5.0").await;
    let client = old.client().await;
    let session = client.snapshot().session_id;
    for _ in 0..3 {
        let add = client.add_watch("/", AddWatchMode::PERSISTENT);
        unsupported(soon(add).await, OpCode::ADD_WATCH);
    }
    assert_eq!(old.asked(), 1);
    // The unknown operation ended the connection, but not the session.
    let made = answered(async || client.create("/a", "", CreateMode::Ephemeral).await).await;
    assert_eq!(made.unwrap().stat.ephemeral_owner, session);
    assert_eq!(client.snapshot().connections, 2);
    for _ in 0..3 {
        unsupported(soon(client.who_am_i()).await, OpCode::WHO_AM_I);
    }
    assert_eq!(old.asked(), 2);
    let container = || client.create("/c", "", CreateMode::Container);
    unsupported(
        answered(async || container().await).await,
        OpCode::CREATE_CONTAINER,
    );
    assert_eq!((old.asked(), client.metrics().watches), (3, 0));
}

#[tokio::test]
async fn an_upgraded_server_gets_the_operation_again() {
    let old = Old::of("3.4.0").await;
    let client = old.client().await;
    unsupported(
        soon(client.create("/a", "", CreateMode::Persistent)).await,
        OpCode::CREATE2,
    );
    old.upgrade("3.7.0");
    // The client tries the operation again after at most two connections.
    soon(async {
        while client
            .create("/a", "", CreateMode::Persistent)
            .await
            .is_err()
        {
            old.server.faults().cut_all();
            tokio::time::sleep(std::time::Duration::from_millis(5)).await;
        }
    })
    .await;
    assert!(soon(client.who_am_i()).await.is_ok());
}

#[tokio::test]
async fn moving_to_an_older_server_ends_persistent_watches_and_keeps_the_others() {
    let old = Old::of("3.7.0").await;
    let client = old.client().await;
    let mut persistent = soon(client.add_watch("/", AddWatchMode::PERSISTENT_RECURSIVE))
        .await
        .unwrap();
    let (_, once) = soon(client.get_children_and_watch("/")).await.unwrap();
    old.upgrade("3.5.3");
    old.server.faults().cut_all();
    let op = OpCode::ADD_WATCH;
    unsupported(soon(persistent.next()).await.unwrap(), op);
    assert_eq!(
        soon(persistent.next()).await,
        None::<Result<WatchNotice, Error>>
    );
    soon(async {
        while client
            .create_without_stat("/a", "", CreateMode::Persistent)
            .await
            .is_err()
        {}
    })
    .await;
    assert_eq!(
        soon(once).await.unwrap().event_type,
        EventType::NODE_CHILDREN_CHANGED
    );
}

/// `ClickHouse` Keeper closes the connection without an answer. In an earlier version each such
/// request failed with a lost connection, and all other requests on that connection failed with it,
/// each time.
#[tokio::test]
async fn an_operation_that_closes_the_connection_is_reported_as_unsupported_after_two_tries() {
    let old = Old::new("3.5.0", false).await;
    let client = old.client().await;
    let session = client.snapshot().session_id;
    let first = soon(client.who_am_i()).await.unwrap_err();
    let Error::ConnectionLost(lost, _) = &first else {
        panic!("{first:?}");
    };
    assert_eq!(lost.cause, Cause::ClosedOn(OpCode::WHO_AM_I));
    assert!(first.to_string().contains("whoAmI"), "{first}");
    for _ in 0..3 {
        let error = soon(client.who_am_i()).await.unwrap_err();
        let text = error.to_string();
        let Error::Unsupported {
            op, reason, peer, ..
        } = &error
        else {
            panic!("{error:?}");
        };
        assert_eq!(
            (*op, *reason),
            (OpCode::WHO_AM_I, UnsupportedReason::ClosedConnection)
        );
        assert_eq!(peer.session, session);
        assert_eq!(error.effect(), Effect::NotApplied);
        assert!(
            text.contains(&old.servers) && text.contains("3.7.0"),
            "{text}"
        );
    }
    assert_eq!(old.asked(), 2);
    // Other requests succeed: the client no longer sends the unknown operation.
    let made = soon(client.create("/a", "", CreateMode::Ephemeral)).await;
    assert_eq!(made.unwrap().stat.ephemeral_owner, session);
    // The first two requests are sent, so their effect is unknown. The third one is not sent, so it
    // has no effect.
    let passing = CreateMode::PersistentWithTtl(Duration::from_secs(1));
    let ask = || client.create("/c", "", passing);
    let sent = [soon(ask()).await, soon(ask()).await];
    let third = soon(ask()).await;
    for (result, effect) in
        sent.into_iter()
            .chain([third])
            .zip([Effect::Unknown, Effect::Unknown, Effect::NotApplied])
    {
        assert_eq!(result.unwrap_err().effect(), effect);
    }
    assert_eq!(old.asked(), 4);
    assert_eq!(soon(client.exists("/c")).await.unwrap(), None);
}

/// In an earlier version the client restored its watches on each connection, and the server closed
/// each connection for that. The client reconnected without end.
#[tokio::test]
async fn persistent_watches_end_on_a_server_that_closes_the_connection_on_them() {
    let old = Old::new("3.7.0", false).await;
    let client = old.client().await;
    let mut persistent = soon(client.add_watch("/", AddWatchMode::PERSISTENT))
        .await
        .unwrap();
    let (_, once) = soon(client.get_children_and_watch("/")).await.unwrap();
    old.upgrade("3.5.3");
    old.server.faults().cut_all();
    let end = loop {
        match soon(persistent.next()).await {
            Some(Ok(_)) => {}
            end => break end,
        }
    };
    let error = end.unwrap().unwrap_err();
    assert!(
        matches!(
            error,
            Error::Unsupported {
                op: OpCode::ADD_WATCH,
                ..
            }
        ),
        "{error:?}"
    );
    // Locks rely on the operation that restores watches. The client gives it up only after more
    // than two closed connections.
    assert_eq!(old.asked(), 9);
    answered(async || {
        client
            .create_without_stat("/a", "", CreateMode::Persistent)
            .await
    })
    .await
    .unwrap();
    assert_eq!(
        soon(once).await.unwrap().event_type,
        EventType::NODE_CHILDREN_CHANGED
    );
}
