//! One transaction on the tree. Each operation makes all its checks first and then changes the
//! tree.
//!
//! Later operations of a multi see the changes of earlier ones, because those are already applied.
//! If one operation fails, the transaction takes back all steps, the last one first. The order of
//! the checks decides the error of the reply; it is ZooKeeper's order.
//!
//! Source: `PrepRequestProcessor.pRequest2Txn`, `DataTree.processTxn`.
//! Not here: the zxids of failed transactions, watches (`changes`), reads.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, ErrorCode, EventType, Id, Perms, Stat, Version, path, records::Create2Response,
};

use super::{
    acl,
    changes::Change,
    commit::Commit,
    tree::{AclList, Owner, SYSTEM_PATHS, Tree},
};

/// What a create makes, apart from path, data and ACL.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Kind {
    pub(crate) owner: Owner,
    pub(crate) sequential: bool,
}

/// A transaction that is running.
pub(super) struct Txn<'a> {
    tree: &'a mut Tree,
    commit: &'a Commit,
    /// The identities of the client that writes.
    ids: &'a [Id],
    changes: Vec<Change>,
    /// How to take back each step.
    undo: Vec<Undo>,
}

type Undo = Box<dyn FnOnce(&mut Tree)>;

impl<'a> Txn<'a> {
    pub(super) fn new(tree: &'a mut Tree, commit: &'a Commit, ids: &'a [Id]) -> Self {
        Self {
            tree,
            commit,
            ids,
            changes: Vec::new(),
            undo: Vec::new(),
        }
    }

    /// Ends the transaction and returns its changes in order.
    pub(crate) fn commit(self) -> Vec<Change> {
        self.changes
    }

    /// Undoes all steps, as if the transaction had never begun.
    pub(crate) fn roll_back(self) {
        for take_back in self.undo.into_iter().rev() {
            take_back(self.tree);
        }
    }

    /// Creates a node. Returns its path and metadata.
    pub(crate) fn create(
        &mut self,
        path: &str,
        data: Option<&Bytes>,
        acl: Option<&[Acl]>,
        kind: Kind,
    ) -> Result<Create2Response, ErrorCode> {
        let parent_path = parent_of(path).ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let acl = acl::normalise(acl, self.ids)?;
        let parent = self.tree.get(parent_path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&parent.acl, Perms::CREATE, self.ids)?;
        let path: Arc<str> = if kind.sequential {
            Arc::from(format!("{path}{:010}", parent.created))
        } else {
            Arc::from(path)
        };
        path::check(&path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        if self.tree.get(&path).is_some() {
            return Err(ErrorCode::NODE_EXISTS);
        }
        if matches!(parent.owner, Owner::Session(_)) {
            return Err(ErrorCode::NO_CHILDREN_FOR_EPHEMERALS);
        }

        let mut node = self.tree.blank(Arc::clone(&acl), kind.owner);
        // A copy, because the request's buffer may hold a whole megabyte of other requests.
        node.data = data.map(|data| Bytes::copy_from_slice(data));
        let (zxid, time) = (self.commit.zxid, self.commit.unix_ms);
        (node.meta.czxid, node.meta.mzxid, node.meta.pzxid) = (zxid, zxid, zxid);
        (node.meta.ctime, node.meta.mtime) = (time, time);
        let stat = node.stat();
        let parent = self.tree.get_mut(parent_path).ok_or(ErrorCode::NO_NODE)?;
        let (at, created, pzxid) = (Arc::clone(&path), parent.created, parent.meta.pzxid);
        self.undo.push(Box::new(move |tree| {
            tree.remove(&at);
            if let Some(parent) = tree.parent_mut(&at) {
                (parent.created, parent.meta.pzxid) = (created, pzxid);
            }
        }));
        // The counter never moves down, so it stays at 2^31-1, and the zxid with it: ZOOKEEPER-3249.
        if let Some(next) = parent.created.checked_add(1) {
            (parent.created, parent.meta.pzxid) = (next, zxid);
        }
        let parent_acl = Arc::clone(&parent.acl);
        self.tree.insert(Arc::clone(&path), node);
        let made = path.to_string();
        self.changed(EventType::NODE_CREATED, path, acl, parent_acl);
        Ok(Create2Response { path: made, stat })
    }

    /// Deletes a node.
    pub(crate) fn delete(&mut self, path: &str, version: Version) -> Result<(), ErrorCode> {
        let parent_path = parent_of(path)
            .filter(|_| !SYSTEM_PATHS.contains(&path))
            .ok_or(ErrorCode::BAD_ARGUMENTS)?;
        let parent = self.tree.get(parent_path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&parent.acl, Perms::DELETE, self.ids)?;
        let node = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        check_version(version, node.meta.version)?;
        if !node.children.is_empty() {
            return Err(ErrorCode::NOT_EMPTY);
        }
        self.remove(path);
        Ok(())
    }

    /// Deletes a node without any check: for containers, TTL nodes, and the end of a session.
    pub(crate) fn remove(&mut self, path: &str) {
        let Some(node) = self.tree.remove(path) else {
            return;
        };
        let path: Arc<str> = Arc::from(path);
        let acl = Arc::clone(&node.acl);
        let Some(parent) = self.tree.parent_mut(&path) else {
            return;
        };
        let (at, pzxid) = (Arc::clone(&path), parent.meta.pzxid);
        self.undo.push(Box::new(move |tree| {
            if let Some(parent) = tree.parent_mut(&at) {
                parent.meta.pzxid = pzxid;
            }
            tree.insert(at, node);
        }));
        parent.meta.pzxid = self.commit.zxid;
        let parent_acl = Arc::clone(&parent.acl);
        self.changed(EventType::NODE_DELETED, path, acl, parent_acl);
    }

    /// Sets a node's data.
    pub(crate) fn set_data(
        &mut self,
        path: &str,
        data: Option<&Bytes>,
        version: Version,
    ) -> Result<Stat, ErrorCode> {
        path::check(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let node = self.tree.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&node.acl, Perms::WRITE, self.ids)?;
        check_version(version, node.meta.version)?;
        let path: Arc<str> = Arc::from(path);
        let at = Arc::clone(&path);
        let before = (node.data.take(), node.meta);
        self.undo.push(Box::new(move |tree| {
            if let Some(node) = tree.get_mut(&at) {
                (node.data, node.meta) = before;
            }
        }));
        node.data = data.map(|data| Bytes::copy_from_slice(data));
        node.meta.version = Version(node.meta.version.0.wrapping_add(1));
        (node.meta.mzxid, node.meta.mtime) = (self.commit.zxid, self.commit.unix_ms);
        let stat = node.stat();
        let acl = Arc::clone(&node.acl);
        self.changed(EventType::NODE_DATA_CHANGED, path, Arc::clone(&acl), acl);
        Ok(stat)
    }

    /// Sets a node's ACL. A multi never contains it, so it cannot be undone. It causes no event.
    pub(crate) fn set_acl(
        &mut self,
        path: &str,
        sent: Option<&[Acl]>,
        version: Version,
    ) -> Result<Stat, ErrorCode> {
        path::check(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let list = acl::normalise(sent, self.ids)?;
        let node = self.tree.get_mut(path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&node.acl, Perms::ADMIN, self.ids)?;
        check_version(version, node.meta.aversion)?;
        node.acl = list;
        node.meta.aversion = Version(node.meta.aversion.0.wrapping_add(1));
        Ok(node.stat())
    }

    /// Checks that a node exists and has this version.
    pub(crate) fn check(&self, path: &str, version: Version) -> Result<(), ErrorCode> {
        path::check(path).map_err(|_| ErrorCode::BAD_ARGUMENTS)?;
        let node = self.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&node.acl, Perms::READ, self.ids)?;
        check_version(version, node.meta.version)
    }

    fn changed(&mut self, what: EventType, path: Arc<str>, acl: AclList, parent_acl: AclList) {
        self.changes.push(Change {
            what,
            path,
            acl,
            parent_acl,
        });
    }
}

/// The text before the last slash, unchecked and possibly empty; `None` for a path without a slash
/// or with a NUL.
///
/// Source: `PrepRequestProcessor.validatePathForCreate`.
fn parent_of(path: &str) -> Option<&str> {
    if path.contains('\0') {
        return None;
    }
    path.rsplit_once('/').map(|(parent, _)| parent)
}

fn check_version(wanted: Version, present: Version) -> Result<(), ErrorCode> {
    let fits = wanted == Version::ANY || wanted == present;
    fits.then_some(()).ok_or(ErrorCode::BAD_VERSION)
}
