//! Foreign nodes in the lock's directory, and a directory that is deleted.

use lockkeeper::{Client, CreateMode, Version, proto::path};

use crate::{
    kinds::Kind,
    rig::{nodes, soon, until, until_free},
    support::Ensemble,
};

/// Names of children that are contenders of no kind.
const STRANGERS: [&str; 4] = ["000", "notalock", "lock-", "zzz-0000000000"];

/// The directory of a lock is deleted while nobody uses it, as the server does with empty
/// containers. The next attempt creates it again. The tokens keep growing although the numbers of
/// the nodes restart.
pub(crate) async fn its_directory_may_be_deleted_between_two_uses(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("reaped");
    let client = ensemble.client().await;
    let lock = kind.at(&client, &path);
    let (mut tokens, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let held = soon(lock.lock()).await.unwrap();
        tokens.push(held.token());
        nodes.extend(held.nodes());
        held.release().await.unwrap();
        until_free(kind, &client, &path).await;
        for directory in kind.directories(&path) {
            delete(&client, &directory).await;
        }
        delete(&client, &path).await;
    }
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
    if !kind.has_queue() {
        return;
    }
    let digits = |node: &String| node.get(node.len() - 10..).unwrap().to_owned();
    let numbers: Vec<_> = nodes.iter().map(digits).collect();
    assert!(
        numbers.iter().all(|number| *number == numbers[0]),
        "{nodes:?}"
    );
    nodes.sort();
    nodes.dedup();
    assert_eq!(nodes.len(), numbers.len(), "a node name was used twice");
}

/// A real server may have reaped the directory already.
async fn delete(client: &Client, node: &str) {
    match client.delete(node, Version::ANY).await {
        Err(error) if !error.is_no_node() => panic!("{error}"),
        _ => {}
    }
}

/// Children that are not contenders of this kind are ignored: contenders do not wait for them,
/// count them or delete them.
pub(crate) async fn foreign_nodes_in_the_directory_are_ignored(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("strangers");
    let client = ensemble.client().await;
    let mut strangers = Vec::new();
    for directory in kind.directories(&path) {
        for level in path::levels(&directory)
            .collect::<Vec<_>>()
            .into_iter()
            .rev()
        {
            let _ = client.create(level, "", CreateMode::Persistent).await;
        }
        for name in STRANGERS.iter().chain(kind.strangers()) {
            let stranger = path::join(&directory, name);
            client
                .create(&stranger, "", CreateMode::Persistent)
                .await
                .unwrap();
            strangers.push(stranger);
        }
    }
    for _ in 0..2 {
        let held = soon(kind.at(&client, &path).lock()).await.unwrap();
        held.release().await.unwrap();
    }
    // A contender that gives up deletes its own nodes and no others.
    drop(soon(kind.rival(&client, &path)).await.unwrap());
    let held = soon(kind.at(&client, &path).lock()).await.unwrap();
    drop(held);
    until!(nodes(kind, &client, &path).await.len() == strangers.len());
    let mut left = nodes(kind, &client, &path).await;
    left.sort();
    strangers.sort();
    assert_eq!(left, strangers);
}
