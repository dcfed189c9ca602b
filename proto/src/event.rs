//! Watch events and the constants of the watch operations.
//!
//! Not here: the requests of the watch operations (`records`).

use alloc::string::String;

use crate::{ids::wire_enum, jute::record};

record! {
    /// The body of a notification (a message with xid -1).
    pub struct WatcherEvent {
        /// What happened.
        pub event_type: EventType,
        /// The state of the session. Servers always send `SYNC_CONNECTED`.
        pub state: KeeperState,
        /// The path of the node on the server, including the chroot.
        pub path: String,
    }
}

wire_enum! {
    /// What happened to a watched node.
    EventType {
        /// The node was created.
        NODE_CREATED = 1 "node created",
        /// The node was deleted.
        NODE_DELETED = 2 "node deleted",
        /// The node's data were set, even to the same bytes.
        NODE_DATA_CHANGED = 3 "node data changed",
        /// A child was created or deleted.
        NODE_CHILDREN_CHANGED = 4 "node children changed",
    }
}

wire_enum! {
    /// The session's state in a watch event.
    KeeperState {
        /// Connected. Servers send only this state.
        SYNC_CONNECTED = 3 "connected",
    }
}

wire_enum! {
    /// The mode of an `addWatch`.
    AddWatchMode {
        /// The watch stays until it is removed. It reports changes of the node's data and children.
        PERSISTENT = 0 "persistent",
        /// The watch stays until it is removed. It reports changes of the node and of all its
        /// descendants.
        PERSISTENT_RECURSIVE = 1 "persistent recursive",
    }
}

wire_enum! {
    /// The kind of watches that a `checkWatches` or `removeWatches` is about.
    WatcherType {
        /// Child watches.
        CHILDREN = 1 "children",
        /// Data watches, including those of `exists`.
        DATA = 2 "data",
        /// Every kind.
        ANY = 3 "any",
        /// Persistent watches; servers from 3.9.
        PERSISTENT = 4 "persistent",
        /// Persistent recursive watches; servers from 3.9.
        PERSISTENT_RECURSIVE = 5 "persistent recursive",
    }
}
