//! The cost of locks on the wire: requests, and writes to the socket, counted at the client's
//! transport.
//!
//! All requests in one write need only one round trip. No real time is measured.
//!
//! `costs` measures every operation for the table in `docs/costs.md`; `budget` counts what sessions
//! and holders send as time passes. Not here: what a crowd of one client costs
//! (`recipes/tests/locks/crowd.rs`).

mod budget;
mod costs;
mod operations;

use lockkeeper_test_support as support;
use lockkeeper_test_support::{counting, servers};
use std::time::Duration;

use lockkeeper::Client;
use lockkeeper_server::Server;

use counting::Tally;

/// The longest session timeout that the server grants.
const LONG_SESSION: Duration = Duration::from_secs(60);

async fn client(server: &Server) -> (Client, Tally) {
    let tally = Tally::default();
    // So long that a slow test writes no proof of its lease.
    let client = Client::builder(&server.connect_string())
        .unwrap()
        .session_timeout(LONG_SESSION)
        .connector(tally.connector());
    (client.connect().await.unwrap(), tally)
}
