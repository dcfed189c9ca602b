//! Rows 11 and 12: the server runs out of sequence numbers. (Row 9 is in `contract`, `mutex`.)
//!
//! The counter of a directory stops at 2^31-1. After that several children get the same number, or
//! a negative one.

use lockkeeper::{CreateMode, LockError, RwLock};

use crate::rig::{PATH, clients, delete, mutex, queue, server, soon, until_queue_has};

fn is_exhausted(error: &LockError) -> bool {
    matches!(error, LockError::SequenceExhausted { path, .. } if path == PATH)
}

/// kazoo #606, #730: kazoo compares signed numbers as text. Each new negative number sorted before
/// all others, so each new candidate was elected at once. go-zk, PR 65: go-zk took the minus sign
/// for the dash before the number. It found no predecessor, watched an empty name, and returned an
/// error. Its node stayed behind.
///
/// Here negative numbers are never ordered: such a name is a contender, and the attempt is refused.
#[tokio::test]
async fn row_11_and_12_negative_numbers_are_refused_and_never_ordered() {
    let server = server().await;
    let [client, other] = clients(&server).await;
    let numbers = ["2147483646", "2147483647", "-2147483648", "-2147483647"];
    let of_others =
        |marker| numbers.map(|number| format!("{PATH}/0f9e8d7c6b5a4938-{marker}{number}"));
    let queues = ["lock-", "__lock__", "__rlock__"].map(|marker| of_others(marker).to_vec());
    let alone = ["_c_x-lock--2147483648", "_c_x-__WRIT__-000000001"];
    let alone = alone.map(|name| vec![format!("{PATH}/{name}")]);
    for nodes in queues.into_iter().chain(alone) {
        for node in &nodes {
            other.create(node, "", CreateMode::Ephemeral).await.unwrap();
        }
        for next in [7, i32::MAX, i32::MIN + 2] {
            assert!(server.faults().set_sequence(PATH, next));
            let lock = RwLock::new(&client, PATH).unwrap();
            for refused in [
                soon(mutex(&client).lock()).await.map(drop),
                soon(lock.read()).await.map(drop),
                soon(lock.write()).await.map(drop),
            ] {
                assert!(refused.is_err_and(|error| is_exhausted(&error)));
            }
            // The nodes count as contenders. They are not ignored like foreign nodes.
            assert!(mutex(&client).try_lock().await.unwrap().is_none());
            until_queue_has(&server, nodes.len()).await;
        }
        for node in queue(&server) {
            delete(&other, &node).await;
        }
    }
}
