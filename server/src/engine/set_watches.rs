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

use super::{basics::ConnId, view::View, watches::Modes};

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
    for path in data {
        match tree.get(path) {
            None => missed.push((EventType::NODE_DELETED, &**path)),
            Some(node) if node.meta.mzxid > since => {
                missed.push((EventType::NODE_DATA_CHANGED, path));
            }
            Some(_) => watches.add(connection, path, Modes::DATA),
        }
    }
    for path in exist {
        match tree.get(path) {
            None => watches.add(connection, path, Modes::DATA),
            Some(_) => missed.push((EventType::NODE_CREATED, path)),
        }
    }
    for path in child {
        match tree.get(path) {
            None => missed.push((EventType::NODE_DELETED, path)),
            Some(node) if node.meta.pzxid > since => {
                missed.push((EventType::NODE_CHILDREN_CHANGED, path));
            }
            Some(_) => watches.add(connection, path, Modes::CHILD),
        }
    }
    for path in persistent {
        watches.add(connection, path, Modes::PERSISTENT);
    }
    for path in recursive {
        watches.add(connection, path, Modes::RECURSIVE);
    }
    missed
}
