//! The embedded server, and helpers of the tests.

use std::time::Duration;

use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Client};
pub(crate) use lockkeeper_test_support::waiting::follow;

use super::waiting::soon;

pub(crate) async fn server() -> Server {
    let tick = Duration::from_millis(50);
    Server::builder().tick_time(tick).start().await.unwrap()
}

pub(crate) fn builder(server: &Server) -> Builder {
    Client::builder(&server.connect_string()).unwrap()
}

pub(crate) async fn client(server: &Server) -> Client {
    soon(builder(server).connect()).await.unwrap()
}
