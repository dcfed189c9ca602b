//! A server with one lock's directory, clients for it, and the lock's queue as the server sees it.

use std::{future::Future, pin::Pin, time::Duration};

use lockkeeper::{
    Client, CreateMode, Guard, LockError, Mutex, Version, client::SessionId, error::Loss,
};
use lockkeeper_server::Server;

pub(crate) use crate::support::waiting::{driven, idle, poll_once, soon, until};

/// The lock's path. The node exists.
pub(crate) const PATH: &str = "/lock";

/// A server that allows short session timeouts.
pub(crate) async fn server() -> Server {
    let builder = Server::builder()
        .tick_time(Duration::from_millis(50))
        .min_session_timeout(Duration::from_millis(100));
    let server = builder.start().await.unwrap();
    let client = client(&server).await;
    client
        .create(PATH, "", CreateMode::Persistent)
        .await
        .unwrap();
    client.close().await;
    server
}

pub(crate) async fn client(server: &Server) -> Client {
    client_of(server, Duration::from_secs(6)).await
}

pub(crate) async fn clients<const N: usize>(server: &Server) -> [Client; N] {
    let mut clients = Vec::new();
    for _ in 0..N {
        clients.push(client(server).await);
    }
    clients.try_into().unwrap()
}

/// Lists the one server eight times. The client tries its whole list before it backs off, so it
/// reconnects at once after up to eight lost connections.
pub(crate) async fn client_of(server: &Server, session_timeout: Duration) -> Client {
    let servers = [&*server.connect_string(); 8].join(",");
    let builder = Client::builder(&servers).unwrap();
    builder
        .session_timeout(session_timeout)
        .connect()
        .await
        .unwrap()
}

pub(crate) fn mutex(client: &Client) -> Mutex {
    Mutex::new(client, PATH).unwrap()
}

pub(crate) fn session(client: &Client) -> SessionId {
    client.snapshot().session_id
}

/// The paths of all nodes below `path`, as the server has them.
pub(crate) fn below(server: &Server, path: &str) -> Vec<String> {
    let prefix = format!("{path}/");
    let mut nodes = server.paths();
    nodes.retain(|node| node.starts_with(&prefix));
    nodes
}

/// The nodes in the lock's queue, as the server has them.
pub(crate) fn queue(server: &Server) -> Vec<String> {
    below(server, PATH)
}

/// A holder of the lock, and behind it a waiter of another client.
pub(crate) struct Pair {
    pub server: Server,
    pub holder: Client,
    pub guard: Guard,
    pub waiter: Client,
    /// The waiter's node.
    pub node: String,
    pub waiting: Pin<Box<dyn Future<Output = Result<Guard, LockError>>>>,
}

impl Pair {
    pub(crate) async fn new() -> Self {
        let server = server().await;
        let waiter = client(&server).await;
        Self::with(server, waiter).await
    }

    /// The waiter has seen the holder, and waits for an event.
    pub(crate) async fn with(server: Server, waiter: Client) -> Self {
        let holder = client(&server).await;
        let guard = mutex(&holder).lock().await.unwrap();
        let ticket = mutex(&waiter).enqueue().await.unwrap();
        let mut pair = Self {
            node: ticket.path(),
            waiting: Box::pin(ticket.wait()),
            server,
            holder,
            guard,
            waiter,
        };
        pair.still_waits().await;
        pair
    }

    pub(crate) async fn still_waits(&mut self) {
        let outcome = driven(&self.waiter, self.waiting.as_mut()).await;
        assert!(outcome.is_none(), "{outcome:?}");
    }

    pub(crate) async fn until_watches(&self, count: usize) {
        let what = format!("the waiter has {count} watches");
        until(&what, async || self.waiter.metrics().watches == count).await;
    }
}

/// Waits for an attempt that must fail, and returns what it says of a loss.
pub(crate) async fn loss_of<T>(attempt: impl Future<Output = Result<T, LockError>>) -> Loss {
    let error = soon(attempt).await.err().expect("it is not granted");
    error.loss().unwrap_or_else(|| panic!("{error}"))
}

/// Polls an attempt only until it has a node in this directory. Returns the node.
pub(crate) async fn until_created<T>(
    server: &Server,
    client: &Client,
    mut attempt: Pin<&mut impl Future<Output = T>>,
    directory: &str,
) -> String {
    while below(server, directory).is_empty() {
        assert!(poll_once(attempt.as_mut()).is_none(), "it has ended");
        // The client sends its requests without being polled.
        idle(client).await;
    }
    idle(client).await;
    below(server, directory).remove(0)
}

pub(crate) async fn until_queue_has(server: &Server, count: usize) {
    let what = format!("{count} nodes are in the queue");
    until(&what, async || queue(server).len() == count).await;
}

/// Cuts a client's connection. The server refuses its handshakes until [`let_in`] is called.
pub(crate) async fn cut_off(server: &Server, client: &Client) {
    server.faults().refuse_handshakes(true);
    server.faults().cut(session(client));
    until!(!client.snapshot().state.is_connected());
}

/// Accepts handshakes again.
pub(crate) fn let_in(server: &Server) {
    server.faults().refuse_handshakes(false);
}

/// Waits until the client has a session that is not `old`.
pub(crate) async fn until_other_session(client: &Client, old: SessionId) {
    until!(![SessionId::NONE, old].contains(&session(client)));
}

/// Expires the session of `client`, which then starts a new one, while `node` of the old session
/// stays in the listing.
///
/// A lagging server would show the node like that. Here `other` creates a node of the same name.
pub(crate) async fn outlive_its_session(
    server: &Server,
    client: &Client,
    node: &str,
    other: &Client,
) {
    let former = session(client);
    server.faults().refuse_handshakes(true);
    server.faults().cut(former);
    server.faults().expire_early(former);
    other.create(node, "", CreateMode::Ephemeral).await.unwrap();
    let_in(server);
    until_other_session(client, former).await;
}

pub(crate) async fn delete(client: &Client, node: &str) {
    client.delete(node, Version::ANY).await.unwrap();
}
