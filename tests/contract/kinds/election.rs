//! The two ways to take part in an election, as kinds of lock: to be elected is to acquire, to
//! resign is to release.

use std::{future::Future, pin::Pin, time::Duration};

use lockkeeper::{
    Client, Election, FencingToken, Guard, LockError,
    election::Latch,
    error::Loss,
    locks::{GuardView, inspect},
};
use tokio::{sync::oneshot, time::timeout};

use super::{Entered, Held, How, Kind};

type Boxed<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Names of children that are not contenders in an election.
const STRANGERS: &[&str] = &["x-lock-0000000000", "x__WRIT__0000000000"];

/// Leads in the foreground: [`Election::lead`].
#[derive(Clone)]
pub(crate) struct Leading(Election);

/// The work of a leader. It has begun, and ends when `done` is sent.
pub(crate) struct Work {
    term: Boxed<Result<(), LockError>>,
    done: oneshot::Sender<()>,
    node: String,
    token: FencingToken,
    /// Resolves when the lead is lost. Taken from the guard while the work had it.
    lost: std::sync::Mutex<Option<Boxed<Option<Loss>>>>,
    view: GuardView,
}

impl Kind for Leading {
    type Held = Work;
    const STRANGERS: &[&str] = STRANGERS;

    fn at(client: &Client, path: &str) -> Self {
        Self(Election::new(client, path).unwrap())
    }

    async fn enter(&self, how: How) -> Entered<Work> {
        within(&self.0, how, self.elected()).await
    }
}

impl Leading {
    async fn elected(&self) -> Result<Work, LockError> {
        let (tell, mut started) = oneshot::channel();
        let (done, finished) = oneshot::channel::<()>();
        let election = self.0.clone();
        let mut term: Boxed<_> = Box::pin(async move {
            let work = async move |guard: &Guard| {
                let lost: Boxed<Option<Loss>> = Box::pin(guard.lost());
                let _ = tell.send((guard.path(), guard.fencing_token(), lost, guard.view()));
                let _ = finished.await;
            };
            election.lead(work).await
        });
        tokio::select! {
            biased;
            start = &mut started => {
                let (node, token, lost, view) = start.expect("work that begins says so");
                let lost = std::sync::Mutex::new(Some(lost));
                Ok(Work { term, done, node, token, lost, view })
            }
            ended = &mut term => Err(ended.expect_err("work that has not begun cannot end")),
        }
    }
}

impl Held for Work {
    fn nodes(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        self.lost.lock().unwrap().take().expect("asked once")
    }

    fn views(&self) -> Vec<GuardView> {
        vec![self.view.clone()]
    }

    async fn release(self) -> Result<(), LockError> {
        let _ = self.done.send(());
        self.term.await
    }
}

/// A candidate in the background: [`Election::latch`].
#[derive(Clone)]
pub(crate) struct Latching(Election, Client);

/// A latch that has been elected.
pub(crate) struct Elected {
    latch: Latch,
    node: String,
    token: FencingToken,
}

impl Kind for Latching {
    type Held = Elected;
    const STRANGERS: &[&str] = STRANGERS;

    fn at(client: &Client, path: &str) -> Self {
        Self(Election::new(client, path).unwrap(), client.clone())
    }

    async fn enter(&self, how: How) -> Entered<Elected> {
        within(&self.0, how, self.elected()).await
    }
}

impl Latching {
    async fn elected(&self) -> Result<Elected, LockError> {
        let latch = self.0.latch();
        let token = latch.elected().await?;
        let contenders = loop {
            match inspect(&self.1, self.0.path()).await {
                // The latch itself survives a lost connection; this listing is repeated.
                Err(LockError::Session(error)) if error.is_transient() => {}
                contenders => break contenders?,
            }
        };
        let node = contenders[0].path.clone();
        Ok(Elected { latch, node, token })
    }
}

impl Held for Elected {
    fn nodes(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    /// A latch does not report how it lost the lead.
    fn lost(&self) -> impl Future<Output = Option<Loss>> + Send + 'static {
        let mut changes = self.latch.changes();
        async move {
            let follows = Option::is_none;
            let _ = changes.wait_for(follows).await;
            None
        }
    }

    fn views(&self) -> Vec<GuardView> {
        Vec::new()
    }

    /// A latch resigns in the background and returns no result.
    async fn release(self) -> Result<(), LockError> {
        drop(self.latch);
        Ok(())
    }
}

/// Adds the deadline to a method that has none. An election has no try.
async fn within<T>(
    election: &Election,
    how: How,
    elected: impl Future<Output = Result<T, LockError>> + Send,
) -> Entered<T> {
    let How::Within(wait) = how else {
        return elected.await.map(Some);
    };
    if let Ok(elected) = timeout(wait, elected).await {
        return elected.map(Some);
    }
    // The error of a method that has a deadline. No answer comes in no time.
    let mut late = election.try_elect_for(Duration::ZERO).await.unwrap_err();
    if let LockError::TimedOut { waited, .. } = &mut late {
        *waited = wait;
    }
    Err(late)
}
