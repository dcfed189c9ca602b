//! How does a function lock what its caller has locked already?
//!
//! A task has no identity, so the owner has a name: here the number of the order.

use lockkeeper::{Client, LockError, locks::ReentrantMutex};
use lockkeeper_server::Server;

/// Called alone, and from `ship`: it takes the lock by itself in both cases.
async fn bill(mutex: &ReentrantMutex, order: &str) -> Result<(), LockError> {
    let guard = mutex.lock(order).await?;
    println!("{order}: billed, held {} times", guard.holds());
    guard.release().await
}

async fn ship(mutex: &ReentrantMutex, order: &str) -> Result<(), LockError> {
    let guard = mutex.lock(order).await?;
    bill(mutex, order).await?; // sends nothing: the owner holds the lock
    assert_eq!(guard.holds(), 1);
    // Another owner waits.
    assert!(mutex.try_lock("order 8").await?.is_none());
    println!("{order}: shipped");
    guard.release().await // the last guard releases the lock
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    // All callers use clones of one value: they share the owners.
    let mutex = ReentrantMutex::new(&client, "/locks/store")?;
    ship(&mutex, "order 7").await?;
    bill(&mutex, "order 8").await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
