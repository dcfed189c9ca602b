//! How does a program read its configuration without a request each time?
//!
//! The configuration is a folder with a node for each key. The mirror reads all of it after each
//! change: simple, and right for some hundred keys. For larger trees see the chapter "Watching a
//! tree" of the guide.
//!
//! Run it with `cargo run --example mirror [HOSTS]`. Without HOSTS it uses an embedded server.

use std::{collections::BTreeMap, time::Duration};

use lockkeeper::{Client, CreateMode, Error, Version, watch::AddWatchMode};
use lockkeeper_server::Server;
use tokio::{sync::watch, time::sleep};

#[derive(Clone, Debug, Default)]
struct Settings {
    values: BTreeMap<String, String>,
    /// The servers could not be asked: the values may be old.
    is_stale: bool,
}

async fn read_all(client: &Client, folder: &str) -> Result<BTreeMap<String, String>, Error> {
    let mut values = BTreeMap::new();
    for key in client.get_children(folder).await? {
        match client.get_data(&format!("{folder}/{key}")).await {
            Ok(node) => {
                let text = String::from_utf8_lossy(&node.data.unwrap_or_default()).into_owned();
                values.insert(key, text);
            }
            Err(error) if error.is_no_node() => {} // deleted meanwhile: its event comes
            Err(error) => return Err(error),
        }
    }
    Ok(values)
}

/// Copies the folder into `copy` after each change. Returns only with an error.
async fn follow(
    client: &Client,
    folder: &str,
    copy: &watch::Sender<Settings>,
) -> Result<(), Error> {
    // First watch, then read: no change can come in between.
    let mut changes = client
        .add_watch(folder, AddWatchMode::PERSISTENT_RECURSIVE)
        .await?;
    loop {
        let (values, is_stale) = (read_all(client, folder).await?, false);
        copy.send_replace(Settings { values, is_stale });
        // Any notice is a reason to read: an event, a reconnect, or more events than the queue
        // holds.
        match changes.next().await {
            Some(Ok(_)) => {}
            Some(Err(error)) => return Err(error),
            None => return Ok(()),
        }
    }
}

/// Follows the folder for as long as the client lives.
async fn mirror(client: Client, folder: String, copy: watch::Sender<Settings>) {
    while !client.is_closed() {
        if let Err(error) = follow(&client, &folder, &copy).await {
            eprintln!("the settings may be old: {error}");
        }
        copy.send_modify(|settings| settings.is_stale = true);
        sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let embedded = Server::start().await?;
    let servers = std::env::args().nth(1).filter(|arg| arg.contains(':'));
    let servers = servers.unwrap_or_else(|| embedded.connect_string());

    let operator = Client::connect(&servers).await?;
    let folder = operator
        .create("/settings-", "", CreateMode::PersistentSequential)
        .await?
        .path;
    let colour = format!("{folder}/colour");
    operator
        .create(&colour, "blue", CreateMode::Persistent)
        .await?;

    let client = Client::connect(&servers).await?;
    let (copy, mut settings) = watch::channel(Settings::default());
    tokio::spawn(mirror(client.clone(), folder, copy));
    let is =
        |colour| move |now: &Settings| now.values.get("colour").is_some_and(|now| now == colour);
    settings.wait_for(is("blue")).await?;

    // The connection is lost, and the session, too: the mirror starts again.
    embedded.faults().expire(client.snapshot().session_id);
    operator.set_data(&colour, "green", Version::ANY).await?;
    let now = settings.wait_for(is("green")).await?.clone();
    println!("{now:?}");
    assert!(!now.is_stale);
    client.close().await;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
