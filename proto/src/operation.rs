//! The table of operations: of each its opcode, its name, its class, the first release that knows
//! it, and its records.
//!
//! [`Request`] and [`Response`], and what the client and the embedded server must know of an
//! operation, are generated from the table. To add an operation, add its row. Not here: the records
//! themselves (`records`).

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
    #[inline]
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
    (
        operations {
            $($(#[$doc:meta])*
            $op:ident = $number:literal $name:literal $class:ident $since:tt,
            $variant:ident $request:ident $(.$path:ident)? => $response:ty;)*
        }
        others { $($(#[$other_doc:meta])* $other:ident = $other_number:literal $other_name:literal,)* }
    ) => {
        wire_enum! {
            /// The operation that a request asks for.
            OpCode {
                $($(#[$doc])* $op = $number $name,)*
                $($(#[$other_doc])* $other = $other_number $other_name,)*
            }
        }

        impl OpCode {
            /// What the operation does; `None` for an operation that no client asks for.
            #[must_use]
            #[inline]
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

        operations! {
            @bodies
            /// A request, without its header.
            Request { $($op $variant $request;)* }
        }

        operations! {
            @bodies
            /// The body of a successful reply. Each variant has the name of the request that it
            /// answers.
            Response { $($op $variant $response;)* }
        }

        impl Request {
            /// The only node that the request is about; `None` for a request about several nodes,
            /// or about none.
            #[must_use]
            pub fn path(&self) -> Option<&str> {
                match self {
                    $($(Self::$variant(record) => Some(&record.$path),)?)*
                    _ => None,
                }
            }
        }
    };
    (@since _) => { None };
    (@since $release:literal) => { Some($release) };
    (@bodies $(#[$meta:meta])* $body:ident { $($op:ident $variant:ident $record:ty;)* }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $body {
            $(#[doc = concat!("[`OpCode::", stringify!($op), "`].")] $variant($record),)*
        }

        impl $body {
            /// The operation.
            #[must_use]
            pub fn op(&self) -> OpCode {
                match self {
                    $(Self::$variant(_) => OpCode::$op,)*
                }
            }

            /// Reads the body of a message of this operation.
            ///
            /// The bytes after it stay in the reader, because newer servers may add fields.
            ///
            /// # Errors
            /// `Unknown` for an operation that clients do not ask for; otherwise the error of the
            /// record.
            pub fn decode(op: OpCode, reader: &mut Reader) -> Result<Self, DecodeError> {
                match op {
                    $(OpCode::$op => <$record>::decode(reader).map(Self::$variant),)*
                    _ => Err(reader.error(DecodeErrorKind::Unknown(op.0))),
                }
            }
        }

        impl Encode for $body {
            fn encode(&self, writer: &mut Writer<'_>) {
                match self {
                    $(Self::$variant(record) => record.encode(writer),)*
                }
            }
        }
    };
}

operations! {
    operations {
        /// Creates a node and returns its path.
        CREATE = 1 "create" Create _, Create CreateRequest .path => CreateResponse;
        /// Creates a node and returns its path and metadata.
        CREATE2 = 15 "create2" Create "3.5.0", Create2 CreateRequest .path => Create2Response;
        /// Creates a container.
        CREATE_CONTAINER = 19 "createContainer" Create "3.5.1", CreateContainer CreateRequest .path => Create2Response;
        /// Creates a node with a time to live.
        CREATE_TTL = 21 "createTTL" Create "3.5.3", CreateTtl CreateTtlRequest .path => Create2Response;
        /// Deletes a node.
        DELETE = 2 "delete" Change _, Delete DeleteRequest .path => Empty;
        /// Reads a node's metadata.
        EXISTS = 3 "exists" Read _, Exists ExistsRequest .path => StatResponse;
        /// Reads a node.
        GET_DATA = 4 "getData" Read _, GetData GetDataRequest .path => GetDataResponse;
        /// Sets a node's data.
        SET_DATA = 5 "setData" Change _, SetData SetDataRequest .path => StatResponse;
        /// Reads a node's ACL.
        GET_ACL = 6 "getACL" Read _, GetAcl GetAclRequest .path => GetAclResponse;
        /// Sets a node's ACL.
        SET_ACL = 7 "setACL" Change _, SetAcl SetAclRequest .path => StatResponse;
        /// Lists children.
        GET_CHILDREN = 8 "getChildren" Read _, GetChildren GetChildrenRequest .path => GetChildrenResponse;
        /// Lists children and reads the node's metadata.
        GET_CHILDREN2 = 12 "getChildren2" Read _, GetChildren2 GetChildrenRequest .path => GetChildren2Response;
        /// Counts descendants.
        GET_ALL_CHILDREN_NUMBER = 104 "getAllChildrenNumber" Read "3.6.0", GetAllChildrenNumber GetAllChildrenNumberRequest .path => GetAllChildrenNumberResponse;
        /// Lists the session's ephemeral nodes.
        GET_EPHEMERALS = 103 "getEphemerals" Read "3.6.0", GetEphemerals GetEphemeralsRequest => GetEphemeralsResponse;
        /// Brings the server up to date with its leader.
        SYNC = 9 "sync" Connection _, Sync SyncRequest .path => SyncResponse;
        /// Keeps the session alive.
        PING = 11 "ping" Connection _, Ping Empty => Empty;
        /// Checks a node's version. Allowed only inside a multi.
        CHECK = 13 "check" Part "3.4.0", Check CheckVersionRequest .path => Empty;
        /// A transaction.
        MULTI = 14 "multi" Change "3.4.0", Multi MultiRequest => MultiResponse;
        /// Several reads at once.
        MULTI_READ = 22 "multiRead" Read "3.6.0", MultiRead MultiReadRequest => MultiResponse;
        /// Changes the ensemble.
        RECONFIG = 16 "reconfig" Transaction "3.5.0", Reconfig ReconfigRequest => GetDataResponse;
        /// Restores one-shot watches.
        SET_WATCHES = 101 "setWatches" Connection _, SetWatches SetWatches => Empty;
        /// Restores watches of all kinds.
        SET_WATCHES2 = 105 "setWatches2" Connection "3.6.0", SetWatches2 SetWatches2 => Empty;
        /// Sets a persistent watch.
        ADD_WATCH = 106 "addWatch" Connection "3.6.0", AddWatch AddWatchRequest .path => ErrorResponse;
        /// Asks whether a watch exists.
        CHECK_WATCHES = 17 "checkWatches" Read "3.5.0", CheckWatches CheckWatchesRequest .path => Empty;
        /// Removes watches.
        REMOVE_WATCHES = 18 "removeWatches" Connection "3.5.0", RemoveWatches RemoveWatchesRequest .path => Empty;
        /// Adds an identity to the connection.
        AUTH = 100 "auth" Connection _, Auth AuthPacket => Empty;
        /// A step of a SASL exchange.
        SASL = 102 "sasl" Connection "3.4.0", Sasl SaslRequest => SaslResponse;
        /// Returns the identities of the connection.
        WHO_AM_I = 107 "whoAmI" Read "3.7.0", WhoAmI Empty => WhoAmIResponse;
        /// Ends the session.
        CLOSE_SESSION = -11 "closeSession" Transaction _, CloseSession Empty => Empty;
    }
    others {
        /// Only from server to client.
        NOTIFICATION = 0 "notification",
        /// Only between servers: with it, any client could delete any node that has no children.
        DELETE_CONTAINER = 20 "deleteContainer",
        /// Only between servers.
        CREATE_SESSION = -10 "createSession",
        /// Not an operation: the type of a failed result inside a multi, and of the header that
        /// ends a multi.
        ERROR = -1 "error",
    }
}
