//! Rows 10 to 12: the server runs out of sequence numbers. (Row 9 is in `contract`, `mutex`.)
//!
//! The counter of a directory stops at 2^31-1. After that several children get the same number, or
//! a negative one.

use lockkeeper::{CreateMode, LockError, RwLock};

use crate::rig::{PATH, clients, delete, mutex, queue, server, soon, until_queue_has};

fn exhausted() -> LockError {
    LockError::SequenceExhausted {
        path: PATH.to_owned(),
    }
}

/// Two contenders have the same number. Curator orders them as the server happens to list them,
/// which can differ from one listing to the next. In 15 of 20 rounds several contenders held the
/// lock. Here an attempt with such a number is refused, from 65,536 numbers before the end on, and
/// also after the counter has become negative.
#[tokio::test]
async fn row_10_contenders_with_the_same_number_or_one_near_the_end_are_refused() {
    let server = server().await;
    let clients = clients::<4>(&server).await;
    let near_the_end = [i32::MAX - 0xfffe, i32::MAX - 1, i32::MIN, -1];
    for next in [i32::MAX; 5].into_iter().chain(near_the_end) {
        assert!(server.faults().set_sequence(PATH, next));
        let attempts = clients.each_ref().map(|client| {
            let mutex = mutex(client);
            tokio::spawn(async move { mutex.lock().await.map(drop) })
        });
        for attempt in attempts {
            assert_eq!(soon(attempt).await.unwrap(), Err(exhausted()));
        }
        until_queue_has(&server, 0).await;
    }
    assert!(server.faults().set_sequence(PATH, i32::MAX - 0xffff));
    let guard = soon(mutex(&clients[0]).lock()).await.unwrap();
    guard.release().await.unwrap();
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
                assert_eq!(refused, Err(exhausted()));
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
