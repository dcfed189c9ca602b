//! What the first waiter of a semaphore does: it creates its permits, and waits until they are
//! within the limit.
//!
//! Not here: what it does next (`permit_turn`), the limit (`limit`), waiting in the queue
//! (`queue`).

use std::{pin::pin, sync::atomic::Ordering};

use lockkeeper_proto::{Response, records::GetChildren2Response};
use lockkeeper_session::{
    Watcher,
    sync::select::{Either, select},
};

use super::{
    permit_turn::{Next, Out, PermitTurn},
    semaphore::Semaphore,
};
use crate::{
    backoff::{Backoff, Rounds},
    error::{LockError, Loss},
    guard::{Attempt, lost},
    node::{BoxedNode, Node, late::LateCreates, life::Facts},
    order::name::Kind,
    queue::{
        other_kinds,
        stall::{Role, StallCheck},
    },
};

impl Semaphore {
    /// Creates permits, as the first waiter of the queue, and waits until they are within the
    /// limit. Then it leaves the queue. One that does not wait gets none if a permit was taken
    /// since it looked, or the limit was lowered.
    pub(super) async fn take_permits(
        &self,
        mut place: BoxedNode,
        count: usize,
        attempt: &Attempt,
        waits: bool,
    ) -> Result<Option<Vec<BoxedNode>>, LockError> {
        place.keep_lease();
        let (nodes, first) = self.create_permits(count).await?;
        self.look_around(first.as_ref(), &nodes).await?;
        let mut sessions = nodes.iter().map(|node| node.session_id());
        if !sessions.all(|session| session == place.session_id()) {
            // The place in the queue has gone with its session, and another waiter may be the first
            // one by now.
            return Err(LockError::lost(Loss::Expired));
        }
        let mut permits = Permits::new(self, nodes, first);
        loop {
            match permits.next()? {
                Next::Grant => {
                    drop(place);
                    return Ok(Some(permits.nodes));
                }
                Next::Renew => permits.renew().await?,
                Next::List => permits.list().await?,
                Next::ReadLimit => permits.read_limit().await?,
                Next::Wait if !waits => return Ok(None),
                Next::Wait => {
                    attempt.contended();
                    permits.wait(&place).await?;
                }
            }
        }
    }

    /// Creates permits, all of them before it waits for the first reply. Returns them with the
    /// listing behind the last create, if it shows all of them. That listing sets no watch.
    async fn create_permits(
        &self,
        count: usize,
    ) -> Result<(Vec<BoxedNode>, Option<GetChildren2Response>), LockError> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let mut node = Node::new(self.client(), self.permits.clone(), Kind::Semaphore);
            node.begin().await;
            nodes.push(node);
        }
        let mut listing = None;
        for node in &mut nodes {
            node.create().await?;
            listing = node.take_listing();
        }
        let Some(listing) = listing else {
            return Ok((nodes, None));
        };
        match listing.await {
            // A create that was repeated came behind the listing.
            Ok(Response::GetChildren2(list)) if missing(&nodes, shown_by(&list)).is_none() => {
                Ok((nodes, Some(list)))
            }
            // Another listing says why.
            _ => Ok((nodes, None)),
        }
    }

    /// Refuses if another kind of lock is used at the path (see `other_kinds`), or another limit.
    /// One look is enough while the directory of the permits is the same, and so are its data.
    /// Contenders of another kind see it, and are refused.
    async fn look_around(
        &self,
        permits: Option<&GetChildren2Response>,
        own: &[BoxedNode],
    ) -> Result<(), LockError> {
        let directory = permits.map_or(0, |permits| permits.stat.mzxid.0);
        if directory != 0 && self.looked_at.load(Ordering::Relaxed) == directory {
            return Ok(());
        }
        let mut backoff = Backoff::default();
        let children = loop {
            match self.permits.client.get_children(self.path()).await {
                Err(error) if error.is_transient() => backoff.after(&self.permits, &error).await?,
                Err(error) if error.is_no_node() => return Ok(()),
                listed => break listed?,
            }
        };
        let children = children.iter().map(String::as_str);
        other_kinds::refuse(&self.permits, Kind::Semaphore, children).await?;
        let is_own = |permit: &str| own.iter().any(|node| node.name() == permit);
        let agreed = self.limit.agree(&self.permits, is_own);
        let written = agreed.await?;
        let directory = written.map_or(directory, |written| written.0);
        self.looked_at.store(directory, Ordering::Relaxed);
        Ok(())
    }
}

/// The permits of the first waiter, and what it knows of those of others.
struct Permits<'a> {
    semaphore: &'a Semaphore,
    /// They all belong to one session.
    nodes: Vec<BoxedNode>,
    turn: PermitTurn,
    /// The names of all permits, as last listed.
    listed: Vec<String>,
    /// Ends when they change.
    changed: Option<Watcher>,
    limit_changed: Option<Watcher>,
    backoff: Backoff,
    rounds: Rounds,
    stall: StallCheck,
}

impl<'a> Permits<'a> {
    fn new(
        semaphore: &'a Semaphore,
        nodes: Vec<BoxedNode>,
        first: Option<GetChildren2Response>,
    ) -> Self {
        let mut turn = PermitTurn::default();
        if first.is_some() {
            turn.listed(false);
        }
        Self {
            semaphore,
            nodes,
            turn,
            listed: first.map_or(Vec::new(), |first| first.children.into()),
            changed: None,
            limit_changed: None,
            backoff: Backoff::default(),
            rounds: Rounds::default(),
            stall: StallCheck::default(),
        }
    }

    fn next(&mut self) -> Result<Next, LockError> {
        let first = self.nodes.first_mut();
        let facts = first.map_or(Facts::NONE, |node| node.facts());
        self.turn.next(&facts).map_err(|loss| self.lost(loss))
    }

    async fn renew(&mut self) -> Result<(), LockError> {
        for node in &mut self.nodes {
            node.renew_lease().await?;
        }
        Ok(())
    }

    /// Lists the permits, with a watch.
    async fn list(&mut self) -> Result<(), LockError> {
        let directory = &self.semaphore.permits;
        let list = directory.client.get_children_and_watch(&directory.parent);
        match list.await {
            Err(error) if error.is_transient() => {
                self.backoff.after(directory, &error).await?;
            }
            // An operator deleted the directory. Our permits are gone with it.
            Err(error) if error.is_no_node() => {
                self.listed.clear();
                self.turn.listed(false);
            }
            list => {
                let (listed, changed) = list?;
                self.backoff = Backoff::default();
                LateCreates::listed(directory, || listed.iter().map(String::as_str));
                self.stall.listed(|node| listed.iter().any(|it| it == node));
                (self.listed, self.changed) = (listed, Some(changed));
                self.turn.listed(true);
            }
        }
        Ok(())
    }

    /// Reads the limit, and counts the permits that were listed.
    async fn read_limit(&mut self) -> Result<(), LockError> {
        let Semaphore { limit, permits, .. } = self.semaphore;
        let (limit, changed) = limit.read(permits).await?;
        self.limit_changed = changed;
        let own = self.nodes.iter().map(|node| node.name());
        let listed = self.listed.iter().map(String::as_str);
        let asked = self.nodes.len();
        (self.turn.counted(listed, own, limit)).map_err(|out| match out {
            Out::OverLimit => LockError::OverLimit { asked, limit },
            Out::Lost(loss) => self.lost(loss),
        })
    }

    /// Waits for a reason to list them again.
    async fn wait(&mut self, place: &Node) -> Result<(), LockError> {
        if let Some(changed) = self.changed.take() {
            let others: Vec<_> = self.listed.iter().map(String::as_str).collect();
            let directory = &self.semaphore.permits;
            let ends = self.stall.ends(directory, Role::Counting, &others);
            let changed = wait_for_change(place, changed, self.limit_changed.take());
            if let Either::Left(waited) = select(changed, ends).await {
                waited?;
            }
        }
        self.rounds.pause(self.semaphore.client()).await;
        self.turn.changed();
        Ok(())
    }

    /// Forgets the first permit that is gone. Returns the error for the caller. The other permits
    /// are deleted when they are dropped.
    fn lost(&mut self, loss: Loss) -> LockError {
        let gone = missing(&self.nodes, |name| self.listed.iter().any(|it| it == name));
        let gone = gone.and_then(|gone| self.nodes.get_mut(gone));
        gone.map_or(LockError::lost(loss), |node| node.gone())
    }
}

/// Waits for a reason to count the permits again. Any result of a watch is a reason, also its end:
/// the next listing shows what is wrong. The end of the session's lease is none: nothing can be
/// granted until it is renewed.
async fn wait_for_change(
    place: &Node,
    permits: Watcher,
    limit: Option<Watcher>,
) -> Result<(), LockError> {
    let limit = async {
        match limit {
            Some(limit) => drop(limit.await),
            None => std::future::pending().await,
        }
    };
    let (client, path) = (place.client(), place.path());
    let lost = async {
        let Some(session_id) = place.session_id() else {
            return Ok(());
        };
        loop {
            match lost(client, &path, session_id).await {
                // The session is over: the next listing shows it.
                Loss::Elapsed if !place.lease_renewed(session_id).await => return Ok(()),
                Loss::Elapsed => {}
                loss => return Err(LockError::lost(loss)),
            }
        }
    };
    match select(permits, select(pin!(limit), pin!(lost))).await {
        Either::Right(Either::Right(lost)) => lost,
        _ => Ok(()),
    }
}

/// Whether this listing shows a node.
fn shown_by(list: &GetChildren2Response) -> impl Fn(&str) -> bool {
    |name| list.children.iter().any(|permit| permit == name)
}

/// The first permit whose session is over or whose node this listing does not show.
fn missing(nodes: &[BoxedNode], shows: impl Fn(&str) -> bool) -> Option<usize> {
    let mut nodes = nodes.iter();
    nodes.position(|node| node.session_loss().is_some() || !shows(node.name()))
}
