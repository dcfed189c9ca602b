//! Leaving, restoring and removing watches.

use alloc::{string::String, vec::Vec};

use crate::{AddWatchMode, ErrorCode, WatcherType, Zxid, jute::record};

record! {
    /// Registers one-shot watches after a reconnect; what changed meanwhile comes back as events before the reply.
    pub struct SetWatches {
        /// The last transaction that the client had seen.
        pub relative_zxid: Zxid,
        /// Watches of `getData`, and of `exists` on a node that was there.
        pub data_watches: Vec<String>,
        /// Watches of `exists` on a node that was not there.
        pub exist_watches: Vec<String>,
        /// Watches of `getChildren`.
        pub child_watches: Vec<String>,
    }

    /// As [`SetWatches`], with the persistent kinds, for which there are no catch-up events.
    pub struct SetWatches2 {
        /// The last transaction that the client had seen.
        pub relative_zxid: Zxid,
        /// Watches of `getData`, and of `exists` on a node that was there.
        pub data_watches: Vec<String>,
        /// Watches of `exists` on a node that was not there.
        pub exist_watches: Vec<String>,
        /// Watches of `getChildren`.
        pub child_watches: Vec<String>,
        /// Persistent watches.
        pub persistent_watches: Vec<String>,
        /// Persistent recursive watches.
        pub persistent_recursive_watches: Vec<String>,
    }

    /// Leaves a persistent watch.
    pub struct AddWatchRequest {
        /// Where; the node need not exist.
        pub path: String,
        /// Which kind.
        pub mode: AddWatchMode,
    }

    /// What `addWatch` answers: an error code, 0.
    #[derive(Copy)]
    pub struct ErrorResponse {
        /// The code.
        pub err: ErrorCode,
    }

    /// Asks whether there is such a watch.
    pub struct CheckWatchesRequest {
        /// Where.
        pub path: String,
        /// Which kind.
        pub watcher_type: WatcherType,
    }

    /// Removes the connection's watches of one kind.
    pub struct RemoveWatchesRequest {
        /// Where.
        pub path: String,
        /// Which kind.
        pub watcher_type: WatcherType,
    }
}
