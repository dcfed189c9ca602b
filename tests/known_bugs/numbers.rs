//! Rows 10 to 12: the numbers that the server gives to nodes come to their end. (Row 9 is `contract`, `mutex`.)
//!
//! A directory's counter sticks at 2^31-1: from there on several children get the same number, or negative ones.

use lockkeeper::{CreateMode, LockError, RwLock};

use crate::rig::{PATH, client, delete, line, mutex, server, soon, until_line_has};

fn exhausted() -> LockError {
    LockError::SequenceExhausted {
        path: PATH.to_owned(),
    }
}

/// Curator breaks the tie between two contenders of the same number by the order in which the server happens to list
/// them: in 15 of 20 rounds several held the lock.
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
        until_line_has(&server, 0).await;
    }
}

/// Long before that, and after the flip to negative numbers, too.
#[tokio::test]
async fn row_10_numbers_near_their_end_are_refused_by_name_and_nothing_is_left() {
    let server = server().await;
    let client = client(&server).await;
    for next in [i32::MAX - 0xfffe, i32::MAX - 1, i32::MIN, -1] {
        assert!(server.faults().set_sequence(PATH, next));
        let error = soon(mutex(&client).lock()).await.unwrap_err();
        assert_eq!(error, exhausted());
        until_line_has(&server, 0).await;
    }
    assert!(server.faults().set_sequence(PATH, i32::MAX - 0xffff));
    let guard = soon(mutex(&client).lock()).await.unwrap();
    guard.release().await.unwrap();
}

/// kazoo #606, #730: signed numbers compared as text: each new negative one sorted before all others, and was elected.
#[tokio::test]
async fn row_11_numbers_of_both_signs_are_not_put_in_an_order() {
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
            until_line_has(&server, numbers.len()).await;
        }
        for node in line(&server) {
            delete(&other, &node).await;
        }
    }
}

/// go-zk, PR 65: the minus sign was taken for the dash before the number. No predecessor was found, an empty name was
/// watched instead, and the node stayed behind the error.
#[tokio::test]
async fn row_12_a_minus_sign_is_no_separator() {
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
        // It is a contender, and not a stranger's node that may be passed over.
        assert!(mutex(&client).try_lock().await.unwrap().is_none());
        until_line_has(&server, 1).await;
        delete(&other, node).await;
    }
}
