//! Converts the reply to a request into the result of its method.
//!
//! `PendingReply` decodes each reply by its request, so a reply of another kind cannot come. If one
//! came, it would be an error and not a panic.

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, OpCode, Response, Stat,
    jute::{DecodeError, DecodeErrorKind, Names},
    records::GetDataResponse,
};

use crate::{Effect, Error, ErrorKind, Peer};

/// A node that was created.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Created {
    /// The path; for a sequential node, with its number.
    pub path: String,
    /// The metadata.
    pub stat: Stat,
}

/// A node's data and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeData {
    /// The data. They share the memory of the reply. `None` if they were never set.
    pub data: Option<Bytes>,
    /// The metadata.
    pub stat: Stat,
}

/// A node's children and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Children {
    /// The names of the children, in no order. They share the memory of the reply.
    pub names: Names,
    /// The node's metadata.
    pub stat: Stat,
}

/// A node's access control list and metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NodeAcl {
    /// Who may do what.
    pub acl: Vec<Acl>,
    /// The metadata.
    pub stat: Stat,
}

/// One identity of a client, as the servers know it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Identity {
    /// `ip`, `digest`, `sasl`, `x509`, ..
    pub scheme: String,
    /// The user, without any secret. For `digest` that is not the id of an access control list.
    pub user: String,
}

/// Takes the record out of a reply.
macro_rules! record_of {
    ($reply:expr, $($variant:ident)|+) => {
        match $reply {
            $($crate::proto::Response::$variant(record) => Ok(record),)+
            other => Err($crate::client::operations::reply::unexpected(other.op())),
        }
    };
}

pub(crate) use record_of;

/// The error for a reply that does not fit its request. The server that sent it is not known here.
pub(crate) fn unexpected(op: OpCode) -> Error {
    let error = DecodeError {
        field: "reply",
        offset: 0,
        kind: DecodeErrorKind::Unknown(op.0),
    };
    let kind = ErrorKind::Malformed { op, error };
    let mut error = Error::new(kind, Peer::default(), Effect::Unknown);
    error.note_operation(op);
    error
}

pub(crate) fn node_data(GetDataResponse { data, stat }: GetDataResponse) -> NodeData {
    NodeData { data, stat }
}

/// The result of an `exists`: a missing node is not an error.
pub(crate) fn stat_if_there(reply: Result<Response, Error>) -> Result<Option<Stat>, Error> {
    match reply {
        Ok(reply) => record_of!(reply, Exists).map(|there| Some(there.stat)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}
