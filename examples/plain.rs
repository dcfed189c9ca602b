//! How does one of many machines do the nightly job, with the least load on the servers?
//!
//! A `PlainMutex` is one node. Nobody waits for it here: a machine that finds it taken leaves.

use lockkeeper::{
    Client, LockError,
    locks::{PlainMutex, inspect},
};
use lockkeeper_server::Server;

/// Does the job, unless another machine does it now. Returns whether it did.
async fn nightly(client: &Client, machine: &str) -> Result<bool, LockError> {
    let mutex = PlainMutex::new(client, "/locks/nightly")?.with_data(machine.to_owned());
    let Some(guard) = mutex.try_lock().await? else {
        let holder = inspect(client, mutex.path()).await?.pop();
        let holder = holder.and_then(|holder| holder.data);
        println!("{machine}: somebody does it: {holder:?}");
        return Ok(false);
    };
    let job = async { println!("{machine}: doing the job") };
    guard.during(job).await?;
    // While it works, another machine finds the lock taken.
    if machine != "b" {
        assert!(!Box::pin(nightly(client, "b")).await?);
    }
    guard.release().await?;
    Ok(true)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    assert!(nightly(&client, "a").await?);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
