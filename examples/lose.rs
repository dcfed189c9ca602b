//! How do I stop working when the lock is lost?
//!
//! Run it with `cargo run --example lose`. It starts an embedded server, and then makes it stop
//! replying.

use std::time::Duration;

use lockkeeper::{Client, Mutex, locks::LockState};
use lockkeeper_server::Server;
use tokio::time::sleep;

/// Work that takes longer than the lock stays held.
async fn work() {
    sleep(Duration::from_secs(60)).await;
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let timeout = Duration::from_secs(1);
    let servers = server.connect_string();
    let client = Client::builder(&servers)?
        .session_timeout(timeout)
        .connect()
        .await?;
    let guard = Mutex::new(&client, "/locks/job")?.lock().await?;
    assert_eq!(guard.state(), LockState::Held);

    server.faults().stall(); // from here on the server sends nothing
    // The work is dropped before another client can get the lock.
    let lost = guard.during(work()).await.unwrap_err();
    println!("stopped in time: {lost}");
    assert!(!guard.is_valid());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
