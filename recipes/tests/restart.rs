//! Locks of an embedded server that is started again, with its default settings.
//!
//! Not here: each rule of such a server (`server/tests/restart.rs`).

mod support;

use std::time::Duration;

use lockkeeper_recipes::Mutex;
use lockkeeper_server::Server;
use lockkeeper_session::Client;
use support::{client, waiting::soon};
use tokio::runtime::Builder;

/// Two holders: one that was cut off from the former server and relied on its lease, and one to
/// whom the new server granted the lock at once, with the same token.
#[test]
fn a_server_that_is_started_again_makes_no_second_holder() {
    let run = Builder::new_multi_thread().enable_all().build().unwrap();
    let longest = Duration::from_secs(2);
    let builder = Server::builder().max_session_timeout(longest);
    let server = run.block_on(builder.clone().start()).unwrap();
    // It stands still from here on, so its client learns of nothing.
    let paused = Builder::new_current_thread().enable_all().build().unwrap();
    let former = paused.block_on(async {
        let client = Client::connect(&server.connect_string()).await.unwrap();
        Mutex::new(&client, "/m").unwrap().lock().await.unwrap()
    });
    let address = server.local_addr();
    run.block_on(server.shutdown());
    run.block_on(async {
        let server = builder.listen(address).start().await.unwrap();
        let client = client(&server).await;
        let mutex = Mutex::new(&client, "/m").unwrap();
        let guard = soon(mutex.lock()).await.unwrap();
        assert!(!former.is_valid(), "two holders");
        assert!(guard.fencing_token() > former.fencing_token());
    });
}
