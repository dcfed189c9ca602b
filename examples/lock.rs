//! How do I hold a lock, and how does the protected resource know that I still hold it?
//!
//! Run it with `cargo run --example lock [HOSTS]`. Without HOSTS it uses an embedded server.

use std::time::Duration;

use lockkeeper::{Client, FencingToken, Mutex};
use lockkeeper_server::Server;

/// A resource that remembers the highest token it has seen, and refuses lower tokens.
#[derive(Default)]
struct Ledger {
    highest: Option<FencingToken>,
    entries: Vec<String>,
}

impl Ledger {
    fn write(&mut self, token: FencingToken, entry: &str) -> Result<(), String> {
        if self.highest.is_some_and(|highest| token < highest) {
            return Err(format!("token {token} is from a former holder"));
        }
        self.highest = Some(token);
        self.entries.push(entry.to_owned());
        Ok(())
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());
    let mut ledger = Ledger::default();

    let client = Client::connect(&servers).await?;
    let mutex = Mutex::new(&client, "/locks/ledger")?;

    let first = mutex.lock_timeout(Duration::from_secs(5)).await?;
    ledger.write(first.fencing_token(), "first")?;
    let stale = first.fencing_token();
    first.release().await?; // success: the lock was held until now

    let second = mutex.lock().await?;
    println!("{second:?}");
    ledger.write(second.fencing_token(), "second")?;

    // A former holder was paused while it held the lock, and wakes up only now:
    let refused = ledger.write(stale, "late");
    println!("{refused:?}");
    assert!(refused.is_err());
    assert_eq!(ledger.entries, ["first", "second"]);

    second.release().await?;
    client.close().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
