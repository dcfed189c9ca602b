//! The change that a transaction makes to a node, and the events that follow from it, in order.
//!
//! | mutation | first | second | third |
//! |---|---|---|---|
//! | create P | data watches of P: created | child watches of the parent: children changed | |
//! | delete P | data watches of P: deleted | child watches of P: deleted (not twice) | child watches of the parent |
//! | set data of P | data watches of P: data changed | | |
//!
//! Source: `DataTree.createNode`, `deleteNode`, `setData`.

use std::sync::Arc;

use lockkeeper_proto::{EventType, path};

use super::{
    basics::ConnId,
    tree::AclList,
    watches::{Table, Watches},
};

/// One change of one node.
#[derive(Debug)]
pub(crate) struct Change {
    /// The type: created, deleted, or data changed.
    pub(crate) what: EventType,
    pub(crate) path: Arc<str>,
    /// The node's ACL: a connection that may not read the node gets no event.
    pub(crate) acl: AclList,
    /// The parent's ACL, for the event about its children; the node's own ACL when only the data
    /// changed.
    pub(crate) parent_acl: AclList,
}

/// One event for one connection.
#[derive(Debug)]
pub(crate) struct Event<'a> {
    pub(crate) to: ConnId,
    pub(crate) what: EventType,
    pub(crate) path: &'a str,
    /// The connection gets the event only if this ACL grants it READ.
    pub(crate) acl: &'a AclList,
}

impl Change {
    /// The events of this change, in order. One-shot watches that fire are removed.
    pub(crate) fn trigger(&self, watches: &mut Watches) -> Vec<Event<'_>> {
        let own = |to| Event {
            to,
            what: self.what,
            path: &self.path,
            acl: &self.acl,
        };
        let told = watches.trigger(Table::Data, &self.path);
        let mut events: Vec<Event<'_>> = told.iter().copied().map(own).collect();
        if self.what == EventType::NODE_DELETED {
            let rest = watches.trigger(Table::Child, &self.path);
            events.extend(rest.difference(&told).copied().map(own));
        }
        if self.what != EventType::NODE_DATA_CHANGED {
            if let Some(parent) = path::parent(&self.path) {
                let told = watches.trigger(Table::Child, parent);
                events.extend(told.into_iter().map(|to| Event {
                    to,
                    what: EventType::NODE_CHILDREN_CHANGED,
                    path: parent,
                    acl: &self.parent_acl,
                }));
            }
        }
        events
    }
}
