//! Transports that connect slowly, hang, or take written data slowly.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper_proto::{ErrorCode, Request, records::SyncRequest};
use lockkeeper_session::{Client, Connector, Effect, State, machine::Encoded};
use lockkeeper_test_support::scripted::{ID, Peer, greeting};
use tokio::{
    io::{BufWriter, DuplexStream},
    net::TcpStream,
    sync::mpsc::UnboundedReceiver,
    time::Instant,
};

use super::{
    servers::{follow, server},
    waiting::soon,
};

/// The transport keeps written data in a buffer until it is flushed, as encryption does.
#[tokio::test]
async fn a_stream_that_buffers_writes_is_flushed() {
    let server = server().await;
    let connector = Connector::new(async |endpoint| {
        let stream = TcpStream::connect((&*endpoint.host, endpoint.port)).await?;
        Ok(BufWriter::new(stream))
    });
    let builder = Client::builder(&server.connect_string()).unwrap();
    let client = soon(builder.connector(connector).connect()).await.unwrap();
    soon(client.sync("/")).await.unwrap();
    soon(client.close()).await;
}

#[tokio::test]
async fn an_attempt_that_hangs_is_replaced_when_the_session_expires() {
    let server = server().await;
    let attempts = Arc::new(AtomicUsize::new(0));
    let counted = attempts.clone();
    let connector = Connector::new(move |endpoint| {
        let attempt = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            // The second attempt hangs.
            if attempt == 1 {
                std::future::pending::<()>().await;
            }
            TcpStream::connect((endpoint.host.as_str(), endpoint.port)).await
        }
    });
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder
        .connector(connector)
        .session_timeout(Duration::from_millis(1200))
        .server_timeout(Duration::from_secs(15));
    let client = soon(builder.connect()).await.unwrap();
    let before = client.snapshot().session_id;
    assert!(server.faults().cut(before));
    let begin = Instant::now();
    while attempts.load(Ordering::Relaxed) < 3 {
        // The driver is woken all the time, so it does not wait for its timer.
        client.raw().run_in_background(async {});
        tokio::task::yield_now().await;
        assert!(begin.elapsed() < Duration::from_secs(5), "no third attempt");
    }
    let back = follow(&client, |now| now.connections == 2).await;
    assert_ne!(back.session_id, before);
    assert_eq!(attempts.load(Ordering::Relaxed), 3);
    assert!(begin.elapsed() < Duration::from_secs(5));
}

/// The servers' ends of all pipes that a client has opened, and the session timeout.
struct Pipes(UnboundedReceiver<DuplexStream>, i32);

impl Pipes {
    /// The next pipe, whose handshake is done.
    async fn next(&mut self) -> Peer {
        let mut pipe = Peer::over(soon(self.0.recv()).await.unwrap());
        let asked = pipe.hear_handshake().await.unwrap();
        assert_eq!((asked.protocol_version, asked.timeout_ms), (0, self.1));
        pipe.send(&greeting(self.1, ID, &[7; 16])).await;
        pipe
    }
}

/// Reads a request, and refuses it.
async fn refuse_next(pipe: &mut Peer) {
    let (xid, _) = soon(pipe.request()).await.unwrap();
    soon(pipe.refuse(xid, ErrorCode::NO_NODE)).await;
}

/// A client whose connections are pipes, and the first of them, whose handshake is done.
async fn piped(capacity: usize) -> (Client, Peer, Pipes) {
    piped_to("nowhere:1", 60_000, capacity).await
}

async fn piped_to(servers: &str, timeout_ms: i32, capacity: usize) -> (Client, Peer, Pipes) {
    let (send, pipes) = tokio::sync::mpsc::unbounded_channel();
    let connector = Connector::new(move |_| {
        let (near, far) = tokio::io::duplex(capacity);
        send.send(far).unwrap();
        async move { Ok(near) }
    });
    let mut pipes = Pipes(pipes, timeout_ms);
    let timeout = Duration::from_millis(timeout_ms.try_into().unwrap());
    let builder = Client::builder(servers).unwrap();
    let builder = builder.connector(connector);
    let connecting = builder.session_timeout(timeout).connect();
    let (client, pipe) = soon(async { tokio::join!(connecting, pipes.next()) }).await;
    (client.unwrap(), pipe, pipes)
}

fn sync(length: usize) -> Encoded {
    let path = format!("/{}", "x".repeat(length));
    Request::Sync(SyncRequest { path }).into()
}

/// In an earlier version such requests stayed in the client after the socket had taken the data
/// before them, until another event woke the driver. A server that answers several requests
/// together never answered.
#[tokio::test]
async fn requests_made_during_a_long_write_follow_without_delay() {
    let (client, mut pipe, _pipes) = piped(600_000).await;
    let replies: [_; 10] = client.raw().submit(std::array::from_fn(|_| sync(100_000)));
    tokio::task::yield_now().await;
    let late = client.raw().submit([sync(1)]);
    assert_eq!(client.metrics().outstanding(), 11);
    let begin = Instant::now();
    let mut xids = Vec::new();
    for _ in 0..11 {
        xids.push(soon(pipe.request()).await.unwrap().0);
    }
    assert!(begin.elapsed() < Duration::from_secs(5));
    for xid in xids {
        pipe.refuse(xid, ErrorCode::NO_NODE).await;
    }
    for reply in replies.into_iter().chain(late) {
        assert!(soon(reply).await.unwrap_err().is_no_node());
    }
    assert_eq!(client.snapshot().state, State::Connected);
}

/// Replies arrive byte by byte, and requests leave in small pieces.
#[tokio::test]
async fn a_transport_with_a_buffer_of_one_byte_works() {
    let (client, mut pipe, _pipes) = piped(1).await;
    let replies = client.raw().submit([sync(50), sync(0), sync(50)]);
    for _ in 0..3 {
        refuse_next(&mut pipe).await;
    }
    for reply in replies {
        assert!(soon(reply).await.unwrap_err().is_no_node());
    }
}

/// The server or the client ends the connection while much is still to be written. Requests that
/// were not written yet are sent on the next connection. That connection begins with a handshake,
/// and not with the rest of a frame.
#[tokio::test]
async fn a_connection_lost_while_writing_leaves_nothing_for_the_next_one() {
    for by_the_server in [true, false] {
        let (client, mut pipe, mut pipes) = piped(4096).await;
        let replies: [_; 10] = client.raw().submit(std::array::from_fn(|_| sync(100_000)));
        let mut replies = Vec::from(replies);
        tokio::task::yield_now().await;
        replies.extend(client.raw().submit([sync(1)]));
        soon(pipe.request()).await.unwrap();
        if by_the_server {
            drop(pipe);
        } else {
            pipe.send(b"\0\0\0\x08nonsense").await;
        }
        follow(&client, |now| now.state == State::Suspended).await;
        let left = client.metrics().outstanding();
        assert!((2..=8).contains(&left), "{left}");
        let mut next = soon(pipes.next()).await;
        for _ in 0..left {
            refuse_next(&mut next).await;
        }
        let later = replies.split_off(11 - left);
        for reply in replies {
            let error = soon(reply).await.unwrap_err();
            assert_eq!(error.effect(), Effect::Unknown);
        }
        for reply in later {
            assert!(soon(reply).await.unwrap_err().is_no_node());
        }
    }
}

/// The connection that was made beside the silent one takes its place, and no further one is made.
#[tokio::test]
async fn a_connection_beside_a_silent_one_is_the_next_one() {
    let (client, mut silent, mut pipes) = piped_to("nowhere:1,elsewhere:1", 1500, 4096).await;
    let mut next = soon(pipes.next()).await;
    soon(async { while silent.request().await.is_some() {} }).await;
    let reply = client.raw().submit([sync(1)]);
    let back = follow(&client, |now| now.connections == 2).await;
    assert_eq!((back.session_id, back.state), (ID, State::Connected));
    refuse_next(&mut next).await;
    for reply in reply {
        assert!(soon(reply).await.unwrap_err().is_no_node());
    }
    assert!(pipes.0.is_empty(), "a third connection");
}
