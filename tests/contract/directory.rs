//! What happens around the lock in its directory.

use lockkeeper::{Client, CreateMode, Version, proto::path};

use crate::{
    kinds::{Held, Kind},
    rig::{nodes, soon, until, until_free},
    support::Ensemble,
};

/// Nobody's contenders, in any line.
const STRANGERS: [&str; 4] = ["000", "notalock", "lock-", "zzz-0000000000"];

/// The directory of a lock is deleted while nobody uses it, as the server does with containers that are empty. It is
/// made again, and tokens go on growing although the numbers of the nodes start anew.
pub(crate) async fn its_directory_may_go_between_two_uses<K: Kind>(ensemble: &Ensemble) {
    let path = ensemble.unique_path("reaped");
    let client = ensemble.client().await;
    let lock = K::at(&client, &path);
    let (mut tokens, mut nodes) = (Vec::new(), Vec::new());
    for _ in 0..4 {
        let held = soon(lock.lock()).await.unwrap();
        tokens.push(held.token());
        nodes.extend(held.nodes());
        held.release().await.unwrap();
        until_free::<K>(&client, &path).await;
        for line in K::lines(&path) {
            delete(&client, &line).await;
        }
        delete(&client, &path).await;
    }
    assert!(
        tokens.windows(2).all(|pair| pair[0] < pair[1]),
        "{tokens:?}"
    );
    if !K::WAITS_IN_LINE {
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
    assert_eq!(nodes.len(), numbers.len(), "a node with a name of the past");
}

/// A real server may have reaped it already.
async fn delete(client: &Client, node: &str) {
    match client.delete(node, Version::ANY).await {
        Err(error) if !error.is_no_node() => panic!("{error}"),
        _ => {}
    }
}

/// Children that are no contenders of this kind are nobody: not waited for, not counted, not deleted.
pub(crate) async fn strangers_in_the_directory_are_nobody<K: Kind>(ensemble: &Ensemble) {
    let path = ensemble.unique_path("strangers");
    let client = ensemble.client().await;
    let mut strangers = Vec::new();
    for line in K::lines(&path) {
        for level in path::levels(&line).collect::<Vec<_>>().into_iter().rev() {
            let _ = client.create(level, "", CreateMode::Persistent).await;
        }
        for name in STRANGERS.iter().chain(K::STRANGERS) {
            let stranger = path::join(&line, name);
            client
                .create(&stranger, "", CreateMode::Persistent)
                .await
                .unwrap();
            strangers.push(stranger);
        }
    }
    for _ in 0..2 {
        let held = soon(K::at(&client, &path).lock()).await.unwrap();
        held.release().await.unwrap();
    }
    // One that gives up cleans up behind itself, and behind nobody else.
    drop(soon(K::rival(&client, &path)).await.unwrap());
    let held = soon(K::at(&client, &path).lock()).await.unwrap();
    drop(held);
    until("only strangers are left", async || {
        nodes::<K>(&client, &path).await.len() == strangers.len()
    })
    .await;
    let mut left = nodes::<K>(&client, &path).await;
    left.sort();
    strangers.sort();
    assert_eq!(left, strangers);
}
