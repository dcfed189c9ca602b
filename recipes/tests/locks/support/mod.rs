//! The embedded server, its clients, its nodes, and waiting, for the tests of this crate.

#![allow(
    dead_code,
    unused_imports,
    reason = "each test binary uses only a part of this"
)]

use std::time::Duration;

use lockkeeper_server::Server;
use lockkeeper_session::Client;
pub(crate) use lockkeeper_test_support::waiting;

/// A server that allows short session timeouts.
pub(crate) async fn server() -> Server {
    let builder = Server::builder().tick_time(Duration::from_millis(50));
    builder.start().await.unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    Client::connect(&server.connect_string()).await.unwrap()
}

/// A server with the default settings, and two clients of it.
pub(crate) async fn server_and_two() -> (Server, Client, Client) {
    let server = Server::start().await.unwrap();
    let (one, other) = (client(&server).await, client(&server).await);
    (server, one, other)
}

/// The number of nodes below `path`, as the server has them.
pub(crate) fn below(server: &Server, path: &str) -> usize {
    let prefix = format!("{path}/");
    let paths = server.paths();
    paths
        .iter()
        .filter(|path| path.starts_with(&prefix))
        .count()
}
