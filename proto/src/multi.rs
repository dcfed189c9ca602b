//! Transactions (`multi`) and multi-reads: lists of operations.
//!
//! A small header stands before each operation, and a header with the flag `done` ends the list.
//! When a transaction fails, the reply header still says success. Then each result is an error, and
//! only one of these errors is the reason of the failure. Not here: the records of the single
//! operations (`records`).

use alloc::vec::Vec;

use crate::{
    ErrorCode, OpCode, Request, Response,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, record},
};

record! {
    /// The header of an operation or a result in a list: 9 bytes.
    #[derive(Copy)]
    struct MultiHeader {
        op: OpCode,
        done: bool,
        err: ErrorCode,
    }
}

impl MultiHeader {
    /// The header of an operation in a request. Source: `MultiOperationRecord.serialize`.
    const fn of_request(op: OpCode) -> Self {
        Self {
            op,
            done: false,
            err: ErrorCode(-1),
        }
    }

    /// The header that ends a list.
    const END: Self = Self {
        done: true,
        ..Self::of_request(OpCode::ERROR)
    };
}

/// Reads a list of operations or results of which each `allows` accepts the type.
fn decode_list<B>(
    reader: &mut Reader,
    allows: impl Fn(OpCode) -> bool,
    decode: impl Fn(OpCode, &mut Reader) -> Result<B, DecodeError>,
) -> Result<Vec<B>, DecodeError> {
    let mut items = Vec::new();
    loop {
        // Made before the header is read, so that it names the offset of the header.
        reader.enter("MultiHeader.op");
        let here = reader.error(DecodeErrorKind::Null);
        let MultiHeader { op, done, .. } = MultiHeader::decode(reader)?;
        if done {
            return Ok(items);
        }
        if !allows(op) {
            let kind = DecodeErrorKind::Unknown(op.0);
            return Err(DecodeError { kind, ..here });
        }
        items.push(decode(op, reader)?);
    }
}

/// Declares a list of requests, and which operations it may contain.
macro_rules! requests {
    ($($(#[$meta:meta])* $name:ident: $allowed:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $name {
            /// The operations, in order.
            pub ops: Vec<Request>,
        }

        impl Encode for $name {
            fn encode(&self, writer: &mut Writer<'_>) {
                for request in &self.ops {
                    MultiHeader::of_request(request.op()).encode(writer);
                    request.encode(writer);
                }
                MultiHeader::END.encode(writer);
            }
        }

        impl Decode for $name {
            const SMALLEST: usize = MultiHeader::SMALLEST;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                let ops = decode_list(reader, $allowed, Request::decode)?;
                Ok(Self { ops })
            }
        }
    )*};
}

requests! {
    /// A transaction: the server applies all of its operations, or none. It may consist of creates
    /// of all kinds, `Delete`, `SetData` and `Check`.
    MultiRequest: is_part;
    /// Several reads, by `GetData` and `GetChildren`. Each succeeds or fails independently of the
    /// others.
    MultiReadRequest: is_read;
}

fn is_part(op: OpCode) -> bool {
    op.is_create() || matches!(op, OpCode::DELETE | OpCode::SET_DATA | OpCode::CHECK)
}

fn is_read(op: OpCode) -> bool {
    matches!(op, OpCode::GET_DATA | OpCode::GET_CHILDREN)
}

fn is_result(op: OpCode) -> bool {
    is_part(op) || is_read(op) || op == OpCode::ERROR
}

/// The results of a transaction or of a multi-read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiResponse {
    /// One result for each operation, in order.
    ///
    /// - Servers answer a create with a path, or with a path and metadata (`Create2`). Those before
    ///   3.7.2, 3.8.2 and 3.9 may answer a `create2` as a plain create. So look at the type of the
    ///   result, not at the request.
    /// - With [`ErrorCode::RUNTIME_INCONSISTENCY`] or [`ErrorCode::OK`] as its error, another
    ///   operation of the list failed.
    pub results: Vec<Result<Response, ErrorCode>>,
}

impl MultiResponse {
    /// The operation that made the whole transaction fail, and its error. `None` when the
    /// transaction succeeded.
    ///
    /// The server answers the operations before it with 0, and the operations after it with
    /// "runtime inconsistency".
    #[must_use]
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        let failed = |ignored: ErrorCode| {
            let is_reason = |code: &&ErrorCode| **code != ignored && !code.is_ok();
            let mut results = self.results.iter().enumerate();
            results.find_map(|(index, result)| {
                let code = result.as_ref().err().filter(is_reason)?;
                Some((index, *code))
            })
        };
        failed(ErrorCode::RUNTIME_INCONSISTENCY).or_else(|| failed(ErrorCode::OK))
    }
}

impl Encode for MultiResponse {
    fn encode(&self, writer: &mut Writer<'_>) {
        let done = false;
        for result in &self.results {
            let (op, err) = match result {
                Ok(response) => (response.op(), ErrorCode::OK),
                Err(code) => (OpCode::ERROR, *code),
            };
            MultiHeader { op, done, err }.encode(writer);
            match result {
                Ok(response) => response.encode(writer),
                Err(code) => code.encode(writer),
            }
        }
        MultiHeader::END.encode(writer);
    }
}

impl Decode for MultiResponse {
    const SMALLEST: usize = MultiHeader::SMALLEST;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let results = decode_list(reader, is_result, |op, reader| {
            if op == OpCode::ERROR {
                reader.enter("ErrorResponse.err");
                return ErrorCode::decode(reader).map(Err);
            }
            Response::decode(op, reader).map(Ok)
        })?;
        Ok(Self { results })
    }
}
