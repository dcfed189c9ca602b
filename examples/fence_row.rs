//! How does a database refuse a former holder of the lock?
//!
//! Store the token beside the value, and compare it in the update: `UPDATE accounts SET balance =
//! ?, token = ? WHERE id = ? AND token <= ?`. If this updates no row, the lock was lost.
//!
//! Run it with `cargo run --example fence_row [HOSTS]`. Without HOSTS it uses an embedded server.

use std::collections::HashMap;

use lockkeeper::{Client, FencingToken, Mutex};
use lockkeeper_server::Server;

/// A table `accounts (id, balance, token)`, which shows the effect of the statement.
#[derive(Default)]
struct Accounts(HashMap<&'static str, (i64, u64)>);

impl Accounts {
    /// The statement above. Returns how many rows were updated.
    fn update(&mut self, id: &'static str, balance: i64, token: FencingToken) -> usize {
        let row = self.0.entry(id).or_default();
        if row.1 > token.get() {
            return 0;
        }
        *row = (balance, token.get());
        1
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());
    let mut accounts = Accounts::default();

    let client = Client::connect(&servers).await?;
    let mutex = Mutex::new(&client, "/locks/alice")?;
    let first = mutex.lock().await?;
    assert_eq!(accounts.update("alice", 100, first.fencing_token()), 1);
    let stale = first.fencing_token();
    drop(first);

    let second = mutex.lock().await?;
    assert_eq!(accounts.update("alice", 90, second.fencing_token()), 1);

    // The first holder was paused before its second write, and does not know that it has lost the
    // lock.
    assert_eq!(accounts.update("alice", 120, stale), 0);
    println!(
        "alice has {}, the late update changed no row",
        accounts.0["alice"].0
    );
    second.release().await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
