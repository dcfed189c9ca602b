//! `setWatches` and `setWatches2`: setting watches again, mostly after a reconnect, and sending the
//! missed events.
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

use lockkeeper_proto::{EventType, Request, Zxid};

use super::{basics::ConnId, tree::Node, view::View, watches::Modes};

/// The last transaction that the client has seen, and the lists of such a request: data, exist,
/// child, persistent, recursive; `None` for any other request.
pub(super) fn lists(request: &Request) -> Option<(Zxid, [&[String]; 5])> {
    Some(match request {
        Request::SetWatches(it) => {
            let (data, exist, child) = (&it.data_watches, &it.exist_watches, &it.child_watches);
            (it.relative_zxid, [data, exist, child, &[], &[]])
        }
        Request::SetWatches2(it) => (
            it.relative_zxid,
            [
                &it.data_watches,
                &it.exist_watches,
                &it.child_watches,
                &it.persistent_watches,
                &it.persistent_recursive_watches,
            ],
        ),
        _ => return None,
    })
}

/// Sets the watches of such a request, in the order of the table, and returns the events that the
/// connection has missed.
pub(super) fn apply<'a>(
    view: &mut View,
    connection: ConnId,
    request: &'a Request,
) -> Vec<(EventType, &'a str)> {
    let Some((since, [data, exist, child, persistent, recursive])) = lists(request) else {
        return Vec::new();
    };
    let View { tree, watches, .. } = view;
    let mut missed = Vec::new();
    let mut set = |paths: &'a [String], modes, missed_by: &dyn Fn(Option<&Node>) -> Option<_>| {
        for path in paths {
            match missed_by(tree.get(path)) {
                Some(event) => missed.push((event, &**path)),
                None => watches.add(connection, path, modes),
            }
        }
    };
    set(data, Modes::DATA, &|node| match node {
        None => Some(EventType::NODE_DELETED),
        Some(node) => (node.meta.mzxid > since).then_some(EventType::NODE_DATA_CHANGED),
    });
    set(exist, Modes::DATA, &|node| {
        node.map(|_| EventType::NODE_CREATED)
    });
    set(child, Modes::CHILD, &|node| match node {
        None => Some(EventType::NODE_DELETED),
        Some(node) => (node.meta.pzxid > since).then_some(EventType::NODE_CHILDREN_CHANGED),
    });
    set(persistent, Modes::PERSISTENT, &|_| None);
    set(recursive, Modes::RECURSIVE, &|_| None);
    missed
}
