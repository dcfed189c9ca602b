//! What the first waiter of a semaphore does: it creates its leases, and waits until they are
//! within the limit.
//!
//! Not here: what it does next (`lease_turn`), the limit (`limit`), waiting in the queue (`queue`).

use std::{pin::pin, sync::atomic::Ordering};

use lockkeeper_proto::{Response, records::GetChildren2Response};
use lockkeeper_session::{
    Error as SessionError, Watcher,
    sync::select::{Either, select},
};

use super::{
    lease_turn::{LeaseTurn, Next, Out},
    semaphore::Semaphore,
};
use crate::{
    backoff::{Backoff, Rounds},
    error::{LockError, Loss},
    guard::{Attempt, Guard, lost},
    node::{life::Facts, lock_node::LockNode},
    order::name::Kind,
    queue::{
        other_kinds,
        patience::{Patience, Role},
    },
};

impl Semaphore {
    /// Creates leases, as the first waiter of the queue, and waits until they are within the limit.
    /// Then it leaves the queue. One that does not wait is refused if the limit was lowered
    /// meanwhile.
    pub(super) async fn lease(
        &self,
        mut place: LockNode,
        count: usize,
        attempt: Attempt,
        waits: bool,
    ) -> Result<Option<Vec<Guard>>, LockError> {
        place.keep_lease();
        let (mut nodes, first) = self.create_leases(count).await?;
        self.look_around(first.as_ref(), &nodes).await?;
        let mut sessions = nodes.iter().map(LockNode::session_id);
        if !sessions.all(|session| session == place.session_id()) {
            // The place in the queue has gone with its session, and another waiter may be the first
            // one by now.
            return Err(LockError::lost(Loss::Expired));
        }
        let (mut turn, mut leases, mut changed) = (LeaseTurn::default(), Vec::new(), None);
        if let Some(first) = first {
            leases = first.children.into();
            turn.listed(false);
        }
        let (mut limit_changed, mut backoff) = (None, Backoff::default());
        let (mut rounds, mut patience) = (Rounds::default(), Patience::default());
        loop {
            // They all belong to one session.
            let facts = nodes.first_mut().map_or(Facts::NONE, LockNode::facts);
            match turn.next(&facts) {
                Err(loss) => return Err(gone(&mut nodes, &leases).unwrap_or(LockError::lost(loss))),
                Ok(Next::Grant) => break,
                Ok(Next::Renew) => {
                    for node in &mut nodes {
                        node.renew_lease().await?;
                    }
                }
                Ok(Next::List) => match self.list_leases().await {
                    Err(error) if error.is_transient() => {
                        backoff.after(self.client(), &error).await;
                    }
                    // An operator deleted the directory. Our leases are gone with it.
                    Err(error) if error.is_no_node() => {
                        leases.clear();
                        turn.listed(false);
                    }
                    listed => {
                        let watcher;
                        (leases, watcher) = listed?;
                        patience.listed(|node| leases.iter().any(|it| it == node));
                        changed = Some(watcher);
                        turn.listed(true);
                    }
                },
                Ok(Next::ReadLimit) => {
                    let limit;
                    (limit, limit_changed) = self.limit.read(&self.leases).await?;
                    let own = nodes.iter().map(LockNode::name);
                    match turn.counted(leases.iter().map(String::as_str), own, limit) {
                        Ok(()) => {}
                        Err(Out::OverLimit) => {
                            return Err(LockError::OverLimit {
                                asked: count,
                                limit,
                            });
                        }
                        Err(Out::Lost(loss)) => {
                            return Err(gone(&mut nodes, &leases).unwrap_or(LockError::lost(loss)));
                        }
                    }
                }
                Ok(Next::Wait) if !waits => {
                    attempt.refused();
                    return Ok(None);
                }
                Ok(Next::Wait) => {
                    if let Some(changed) = changed.take() {
                        let others: Vec<_> = leases.iter().map(String::as_str).collect();
                        let ends = patience.ends(&self.leases, Role::Counting, &others);
                        let changed = wait_for_change(&place, changed, limit_changed.take());
                        if let Either::Left(waited) = select(changed, ends).await {
                            waited?;
                        }
                    }
                    rounds.pause(self.client()).await;
                    turn.changed();
                }
            }
        }
        drop((changed, limit_changed, place));
        let mut attempts = vec![attempt];
        attempts.resize_with(nodes.len(), || Attempt::new(&self.leases));
        let granted = nodes.into_iter().zip(attempts);
        let guards = granted.map(|(node, attempt)| attempt.guard(node));
        guards.collect::<Result<_, _>>().map(Some)
    }

    /// Creates leases, all of them before it waits for the first reply. Returns them with the
    /// listing behind the last create, if it shows all of them. That listing sets no watch.
    async fn create_leases(
        &self,
        count: usize,
    ) -> Result<(Vec<LockNode>, Option<GetChildren2Response>), LockError> {
        let mut nodes = Vec::new();
        for _ in 0..count {
            let mut node = LockNode::new(self.client(), self.leases.clone(), Kind::Semaphore);
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
            Err(error) if !(error.is_transient() || error.is_no_node()) => Err(error.into()),
            _ => Ok((nodes, None)),
        }
    }

    /// Refuses if another kind of lock is used at the path (see `other_kinds`), or another limit. One
    /// look is enough while the directory of the leases is the same, and so are its data. Contenders
    /// of another kind see it, and are refused.
    async fn look_around(
        &self,
        leases: Option<&GetChildren2Response>,
        own: &[LockNode],
    ) -> Result<(), LockError> {
        let directory = leases.map_or(0, |leases| leases.stat.mzxid.0);
        if directory != 0 && self.looked_at.load(Ordering::Relaxed) == directory {
            return Ok(());
        }
        let mut backoff = Backoff::default();
        let children = loop {
            match self.leases.client.get_children(self.path()).await {
                Err(error) if error.is_transient() => backoff.after(self.client(), &error).await,
                Err(error) if error.is_no_node() => return Ok(()),
                listed => break listed?,
            }
        };
        let children = children.iter().map(String::as_str);
        other_kinds::refuse(&self.leases, Kind::Semaphore, children).await?;
        let is_own = |lease: &str| own.iter().any(|node| node.name() == lease);
        let agreed = self.limit.agree(&self.leases, is_own);
        let written = agreed.await?;
        let directory = written.map_or(directory, |written| written.0);
        self.looked_at.store(directory, Ordering::Relaxed);
        Ok(())
    }

    /// The leases now, and a watcher of their next change.
    async fn list_leases(&self) -> Result<(Vec<String>, Watcher), SessionError> {
        let client = &self.leases.client;
        client.get_children_and_watch(&self.leases.parent).await
    }
}

/// Waits for a reason to count the leases again. Any result of a watch is a reason, also its end:
/// the next listing shows what is wrong. The end of the session's lease is none: nothing can be
/// granted until it is renewed.
async fn wait_for_change(
    place: &LockNode,
    leases: Watcher,
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
    match select(leases, select(pin!(limit), pin!(lost))).await {
        Either::Right(Either::Right(lost)) => lost,
        _ => Ok(()),
    }
}

/// Forgets the first lease whose session is over or whose node this listing does not show. Returns
/// the error for the caller. The other leases are deleted when they are dropped.
fn gone(nodes: &mut [LockNode], listed: &[String]) -> Option<LockError> {
    let gone = missing(nodes, |name| listed.iter().any(|lease| lease == name))?;
    nodes.get_mut(gone).map(LockNode::gone)
}

/// Whether this listing shows a node.
fn shown_by(list: &GetChildren2Response) -> impl Fn(&str) -> bool {
    |name| list.children.iter().any(|lease| lease == name)
}

/// The first lease whose session is over or whose node this listing does not show.
fn missing(nodes: &[LockNode], shows: impl Fn(&str) -> bool) -> Option<usize> {
    let is_missing = |node: &LockNode| node.session_loss().is_some() || !shows(node.name());
    nodes.iter().position(is_missing)
}
