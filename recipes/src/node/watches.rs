//! What a node hears: its watches, and the lease of its session.
//!
//! Not here: whose turn it is (`queue`).

use std::{mem, sync::Arc};

use lockkeeper_proto::{EventType, SessionId};
use lockkeeper_session::{
    AsRaw, Error as SessionError, GroupEvent, LeaseKeeper, WatchGroup, sync::BoxFuture,
};

use super::{Node, life::Facts};
use crate::{backoff::Backoff, error::LockError};

impl Node {
    /// Watches nodes of the directory with one request, and gives up the watches on others.
    pub(crate) fn watch(&mut self, names: Vec<Arc<str>>, is_wanted: impl Fn(&str) -> bool) {
        if let Some(watches) = &self.watches {
            watches.retain(is_wanted);
        }
        if names.is_empty() {
            return;
        }
        let directory = &self.identity.directory;
        let watches = self
            .watches
            .get_or_insert_with(|| directory.client.raw().watch_group());
        watches.watch(&directory.server_path, names);
    }

    /// The next event of a watch, if one has arrived.
    pub(crate) fn try_event(&self) -> Option<Result<GroupEvent, SessionError>> {
        self.watches.as_ref().and_then(WatchGroup::try_next)
    }

    /// Waits for the next event of a watch.
    pub(crate) async fn event(&self) -> Result<GroupEvent, SessionError> {
        match &self.watches {
            Some(watches) => watches.next().await,
            None => std::future::pending().await,
        }
    }

    /// Whether the node is known to be gone: a write that proves the lease has not found it, or the
    /// watch on it has reported its deletion, which it does once.
    pub(crate) fn is_gone(&self) -> bool {
        let is_gone = self.keeper.as_ref().is_some_and(LeaseKeeper::is_gone);
        is_gone || shows_deletion(self.name(), || self.try_event())
    }

    /// Tells the same without the node, as long as the node's owner has not replaced it. It keeps
    /// neither the watches nor the lease.
    pub(crate) fn gone_sign(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let name = self.name().to_owned();
        let is_gone = self.keeper.as_ref().map(LeaseKeeper::gone_sign);
        let events = self.watches.as_ref().map(WatchGroup::events);
        move || {
            let is_gone = is_gone.as_ref().is_some_and(|is_gone| is_gone());
            is_gone || shows_deletion(&name, || events.as_ref().and_then(|next| next()))
        }
    }

    /// What a contender knows of its session now.
    pub(crate) fn facts(&mut self) -> Facts {
        let is_renewed = self.take_renewed();
        Facts {
            session_loss: self.session_loss(),
            is_lease_good: self.is_lease_good(is_renewed),
        }
    }

    /// Whether the lease was renewed just now. That counts for one decision.
    pub(crate) fn take_renewed(&mut self) -> bool {
        mem::take(&mut self.is_renewed)
    }

    /// Whether the lease is good for a grant. One that was renewed just now only has to be valid.
    pub(crate) fn is_lease_good(&self, is_renewed: bool) -> bool {
        let is_valid = |session| {
            let lease = self.client().lease();
            lease.session_id == session && lease.is_valid
        };
        let is_good =
            |session| is_renewed && is_valid(session) || self.client().raw().is_lease_good(session);
        self.session_id().is_some_and(is_good)
    }

    /// Keeps the lease of the session valid from now on.
    pub(crate) fn keep_lease(&mut self) {
        if let (None, Some(node)) = (&self.keeper, self.node()) {
            let directory = self.directory().server_path.clone();
            self.keeper = Some(self.client().raw().keep_lease(directory, node.name.clone()));
        }
    }

    #[cfg(test)]
    pub(crate) fn keeps_lease(&self) -> bool {
        self.keeper.is_some()
    }

    /// For a contender whose turn has come while its lease is not good for a grant. Asks servers
    /// whether the node is there, until they answer. Then waits until the lease is good or the
    /// session is over. In a box, as it is rare.
    pub(crate) fn renew_lease(&mut self) -> BoxFuture<'_, Result<(), LockError>> {
        Box::pin(async move {
            let session_id = self.own()?.tag.session_id;
            if !self.client().raw().is_lease_good(session_id) {
                self.directory().count(|it| it.renewals += 1);
            }
            let mut backoff = Backoff::default();
            loop {
                match self.confirm().await {
                    Ok(()) => break,
                    Err(_) if self.session_loss().is_some() => return Ok(()),
                    Err(LockError::Session(error)) if error.is_transient() => {
                        backoff.after(self.directory(), &error).await?;
                    }
                    Err(error) => {
                        if error.loss().is_some() {
                            self.forget();
                        }
                        return Err(error);
                    }
                }
            }
            self.keep_lease();
            self.is_renewed = self.lease_renewed(session_id).await;
            Ok(())
        })
    }

    /// Waits until the lease that this contender keeps is good for a grant, or the session is over.
    /// Returns whether it is good.
    pub(crate) async fn lease_renewed(&self, session_id: SessionId) -> bool {
        match &self.keeper {
            Some(keeper) => keeper.renewed(session_id).await,
            None => false,
        }
    }
}

/// Whether one of the next events is the deletion of this node.
fn shows_deletion(
    name: &str,
    mut next: impl FnMut() -> Option<Result<GroupEvent, SessionError>>,
) -> bool {
    let is_deletion =
        |event: GroupEvent| event.event_type == EventType::NODE_DELETED && *event.name == *name;
    while let Some(event) = next() {
        if event.is_ok_and(is_deletion) {
            return true;
        }
    }
    false
}
