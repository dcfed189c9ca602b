//! How do many readers share a lock, and how does a writer go on as a reader?

use lockkeeper::{Client, CreateMode, RwLock, Version};
use lockkeeper_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let prices = client
        .create("/prices-", "old", CreateMode::EphemeralSequential)
        .await?
        .path;
    let lock = RwLock::new(&client, "/locks/prices")?;

    let (one, two) = (lock.read().await?, lock.read().await?);
    assert!(lock.try_write().await?.is_none(), "a writer waits for both");
    one.release().await?;
    two.release().await?;

    let writer = lock.write().await?;
    assert!(lock.try_read().await?.is_none(), "a reader waits for it");
    writer
        .transaction()
        .set_data(&prices, "new", Version::ANY)
        .commit()
        .await?;

    // No other writer comes in between, so the reader sees what it has written.
    let reader = writer.downgrade().await?;
    let also = lock.read().await?;
    let read = client.get_data(&prices).await?.data.unwrap_or_default();
    println!("the prices are {}", String::from_utf8_lossy(&read));
    assert_eq!(read, "new");
    also.release().await?;
    reader.release().await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
