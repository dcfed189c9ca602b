//! The records of requests that create, read, change and delete nodes, and of their replies.

use alloc::{string::String, vec::Vec};

use bytes::Bytes;

use crate::{
    Acl, Acls, Stat, Version,
    jute::{Names, record},
};

record! {
    /// Creates a node.
    pub struct CreateRequest {
        /// The path of the node. In a sequential mode, the server appends a number to it.
        pub path: String,
        /// The node's data; null stays null.
        pub data: Option<Bytes>,
        /// Who may do what. Servers refuse null and an empty list.
        pub acl: Option<Acls>,
        /// See [`CreateMode::flags`](crate::CreateMode::flags).
        pub flags: i32,
    }

    /// Creates a node with a time to live.
    pub struct CreateTtlRequest {
        /// The path of the node. In a sequential mode, the server appends a number to it.
        pub path: String,
        /// The node's data; null stays null.
        pub data: Option<Bytes>,
        /// Who may do what. Servers refuse null and an empty list.
        pub acl: Option<Acls>,
        /// 5, or 6 for a sequential node.
        pub flags: i32,
        /// Milliseconds, 1 to 2^40-1.
        pub ttl_ms: i64,
    }

    /// The path of the created node.
    pub struct CreateResponse {
        /// The path, including the number of a sequential node.
        pub path: String,
    }

    /// The path and the metadata of the created node.
    pub struct Create2Response {
        /// The path, including the number of a sequential node.
        pub path: String,
        /// The metadata.
        pub stat: Stat,
    }

    /// Deletes a node.
    pub struct DeleteRequest {
        /// The path of the node.
        pub path: String,
        /// The version that the node's data must have.
        pub version: Version,
    }

    /// In a multi: the node must exist and have this version.
    pub struct CheckVersionRequest {
        /// The path of the node.
        pub path: String,
        /// The version that the node's data must have.
        pub version: Version,
    }

    /// Reads a node's metadata. The server sets the watch even if the node does not exist.
    pub struct ExistsRequest {
        /// The path of the node.
        pub path: String,
        /// Whether to set a watch.
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
        /// The path of the node.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }

    /// A node's data and metadata.
    pub struct GetDataResponse {
        /// The node's data. It shares the memory of the frame.
        pub data: Option<Bytes>,
        /// The metadata.
        pub stat: Stat,
    }

    /// Sets a node's data.
    pub struct SetDataRequest {
        /// The path of the node.
        pub path: String,
        /// The new data; null stays null.
        pub data: Option<Bytes>,
        /// The version that the node's data must have.
        pub version: Version,
    }

    /// Reads a node's ACL.
    pub struct GetAclRequest {
        /// The path of the node.
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
        /// The path of the node.
        pub path: String,
        /// Who may do what. Servers refuse null and an empty list.
        pub acl: Option<Acls>,
        /// The `aversion` that the node must have.
        pub version: Version,
    }

    /// Lists a node's children.
    pub struct GetChildrenRequest {
        /// The path of the node.
        pub path: String,
        /// Whether to set a watch.
        pub watch: bool,
    }

    /// A node's children.
    pub struct GetChildrenResponse {
        /// The names of the children, in no particular order. They share the memory of the frame.
        pub children: Names,
    }

    /// A node's children and metadata.
    pub struct GetChildren2Response {
        /// The names of the children, in no particular order. They share the memory of the frame.
        pub children: Names,
        /// The metadata.
        pub stat: Stat,
    }

    /// Counts everything below a node.
    pub struct GetAllChildrenNumberRequest {
        /// The path of the node.
        pub path: String,
    }

    /// How many nodes are below a node.
    #[derive(Copy)]
    pub struct GetAllChildrenNumberResponse {
        /// The count.
        pub total_number: i32,
    }

    /// Lists the ephemeral nodes of the session that sends the request.
    pub struct GetEphemeralsRequest {
        /// The reply has only paths that start with this text. Null, empty and `/` mean all paths.
        pub prefix_path: Option<String>,
    }

    /// Paths of ephemeral nodes.
    pub struct GetEphemeralsResponse {
        /// The paths, in no particular order.
        pub ephemerals: Vec<String>,
    }

    /// Brings the server up to date with its leader.
    pub struct SyncRequest {
        /// Any path. The server only copies it to the reply.
        pub path: String,
    }

    /// The reply to a [`SyncRequest`].
    pub struct SyncResponse {
        /// The path of the request.
        pub path: String,
    }
}
