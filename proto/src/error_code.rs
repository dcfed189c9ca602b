//! The error codes of replies, as one table.
//!
//! Source: `KeeperException.Code`. Codes that only clients make up are left out: this client has an error type for that.

use crate::ids::wire_enum;

wire_enum! {
    /// Why a server refused a request. 0 is success; a code that this table lacks is kept and prints.
    ErrorCode {
        /// Success.
        OK = 0 "ok",
        /// In a multi: the operation was not attempted because another one failed.
        RUNTIME_INCONSISTENCY = -2 "runtime inconsistency",
        /// Two replicas disagree; not sent in practice.
        DATA_INCONSISTENCY = -3 "data inconsistency",
        /// The server lost its connection to the leader.
        CONNECTION_LOSS = -4 "connection loss",
        /// The server could not decode the request, or failed in an unexpected way.
        MARSHALLING_ERROR = -5 "marshalling error",
        /// The server does not know the operation (it then closes the connection), or it is switched off.
        UNIMPLEMENTED = -6 "unimplemented",
        /// An operation took too long.
        OPERATION_TIMEOUT = -7 "operation timeout",
        /// A bad path, create mode or TTL.
        BAD_ARGUMENTS = -8 "bad arguments",
        /// The session is unknown to the server.
        UNKNOWN_SESSION = -12 "unknown session",
        /// A reconfiguration for which no quorum is ready.
        NEW_CONFIG_NO_QUORUM = -13 "no quorum of the new configuration",
        /// A reconfiguration while another one runs.
        RECONFIG_IN_PROGRESS = -14 "reconfiguration in progress",
        /// The node, or the parent of a node to create, does not exist.
        NO_NODE = -101 "no node",
        /// The ACL denies it.
        NO_AUTH = -102 "not authorized",
        /// The version that the request names is not the node's.
        BAD_VERSION = -103 "bad version",
        /// The parent is ephemeral, and ephemeral nodes have no children.
        NO_CHILDREN_FOR_EPHEMERALS = -108 "ephemeral nodes have no children",
        /// The node exists.
        NODE_EXISTS = -110 "node exists",
        /// The node has children.
        NOT_EMPTY = -111 "not empty",
        /// The session is over.
        SESSION_EXPIRED = -112 "session expired",
        /// An ACL list that is empty, null or not understood.
        INVALID_ACL = -114 "invalid ACL",
        /// Authentication failed; the connection is closed.
        AUTH_FAILED = -115 "authentication failed",
        /// The session has moved to another server.
        SESSION_MOVED = -118 "session moved",
        /// A write, or a sync, on a read-only server.
        NOT_READ_ONLY = -119 "server is read-only",
        /// An ephemeral node in a local session that cannot be upgraded.
        EPHEMERAL_ON_LOCAL_SESSION = -120 "ephemeral node on a local session",
        /// No such watch.
        NO_WATCHER = -121 "no such watch",
        /// A request took too long (made by Java clients).
        REQUEST_TIMEOUT = -122 "request timeout",
        /// Reconfiguration is switched off.
        RECONFIG_DISABLED = -123 "reconfiguration is disabled",
        /// The server demands authentication that the connection lacks; it is closed.
        SESSION_CLOSED_REQUIRE_SASL_AUTH = -124 "authentication required",
        /// A hard quota is used up.
        QUOTA_EXCEEDED = -125 "quota exceeded",
        /// The request waited too long and was not executed.
        THROTTLED_OP = -127 "throttled",
    }
}

impl ErrorCode {
    /// Whether the code says success.
    #[must_use]
    pub fn is_ok(self) -> bool {
        self == Self::OK
    }
}
