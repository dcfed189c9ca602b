//! Transactions (`multi`) and multi-reads: lists of operations.
//!
//! A small header stands before each operation, and a header with the flag `done` ends the list.
//! When a transaction fails, the reply header still says success. Then each result is an error, and
//! only one of these errors is the reason of the failure. Not here: the records of the single
//! operations (`records`).

use alloc::vec::Vec;

use crate::{
    ErrorCode, OpCode,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Sink, Writer, record},
    records::{
        CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
        DeleteRequest, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
        SetDataRequest, StatResponse,
    },
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

    /// The header of a result.
    const fn of_result(op: OpCode, err: ErrorCode) -> Self {
        Self {
            op,
            done: false,
            err,
        }
    }

    /// Makes the error for an operation that is not allowed in this list.
    ///
    /// Call it before the header is read, so that the error names the offset of the header.
    fn unknown(reader: &mut Reader) -> impl Fn(OpCode) -> DecodeError + use<> {
        reader.enter("MultiHeader.op");
        let here = reader.error(DecodeErrorKind::Unknown(0));
        move |op| DecodeError {
            kind: DecodeErrorKind::Unknown(op.0),
            ..here
        }
    }

    /// The header that ends a list.
    const END: Self = Self {
        op: OpCode::ERROR,
        done: true,
        err: ErrorCode(-1),
    };
}

/// Declares the operations that one kind of list may contain.
macro_rules! listed {
    (
        $(#[$meta:meta])* $request:ident, $(#[$op_meta:meta])* $op_name:ident {
            $($variant:ident = $op:ident, $record:ty;)*
        }
    ) => {
        $(#[$op_meta])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[non_exhaustive]
        pub enum $op_name {
            $(#[doc = concat!("[`OpCode::", stringify!($op), "`].")] $variant($record),)*
        }

        impl $op_name {
            /// The opcode of the operation.
            #[must_use]
            pub fn op(&self) -> OpCode {
                match self {
                    $(Self::$variant(_) => OpCode::$op,)*
                }
            }

            /// The node that the operation is about.
            #[must_use]
            pub fn path(&self) -> &str {
                match self {
                    $(Self::$variant(record) => &record.path,)*
                }
            }
        }

        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct $request {
            /// The operations, in order.
            pub ops: Vec<$op_name>,
        }

        impl Encode for $request {
            fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
                for op in &self.ops {
                    MultiHeader::of_request(op.op()).encode(writer);
                    match op {
                        $($op_name::$variant(record) => record.encode(writer),)*
                    }
                }
                MultiHeader::END.encode(writer);
            }
        }

        impl Decode for $request {
            const SMALLEST: usize = MultiHeader::SMALLEST;

            fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
                let mut ops = Vec::new();
                loop {
                    let unknown = MultiHeader::unknown(reader);
                    let header = MultiHeader::decode(reader)?;
                    if header.done {
                        return Ok(Self { ops });
                    }
                    ops.push(match header.op {
                        $(OpCode::$op => $op_name::$variant(<$record>::decode(reader)?),)*
                        other => return Err(unknown(other)),
                    });
                }
            }
        }
    };
}

listed! {
    /// A transaction: the server applies all of its operations, or none.
    MultiRequest,
    /// One operation of a transaction.
    MultiOp {
        Create = CREATE, CreateRequest;
        Create2 = CREATE2, CreateRequest;
        CreateContainer = CREATE_CONTAINER, CreateRequest;
        CreateTtl = CREATE_TTL, CreateTtlRequest;
        Delete = DELETE, DeleteRequest;
        SetData = SET_DATA, SetDataRequest;
        Check = CHECK, CheckVersionRequest;
    }
}

listed! {
    /// Several reads. Each read succeeds or fails independently of the others.
    MultiReadRequest,
    /// One read of a multi-read.
    MultiReadOp {
        GetData = GET_DATA, GetDataRequest;
        GetChildren = GET_CHILDREN, GetChildrenRequest;
    }
}

/// The result of one operation of a list.
///
/// Servers before 3.7.2, 3.8.2 and 3.9 may answer a `create2` as a plain create. So look at the
/// type of the result, not at the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiResult {
    /// A node was created.
    Create(CreateResponse),
    /// A node was created.
    Create2(Create2Response),
    /// A node was deleted.
    Delete,
    /// The node has the expected version.
    Check,
    /// The data of a node was set.
    SetData(StatResponse),
    /// A node was read.
    GetData(GetDataResponse),
    /// Children were listed.
    GetChildren(GetChildrenResponse),
    /// The operation failed.
    ///
    /// With [`ErrorCode::RUNTIME_INCONSISTENCY`] or [`ErrorCode::OK`], another operation of the
    /// list failed.
    Error(ErrorCode),
}

impl MultiResult {
    fn header(&self) -> MultiHeader {
        let op = match self {
            Self::Create(_) => OpCode::CREATE,
            Self::Create2(_) => OpCode::CREATE2,
            Self::Delete => OpCode::DELETE,
            Self::Check => OpCode::CHECK,
            Self::SetData(_) => OpCode::SET_DATA,
            Self::GetData(_) => OpCode::GET_DATA,
            Self::GetChildren(_) => OpCode::GET_CHILDREN,
            Self::Error(code) => return MultiHeader::of_result(OpCode::ERROR, *code),
        };
        MultiHeader::of_result(op, ErrorCode::OK)
    }
}

/// The results of a transaction or of a multi-read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiResponse {
    /// One result for each operation, in order.
    pub results: Vec<MultiResult>,
}

impl MultiResponse {
    /// The operation that made the whole transaction fail, and its error. `None` when the
    /// transaction succeeded.
    ///
    /// The server answers the operations before it with 0, and the operations after it with
    /// "runtime inconsistency".
    #[must_use]
    pub fn failure(&self) -> Option<(usize, ErrorCode)> {
        let failed = |code: ErrorCode| {
            move |(index, result): (usize, &MultiResult)| match result {
                MultiResult::Error(own) if *own != code && !own.is_ok() => Some((index, *own)),
                _ => None,
            }
        };
        let mut results = self.results.iter().enumerate();
        results
            .clone()
            .find_map(failed(ErrorCode::RUNTIME_INCONSISTENCY))
            .or_else(|| results.find_map(failed(ErrorCode::OK)))
    }
}

impl Encode for MultiResponse {
    fn encode<S: Sink>(&self, writer: &mut Writer<'_, S>) {
        for result in &self.results {
            result.header().encode(writer);
            match result {
                MultiResult::Create(record) => record.encode(writer),
                MultiResult::Create2(record) => record.encode(writer),
                MultiResult::SetData(record) => record.encode(writer),
                MultiResult::GetData(record) => record.encode(writer),
                MultiResult::GetChildren(record) => record.encode(writer),
                MultiResult::Error(code) => code.encode(writer),
                MultiResult::Delete | MultiResult::Check => {}
            }
        }
        MultiHeader::END.encode(writer);
    }
}

impl Decode for MultiResponse {
    const SMALLEST: usize = MultiHeader::SMALLEST;

    fn decode(reader: &mut Reader) -> Result<Self, DecodeError> {
        let mut results = Vec::new();
        loop {
            let unknown = MultiHeader::unknown(reader);
            let header = MultiHeader::decode(reader)?;
            if header.done {
                return Ok(Self { results });
            }
            results.push(match header.op {
                OpCode::CREATE => MultiResult::Create(CreateResponse::decode(reader)?),
                OpCode::CREATE2 | OpCode::CREATE_CONTAINER | OpCode::CREATE_TTL => {
                    MultiResult::Create2(Create2Response::decode(reader)?)
                }
                OpCode::DELETE => MultiResult::Delete,
                OpCode::CHECK => MultiResult::Check,
                OpCode::SET_DATA => MultiResult::SetData(StatResponse::decode(reader)?),
                OpCode::GET_DATA => MultiResult::GetData(GetDataResponse::decode(reader)?),
                OpCode::GET_CHILDREN => {
                    MultiResult::GetChildren(GetChildrenResponse::decode(reader)?)
                }
                OpCode::ERROR => {
                    reader.enter("ErrorResponse.err");
                    MultiResult::Error(ErrorCode::decode(reader)?)
                }
                other => return Err(unknown(other)),
            });
        }
    }
}
