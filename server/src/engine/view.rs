//! A state that connections read and watch: the live one, or that of a member.

use lockkeeper_proto::{ErrorCode, Response, Zxid, records::Empty};

use super::{
    changes::Change,
    commit::{Commit, Deed},
    connections::Connections,
    tree::Tree,
    watches::Watches,
};

/// A tree as of one transaction, and the watches of the connections that read it.
#[derive(Debug)]
pub(super) struct View {
    pub(super) tree: Tree,
    pub(super) watches: Watches,
    pub(super) zxid: Zxid,
    /// Whether the ephemeral nodes of sessions that end stay: a fault of some servers.
    pub(super) keeps_ended: bool,
}

impl View {
    /// These nodes, without watches.
    pub(super) fn new(tree: Tree, zxid: Zxid) -> Self {
        Self {
            watches: Watches::new(tree.seed()),
            tree,
            zxid,
            keeps_ended: false,
        }
    }

    /// Applies a transaction and tells the connections that watch. Returns the reply.
    pub(super) fn apply(
        &mut self,
        commit: &Commit,
        told: &mut Connections,
    ) -> Result<Response, ErrorCode> {
        let (changes, reply) = self.catch_up_with(commit);
        for change in &changes {
            for event in change.trigger(&mut self.watches) {
                told.deliver(commit.zxid, &event);
            }
        }
        reply
    }

    /// Applies a transaction of which nobody is told. Returns its changes, and the reply.
    pub(super) fn catch_up_with(
        &mut self,
        commit: &Commit,
    ) -> (Vec<Change>, Result<Response, ErrorCode>) {
        self.zxid = commit.zxid;
        match &commit.deed {
            // This tree may have nodes that the leader's does not have.
            Deed::Request(..) if commit.is_refused() => (Vec::new(), commit.reply.clone()),
            Deed::Remove(_, Some(_)) if self.keeps_ended => {
                (Vec::new(), Ok(Response::CloseSession(Empty {})))
            }
            _ => commit.apply(&mut self.tree),
        }
    }
}
