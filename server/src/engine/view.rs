//! A state that connections read and watch: the live one, a frozen one, or that of a follower.

use lockkeeper_proto::Zxid;

use super::{hash::Seeded, tree::Tree, watches::Watches};

/// A tree as of one transaction, and the watches of the connections that read it.
#[derive(Debug)]
pub(crate) struct View {
    pub(crate) tree: Tree,
    pub(crate) watches: Watches,
    pub(crate) zxid: Zxid,
}

impl View {
    /// The state of a new server.
    pub(crate) fn new(seed: Seeded) -> Self {
        Self {
            tree: Tree::new(seed),
            watches: Watches::new(seed),
            zxid: Zxid::ZERO,
        }
    }
}
