//! The reply to a request, in bytes until its caller decodes it: outside the lock of a client, and not
//! in its task.
//!
//! The machine reads the header alone. Frames have lengths of their own, so a body that cannot be
//! read is the error of one caller, and the connection goes on.

use lockkeeper_proto::{
    OpCode, Response, Zxid,
    header::ReplyHeader,
    jute::{Decode, DecodeError, Reader},
};

use super::{Bytes, encoded::Asked};
use crate::{Effect, Error, ErrorKind, Peer};

/// What the first result of a transaction begins with that was refused: the operation "error", which
/// is not the end of the list. Source: `MultiResponse.serialize`.
const REFUSED: [u8; 5] = [0xff, 0xff, 0xff, 0xff, 0];

/// The reply to a request that the server did.
#[derive(Debug)]
pub struct Reply {
    op: OpCode,
    zxid: Zxid,
    asked: Asked,
    body: Bytes,
    peer: Peer,
}

impl Reply {
    pub(super) fn new(op: OpCode, zxid: Zxid, asked: Asked, body: Bytes, peer: Peer) -> Self {
        Self {
            op,
            zxid,
            asked,
            body,
            peer,
        }
    }

    /// The operation of the request.
    #[must_use]
    pub fn op(&self) -> OpCode {
        self.op
    }

    /// Whether it is the reply to a transaction of which the server did nothing.
    pub(super) fn is_refused(&self) -> bool {
        self.op == OpCode::MULTI && self.body.starts_with(&REFUSED)
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// - [`Malformed`](ErrorKind::Malformed): the body cannot be read, or names another node or
    ///   transaction than the request and the header.
    /// - [`TransactionRefused`](ErrorKind::TransactionRefused).
    pub fn decode(self) -> Result<Response, Error> {
        let error = match Response::decode(self.op, &mut Reader::new(self.body)) {
            Ok(response) => match (self.asked.check(self.zxid, &response), refusal(&response)) {
                (Ok(()), None) => return Ok(response),
                (Ok(()), Some(kind)) => {
                    return Err(failed(self.op, kind, self.peer, Effect::NotApplied));
                }
                (Err(error), _) => error,
            },
            Err(error) => error,
        };
        let offset = ReplyHeader::SMALLEST + error.offset;
        let error = DecodeError { offset, ..error };
        let kind = ErrorKind::Malformed { op: self.op, error };
        Err(failed(self.op, kind, self.peer, Effect::Unknown))
    }
}

/// Why a transaction was refused, if it was.
fn refusal(response: &Response) -> Option<ErrorKind> {
    match response {
        Response::Multi(response) => response
            .failure()
            .map(|(index, code)| ErrorKind::TransactionRefused { index, code }),
        _ => None,
    }
}

/// The error of an operation. Not inline, as few replies have one.
#[cold]
fn failed(op: OpCode, kind: ErrorKind, peer: Peer, effect: Effect) -> Error {
    let mut error = Error::new(kind, peer, effect);
    error.note_operation(op);
    if error.code().is_none() {
        tracing::debug!(%error, "a reply cannot be read");
    }
    error
}
