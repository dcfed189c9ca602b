//! Transactions (`multi`) and multi-reads: lists of operations, each behind a small header, ended by one that says done.
//!
//! A failed multi answers success in the reply header; each result then is an error, and only one of them says why.

use alloc::vec::Vec;

use crate::{
    ErrorCode, OpCode,
    jute::{Decode, DecodeError, DecodeErrorKind, Encode, Reader, Writer, record},
    records::{
        CheckVersionRequest, Create2Response, CreateRequest, CreateResponse, CreateTtlRequest,
        DeleteRequest, GetChildrenRequest, GetChildrenResponse, GetDataRequest, GetDataResponse,
        SetDataRequest, StatResponse,
    },
};

record! {
    /// Before each operation and each result: 9 bytes.
    #[derive(Copy)]
    struct MultiHeader {
        op: OpCode,
        done: bool,
        err: ErrorCode,
    }
}

impl MultiHeader {
    /// Before an operation of a request. Source: `MultiOperationRecord.serialize`.
    const fn of_request(op: OpCode) -> Self {
        Self {
            op,
            done: false,
            err: ErrorCode(-1),
        }
    }

    /// Before a result.
    const fn of_result(op: OpCode, err: ErrorCode) -> Self {
        Self {
            op,
            done: false,
            err,
        }
    }

    /// The error for a header, still to be read, whose operation is then found not to belong here.
    fn unknown(reader: &mut Reader) -> impl Fn(OpCode) -> DecodeError + use<> {
        reader.enter("MultiHeader.op");
        let here = reader.error(DecodeErrorKind::Unknown(0));
        move |op| DecodeError {
            kind: DecodeErrorKind::Unknown(op.0),
            ..here
        }
    }

    /// Behind the last one.
    const END: Self = Self {
        op: OpCode::ERROR,
        done: true,
        err: ErrorCode(-1),
    };
}

/// Declares the operations that one kind of list may hold.
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
            /// What the operation asks for.
            #[must_use]
            pub fn op(&self) -> OpCode {
                match self {
                    $(Self::$variant(_) => OpCode::$op,)*
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
            fn encode(&self, writer: &mut Writer<'_>) {
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
    /// A transaction: all of its operations happen, or none.
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
    /// Several reads, each of which succeeds or fails by itself.
    MultiReadRequest,
    /// One read of a multi-read.
    MultiReadOp {
        GetData = GET_DATA, GetDataRequest;
        GetChildren = GET_CHILDREN, GetChildrenRequest;
    }
}

/// What became of one operation of a list.
///
/// A `create2` may be answered as a plain create by servers before 3.7.2, 3.8.2 and 3.9: look at the result, not at the request.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum MultiResult {
    /// A node was created.
    Create(CreateResponse),
    /// A node was created.
    Create2(Create2Response),
    /// A node was deleted.
    Delete,
    /// The version was right.
    Check,
    /// Data were set.
    SetData(StatResponse),
    /// A node was read.
    GetData(GetDataResponse),
    /// Children were listed.
    GetChildren(GetChildrenResponse),
    /// The operation failed, or, with [`ErrorCode::RUNTIME_INCONSISTENCY`] or [`ErrorCode::OK`], another one did.
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
    /// One for each operation, in order.
    pub results: Vec<MultiResult>,
}

impl MultiResponse {
    /// The operation that made the whole transaction fail, and why; `None` when it succeeded.
    ///
    /// The operations before it are answered with 0, those behind it with "runtime inconsistency".
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
    fn encode(&self, writer: &mut Writer<'_>) {
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
