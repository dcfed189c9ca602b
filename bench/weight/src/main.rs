//! Connects, holds one lock, prints its token, releases it, and closes the session; or does
//! nothing, without a feature.

#[cfg(feature = "lockkeeper")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let client = lockkeeper::Client::connect("127.0.0.1:2181").await?;
    let guard = lockkeeper::Mutex::new(&client, "/locks/a")?.lock().await?;
    println!("{}", guard.fencing_token());
    guard.release().await?;
    client.close().await;
    Ok(())
}

#[cfg(feature = "zookeeper-client")]
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    use zookeeper_client::{Acls, Client, LockPrefix};

    let client = Client::connect("127.0.0.1:2181").await?;
    let prefix = LockPrefix::new_curator("/locks/a", "lock-")?;
    let guard = client.lock(prefix, b"", Acls::anyone_all()).await?;
    println!("{}", guard.lock_path());
    drop(guard); // it has no release, and no token
    Ok(())
}

#[cfg(not(any(feature = "lockkeeper", feature = "zookeeper-client")))]
fn main() {}
