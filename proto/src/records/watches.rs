//! The records of requests that set, restore, check and remove watches.

use alloc::{string::String, vec::Vec};

use crate::{AddWatchMode, ErrorCode, WatcherType, Zxid, jute::record};

record! {
    /// Sets one-shot watches again after a reconnect.
    ///
    /// If a watched node has changed since `relative_zxid`, the server sends the event before the
    /// reply.
    pub struct SetWatches {
        /// The last transaction that the client has seen.
        pub relative_zxid: Zxid,
        /// Watches of `getData`, and of `exists` on a node that existed.
        pub data_watches: Vec<String>,
        /// Watches of `exists` on a node that did not exist.
        pub exist_watches: Vec<String>,
        /// Watches of `getChildren`.
        pub child_watches: Vec<String>,
    }

    /// Sets watches again as [`SetWatches`] does, and also persistent ones. The server sends no
    /// catch-up events for persistent watches.
    #[derive(Default)]
    pub struct SetWatches2 {
        /// The last transaction that the client has seen.
        pub relative_zxid: Zxid,
        /// Watches of `getData`, and of `exists` on a node that existed.
        pub data_watches: Vec<String>,
        /// Watches of `exists` on a node that did not exist.
        pub exist_watches: Vec<String>,
        /// Watches of `getChildren`.
        pub child_watches: Vec<String>,
        /// Persistent watches.
        pub persistent_watches: Vec<String>,
        /// Persistent recursive watches.
        pub persistent_recursive_watches: Vec<String>,
    }

    /// Sets a persistent watch.
    pub struct AddWatchRequest {
        /// The path to watch. The node need not exist.
        pub path: String,
        /// The kind of watch.
        pub mode: AddWatchMode,
    }

    /// The reply to a successful `addWatch`: an error code, which is 0.
    #[derive(Copy)]
    pub struct ErrorResponse {
        /// The code.
        pub err: ErrorCode,
    }

    /// Asks whether the connection has such a watch.
    pub struct CheckWatchesRequest {
        /// The watched path.
        pub path: String,
        /// The kind of watch.
        pub watcher_type: WatcherType,
    }

    /// Removes the connection's watches of one kind.
    pub struct RemoveWatchesRequest {
        /// The watched path.
        pub path: String,
        /// The kind of watch.
        pub watcher_type: WatcherType,
    }
}
