//! The locks of other implementations and ours, on the same paths at the same time: each must see the other's.
//!
//! Contenders of both sides take turns at a counter, or leave a log of who held when, that is only right under the recipe's
//! rule; or both are led, step by step, into the one situation that matters. Each test runs on the embedded server and on a real
//! ZooKeeper. What the other side is: Curator (`CuratorActors.java`), kazoo and go-zk (`*_contender`), all in tests/interop.
//! Not here: Curator's mutex (`curator`), and what clients expect of the server (`foreign_clients`).

#[path = "../support/mod.rs"]
mod support;

/// Makes two tests of each function, in a module of its name: `embedded` and `real`.
macro_rules! with_others {
    ($($test:ident)*) => {$(
        mod $test {
            use crate::support::{Arm, run};

            #[tokio::test]
            #[ignore = "needs the client of another language: tests/run.sh"]
            async fn embedded() {
                run(Arm::Embedded, super::super::$test).await;
            }

            #[tokio::test]
            #[ignore = "needs a real ZooKeeper and the client of another language: tests/run.sh"]
            async fn real() {
                run(Arm::Real, super::super::$test).await;
            }
        }
    )*};
}

mod actors;
mod election;
mod mutex;
mod rw_lock;
mod semaphore;

use std::{future::Future, time::Duration};

use tokio::time::timeout;

/// Looks out for something that must not happen.
async fn assert_waits(what: impl Future) {
    assert!(timeout(SILENCE, what).await.is_err(), "it did not wait");
}

/// How long is looked out for something that must not happen. Too short a time hides a fault, and never invents one.
const SILENCE: Duration = Duration::from_millis(250);
