//! How do I keep a copy of a tree, and hear how it differs from the copy before?
//!
//! The copy survives lost connections, expired sessions and servers that start again: each new
//! beginning reads all and compares. The copy may be late, and what comes and goes between two
//! readings is not told.

use std::{collections::BTreeMap, convert::Infallible, time::Duration};

use bytes::Bytes;
use lockkeeper::{Client, CreateMode, Error, watch::AddWatchMode};
use lockkeeper_server::Server;

type Tree = BTreeMap<String, Bytes>;
/// Hears the path of each difference, and the data; of a node that is gone, `None`.
type Tell = dyn FnMut(&str, Option<&Bytes>) + Send;

/// Reads all nodes. One that is deleted meanwhile is left out.
async fn read(client: &Client) -> Result<Tree, Error> {
    let (mut tree, mut paths) = (Tree::new(), vec!["/".to_owned()]);
    while let Some(path) = paths.pop() {
        let node = client.get_data(&path).await;
        match (node, client.get_children(&path).await) {
            (Ok(node), Ok(names)) => {
                let above = path.trim_end_matches('/');
                paths.extend(names.iter().map(|name| format!("{above}/{name}")));
                tree.insert(path, node.data.unwrap_or_default());
            }
            (Err(error), _) | (_, Err(error)) if error.is_no_node() => {}
            (Err(error), _) | (_, Err(error)) => return Err(error),
        }
    }
    Ok(tree)
}

/// Follows the tree until a request or the watch fails. Each notice costs a reading of the tree; the
/// guide's chapter on watching has a program that reads only what has changed.
async fn follow(client: &Client, tree: &mut Tree, tell: &mut Tell) -> Result<Infallible, Error> {
    // First watch, then read: no change can come in between.
    let mode = AddWatchMode::PERSISTENT_RECURSIVE;
    let mut changes = client.add_watch("/", mode).await?;
    loop {
        let now = read(client).await?;
        for path in tree.keys().filter(|path| !now.contains_key(*path)) {
            tell(path, None);
        }
        for (path, data) in &now {
            if tree.get(path) != Some(data) {
                tell(path, Some(data));
            }
        }
        *tree = now;
        changes.next().await.transpose()?;
    }
}

/// Keeps a copy of all that is below the root of the client.
async fn mirror(client: &Client, tree: &mut Tree, tell: &mut Tell) -> Error {
    loop {
        let Err(error) = follow(client, tree, tell).await;
        if !(error.is_transient() || error.is_session_expired()) {
            return error;
        }
        // The client goes on by itself, in a new session if it must. The copy is as it was.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    client.create("/a", "1", CreateMode::Persistent).await?;
    let mut tell = |path: &str, data: Option<&Bytes>| println!("{path}: {data:?}");
    let mut tree = Tree::new();
    let mirroring = mirror(&client, &mut tree, &mut tell);
    let _ = tokio::time::timeout(Duration::from_millis(100), mirroring).await;
    Ok(())
}

#[cfg(test)]
mod tests {
    use lockkeeper::Version;
    use tokio::{runtime, sync::mpsc};

    use super::*;

    /// The mirror is in a runtime of its own, which stands still while the tree changes.
    #[test]
    fn it_hears_of_each_difference_once_whatever_has_ended_meanwhile() {
        main().unwrap();
        let others = runtime::Runtime::new().unwrap();
        let mut server = others.block_on(Server::start()).unwrap();
        let own = runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        let client = own
            .block_on(Client::connect(&server.connect_string()))
            .unwrap();
        let (app, (sender, mut told)) = (
            client.with_chroot("/app").unwrap(),
            mpsc::unbounded_channel(),
        );
        own.spawn(async move {
            let mut tell = move |path: &str, data: Option<&Bytes>| {
                let _ = sender.send((path.to_owned(), data.cloned()));
            };
            mirror(&app, &mut Tree::new(), &mut tell).await
        });
        for away in ["not", "cut", "expired", "restarted"] {
            let session = client.snapshot().session_id;
            match away {
                "cut" => assert!(server.faults().cut(session)),
                "expired" => assert!(server.faults().expire(session)),
                "restarted" => {
                    let builder = Server::builder().listen(server.local_addr());
                    others.block_on(server.shutdown());
                    server = others.block_on(builder.start()).unwrap();
                }
                _ => {}
            }
            let expected = others.block_on(change(&server, away)).unwrap();
            for expected in expected {
                let (path, data) = own.block_on(told.recv()).unwrap();
                assert_eq!(
                    (&*path, data.as_deref()),
                    (expected.0, expected.1.map(str::as_bytes)),
                    "{away}"
                );
            }
        }
    }

    type Differences = Vec<(&'static str, Option<&'static str>)>;

    /// Changes the tree. Returns what the mirror must hear of.
    async fn change(server: &Server, away: &str) -> Result<Differences, Error> {
        let (other, mode) = (
            Client::connect(&server.connect_string()).await?,
            CreateMode::Persistent,
        );
        Ok(match away {
            "not" => {
                other.create_all("/app/a", "1", mode).await?;
                other.create_all("/app/b/c", "2", mode).await?;
                vec![
                    ("/", Some("")),
                    ("/a", Some("1")),
                    ("/b", Some("")),
                    ("/b/c", Some("2")),
                ]
            }
            "cut" => {
                other.delete_all("/app/b").await?;
                other.create("/app/d", "3", mode).await?;
                vec![("/b", None), ("/b/c", None), ("/d", Some("3"))]
            }
            "expired" => {
                other.delete("/app/a", Version::ANY).await?;
                vec![("/a", None)]
            }
            _ => {
                other.create_all("/app/d", "4", mode).await?;
                vec![("/d", Some("4"))]
            }
        })
    }
}
