//! A server with one lock on it, clients, and a look at the lock's line as the server has it.

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Mutex, SessionId, Version};
use lockkeeper_server::Server;

pub(crate) use crate::support::waiting::{driven, idle, poll_once, soon, until};

/// The lock's path; it exists.
pub(crate) const PATH: &str = "/lock";

/// A server whose sessions can be short.
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

/// It takes the one server for eight, and so is not put off before it has lost the connection as often.
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

/// The nodes below a path, as the server has them.
pub(crate) fn below(server: &Server, path: &str) -> Vec<String> {
    let prefix = format!("{path}/");
    let mut nodes = server.paths();
    nodes.retain(|node| node.starts_with(&prefix));
    nodes
}

/// The lock's nodes, as the server has them.
pub(crate) fn line(server: &Server) -> Vec<String> {
    below(server, PATH)
}

pub(crate) async fn until_line_has(server: &Server, count: usize) {
    let what = format!("{count} in line");
    until(&what, async || line(server).len() == count).await;
}

/// Cuts a client's connection and keeps it away until handshakes are accepted again.
pub(crate) async fn cut_off(server: &Server, client: &Client) {
    server.faults().refuse_handshakes(true);
    server.faults().cut(session(client));
    until("the cut is noticed", async || {
        !client.snapshot().state.is_connected()
    })
    .await;
}

/// Lets everybody in again.
pub(crate) fn let_in(server: &Server) {
    server.faults().refuse_handshakes(false);
}

/// Waits until a client has another session than this one.
pub(crate) async fn until_other_session(client: &Client, old: SessionId) {
    until("there is a new session", async || {
        ![SessionId::NONE, old].contains(&session(client))
    })
    .await;
}

/// Lets a client start a new session while the server goes on listing a node of the old one, as one that lags would:
/// somebody else has a node with that name from now on.
pub(crate) async fn outlive_its_session(
    server: &Server,
    client: &Client,
    node: &str,
    other: &Client,
) {
    let former = session(client);
    server.faults().refuse_handshakes(true);
    server.faults().cut(former);
    server.faults().expire(former);
    other.create(node, "", CreateMode::Ephemeral).await.unwrap();
    let_in(server);
    until_other_session(client, former).await;
}

pub(crate) async fn delete(client: &Client, node: &str) {
    client.delete(node, Version::ANY).await.unwrap();
}
