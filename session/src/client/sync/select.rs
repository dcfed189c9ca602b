//! The first of two futures.

use std::{
    future::{Future, poll_fn},
    pin::pin,
    task::Poll,
};

pub use futures::future::Either;

/// Waits for the future that ends first, and drops the other one. The first one is polled first, so
/// it wins if both have ended.
pub async fn select<A: Future, B: Future>(first: A, second: B) -> Either<A::Output, B::Output> {
    let (mut first, mut second) = (pin!(first), pin!(second));
    poll_fn(|cx| {
        if let Poll::Ready(output) = first.as_mut().poll(cx) {
            return Poll::Ready(Either::Left(output));
        }
        second.as_mut().poll(cx).map(Either::Right)
    })
    .await
}
