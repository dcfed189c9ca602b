//! The first of two futures.

use std::{future::Future, pin::pin};

use futures::future;
pub use futures::future::Either;

/// Waits for the future that ends first, and drops the other one. The first one is polled first, so
/// it wins if both have ended.
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    match future::select(pin!(first), pin!(second)).await {
        Either::Left((output, _)) => Either::Left(output),
        Either::Right((output, _)) => Either::Right(output),
    }
}
