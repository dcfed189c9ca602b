//! An attempt to get a lock, up to the grant. The attempt and the hold are one span in the log
//! (`docs/logging.md`).
//!
//! Not here: the guard that a grant makes (`lock_guard`), whose turn it is (`queue`).

use std::{sync::Arc, time::Instant};

use super::{
    lock_guard::{Guard, Hold},
    token::FencingToken,
};
use crate::{
    error::LockError,
    node::{identity::Directory, lock_node::BoxedNode},
};

/// An attempt to get a lock. If it is dropped before the grant, it counts as given up.
#[derive(Debug)]
pub(crate) struct Attempt {
    directory: Arc<Directory>,
    since: Instant,
    is_settled: bool,
    span: tracing::Span,
}

impl Attempt {
    pub(crate) fn new(directory: &Arc<Directory>) -> Self {
        directory.count(|it| it.waiting += 1);
        let (path, kind) = directory.names();
        Self {
            directory: directory.clone(),
            since: directory.clock.running(),
            is_settled: false,
            span: tracing::debug_span!("lock", path, kind),
        }
    }

    /// The first look showed a contender ahead.
    pub(crate) fn contended(&self) {
        self.directory.count(|it| it.contended += 1);
        tracing::debug!(parent: &self.span, "waiting for contenders ahead");
    }

    /// The lock is granted, with this fencing token.
    fn granted(mut self, token: FencingToken) -> Hold {
        self.is_settled = true;
        let since = self.directory.clock.running();
        let waited = || since.saturating_duration_since(self.since);
        self.directory.count(|it| {
            it.acquired += 1;
            it.wait.record(waited());
            it.held += 1;
        });
        tracing::debug!(parent: &self.span, token = token.get(), waited = ?waited(), "granted");
        Hold::new(self.directory.clone(), since, token, self.span.clone())
    }

    /// The guard of a node whose turn has come.
    pub(crate) fn guard(self, node: BoxedNode) -> Result<Guard, LockError> {
        let own = node.own().map(|own| own.tag);
        let tag = own.map_err(|error| error.at(&self.directory.path))?;
        let hold = self.granted(FencingToken::of(tag.czxid));
        Ok(Guard::new(node, tag.session_id, hold))
    }

    /// The result of this attempt. Without a node it was a try, and another contender has the lock.
    pub(crate) fn ended(
        self,
        node: Result<Option<BoxedNode>, LockError>,
    ) -> Result<Option<Guard>, LockError> {
        match node {
            Ok(Some(node)) => self.guard(node).map(Some),
            Ok(None) => {
                self.refused();
                Ok(None)
            }
            Err(error) => Err(error.at(&self.directory.path)),
        }
    }

    pub(crate) fn refused(mut self) {
        self.is_settled = true;
        self.directory.count(|it| it.refused += 1);
        tracing::debug!(parent: &self.span, "held by another contender, not waiting");
    }
}

impl Drop for Attempt {
    fn drop(&mut self) {
        self.directory.count(|it| it.waiting -= 1);
        if !self.is_settled {
            self.directory.count(|it| it.given_up += 1);
            let waited = self.directory.since(self.since);
            tracing::debug!(parent: &self.span, ?waited, "given up");
        }
    }
}
