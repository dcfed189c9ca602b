//! How do I hold a lock, and how does a database refuse a former holder?
//!
//! Store the token beside the value, and compare it in the update: `UPDATE accounts SET balance =
//! ?, token = ? WHERE id = ? AND token <= ?`. If this updates no row although there is one, the lock
//! was lost.

use std::time::Duration;

use lockkeeper::{Client, FencingToken, Mutex};
use lockkeeper_server::Server;

/// A row of the table, which shows the effect of the statement.
#[derive(Default)]
struct Account {
    balance: i64,
    token: i64, // BIGINT NOT NULL DEFAULT 0
}

impl Account {
    /// The statement above. Returns how many rows were updated.
    fn update(&mut self, balance: i64, token: FencingToken) -> usize {
        if self.token > token.into() {
            return 0;
        }
        (self.balance, self.token) = (balance, token.into());
        1
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let mut account = Account::default();

    let client = Client::connect(&server.connect_string()).await?;
    let mutex = Mutex::new(&client, "/locks/alice")?;

    let first = mutex.try_lock_for(Duration::from_secs(5)).await?;
    let stale = first.fencing_token();
    assert_eq!(account.update(100, stale), 1);
    first.release().await?; // success: the lock was held until now

    let second = mutex.lock().await?;
    println!("{second:?}");
    assert_eq!(account.update(90, second.fencing_token()), 1);

    // A former holder was paused while it held the lock, and wakes up only now:
    assert_eq!(account.update(120, stale), 0);
    assert_eq!(account.balance, 90);
    println!("the late update changed no row");

    second.release().await?;
    client.close().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
