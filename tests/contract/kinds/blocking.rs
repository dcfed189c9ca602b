//! The kinds for code without async: each call waits on a thread of its own, and the rule waits for
//! the thread.
//!
//! A call that a rule drops goes on in its thread. So the rules about dropped futures do not apply.

use std::{future::Future, thread, time::Duration};

use lockkeeper::{Client, FencingToken, LockError, Wait, error::Loss};
use tokio::sync::oneshot;

use super::{Held, Kind, Tries};

/// A contender of kind `K`. Its rivals are async.
#[derive(Clone)]
pub(crate) struct Blocking<K>(K);

impl<K: Tries> Kind for Blocking<K> {
    type Held = OnThread<K::Held>;
    type Rival = K::Rival;
    const HOLDERS: usize = K::HOLDERS;
    const HAS_QUEUE: bool = K::HAS_QUEUE;
    const RIVALS_IN_QUEUE: usize = K::RIVALS_IN_QUEUE;
    const STRANGERS: &[&str] = K::STRANGERS;

    fn at(client: &Client, path: &str) -> Self {
        Self(K::at(client, path))
    }

    async fn lock(&self) -> Result<Self::Held, LockError> {
        let kind = self.0.clone();
        on_thread(move || kind.lock().wait().map(OnThread)).await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Self::Held, LockError> {
        let kind = self.0.clone();
        on_thread(move || kind.lock_timeout(wait).wait().map(OnThread)).await
    }

    async fn rival(client: &Client, path: &str) -> Result<K::Rival, LockError> {
        K::rival(client, path).await
    }

    fn directories(path: &str) -> Vec<String> {
        K::directories(path)
    }
}

impl<K: Tries> Tries for Blocking<K> {
    async fn try_lock(&self) -> Result<Option<Self::Held>, LockError> {
        let kind = self.0.clone();
        let tried = on_thread(move || kind.try_lock().wait()).await;
        tried.map(|held| held.map(OnThread))
    }
}

/// A guard whose release waits on a thread.
pub(crate) struct OnThread<H>(H);

impl<H: Held> Held for OnThread<H> {
    fn nodes(&self) -> Vec<String> {
        self.0.nodes()
    }

    fn token(&self) -> FencingToken {
        self.0.token()
    }

    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let lost = self.0.lost();
        async move {
            on_thread(move || async { Ok::<_, LockError>(lost.await) }.wait())
                .await
                .unwrap()
        }
    }

    async fn release(self) -> Result<(), LockError> {
        on_thread(move || self.0.release().wait()).await
    }
}

/// Runs a call on a thread that belongs to no runtime.
async fn on_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = oneshot::channel();
    thread::spawn(move || drop(sender.send(call())));
    result.await.expect("the call does not panic")
}
