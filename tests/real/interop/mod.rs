//! Our locks and those of other implementations, on the same paths at the same time: each must
//! respect the other's.
//!
//! The contenders for a mutex increment a counter on both sides, and the result is right only if both
//! sides keep the recipe's rule. The other tests lead both sides, step by step, into each situation
//! in which one must wait for the other. Each test runs on the embedded server and on a real
//! ZooKeeper. The other implementations are in tests/foreign: Curator (`CuratorActors.java`), kazoo
//! and go-zk (`*_contender`).
//!
//! Not here: what other clients expect of the server (`foreign_clients`).

/// Makes two tests of each function, `embedded` and `real`, in a module with the function's name.
macro_rules! with_others {
    ($($test:ident)*) => {$(
        mod $test {
            use crate::interop::support::{Arm, run};

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

use lockkeeper_test_support as support;
use std::{future::Future, pin::Pin, time::Duration};

use tokio::time::timeout;

/// The future, after a short time in which it does not finish.
async fn waiting<F: Future>(what: F) -> Pin<Box<F>> {
    let mut what = Box::pin(what);
    let finished = timeout(SILENCE, what.as_mut()).await;
    assert!(finished.is_err(), "it finished instead of waiting");
    what
}

/// How long a test waits for something that must not happen. Too short a time can hide a fault but
/// never invent one.
const SILENCE: Duration = Duration::from_millis(250);
