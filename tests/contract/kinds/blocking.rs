//! The locks of `lockkeeper::blocking` as kinds: each call runs on a thread of its own, and the rule waits for the thread.
//!
//! A call that a rule drops goes on in its thread. So the rules about dropped futures do not apply.

use std::{future::Future, marker::PhantomData, thread, time::Duration};

use lockkeeper::{
    Client, FencingToken, LockError, Mutex,
    blocking::{self, Member, MultiLock, Pending},
    error::Loss,
    locks::PlainMutex,
};
use tokio::sync::oneshot;

use super::{Both, Held, Kind, Leasing, Reading, Tries, Writing};

/// The blocking lock of a kind.
pub(crate) trait Blocks: Tries {
    type Lock: Clone + Send + Sync;
    type Guard: Guard;

    fn at(client: &blocking::Client, path: &str) -> Self::Lock;
    fn lock(lock: &Self::Lock) -> Result<Self::Guard, LockError>;
    fn lock_timeout(lock: &Self::Lock, wait: Duration) -> Result<Self::Guard, LockError>;
    fn try_lock(lock: &Self::Lock) -> Result<Option<Self::Guard>, LockError>;
}

/// What a rule needs of a blocking guard.
pub(crate) trait Guard: Send + 'static {
    fn nodes(&self) -> Vec<String>;
    fn token(&self) -> FencingToken;
    fn lost(&self) -> Pending<Loss>;
    fn release(self) -> Result<(), LockError>;
}

macro_rules! guards {
    ($($guard:ident: |$held:ident| $nodes:expr, $token:expr;)*) => {$(
        impl Guard for blocking::$guard {
            fn nodes(&self) -> Vec<String> {
                let $held = self;
                $nodes
            }

            fn token(&self) -> FencingToken {
                let $held = self;
                $token
            }

            fn lost(&self) -> Pending<Loss> {
                self.lost()
            }

            fn release(self) -> Result<(), LockError> {
                self.release()
            }
        }
    )*};
}

guards! {
    Guard: |held| vec![held.path()], held.fencing_token();
    WriteGuard: |held| vec![held.path()], held.fencing_token();
    MultiGuard: |held| held.guards().iter().map(lockkeeper::Guard::path).collect(), held.guards()[0].fencing_token();
}

macro_rules! blocks {
    ($($kind:ty: $lock:ident, $guard:ident, |$client:ident, $path:ident| $at:expr, $take:ident $timeout:ident $try:ident;)*) => {$(
        impl Blocks for $kind {
            type Lock = blocking::$lock;
            type Guard = blocking::$guard;

            fn at($client: &blocking::Client, $path: &str) -> Self::Lock {
                $at.unwrap()
            }

            fn lock(lock: &Self::Lock) -> Result<Self::Guard, LockError> {
                lock.$take()
            }

            fn lock_timeout(lock: &Self::Lock, wait: Duration) -> Result<Self::Guard, LockError> {
                lock.$timeout(wait)
            }

            fn try_lock(lock: &Self::Lock) -> Result<Option<Self::Guard>, LockError> {
                lock.$try()
            }
        }
    )*};
}

blocks! {
    Mutex: Mutex, Guard, |client, path| blocking::Mutex::new(client, path), lock lock_timeout try_lock;
    PlainMutex: PlainMutex, Guard, |client, path| blocking::PlainMutex::new(client, path), lock lock_timeout try_lock;
    Writing: RwLock, WriteGuard, |client, path| blocking::RwLock::new(client, path), write write_timeout try_write;
    Reading: RwLock, Guard, |client, path| blocking::RwLock::new(client, path), read read_timeout try_read;
    Leasing<3>: Semaphore, Guard, |client, path| blocking::Semaphore::new(client, path, 3), acquire acquire_timeout try_acquire;
    Both: MultiLock, MultiGuard, |client, path| both(client, path), lock lock_timeout try_lock;
}

fn both(client: &blocking::Client, path: &str) -> Result<MultiLock, LockError> {
    let first = blocking::Mutex::new(client, &format!("{path}/a"))?;
    let second = blocking::RwLock::new(client, &format!("{path}/b"))?;
    MultiLock::new([Member::write(&second), Member::from(&first)])
}

/// The blocking lock of kind `K`. Its rivals are async.
pub(crate) struct Blocking<K: Blocks>(K::Lock, PhantomData<fn() -> K>);

impl<K: Blocks> Clone for Blocking<K> {
    fn clone(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }
}

impl<K: Blocks> Kind for Blocking<K> {
    type Held = OnThread<K::Guard>;
    type Rival = K::Rival;
    const HOLDERS: usize = K::HOLDERS;
    const HAS_QUEUE: bool = K::HAS_QUEUE;
    const RIVALS_IN_QUEUE: usize = K::RIVALS_IN_QUEUE;
    const STRANGERS: &[&str] = K::STRANGERS;

    fn at(client: &Client, path: &str) -> Self {
        let client = blocking::Client::from(client.clone());
        Self(<K as Blocks>::at(&client, path), PhantomData)
    }

    async fn lock(&self) -> Result<Self::Held, LockError> {
        let lock = self.0.clone();
        on_thread(move || <K as Blocks>::lock(&lock).map(OnThread)).await
    }

    async fn lock_timeout(&self, wait: Duration) -> Result<Self::Held, LockError> {
        let lock = self.0.clone();
        on_thread(move || <K as Blocks>::lock_timeout(&lock, wait).map(OnThread)).await
    }

    async fn rival(client: &Client, path: &str) -> Result<K::Rival, LockError> {
        K::rival(client, path).await
    }

    fn directories(path: &str) -> Vec<String> {
        K::directories(path)
    }
}

impl<K: Blocks> Tries for Blocking<K> {
    async fn try_lock(&self) -> Result<Option<Self::Held>, LockError> {
        let lock = self.0.clone();
        let tried = on_thread(move || <K as Blocks>::try_lock(&lock)).await;
        tried.map(|held| held.map(OnThread))
    }
}

/// A blocking guard, whose calls run on threads.
pub(crate) struct OnThread<G>(G);

impl<G: Guard> Held for OnThread<G> {
    fn nodes(&self) -> Vec<String> {
        self.0.nodes()
    }

    fn token(&self) -> FencingToken {
        self.0.token()
    }

    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let lost = self.0.lost();
        async move { Some(on_thread(move || lost.wait()).await.unwrap()) }
    }

    async fn release(self) -> Result<(), LockError> {
        on_thread(move || self.0.release()).await
    }
}

/// Runs a call on a thread that belongs to no runtime.
async fn on_thread<T: Send + 'static>(call: impl FnOnce() -> T + Send + 'static) -> T {
    let (sender, result) = oneshot::channel();
    thread::spawn(move || drop(sender.send(call())));
    result.await.expect("the call does not panic")
}
