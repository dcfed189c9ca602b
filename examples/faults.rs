//! How do I test that my own code is right when replies are lost and sessions expire?
//!
//! Look at the test below. It runs with `cargo test --example faults`, and waits for no timeout. The
//! chapter "Testing your own code" of the guide has silent servers and clocks, too.

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Error, Guard, LockError, Mutex};
use lockkeeper_server::Server;

/// The code under test: adds an amount to the balance, exactly once. The node of the request makes
/// it safe to repeat.
async fn charge(guard: &Guard, request: &str, amount: i64) -> Result<(), LockError> {
    let done = format!("/done/{request}");
    while guard.client().exists(&done).await?.is_none() {
        let node = guard.client().get_data("/balance").await?;
        let text = String::from_utf8_lossy(&node.data.unwrap_or_default()).into_owned();
        let sum = text.parse::<i64>().unwrap_or(0) + amount;
        let write = guard
            .transaction()
            .set_data("/balance", sum.to_string(), node.stat.version)
            .create(&done, "", CreateMode::Persistent);
        match write.commit().await {
            // Also if it is unknown whether it was applied: the node tells.
            Err(LockError::Session(error)) if error.is_transient() => {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
            written => return written.map(drop),
        }
    }
    Ok(())
}

async fn balance(client: &Client) -> Result<String, Error> {
    let data = client.get_data("/balance").await?.data.unwrap_or_default();
    Ok(String::from_utf8_lossy(&data).into_owned())
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    for (path, data) in [("/balance", "100"), ("/done", "")] {
        client.create(path, data, CreateMode::Persistent).await?;
    }
    let guard = Mutex::new(&client, "/locks/balance")?.lock().await?;
    charge(&guard, "request-1", -30).await?;
    charge(&guard, "request-1", -30).await?; // the same request again
    println!("the balance is {}", balance(&client).await?);
    guard.release().await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockkeeper::error::Loss;
    use lockkeeper_server::When;

    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    #[tokio::test]
    async fn each_request_is_charged_once_or_not_at_all() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        for (path, data) in [("/balance", "100"), ("/done", "")] {
            let created = client.create(path, data, CreateMode::Persistent).await;
            created.unwrap();
        }
        let mutex = Mutex::new(&client, "/locks/balance").unwrap();
        let guard = mutex.lock().await.unwrap();

        // The transaction is applied, and its reply is lost with the connection.
        server.faults().lose_reply(When::write());
        charge(&guard, "request-1", -30).await.unwrap();
        assert_eq!(server.faults().pending(), 0, "the fault has happened");
        assert_eq!(balance(&client).await.unwrap(), "70");

        // The server does not get the transaction.
        server.faults().cut_before(When::write());
        charge(&guard, "request-2", -30).await.unwrap();
        assert_eq!(server.faults().pending(), 0, "the fault has happened");
        assert_eq!(balance(&client).await.unwrap(), "40");

        server.faults().expire(client.snapshot().session_id);
        assert!(charge(&guard, "request-3", -30).await.is_err());
        assert_eq!(guard.lost().await, Some(Loss::Expired));
        assert_eq!(balance(&client).await.unwrap(), "40");
    }
}
