//! The error codes of replies, as one table.
//!
//! Source: `KeeperException.Code`. The table leaves out the codes that only mark a range, and the one
//! for a wrong callback. Of the codes that clients make, and no server sends, the table says so.

use crate::ids::wire_enum;

wire_enum! {
    /// The result of a request: 0 for success, or the reason why the server refused it.
    ///
    /// A code that is not in this table is kept, and prints as a number.
    ErrorCode {
        /// Success.
        OK = 0 "ok",
        /// In a multi: the server did not attempt the operation, because another operation failed.
        RUNTIME_INCONSISTENCY = -2 "runtime inconsistency",
        /// Two replicas disagree; not sent in practice.
        DATA_INCONSISTENCY = -3 "data inconsistency",
        /// The connection was lost. Java clients create this code; servers do not send it.
        CONNECTION_LOSS = -4 "connection loss",
        /// The server could not decode the request, or failed in an unexpected way.
        MARSHALLING_ERROR = -5 "marshalling error",
        /// The server does not know the operation, and closes the connection; or the operation is
        /// switched off.
        UNIMPLEMENTED = -6 "unimplemented",
        /// An operation took too long. Java clients create this code; servers do not send it.
        OPERATION_TIMEOUT = -7 "operation timeout",
        /// A bad path, create mode or TTL.
        BAD_ARGUMENTS = -8 "bad arguments",
        /// The session is unknown to the server.
        UNKNOWN_SESSION = -12 "unknown session",
        /// No quorum of the new configuration is ready.
        NEW_CONFIG_NO_QUORUM = -13 "no quorum of the new configuration",
        /// Another reconfiguration is running.
        RECONFIG_IN_PROGRESS = -14 "reconfiguration in progress",
        /// The node, or the parent of a node to create, does not exist.
        NO_NODE = -101 "no node",
        /// The ACL does not permit the request.
        NO_AUTH = -102 "not authorized",
        /// The node's version differs from the version in the request.
        BAD_VERSION = -103 "bad version",
        /// The parent is ephemeral, and ephemeral nodes have no children.
        NO_CHILDREN_FOR_EPHEMERALS = -108 "ephemeral nodes have no children",
        /// The node exists.
        NODE_EXISTS = -110 "node exists",
        /// The node has children.
        NOT_EMPTY = -111 "not empty",
        /// The session has expired.
        SESSION_EXPIRED = -112 "session expired",
        /// The ACL list is empty, null or invalid.
        INVALID_ACL = -114 "invalid ACL",
        /// Authentication failed. The server closes the connection.
        AUTH_FAILED = -115 "authentication failed",
        /// The session has moved to another server. Servers close the connection in its place.
        SESSION_MOVED = -118 "session moved",
        /// The request is a write or a sync, and the server is read-only.
        NOT_READ_ONLY = -119 "server is read-only",
        /// The request creates an ephemeral node in a local session that cannot be upgraded.
        EPHEMERAL_ON_LOCAL_SESSION = -120 "ephemeral node on a local session",
        /// The connection has no such watch.
        NO_WATCHER = -121 "no such watch",
        /// A request took too long. Java clients create this code; servers do not send it.
        REQUEST_TIMEOUT = -122 "request timeout",
        /// Reconfiguration is switched off.
        RECONFIG_DISABLED = -123 "reconfiguration is disabled",
        /// The server requires authentication, and the connection has none. The server closes the
        /// connection.
        SESSION_CLOSED_REQUIRE_SASL_AUTH = -124 "authentication required",
        /// The request exceeds a hard quota.
        QUOTA_EXCEEDED = -125 "quota exceeded",
        /// The request waited too long and was not executed.
        THROTTLED_OP = -127 "throttled",
    }
}

impl ErrorCode {
    /// Whether the code means success.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
