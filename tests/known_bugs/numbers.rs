//! Rows 10 to 12: the server runs out of sequence numbers. (Row 9 is in `contract`, `mutex`.)
//!
//! The counter of a directory stops at 2^31-1. After that several children get the same number, or
//! a negative one.

use lockkeeper::{CreateMode, LockError, RwLock};

use crate::rig::{PATH, client, delete, mutex, queue, server, soon, until_queue_has};

fn exhausted() -> LockError {
    LockError::SequenceExhausted {
        path: PATH.to_owned(),
    }
}

/// Two contenders have the same number. Curator orders them as the server happens to list them,
/// which can differ from one listing to the next. In 15 of 20 rounds several contenders held the
/// lock. Here an attempt with such a number is refused.
#[tokio::test]
async fn row_10_contenders_with_the_same_number_are_refused() {
    let server = server().await;
    for _ in 0..5 {
        assert!(server.faults().set_sequence(PATH, i32::MAX));
        let mut attempts = Vec::new();
        for _ in 0..4 {
            let mutex = mutex(&client(&server).await);
            attempts.push(tokio::spawn(async move { mutex.lock().await.map(drop) }));
        }
        for attempt in attempts {
            let error = soon(attempt).await.unwrap().unwrap_err();
            assert_eq!(error, exhausted());
        }
        until_queue_has(&server, 0).await;
    }
}

/// Numbers are refused 65,536 before the end already, and also after the counter has become
/// negative.
#[tokio::test]
async fn row_10_numbers_near_the_end_are_refused_and_no_node_is_left() {
    let server = server().await;
    let client = client(&server).await;
    for next in [i32::MAX - 0xfffe, i32::MAX - 1, i32::MIN, -1] {
        assert!(server.faults().set_sequence(PATH, next));
        let error = soon(mutex(&client).lock()).await.unwrap_err();
        assert_eq!(error, exhausted());
        until_queue_has(&server, 0).await;
    }
    assert!(server.faults().set_sequence(PATH, i32::MAX - 0xffff));
    let guard = soon(mutex(&client).lock()).await.unwrap();
    guard.release().await.unwrap();
}

/// kazoo #606, #730: kazoo compares signed numbers as text. Each new negative number sorted before
/// all others, so each new candidate was elected at once. Here negative numbers are never ordered:
/// the attempt is refused.
#[tokio::test]
async fn row_11_negative_numbers_are_refused_and_never_ordered() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    let numbers = ["2147483646", "2147483647", "-2147483648", "-2147483647"];
    for marker in ["lock-", "__lock__", "__rlock__"] {
        for number in numbers {
            let node = format!("{PATH}/0f9e8d7c6b5a4938-{marker}{number}");
            other
                .create(&node, "", CreateMode::Ephemeral)
                .await
                .unwrap();
        }
        for number in [7, i32::MAX, i32::MIN + 2] {
            assert!(server.faults().set_sequence(PATH, number));
            let error = soon(mutex(&client).lock()).await.unwrap_err();
            assert_eq!(error, exhausted());
            until_queue_has(&server, numbers.len()).await;
        }
        for node in queue(&server) {
            delete(&other, &node).await;
        }
    }
}

/// go-zk, PR 65: go-zk took the minus sign of a negative number for the dash before the number. It
/// found no predecessor, watched an empty name, and returned an error. Its node stayed behind. Here
/// such a name is a contender whose number is refused.
#[tokio::test]
async fn row_12_a_minus_sign_is_not_taken_for_a_separator() {
    let server = server().await;
    let (client, other) = (client(&server).await, client(&server).await);
    for node in [
        "/lock/_c_x-lock--2147483648",
        "/lock/_c_x-__WRIT__-000000001",
    ] {
        other.create(node, "", CreateMode::Ephemeral).await.unwrap();
        let lock = RwLock::new(&client, PATH).unwrap();
        for refused in [
            soon(mutex(&client).lock()).await.map(drop),
            soon(lock.read()).await.map(drop),
            soon(lock.write()).await.map(drop),
        ] {
            assert_eq!(refused.unwrap_err(), exhausted());
        }
        // The node counts as a contender. It is not ignored like a foreign node.
        assert!(mutex(&client).try_lock().await.unwrap().is_none());
        until_queue_has(&server, 1).await;
        delete(&other, node).await;
    }
}
