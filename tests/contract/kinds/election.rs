//! The two ways to take part in an election, as kinds of lock: to be elected is to acquire, to
//! resign is to release.

use std::{future::Future, sync::Mutex, time::Duration};

use futures::future::BoxFuture;
use lockkeeper::{
    Client, Election, FencingToken, Guard, LockError,
    election::Latch,
    error::Loss,
    locks::{GuardView, inspect},
};
use tokio::{sync::oneshot, time::timeout};

use super::{Entered, Held, Hold, How};

/// The work of a leader. It has begun, and ends when `done` is sent.
struct Work {
    term: BoxFuture<'static, Result<(), LockError>>,
    done: oneshot::Sender<()>,
    node: String,
    token: FencingToken,
    /// Resolves when the lead is lost. Taken from the guard while the work had it.
    lost: Mutex<Option<BoxFuture<'static, Option<Loss>>>>,
    view: GuardView,
}

/// Leads in the foreground: [`Election::lead`].
pub(super) async fn lead(election: &Election) -> Result<Hold, LockError> {
    let (tell, mut started) = oneshot::channel();
    let (done, finished) = oneshot::channel::<()>();
    let election = election.clone();
    let mut term: BoxFuture<'static, _> = Box::pin(async move {
        let work = async move |guard: &Guard| {
            let lost: BoxFuture<'static, Option<Loss>> = Box::pin(guard.lost());
            let _ = tell.send((guard.path(), guard.fencing_token(), lost, guard.view()));
            let _ = finished.await;
        };
        election.lead(work).await
    });
    tokio::select! {
        biased;
        start = &mut started => {
            let (node, token, lost, view) = start.expect("work that begins says so");
            let lost = Mutex::new(Some(lost));
            Ok(Box::new(Work { term, done, node, token, lost, view }))
        }
        ended = &mut term => Err(ended.expect_err("work that has not begun cannot end")),
    }
}

impl Held for Work {
    fn nodes(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    fn lost(&self) -> BoxFuture<'static, Option<Loss>> {
        self.lost.lock().unwrap().take().expect("asked once")
    }

    fn views(&self) -> Vec<GuardView> {
        vec![self.view.clone()]
    }

    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(async move {
            let _ = self.done.send(());
            self.term.await
        })
    }
}

/// A latch that has been elected.
struct Elected {
    latch: Latch,
    node: String,
    token: FencingToken,
}

/// Is a candidate in the background: [`Election::latch`].
pub(super) async fn latch(election: &Election, client: &Client) -> Result<Hold, LockError> {
    let latch = election.latch();
    let token = latch.elected().await?;
    let contenders = loop {
        match inspect(client, election.path()).await {
            // The latch itself survives a lost connection; this listing is repeated.
            Err(LockError::Session(error)) if error.is_transient() => {}
            contenders => break contenders?,
        }
    };
    let node = contenders[0].path.clone();
    Ok(Box::new(Elected { latch, node, token }))
}

impl Held for Elected {
    fn nodes(&self) -> Vec<String> {
        vec![self.node.clone()]
    }

    fn token(&self) -> FencingToken {
        self.token
    }

    /// A latch does not report how it lost the lead.
    fn lost(&self) -> BoxFuture<'static, Option<Loss>> {
        let mut changes = self.latch.changes();
        Box::pin(async move {
            let follows = Option::is_none;
            let _ = changes.wait_for(follows).await;
            None
        })
    }

    fn views(&self) -> Vec<GuardView> {
        Vec::new()
    }

    /// A latch resigns in the background and returns no result.
    fn release(self: Box<Self>) -> BoxFuture<'static, Result<(), LockError>> {
        Box::pin(async move {
            drop(self);
            Ok(())
        })
    }
}

/// Adds the deadline to a method that has none. An election has no try.
pub(super) async fn within(
    election: &Election,
    how: How,
    elected: impl Future<Output = Result<Hold, LockError>>,
) -> Entered {
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
