//! How do I write to ZooKeeper only while I hold the lock?
//!
//! Run it with `cargo run --example fence_node [HOSTS]`. Without HOSTS it uses an embedded server.

use lockkeeper::{Client, CreateMode, Mutex, Version, error::Loss};
use lockkeeper_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());

    let client = Client::connect(&servers).await?;
    let balance = client
        .create("/balance-", "100", CreateMode::EphemeralSequential)
        .await?
        .path;
    let guard = Mutex::new(&client, "/locks/balance")?.lock().await?;

    // The server applies the whole transaction, and only if the lock is still held.
    guard
        .transaction()
        .set_data(&balance, "90", Version(0))
        .commit()
        .await?;

    // An operator deletes the lock's node.
    let operator = Client::connect(&servers).await?;
    operator.delete(&guard.path(), Version::ANY).await?;

    let refused = guard
        .transaction()
        .set_data(&balance, "80", Version::ANY)
        .commit()
        .await;
    assert_eq!(refused.unwrap_err().loss(), Some(Loss::Deleted));
    assert_eq!(
        client.get_data(&balance).await?.data.as_deref(),
        Some(&b"90"[..])
    );
    println!(
        "the write without the lock was refused: {}",
        guard.release().await.unwrap_err()
    );
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
