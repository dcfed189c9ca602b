//! How does one of many machines do the nightly job, with the least load on the servers?
//!
//! A `PlainMutex` is one node. Nobody waits for it here: a machine that finds it taken leaves. The
//! lock alone does not do: a machine whose clock is late finds it free again, and would do the job a
//! second time. So the servers also keep the night of the last job.

use lockkeeper::{
    Client, LockError, Version,
    locks::{PlainMutex, inspect},
};
use lockkeeper_server::Server;

/// Does the job of this night, unless another machine does it now, or has done it. Returns whether it
/// did.
async fn nightly(client: &Client, machine: &str, night: &str) -> Result<bool, LockError> {
    client.ensure_path("/nightly").await?;
    let mutex = PlainMutex::new(client, "/locks/nightly")?.with_data(machine.to_owned());
    let Some(guard) = mutex.try_lock().await? else {
        let holder = inspect(client, mutex.path()).await?.pop();
        let holder = holder.and_then(|holder| holder.data);
        println!("{machine}: somebody does it: {holder:?}");
        return Ok(false);
    };
    // Read behind the create of the lock node, so it shows what former holders have written.
    let last = client.get_data("/nightly").await?.data;
    if last.as_deref() == Some(night.as_bytes()) {
        println!("{machine}: it is done");
        return Ok(false);
    }
    guard
        .during(async { println!("{machine}: doing the job") })
        .await?;
    // In one transaction: the night is noted only if the lock was held until now.
    guard
        .release_with(|last| last.set_data("/nightly", night.to_owned(), Version::ANY))
        .await?;
    Ok(true)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let (a, b) = tokio::try_join!(
        nightly(&client, "a", "2026-11-30"),
        nightly(&client, "b", "2026-11-30"),
    )?;
    assert_ne!(a, b);
    assert!(!nightly(&client, "c", "2026-11-30").await?);
    assert!(nightly(&client, "c", "2026-12-01").await?);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
