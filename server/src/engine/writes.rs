//! Requests that change the tree, multi included, and the kind of node that a create makes.
//!
//! A create inside a multi accepts other flags than the same create alone: see [`alone`] and [`in_multi`].
//!
//! Source: `PrepRequestProcessor`, `MultiOperationRecord`, `Op`, `EphemeralType.validateTTL`.

use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, SessionId,
    multi::{MultiOp, MultiRequest, MultiResponse, MultiResult},
    records::{
        Create2Response, CreateRequest, CreateResponse, CreateTtlRequest, Empty, StatResponse,
    },
};

use super::{
    tree::Owner,
    txn::{NewNode, Txn},
};

/// Applies a write that is not a multi; `None` if the request is not such a write.
pub(crate) fn apply(
    txn: &mut Txn<'_>,
    session: SessionId,
    request: &Request,
) -> Option<Result<Response, ErrorCode>> {
    let op = request.op();
    Some(match request {
        Request::Create(request) => create(txn, session, op, request).map(|created| {
            let path = created.path;
            Response::Create(CreateResponse { path })
        }),
        Request::Create2(request) => create(txn, session, op, request).map(Response::Create2),
        Request::CreateContainer(request) => {
            create(txn, session, op, request).map(Response::CreateContainer)
        }
        Request::CreateTtl(request) => alone(op, request.flags, request.ttl_ms, session)
            .and_then(|kind| insert(txn, &with_ttl(request, kind)))
            .map(Response::CreateTtl),
        Request::Delete(request) => txn
            .delete(&request.path, request.version)
            .map(|()| Response::Delete(Empty {})),
        Request::SetData(request) => txn
            .set_data(&request.path, request.data.as_ref(), request.version)
            .map(|stat| Response::SetData(StatResponse { stat })),
        Request::SetAcl(request) => txn
            .set_acl(&request.path, request.acl.as_deref(), request.version)
            .map(|stat| Response::SetAcl(StatResponse { stat })),
        _ => return None,
    })
}

/// The outcome of a multi.
#[derive(Debug)]
pub(crate) enum MultiOutcome {
    /// Everything was applied.
    Applied(MultiResponse),
    /// One operation failed: the transaction must be rolled back.
    Failed(MultiResponse),
    /// A flag is invalid: the reply is the one for a request that cannot be decoded.
    Malformed,
}

/// Applies the operations of a multi, up to the first one that fails.
pub(crate) fn apply_multi(
    txn: &mut Txn<'_>,
    session: SessionId,
    request: &MultiRequest,
) -> MultiOutcome {
    let mut results = Vec::with_capacity(request.ops.len());
    // Since 3.9, the real server checks flags while it decodes the request, before it applies anything.
    let mut kinds = Vec::with_capacity(request.ops.len());
    for op in &request.ops {
        match in_multi(op, session) {
            Ok(kind) => kinds.push(kind),
            Err(_) => return MultiOutcome::Malformed,
        }
    }
    for (op, kind) in request.ops.iter().zip(kinds) {
        match apply_one(txn, op, kind) {
            Ok(result) => results.push(result),
            Err(code) => {
                let before = std::iter::repeat_n(ErrorCode::OK, results.len());
                let after = std::iter::repeat(ErrorCode::RUNTIME_INCONSISTENCY);
                let codes = before.chain([code]).chain(after).take(request.ops.len());
                return MultiOutcome::Failed(MultiResponse {
                    results: codes.map(MultiResult::Error).collect(),
                });
            }
        }
    }
    MultiOutcome::Applied(MultiResponse { results })
}

/// What a create makes, apart from path, data and ACL.
#[derive(Clone, Copy, Debug)]
struct Kind {
    owner: Owner,
    sequential: bool,
    /// Whether a multi's result has the metadata.
    with_stat: bool,
}

/// Why the real server could not decode a multi to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreadable {
    /// A flag is unknown, or does not fit the operation.
    Flag,
    /// A create has null for its ACL.
    NoAcl,
}

/// Whether a multi cannot be decoded because of a null ACL. Such a multi takes no transaction. A `createTTL` with a null ACL
/// fails by itself.
///
/// Source: 3.9.3, by experiment.
pub(crate) fn lacks_acl(request: &MultiRequest, session: SessionId) -> bool {
    let mut ops = request.ops.iter();
    ops.find_map(|op| in_multi(op, session).err()) == Some(Unreadable::NoAcl)
}

/// What a create outside a multi makes, depending on operation and flags.
fn alone(op: OpCode, flags: i32, ttl_ms: i64, session: SessionId) -> Result<Kind, ErrorCode> {
    let mode = CreateMode::from_flags(flags, ttl_ms).ok_or(ErrorCode::BAD_ARGUMENTS)?;
    let has_ttl = mode.ttl_ms().is_some();
    if has_ttl != (op == OpCode::CREATE_TTL) {
        return Err(ErrorCode::BAD_ARGUMENTS);
    }
    let owner = match op {
        OpCode::CREATE_TTL => ttl_owner(ttl_ms)?,
        OpCode::CREATE_CONTAINER => Owner::Container,
        // Flag 4 in a plain create makes a plain node.
        _ if mode.is_ephemeral() => Owner::Session(session),
        _ => Owner::Nobody,
    };
    Ok(Kind {
        owner,
        sequential: mode.is_sequential(),
        with_stat: true,
    })
}

/// What an operation of a multi makes, if it is a create. Here the flags decide, and hardly the operation.
///
/// The inner error is the error of this operation. The outer one fails the whole request.
fn in_multi(
    op: &MultiOp,
    session: SessionId,
) -> Result<Option<Result<Kind, ErrorCode>>, Unreadable> {
    let (flags, ttl_ms, has_acl) = match op {
        MultiOp::Create(request)
        | MultiOp::Create2(request)
        | MultiOp::CreateContainer(request) => (request.flags, None, request.acl.is_some()),
        MultiOp::CreateTtl(request) => (request.flags, Some(request.ttl_ms), true),
        _ => return Ok(None),
    };
    let Some(mode) = CreateMode::from_flags(flags, ttl_ms.unwrap_or(0)) else {
        let refused = Some(Err(ErrorCode::BAD_ARGUMENTS));
        return if ttl_ms.is_some() {
            Ok(refused)
        } else {
            Err(Unreadable::Flag)
        };
    };
    if !has_acl {
        return Err(Unreadable::NoAcl);
    }
    let sequential = mode.is_sequential();
    let kind = |owner, with_stat| Kind {
        owner,
        sequential,
        with_stat,
    };
    if mode.ttl_ms().is_some() {
        let ttl_ms = ttl_ms.ok_or(Unreadable::Flag)?;
        return Ok(Some(ttl_owner(ttl_ms).map(|owner| kind(owner, true))));
    }
    let is_container = mode == CreateMode::Container || matches!(op, MultiOp::CreateContainer(_));
    Ok(Some(Ok(if is_container {
        kind(Owner::Container, true)
    } else if mode.is_ephemeral() {
        kind(Owner::Session(session), matches!(op, MultiOp::Create2(_)))
    } else {
        kind(Owner::Nobody, matches!(op, MultiOp::Create2(_)))
    })))
}

/// Source: `EphemeralType.TTL.toEphemeralOwner`.
fn ttl_owner(ttl_ms: i64) -> Result<Owner, ErrorCode> {
    if (1..=CreateMode::MAX_TTL_MS).contains(&ttl_ms) {
        Ok(Owner::Ttl { ms: ttl_ms })
    } else {
        Err(ErrorCode::BAD_ARGUMENTS)
    }
}

fn create(
    txn: &mut Txn<'_>,
    session: SessionId,
    op: OpCode,
    request: &CreateRequest,
) -> Result<Create2Response, ErrorCode> {
    let kind = alone(op, request.flags, -1, session)?;
    insert(txn, &without_ttl(request, kind))
}

fn insert(txn: &mut Txn<'_>, new: &NewNode<'_>) -> Result<Create2Response, ErrorCode> {
    txn.create(new).map(|(path, stat)| Create2Response {
        path: path.to_string(),
        stat,
    })
}

fn apply_one(
    txn: &mut Txn<'_>,
    op: &MultiOp,
    kind: Option<Result<Kind, ErrorCode>>,
) -> Result<MultiResult, ErrorCode> {
    match op {
        MultiOp::Create(request)
        | MultiOp::Create2(request)
        | MultiOp::CreateContainer(request) => {
            let kind = kind.ok_or(ErrorCode::MARSHALLING_ERROR)??;
            insert(txn, &without_ttl(request, kind)).map(|created| created_result(created, kind))
        }
        MultiOp::CreateTtl(request) => {
            let kind = kind.ok_or(ErrorCode::MARSHALLING_ERROR)??;
            insert(txn, &with_ttl(request, kind)).map(|created| created_result(created, kind))
        }
        MultiOp::Delete(request) => txn
            .delete(&request.path, request.version)
            .map(|()| MultiResult::Delete),
        MultiOp::SetData(request) => txn
            .set_data(&request.path, request.data.as_ref(), request.version)
            .map(|stat| MultiResult::SetData(StatResponse { stat })),
        MultiOp::Check(request) => txn
            .check(&request.path, request.version)
            .map(|()| MultiResult::Check),
        _ => Err(ErrorCode::MARSHALLING_ERROR),
    }
}

fn created_result(created: Create2Response, kind: Kind) -> MultiResult {
    if kind.with_stat {
        MultiResult::Create2(created)
    } else {
        let path = created.path;
        MultiResult::Create(CreateResponse { path })
    }
}

fn without_ttl(request: &CreateRequest, kind: Kind) -> NewNode<'_> {
    NewNode {
        path: &request.path,
        data: request.data.as_ref(),
        acl: request.acl.as_deref(),
        owner: kind.owner,
        sequential: kind.sequential,
    }
}

fn with_ttl(request: &CreateTtlRequest, kind: Kind) -> NewNode<'_> {
    NewNode {
        path: &request.path,
        data: request.data.as_ref(),
        acl: request.acl.as_deref(),
        owner: kind.owner,
        sequential: kind.sequential,
    }
}
