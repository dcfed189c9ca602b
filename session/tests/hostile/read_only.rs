//! A client of servers that accept no writes moves to one that does.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use lockkeeper_proto::SessionId;
use lockkeeper_session::{Client, State};

use super::{
    scripted::{Server, greeting, read_only_greeting},
    waiting::{soon, until},
};

/// A server that answers the word `isro`, and whose answer can be changed.
struct Member {
    server: Server,
    takes_writes: Arc<AtomicBool>,
    /// How many times it was asked.
    asked: Arc<AtomicUsize>,
}

impl Member {
    async fn start() -> Self {
        let (takes_writes, asked) = (Arc::<AtomicBool>::default(), Arc::<AtomicUsize>::default());
        let (takes, counted) = (takes_writes.clone(), asked.clone());
        let server = Server::start(move |_, mut peer| {
            let (takes, counted) = (takes.clone(), counted.clone());
            async move {
                let takes_writes = takes.load(Ordering::Relaxed);
                if peer.begins_with(b"isro").await {
                    counted.fetch_add(1, Ordering::Relaxed);
                    return peer.send(if takes_writes { b"rw" } else { b"ro" }).await;
                }
                let request = peer.hear_handshake().await.unwrap();
                assert_eq!(request.read_only, Some(true));
                // No other server knows the session of a read-only server, so the client asks for a
                // new one.
                assert_eq!(request.session_id, SessionId::NONE);
                let greeting = if takes_writes {
                    greeting(request.timeout_ms, SessionId(2), &[7; 16])
                } else {
                    read_only_greeting(request.timeout_ms, SessionId(1))
                };
                peer.send(&greeting).await;
                peer.serve().await;
            }
        });
        Self {
            server: server.await,
            takes_writes,
            asked,
        }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }
}

#[tokio::test]
async fn a_client_of_a_read_only_server_moves_to_one_that_accepts_writes() {
    let (one, other) = (Member::start().await, Member::start().await);
    let servers = [&one, &other].map(|member| member.server.connect_string());
    let builder = Client::builder(&servers.join(",")).unwrap();
    let client = soon(builder.read_only(true).connect()).await.unwrap();
    let alone = client.snapshot();
    assert_eq!(alone.state, State::ReadOnly);
    assert!(!client.lease().is_valid, "a read-only session has no lease");
    let (_, watcher) = soon(client.get_data_and_watch("/a")).await.unwrap();
    let (here, there) = if alone.server.unwrap().port == one.server.address.port() {
        (&one, &other)
    } else {
        (&other, &one)
    };
    until("the other is asked", async || there.asked() >= 2).await;
    assert_eq!(here.asked(), 0, "the client does not ask its own server");
    assert_eq!(client.snapshot().connections, 1);
    let mut snapshots = client.snapshots();
    there.takes_writes.store(true, Ordering::Relaxed);
    let moved = soon(snapshots.wait_for(|now| now.state == State::Connected)).await;
    let moved = moved.unwrap().clone();
    assert_eq!(moved.server.unwrap().port, there.server.address.port());
    assert_eq!((moved.session_id, moved.connections), (SessionId(2), 2));
    let metrics = client.metrics();
    assert_eq!((metrics.expired_sessions, metrics.watches), (0, 1));
    assert!(client.lease().is_valid);
    drop(watcher);
    soon(client.get_data("/a")).await.unwrap();
}
