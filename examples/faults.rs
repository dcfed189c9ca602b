//! How do I test that my own code is right when replies are lost and sessions expire?
//!
//! Look at the tests below. They run with `cargo test --example faults`, each on a server of its
//! own, and none of them waits for a timeout. The chapter "Testing your own code" of the guide has
//! silent servers and clocks, too.

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Error, Guard, LockError, Mutex, Version};
use tokio::time::sleep;

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
                sleep(Duration::from_millis(10)).await;
            }
            written => return written.map(drop),
        }
    }
    Ok(())
}

async fn set_up(client: &Client) -> Result<i64, Error> {
    client
        .create("/balance", "100", CreateMode::Persistent)
        .await?;
    client.create("/done", "", CreateMode::Persistent).await?;
    balance(client).await
}

async fn balance(client: &Client) -> Result<i64, Error> {
    let data = client.get_data("/balance").await?.data.unwrap_or_default();
    Ok(String::from_utf8_lossy(&data).parse().unwrap_or(0))
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    assert_eq!(set_up(&client).await?, 100);
    let guard = Mutex::new(&client, "/locks/balance")?.lock().await?;
    charge(&guard, "request-1", -30).await?;
    charge(&guard, "request-1", -30).await?; // the same request again
    println!("the balance is {}", balance(&client).await?);
    guard.release().await?;
    client.set_data("/balance", "0", Version::ANY).await?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockkeeper::error::Loss;
    use lockkeeper_server::{Server, When};

    use super::*;

    #[test]
    fn it_runs() {
        main().unwrap();
    }

    /// A server with accounts, a client of it, and a lock for the code under test.
    async fn started() -> (Server, Client, Mutex) {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        set_up(&client).await.unwrap();
        let mutex = Mutex::new(&client, "/locks/balance").unwrap();
        (server, client, mutex)
    }

    #[tokio::test]
    async fn a_lost_reply_and_a_lost_request_charge_once() {
        let (server, client, mutex) = started().await;
        let guard = mutex.lock().await.unwrap();

        // The transaction is applied, and its reply is lost with the connection.
        server.faults().lose_reply(When::write());
        charge(&guard, "request-1", -30).await.unwrap();
        assert_eq!(server.faults().pending(), 0, "the fault has happened");
        assert_eq!(balance(&client).await, Ok(70));

        server.faults().cut_before(When::write());
        charge(&guard, "request-2", -30).await.unwrap();
        assert_eq!(server.faults().pending(), 0, "the fault has happened");
        assert_eq!(balance(&client).await, Ok(40));
    }

    #[tokio::test]
    async fn an_expired_session_writes_nothing_and_leaves_nothing() {
        let (server, client, mutex) = started().await;
        let guard = mutex.lock().await.unwrap();

        server.faults().expire(client.snapshot().session_id);
        assert!(charge(&guard, "request-1", -30).await.is_err());
        assert_eq!(guard.lost().await, Loss::Expired);
        drop(guard);
        assert_eq!(balance(&client).await, Ok(100));
        // The lock object works on in the next session.
        mutex.lock().await.unwrap().release().await.unwrap();
        let sessions = server.report().sessions;
        assert!(sessions.values().all(|it| it.ephemerals.is_empty()));
    }
}
