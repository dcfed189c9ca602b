//! The table of operations: of each its opcode, its class, the first release that knows it, and its
//! records.
//!
//! [`Request`] and [`Response`], and what the client and the embedded server must know of an
//! operation, are generated from the table. To add an operation, add its constant to [`OpCode`] and
//! one line to the table. Not here: the records themselves (`records`).

#[allow(
    clippy::wildcard_imports,
    reason = "the table names nearly every record once"
)]
use crate::records::*;
use crate::{
    ids::wire_enum,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Sink, Writer},
    multi::{MultiReadRequest, MultiRequest, MultiResponse},
};

wire_enum! {
    /// The operation that a request asks for.
    OpCode {
        /// Only from server to client.
        NOTIFICATION = 0 "notification",
        /// Creates a node and returns its path.
        CREATE = 1 "create",
        /// Deletes a node.
        DELETE = 2 "delete",
        /// Reads a node's metadata.
        EXISTS = 3 "exists",
        /// Reads a node.
        GET_DATA = 4 "getData",
        /// Sets a node's data.
        SET_DATA = 5 "setData",
        /// Reads a node's ACL.
        GET_ACL = 6 "getACL",
        /// Sets a node's ACL.
        SET_ACL = 7 "setACL",
        /// Lists children.
        GET_CHILDREN = 8 "getChildren",
        /// Brings the server up to date with its leader.
        SYNC = 9 "sync",
        /// Keeps the session alive.
        PING = 11 "ping",
        /// Lists children and reads the node's metadata.
        GET_CHILDREN2 = 12 "getChildren2",
        /// Checks a node's version. Allowed only inside a multi.
        CHECK = 13 "check",
        /// A transaction.
        MULTI = 14 "multi",
        /// Creates a node and returns its path and metadata.
        CREATE2 = 15 "create2",
        /// Changes the ensemble.
        RECONFIG = 16 "reconfig",
        /// Asks whether a watch exists.
        CHECK_WATCHES = 17 "checkWatches",
        /// Removes watches.
        REMOVE_WATCHES = 18 "removeWatches",
        /// Creates a container.
        CREATE_CONTAINER = 19 "createContainer",
        /// Only between servers: with it, any client could delete any node that has no children.
        DELETE_CONTAINER = 20 "deleteContainer",
        /// Creates a node with a time to live.
        CREATE_TTL = 21 "createTTL",
        /// Several reads at once.
        MULTI_READ = 22 "multiRead",
        /// Adds an identity to the connection.
        AUTH = 100 "auth",
        /// Restores one-shot watches.
        SET_WATCHES = 101 "setWatches",
        /// A step of a SASL exchange.
        SASL = 102 "sasl",
        /// Lists the session's ephemeral nodes.
        GET_EPHEMERALS = 103 "getEphemerals",
        /// Counts descendants.
        GET_ALL_CHILDREN_NUMBER = 104 "getAllChildrenNumber",
        /// Restores watches of all kinds.
        SET_WATCHES2 = 105 "setWatches2",
        /// Sets a persistent watch.
        ADD_WATCH = 106 "addWatch",
        /// Returns the identities of the connection.
        WHO_AM_I = 107 "whoAmI",
        /// Only between servers.
        CREATE_SESSION = -10 "createSession",
        /// Ends the session.
        CLOSE_SESSION = -11 "closeSession",
        /// Not an operation: the type of a failed result inside a multi, and of the header that
        /// ends a multi.
        ERROR = -1 "error",
    }
}

/// What an operation does, and so what may have become of it when its reply is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Class {
    /// It creates a node, in a transaction.
    Create,
    /// It changes or deletes nodes, in a transaction.
    Change,
    /// It changes the ensemble, or ends a session: a transaction that touches no node of its own.
    Transaction,
    /// A server answers it from its copy of the tree, and nothing changes.
    Read,
    /// It changes what a server keeps for the connection, or changes nothing.
    Connection,
    /// It is a part of a transaction, and no request.
    Part,
}

impl OpCode {
    /// Whether the operation creates a node.
    #[must_use]
    pub fn is_create(self) -> bool {
        self.class() == Some(Class::Create)
    }

    /// Whether the operation changes nodes: the leader handles it, and a majority takes part.
    #[must_use]
    pub fn is_write(self) -> bool {
        matches!(self.class(), Some(Class::Create | Class::Change))
    }

    /// Whether the operation takes a transaction.
    #[must_use]
    pub fn is_transaction(self) -> bool {
        self.is_write() || self.class() == Some(Class::Transaction)
    }

    /// Whether a server answers the operation to clients.
    #[must_use]
    pub fn is_request(self) -> bool {
        self.class().is_some_and(|class| class != Class::Part)
    }
}

macro_rules! operations {
    ($($variant:ident = $op:ident $class:ident $since:tt, $request:ident $(.$path:ident)? => $response:ty;)*) => {
        impl OpCode {
            /// What the operation does; `None` for an operation that no client asks for.
            #[must_use]
            pub fn class(self) -> Option<Class> {
                Some(match self {
                    $(Self::$op => Class::$class,)*
                    _ => return None,
                })
            }

            /// The first release of `ZooKeeper` whose servers know the operation; `None` for an
            /// operation older than 3.4, or one that no client asks for.
            ///
            /// Source: `ZooDefs.OpCode` at the release tags.
            #[must_use]
            pub fn since(self) -> Option<&'static str> {
                match self {
                    $(Self::$op => operations!(@since $since),)*
                    _ => None,
                }
            }
        }

        /// A request, without its header.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Request {
            $(#[doc = concat!("[`OpCode::", stringify!($op), "`].")] $variant($request),)*
        }

        /// The body of a successful reply. Each variant has the name of the request that it
        /// answers.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Response {
            $(#[doc = concat!("The reply to [`OpCode::", stringify!($op), "`].")] $variant($response),)*
        }

        impl Request {
            /// The operation that the request asks for.
            #[must_use]
            pub fn op(&self) -> OpCode {
                match self {
                    $(Self::$variant(_) => OpCode::$op,)*
                }
            }

            /// The only node that the request is about; `None` for a request about several nodes,
            /// or about none.
            #[must_use]
            pub fn path(&self) -> Option<&str> {
                match self {
                    $($(Self::$variant(record) => Some(&record.$path),)?)*
                    _ => None,
                }
            }

            /// Reads the body of a request. The bytes after it stay in the reader.
            ///
            /// # Errors
            /// `Unknown` for an operation that clients do not send; otherwise the error of the
            /// record.
            pub fn decode(op: OpCode, reader: &mut Reader) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => <$request>::decode(reader).map(Self::$variant),)*
                    _ => Err(reader.error(DecodeErrorKind::Unknown(op.0))),
                }
            }
        }

        impl Encode for Request {
            fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                }
            }
        }

        impl Response {
            /// The operation that the reply answers.
            #[must_use]
            pub fn op(&self) -> OpCode {
                match self {
                    $(Self::$variant(_) => OpCode::$op,)*
                }
            }

            /// Reads the body of a successful reply to `op`.
            ///
            /// The bytes after it stay in the reader, because newer servers may add fields.
            ///
            /// # Errors
            /// `Unknown` for an operation that has no reply; otherwise the error of the record.
            pub fn decode(op: OpCode, reader: &mut Reader) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => <$response>::decode(reader).map(Self::$variant),)*
                    _ => Err(reader.error(DecodeErrorKind::Unknown(op.0))),
                }
            }
        }

        impl Encode for Response {
            fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                }
            }
        }
    };
    (@since _) => { None };
    (@since $release:literal) => { Some($release) };
}

operations! {
    Create = CREATE Create _, CreateRequest .path => CreateResponse;
    Create2 = CREATE2 Create "3.5.0", CreateRequest .path => Create2Response;
    CreateContainer = CREATE_CONTAINER Create "3.5.1", CreateRequest .path => Create2Response;
    CreateTtl = CREATE_TTL Create "3.5.3", CreateTtlRequest .path => Create2Response;
    Delete = DELETE Change _, DeleteRequest .path => Empty;
    Exists = EXISTS Read _, ExistsRequest .path => StatResponse;
    GetData = GET_DATA Read _, GetDataRequest .path => GetDataResponse;
    SetData = SET_DATA Change _, SetDataRequest .path => StatResponse;
    GetAcl = GET_ACL Read _, GetAclRequest .path => GetAclResponse;
    SetAcl = SET_ACL Change _, SetAclRequest .path => StatResponse;
    GetChildren = GET_CHILDREN Read _, GetChildrenRequest .path => GetChildrenResponse;
    GetChildren2 = GET_CHILDREN2 Read _, GetChildrenRequest .path => GetChildren2Response;
    GetAllChildrenNumber = GET_ALL_CHILDREN_NUMBER Read "3.6.0", GetAllChildrenNumberRequest .path => GetAllChildrenNumberResponse;
    GetEphemerals = GET_EPHEMERALS Read "3.6.0", GetEphemeralsRequest => GetEphemeralsResponse;
    Sync = SYNC Connection _, SyncRequest .path => SyncResponse;
    Ping = PING Connection _, Empty => Empty;
    Check = CHECK Part "3.4.0", CheckVersionRequest .path => Empty;
    Multi = MULTI Change "3.4.0", MultiRequest => MultiResponse;
    MultiRead = MULTI_READ Read "3.6.0", MultiReadRequest => MultiResponse;
    Reconfig = RECONFIG Transaction "3.5.0", ReconfigRequest => GetDataResponse;
    SetWatches = SET_WATCHES Connection _, SetWatches => Empty;
    SetWatches2 = SET_WATCHES2 Connection "3.6.0", SetWatches2 => Empty;
    AddWatch = ADD_WATCH Connection "3.6.0", AddWatchRequest .path => ErrorResponse;
    CheckWatches = CHECK_WATCHES Read "3.5.0", CheckWatchesRequest .path => Empty;
    RemoveWatches = REMOVE_WATCHES Connection "3.5.0", RemoveWatchesRequest .path => Empty;
    Auth = AUTH Connection _, AuthPacket => Empty;
    Sasl = SASL Connection "3.4.0", SaslRequest => SaslResponse;
    WhoAmI = WHO_AM_I Read "3.7.0", Empty => WhoAmIResponse;
    CloseSession = CLOSE_SESSION Transaction _, Empty => Empty;
}
