//! From the reply of a request to what its method returns.
//!
//! The machine decodes a reply by its request, so that a reply of another kind cannot come; it would be an error, no panic.

use lockkeeper_proto::{
    OpCode, Response, Stat,
    jute::{DecodeError, DecodeErrorKind},
};

use crate::{Error, Peer};

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

/// A reply that does not fit its request; of whom it came is not known any more.
pub(crate) fn unexpected(op: OpCode) -> Error {
    Error::Malformed {
        op,
        error: DecodeError {
            field: "reply",
            offset: 0,
            kind: DecodeErrorKind::Unknown(op.0),
        },
        peer: Peer::default(),
    }
}

/// The answer to an `exists`: a missing node is no error.
pub(crate) fn stat_if_there(reply: Result<Response, Error>) -> Result<Option<Stat>, Error> {
    match reply {
        Ok(reply) => record_of!(reply, Exists).map(|there| Some(there.stat)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}
