//! Watch events and the constants of the watch operations.

use alloc::string::String;

use crate::{ids::wire_enum, jute::record};

record! {
    /// What a notification (xid -1) says.
    pub struct WatcherEvent {
        /// What happened.
        pub event_type: EventType,
        /// The state of the session; always `SYNC_CONNECTED` from a server.
        pub state: KeeperState,
        /// The node, as a server path (with the chroot).
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
        /// Connected: what servers send.
        SYNC_CONNECTED = 3 "connected",
    }
}

wire_enum! {
    /// The mode of an `addWatch`.
    AddWatchMode {
        /// Stays until removed; data and children of the node itself.
        PERSISTENT = 0 "persistent",
        /// Stays until removed; the node and everything below it.
        PERSISTENT_RECURSIVE = 1 "persistent recursive",
    }
}

wire_enum! {
    /// Which watches `checkWatches` and `removeWatches` mean.
    WatcherType {
        /// Child watches.
        CHILDREN = 1 "children",
        /// Data watches, those of `exists` included.
        DATA = 2 "data",
        /// Every kind.
        ANY = 3 "any",
        /// Persistent watches; servers from 3.9.
        PERSISTENT = 4 "persistent",
        /// Persistent recursive watches; servers from 3.9.
        PERSISTENT_RECURSIVE = 5 "persistent recursive",
    }
}
