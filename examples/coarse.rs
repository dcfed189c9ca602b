//! How do I lock a million things with few locks? (a coarse lock, and fine ones inside)
//!
//! One process holds the lock of a shard for long. Its fine locks are in its own memory, and cost no
//! request. Each write has the token of the shard, so the store refuses a former holder.

use std::{collections::HashMap, sync::Arc};

use lockkeeper::{Client, FencingToken, Guard, Mutex};
use lockkeeper_server::Server;
use tokio::{sync::Mutex as Fine, task::JoinSet};

/// Stands for a database: the highest token of the shard that it has seen, and the accounts.
type Store = Fine<(Option<FencingToken>, HashMap<u32, i64>)>;

/// A write. Returns whether the store has taken it.
async fn add(store: &Store, account: u32, amount: i64, token: FencingToken) -> bool {
    let (highest, balances) = &mut *store.lock().await;
    if highest.is_some_and(|highest| token < highest) {
        return false;
    }
    *highest = Some(token);
    *balances.entry(account).or_default() += amount;
    true
}

/// Works on ten accounts under the lock of their shard. Two tasks share each account.
async fn work(shard: &Guard, store: &Arc<Store>) -> bool {
    let fine: Vec<Arc<Fine<()>>> = (0..10).map(|_| Arc::default()).collect();
    let mut tasks = JoinSet::new();
    for (account, lock) in (0..10).zip(&fine).cycle().take(20) {
        let (lock, store, token) = (lock.clone(), store.clone(), shard.fencing_token());
        tasks.spawn(async move {
            let _alone = lock.lock().await; // until the end of this task
            add(&store, account, 1, token).await
        });
    }
    tasks.join_all().await.into_iter().all(|taken| taken)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let (server, store) = (Server::start().await?, Arc::new(Store::default()));
    let client = Client::connect(&server.connect_string()).await?;
    let mutex = Mutex::new(&client, "/shards/7")?;
    let shard = mutex.lock().await?;
    let former = shard.fencing_token();
    assert!(shard.during(work(&shard, &store)).await?); // dropped when the shard is lost
    shard.release().await?;
    let next = mutex.lock().await?; // by another process, later
    assert!(next.during(work(&next, &store)).await?);
    assert!(!add(&store, 0, 1, former).await, "a late write is refused");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
