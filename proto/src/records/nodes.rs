//! Creating, reading, changing and deleting nodes.

use alloc::{string::String, vec::Vec};

use bytes::Bytes;

use crate::{Acl, Acls, Stat, Version, jute::record};

record! {
    /// Asks for a node.
    pub struct CreateRequest {
        /// Where; a sequential mode appends its number to it.
        pub path: String,
        /// The node's data; null stays null.
        pub data: Option<Bytes>,
        /// Who may do what; servers refuse null and empty.
        pub acl: Option<Acls>,
        /// See [`CreateMode::flags`](crate::CreateMode::flags).
        pub flags: i32,
    }

    /// Asks for a node with a time to live.
    pub struct CreateTtlRequest {
        /// Where; a sequential mode appends its number to it.
        pub path: String,
        /// The node's data; null stays null.
        pub data: Option<Bytes>,
        /// Who may do what; servers refuse null and empty.
        pub acl: Option<Acls>,
        /// 5, or 6 for a sequential node.
        pub flags: i32,
        /// Milliseconds, 1 to 2^40-1.
        pub ttl_ms: i64,
    }

    /// The node that was created.
    pub struct CreateResponse {
        /// Its path, with its number where it has one.
        pub path: String,
    }

    /// The node that was created, with its metadata.
    pub struct Create2Response {
        /// Its path, with its number where it has one.
        pub path: String,
        /// Its metadata.
        pub stat: Stat,
    }

    /// Deletes a node.
    pub struct DeleteRequest {
        /// Which.
        pub path: String,
        /// The version that its data must have.
        pub version: Version,
    }

    /// In a multi: the node must be there and have this version.
    pub struct CheckVersionRequest {
        /// Which.
        pub path: String,
        /// The version that its data must have.
        pub version: Version,
    }

    /// Reads a node's metadata; a watch is left even when it does not exist.
    pub struct ExistsRequest {
        /// Which.
        pub path: String,
        /// Whether to leave a watch.
        pub watch: bool,
    }

    /// A node's metadata.
    #[derive(Copy)]
    pub struct StatResponse {
        /// The metadata.
        pub stat: Stat,
    }

    /// Reads a node.
    pub struct GetDataRequest {
        /// Which.
        pub path: String,
        /// Whether to leave a watch.
        pub watch: bool,
    }

    /// A node's data and metadata.
    pub struct GetDataResponse {
        /// Shares the memory of the frame that it came in.
        pub data: Option<Bytes>,
        /// The metadata.
        pub stat: Stat,
    }

    /// Sets a node's data.
    pub struct SetDataRequest {
        /// Which.
        pub path: String,
        /// The new data; null stays null.
        pub data: Option<Bytes>,
        /// The version that its data must have.
        pub version: Version,
    }

    /// Reads a node's ACL.
    pub struct GetAclRequest {
        /// Which.
        pub path: String,
    }

    /// A node's ACL and metadata.
    pub struct GetAclResponse {
        /// Who may do what.
        pub acl: Vec<Acl>,
        /// The metadata.
        pub stat: Stat,
    }

    /// Sets a node's ACL.
    pub struct SetAclRequest {
        /// Which.
        pub path: String,
        /// Who may do what; servers refuse null and empty.
        pub acl: Option<Acls>,
        /// The `aversion` that it must have.
        pub version: Version,
    }

    /// Lists a node's children.
    pub struct GetChildrenRequest {
        /// Which.
        pub path: String,
        /// Whether to leave a watch.
        pub watch: bool,
    }

    /// A node's children.
    pub struct GetChildrenResponse {
        /// Their names, in no order.
        pub children: Vec<String>,
    }

    /// A node's children and metadata.
    pub struct GetChildren2Response {
        /// Their names, in no order.
        pub children: Vec<String>,
        /// The metadata.
        pub stat: Stat,
    }

    /// Counts everything below a node.
    pub struct GetAllChildrenNumberRequest {
        /// Which.
        pub path: String,
    }

    /// How many nodes are below.
    #[derive(Copy)]
    pub struct GetAllChildrenNumberResponse {
        /// The count.
        pub total_number: i32,
    }

    /// Lists the ephemeral nodes of the session that asks.
    pub struct GetEphemeralsRequest {
        /// A plain prefix of their paths; null, empty and `/` mean all.
        pub prefix_path: Option<String>,
    }

    /// Paths of ephemeral nodes.
    pub struct GetEphemeralsResponse {
        /// The paths, in no order.
        pub ephemerals: Vec<String>,
    }

    /// Brings the server up to date with its leader.
    pub struct SyncRequest {
        /// Echoed; servers do not look at it.
        pub path: String,
    }

    /// The echo.
    pub struct SyncResponse {
        /// The path of the request.
        pub path: String,
    }
}
