//! How do I lock two accounts at once, without a deadlock?
//!
//! A `MultiLock` takes its locks in the order of their paths. So all programs take them in the same
//! order.

use lockkeeper::{
    Client, CreateMode, Mutex, Version,
    locks::{Member, MultiLock},
};
use lockkeeper_server::Server;

type Failure = Box<dyn std::error::Error + Send + Sync>;

async fn balance(client: &Client, account: &str) -> Result<i64, Failure> {
    let data = client.get_data(account).await?.data.unwrap_or_default();
    Ok(String::from_utf8_lossy(&data).parse()?)
}

/// Moves money. The path of an account is its node, and the path of its lock is below it.
async fn transfer(client: Client, from: String, to: String, amount: i64) -> Result<(), Failure> {
    let lock = |account| Mutex::new(&client, &format!("{account}/lock"));
    let (one, other) = (lock(&from)?, lock(&to)?);
    let both = MultiLock::new([Member::from(&one), Member::from(&other)])?
        .lock()
        .await?;
    let (has, gets) = (balance(&client, &from).await?, balance(&client, &to).await?);
    // Both are written, if both locks are held at that moment, or none is.
    both.transaction()
        .set_data(&from, (has - amount).to_string(), Version::ANY)
        .set_data(&to, (gets + amount).to_string(), Version::ANY)
        .commit()
        .await?;
    both.release().await?;
    Ok(())
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let mode = CreateMode::PersistentSequential;
    let alice = client.create("/account-", "100", mode).await?.path;
    let bob = client.create("/account-", "100", mode).await?.path;

    // Both directions at the same time.
    let transfers = (0..10).map(|turn| {
        let (alice, bob) = (alice.clone(), bob.clone());
        let (from, to) = if turn % 2 == 0 {
            (alice, bob)
        } else {
            (bob, alice)
        };
        tokio::spawn(transfer(client.clone(), from, to, 10 + turn))
    });
    for done in transfers.collect::<Vec<_>>() {
        done.await??;
    }
    let (alice, bob) = (
        balance(&client, &alice).await?,
        balance(&client, &bob).await?,
    );
    println!("alice has {alice}, bob has {bob}");
    assert_eq!((alice, bob), (105, 95));
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
