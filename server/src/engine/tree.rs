//! The nodes of the tree: their contents, and the index of ephemeral ones.
//!
//! Invariants: every node but the root is in its parent's `children`. `ephemerals`
//! contains exactly the nodes with such an owner.
//!
//! Not here: counting children, versions and zxids (`txn`). Only `txn` changes a live tree.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytes::Bytes;
use lockkeeper_proto::{Acl, Perms, SessionId, Stat, Version, path};

use super::hash::{Map, Seeded, Set};

/// An ACL. The nodes that were created with it share it, and so do the events that it filters.
pub(crate) type AclList = Arc<[Acl]>;

/// The nodes that every server starts with. No client may delete them.
///
/// Source: `PrepRequestProcessor.isSpecialPath`.
pub(crate) const SYSTEM_PATHS: [&str; 4] =
    [path::ROOT, "/zookeeper", "/zookeeper/quota", CONFIG_PATH];

/// Where the members of an ensemble are listed.
pub(crate) const CONFIG_PATH: &str = "/zookeeper/config";

/// The owner of a node, which decides its kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// A persistent node.
    Nobody,
    /// An ephemeral node.
    Session(SessionId),
    /// A container.
    Container,
    /// A node with a time to live.
    Ttl {
        /// The time to live in milliseconds, counted from the last change of the data.
        ms: i64,
    },
}

/// One node.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) data: Option<Bytes>,
    pub(crate) acl: AclList,
    /// Its zxids, times and versions. What follows from the other fields is zero here.
    pub(crate) meta: Stat,
    /// The number of children that were ever created. It is the number of the next sequential
    /// child.
    pub(crate) created: i32,
    pub(crate) owner: Owner,
    pub(crate) children: Set<Box<str>>,
}

impl Node {
    /// The metadata in the form of the protocol.
    pub(crate) fn stat(&self) -> Stat {
        let num_children = i32::try_from(self.children.len()).unwrap_or(i32::MAX);
        let length = self.data.as_ref().map_or(0, Bytes::len);
        Stat {
            // Creates plus deletes. The number of deletes is the number of creates less the present
            // children.
            cversion: Version(self.created.wrapping_mul(2).wrapping_sub(num_children)),
            ephemeral_owner: match self.owner {
                Owner::Session(session) => session,
                Owner::Nobody | Owner::Container | Owner::Ttl { .. } => SessionId::NONE,
            },
            data_length: i32::try_from(length).unwrap_or(i32::MAX),
            num_children,
            ..self.meta
        }
    }
}

/// All nodes.
#[derive(Clone, Debug)]
pub(crate) struct Tree {
    nodes: Map<Arc<str>, Node>,
    ephemerals: BTreeMap<SessionId, BTreeSet<Arc<str>>>,
}

impl Tree {
    /// The tree of a new server: the root and the three nodes below `/zookeeper`.
    pub(crate) fn new(seed: Seeded) -> Self {
        let mut tree = Self {
            nodes: Map::with_hasher(seed),
            ephemerals: BTreeMap::new(),
        };
        for system in SYSTEM_PATHS {
            let mut node = tree.blank(Arc::from(Acl::OPEN_UNSAFE), Owner::Nobody);
            node.data = Some(Bytes::new());
            if system == CONFIG_PATH {
                node.acl = Arc::from([Acl::new(Perms::READ, "world", "anyone")]);
                node.meta.aversion = Version(-1);
            }
            tree.insert(Arc::from(system), node);
        }
        tree
    }

    pub(crate) fn seed(&self) -> Seeded {
        *self.nodes.hasher()
    }

    /// A node without data, with all counters at zero.
    pub(crate) fn blank(&self, acl: AclList, owner: Owner) -> Node {
        Node {
            data: None,
            acl,
            meta: Stat::default(),
            created: 0,
            owner,
            children: Set::with_hasher(self.seed()),
        }
    }

    /// The node at `path`.
    pub(crate) fn get(&self, path: &str) -> Option<&Node> {
        self.nodes.get(in_full(path))
    }

    /// Like [`get`](Self::get), mutable.
    pub(crate) fn get_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(in_full(path))
    }

    pub(crate) fn parent_mut(&mut self, path: &str) -> Option<&mut Node> {
        self.nodes.get_mut(path::parent(path)?)
    }

    /// Adds a node at a path without a node, and adds its name to its parent.
    pub(crate) fn insert(&mut self, at: Arc<str>, node: Node) {
        if let Some(parent) = self.parent_mut(&at) {
            parent.children.insert(Box::from(path::name(&at)));
        }
        if let Owner::Session(session) = node.owner {
            let own = self.ephemerals.entry(session).or_default();
            own.insert(Arc::clone(&at));
        }
        self.nodes.insert(at, node);
    }

    /// Removes a node, and removes its name from its parent.
    pub(crate) fn remove(&mut self, at: &str) -> Option<Node> {
        let node = self.nodes.remove(at)?;
        if let Some(parent) = self.parent_mut(at) {
            parent.children.remove(path::name(at));
        }
        if let Owner::Session(session) = node.owner {
            if let Some(own) = self.ephemerals.get_mut(&session) {
                own.remove(at);
                if own.is_empty() {
                    self.ephemerals.remove(&session);
                }
            }
        }
        Some(node)
    }

    /// The ephemeral nodes of a session.
    pub(crate) fn ephemerals_of(&self, session: SessionId) -> impl Iterator<Item = &Arc<str>> {
        self.ephemerals.get(&session).into_iter().flatten()
    }

    /// The number of ephemeral nodes.
    pub(crate) fn count_ephemerals(&self) -> usize {
        self.ephemerals.values().map(BTreeSet::len).sum()
    }

    /// Containers and TTL nodes that must be deleted at `unix_ms`, sorted.
    pub(crate) fn to_reap(&self, unix_ms: i64) -> BTreeSet<Arc<str>> {
        let due = self.passing().filter(|(until, _)| unix_ms > *until);
        due.map(|(_, at)| Arc::clone(at)).collect()
    }

    /// The containers and TTL nodes that have no children, each behind the last millisecond of its
    /// life.
    ///
    /// Source: `ContainerManager.getCandidates`. Containers that never had a child stay.
    pub(crate) fn passing(&self) -> impl Iterator<Item = (i64, &Arc<str>)> {
        let leaves = self.nodes.iter().filter(|(_, it)| it.children.is_empty());
        leaves.filter_map(|(at, node)| match node.owner {
            Owner::Container => (node.created > 0).then_some((i64::MIN, at)),
            Owner::Ttl { ms } => Some((node.meta.mtime.saturating_add(ms), at)),
            Owner::Nobody | Owner::Session(_) => None,
        })
    }

    /// The number of nodes, including the system's four.
    pub(crate) fn len(&self) -> usize {
        self.nodes.len()
    }

    /// The number of nodes below `path`, at any depth.
    pub(crate) fn count_below(&self, path: &str) -> usize {
        let path = in_full(path);
        let is_below = |at: &&Arc<str>| &***at != path && path::is_within(at, path);
        self.nodes.keys().filter(is_below).count()
    }

    /// The paths of all nodes except the system's, sorted.
    pub(crate) fn user_paths(&self) -> Vec<String> {
        let users = |path: &&Arc<str>| !SYSTEM_PATHS.contains(&&***path);
        let paths = self.nodes.keys().filter(users).map(ToString::to_string);
        let mut paths: Vec<_> = paths.collect();
        paths.sort_unstable();
        paths
    }

    /// Panics if the indexes are not those of the nodes. Returns the sessions that own nodes.
    #[cfg(debug_assertions)]
    pub(crate) fn assert_sound(&self) -> impl Iterator<Item = SessionId> {
        let mut ephemerals = BTreeMap::<_, BTreeSet<_>>::new();
        for (at, node) in &self.nodes {
            let parent = path::parent(at).map(|parent| self.nodes.get(parent));
            let lists = |parent: &Node| parent.children.contains(path::name(at));
            assert!(parent.is_none_or(|it| it.is_some_and(lists)), "{at}");
            if let Owner::Session(session) = node.owner {
                assert!(node.children.is_empty(), "{at} is ephemeral");
                let own = ephemerals.entry(session).or_default();
                own.insert(Arc::clone(at));
            }
        }
        let listed = self.nodes.values().map(|node| node.children.len());
        assert_eq!(listed.sum::<usize>(), self.nodes.len().saturating_sub(1));
        assert_eq!(ephemerals, self.ephemerals);
        self.ephemerals.keys().copied()
    }

    /// The approximate number of bytes of data and paths.
    pub(crate) fn approximate_data_size(&self) -> usize {
        let size = |(path, node): (&Arc<str>, &Node)| {
            path.len()
                .saturating_add(node.data.as_ref().map_or(0, Bytes::len))
        };
        self.nodes.iter().map(size).sum()
    }
}

/// The empty path is another name of the root, as on the real server.
fn in_full(path: &str) -> &str {
    if path.is_empty() { path::ROOT } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> Tree {
        Tree::new(Seeded(7))
    }

    #[test]
    fn a_new_tree_equals_that_of_a_new_java_server() {
        let tree = tree();
        let root = tree.get("/").unwrap().stat();
        assert_eq!((root.num_children, root.cversion), (1, Version(-1)));
        let zookeeper = tree.get("/zookeeper").unwrap().stat();
        assert_eq!(
            (zookeeper.num_children, zookeeper.cversion),
            (2, Version(-2))
        );
        let config = tree.get(CONFIG_PATH).unwrap();
        assert_eq!(config.meta.aversion, Version(-1));
        assert_eq!((tree.len(), tree.count_below("/")), (4, 3));
        assert_eq!(tree.get("").unwrap().stat(), root);
    }
}
