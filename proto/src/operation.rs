//! The table of operations: the opcode, request record and reply record of each operation.
//!
//! [`Request`] and [`Response`] are generated from the table. To add an operation, add its constant to [`OpCode`] and one
//! line to the table.
//! Not here: the records themselves (`records`).

#[allow(
    clippy::wildcard_imports,
    reason = "the table names nearly every record once"
)]
use crate::records::*;
use crate::{
    ids::wire_enum,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer},
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
        /// Not an operation: the type of a failed result inside a multi, and of the header that ends a multi.
        ERROR = -1 "error",
    }
}

impl OpCode {
    /// The first release of `ZooKeeper` whose servers know the operation; `None` for operations older than 3.4.
    ///
    /// Source: `ZooDefs.OpCode` at the release tags.
    #[must_use]
    pub fn since(self) -> Option<&'static str> {
        Some(match self {
            Self::CHECK | Self::MULTI | Self::SASL => "3.4.0",
            Self::CREATE2 | Self::RECONFIG | Self::CHECK_WATCHES | Self::REMOVE_WATCHES => "3.5.0",
            Self::CREATE_CONTAINER | Self::DELETE_CONTAINER => "3.5.1",
            Self::CREATE_TTL => "3.5.3",
            Self::MULTI_READ
            | Self::GET_EPHEMERALS
            | Self::GET_ALL_CHILDREN_NUMBER
            | Self::SET_WATCHES2
            | Self::ADD_WATCH => "3.6.0",
            Self::WHO_AM_I => "3.7.0",
            _ => return None,
        })
    }
}

macro_rules! operations {
    ($($variant:ident = $op:ident, $request:ty => $response:ty;)*) => {
        /// A request, without its header.
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum Request {
            $(#[doc = concat!("[`OpCode::", stringify!($op), "`].")] $variant($request),)*
        }

        /// The body of a successful reply. Each variant has the name of the request that it answers.
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

            /// Reads the body of a request. The bytes after it stay in the reader.
            ///
            /// # Errors
            /// `Unknown` for an operation that clients do not send; otherwise the error of the record.
            pub fn decode(op: OpCode, reader: &mut Reader) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => <$request>::decode(reader).map(Self::$variant),)*
                    _ => Err(reader.error(DecodeErrorKind::Unknown(op.0))),
                }
            }
        }

        impl Encode for Request {
            fn encode(&self, writer: &mut Writer<'_>) {
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
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                }
            }
        }
    };
}

operations! {
    Create = CREATE, CreateRequest => CreateResponse;
    Create2 = CREATE2, CreateRequest => Create2Response;
    CreateContainer = CREATE_CONTAINER, CreateRequest => Create2Response;
    CreateTtl = CREATE_TTL, CreateTtlRequest => Create2Response;
    Delete = DELETE, DeleteRequest => Empty;
    Exists = EXISTS, ExistsRequest => StatResponse;
    GetData = GET_DATA, GetDataRequest => GetDataResponse;
    SetData = SET_DATA, SetDataRequest => StatResponse;
    GetAcl = GET_ACL, GetAclRequest => GetAclResponse;
    SetAcl = SET_ACL, SetAclRequest => StatResponse;
    GetChildren = GET_CHILDREN, GetChildrenRequest => GetChildrenResponse;
    GetChildren2 = GET_CHILDREN2, GetChildrenRequest => GetChildren2Response;
    GetAllChildrenNumber = GET_ALL_CHILDREN_NUMBER, GetAllChildrenNumberRequest => GetAllChildrenNumberResponse;
    GetEphemerals = GET_EPHEMERALS, GetEphemeralsRequest => GetEphemeralsResponse;
    Sync = SYNC, SyncRequest => SyncResponse;
    Ping = PING, Empty => Empty;
    Check = CHECK, CheckVersionRequest => Empty;
    Multi = MULTI, MultiRequest => MultiResponse;
    MultiRead = MULTI_READ, MultiReadRequest => MultiResponse;
    Reconfig = RECONFIG, ReconfigRequest => GetDataResponse;
    SetWatches = SET_WATCHES, SetWatches => Empty;
    SetWatches2 = SET_WATCHES2, SetWatches2 => Empty;
    AddWatch = ADD_WATCH, AddWatchRequest => ErrorResponse;
    CheckWatches = CHECK_WATCHES, CheckWatchesRequest => Empty;
    RemoveWatches = REMOVE_WATCHES, RemoveWatchesRequest => Empty;
    Auth = AUTH, AuthPacket => Empty;
    Sasl = SASL, SaslRequest => SaslResponse;
    WhoAmI = WHO_AM_I, Empty => WhoAmIResponse;
    CloseSession = CLOSE_SESSION, Empty => Empty;
}

impl Request {
    /// The only node that the request is about; `None` for a request about several nodes, or about none.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        Some(match self {
            Self::Create(r) | Self::Create2(r) | Self::CreateContainer(r) => &r.path,
            Self::CreateTtl(r) => &r.path,
            Self::Delete(r) => &r.path,
            Self::Exists(r) => &r.path,
            Self::GetData(r) => &r.path,
            Self::SetData(r) => &r.path,
            Self::GetAcl(r) => &r.path,
            Self::SetAcl(r) => &r.path,
            Self::GetChildren(r) | Self::GetChildren2(r) => &r.path,
            Self::GetAllChildrenNumber(r) => &r.path,
            Self::Sync(r) => &r.path,
            Self::Check(r) => &r.path,
            Self::AddWatch(r) => &r.path,
            Self::CheckWatches(r) => &r.path,
            Self::RemoveWatches(r) => &r.path,
            _ => return None,
        })
    }
}
