//! `setWatches` and `setWatches2`: setting watches again, mostly after a reconnect, and sending the missed events.
//!
//! | list | node missing | node present and changed | else |
//! |---|---|---|---|
//! | data | deleted | data changed | registered |
//! | exist | registered | created, however old the node is | |
//! | child | deleted | children changed | registered |
//! | both persistent lists | registered | registered | |
//!
//! Events are sent in the order of the lists, not of the transactions, and ACLs do not filter them.
//!
//! Source: `DataTree.setWatches`.

use lockkeeper_proto::{EventType, Zxid, records};

use super::{ConnId, view::View, watches::Modes};

/// The five lists of a `setWatches2`. A `setWatches` has only the first three.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lists<'a> {
    since: Zxid,
    data: &'a [String],
    exist: &'a [String],
    child: &'a [String],
    persistent: &'a [String],
    recursive: &'a [String],
}

impl<'a> From<&'a records::SetWatches> for Lists<'a> {
    fn from(request: &'a records::SetWatches) -> Self {
        Self {
            since: request.relative_zxid,
            data: &request.data_watches,
            exist: &request.exist_watches,
            child: &request.child_watches,
            persistent: &[],
            recursive: &[],
        }
    }
}

impl<'a> From<&'a records::SetWatches2> for Lists<'a> {
    fn from(request: &'a records::SetWatches2) -> Self {
        Self {
            since: request.relative_zxid,
            data: &request.data_watches,
            exist: &request.exist_watches,
            child: &request.child_watches,
            persistent: &request.persistent_watches,
            recursive: &request.persistent_recursive_watches,
        }
    }
}

/// Sets the watches and returns the events that the connection has missed.
pub(crate) fn apply<'a>(
    view: &mut View,
    connection: ConnId,
    lists: Lists<'a>,
) -> Vec<(EventType, &'a str)> {
    let View { tree, watches, .. } = view;
    let mut missed = Vec::new();
    for path in lists.data {
        match tree.get(path) {
            None => missed.push((EventType::NODE_DELETED, &**path)),
            Some(node) if node.mzxid > lists.since => {
                missed.push((EventType::NODE_DATA_CHANGED, path));
            }
            Some(_) => watches.add(connection, path, Modes::DATA),
        }
    }
    for path in lists.exist {
        match tree.get(path) {
            None => watches.add(connection, path, Modes::DATA),
            Some(_) => missed.push((EventType::NODE_CREATED, path)),
        }
    }
    for path in lists.child {
        match tree.get(path) {
            None => missed.push((EventType::NODE_DELETED, path)),
            Some(node) if node.pzxid > lists.since => {
                missed.push((EventType::NODE_CHILDREN_CHANGED, path));
            }
            Some(_) => watches.add(connection, path, Modes::CHILD),
        }
    }
    for path in lists.persistent {
        watches.add(connection, path, Modes::PERSISTENT);
    }
    for path in lists.recursive {
        watches.add(connection, path, Modes::RECURSIVE);
    }
    missed
}
