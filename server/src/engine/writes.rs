//! What transactions do, the same way at the leader and at every follower: the changes of the tree,
//! the replies, and the kind of node that a create makes.
//!
//! A create inside a multi accepts other flags than the same create alone: see [`alone`] and
//! [`in_multi`].
//!
//! Source: `PrepRequestProcessor`, `DataTree.processTxn`, `FinalRequestProcessor`,
//! `MultiOperationRecord`, `Op`, `EphemeralType.validateTTL`.

use lockkeeper_proto::{
    CreateMode, ErrorCode, Request, Response, SessionId,
    multi::{MultiRequest, MultiResponse},
    records::{Create2Response, CreateResponse, Empty, StatResponse, SyncResponse},
};

use super::{
    changes::Change,
    commit::{Commit, Deed},
    tree::{Owner, Tree},
    txn::{Kind, Txn},
};

impl Deed {
    /// Whether the transaction takes a number. It does even if it fails.
    pub(super) fn takes_zxid(&self, session: SessionId) -> bool {
        let Self::Request(request, _) = self else {
            return true;
        };
        match &**request {
            Request::Sync(_) => false,
            Request::Multi(multi) => !lacks_acl(multi, session),
            _ => true,
        }
    }
}

impl Commit {
    /// Changes the tree. Returns the changes in order, and the reply.
    pub(super) fn apply(&self, tree: &mut Tree) -> (Vec<Change>, Result<Response, ErrorCode>) {
        match &self.deed {
            Deed::Refuse(code) => (Vec::new(), Err(*code)),
            Deed::Start(..) => (Vec::new(), Err(ErrorCode::SESSION_MOVED)),
            Deed::Number(path, next) => {
                if let Some(node) = tree.get_mut(path) {
                    node.created = *next;
                }
                (Vec::new(), Err(ErrorCode::OK))
            }
            Deed::Remove(paths, _) => {
                let mut txn = Txn::new(tree, self, &[]);
                for path in paths {
                    txn.remove(path);
                }
                (txn.commit(), Ok(Response::CloseSession(Empty {})))
            }
            Deed::Request(request, ids) => apply(Txn::new(tree, self, ids), self.asked.0, request),
        }
    }
}

/// The reply to a request for which this answer to a transaction is taken. If the transaction
/// belongs to another kind of request, the reply contains the path of a create, or is an error.
pub(super) fn answer_to(
    request: &Request,
    answer: Result<Response, ErrorCode>,
) -> Result<Response, ErrorCode> {
    let answer = answer?;
    if answer.op() == request.op() {
        return Ok(answer);
    }
    let fitting = match (request, answer) {
        (Request::Delete(_), _) => Some(Response::Delete(Empty {})),
        (Request::CloseSession(_), _) => Some(Response::CloseSession(Empty {})),
        (Request::Sync(request), _) => Some(synced(&request.path)),
        (
            _,
            Response::Create2(made) | Response::CreateContainer(made) | Response::CreateTtl(made),
        ) => created(request, made),
        _ => None,
    };
    fitting.ok_or(ErrorCode::MARSHALLING_ERROR)
}

/// Applies a write. Returns its changes in order, and the reply.
fn apply(
    mut txn: Txn<'_>,
    session: SessionId,
    request: &Request,
) -> (Vec<Change>, Result<Response, ErrorCode>) {
    if let Request::Multi(multi) = request {
        return apply_multi(txn, session, multi);
    }
    let kind = of_create(request).ok_or(ErrorCode::MARSHALLING_ERROR);
    let kind = kind.and_then(|(flags, ttl_ms, _)| alone(request, flags, ttl_ms, session));
    let reply = match apply_one(&mut txn, request, kind) {
        Ok(Response::Create2(made)) => created(request, made).ok_or(ErrorCode::UNIMPLEMENTED),
        reply => reply,
    };
    (txn.commit(), reply)
}

/// Applies the operations of a multi, up to the first one that fails.
fn apply_multi(
    mut txn: Txn<'_>,
    session: SessionId,
    request: &MultiRequest,
) -> (Vec<Change>, Result<Response, ErrorCode>) {
    // Since 3.9, the real server checks flags while it decodes the request, before it applies
    // anything.
    let kinds = request.ops.iter().map(|op| in_multi(op, session));
    let Ok(kinds) = kinds.collect::<Result<Vec<_>, _>>() else {
        return (Vec::new(), Err(ErrorCode::MARSHALLING_ERROR));
    };
    let mut results = Vec::with_capacity(request.ops.len());
    for (op, kind) in request.ops.iter().zip(kinds) {
        match apply_one(&mut txn, op, kind) {
            Ok(Response::Create2(made)) if !has_stat(op, kind) => {
                let path = made.path;
                results.push(Ok(Response::Create(CreateResponse { path })));
            }
            Ok(result) => results.push(Ok(result)),
            Err(code) => {
                txn.roll_back();
                let before = std::iter::repeat_n(ErrorCode::OK, results.len());
                let after = std::iter::repeat(ErrorCode::RUNTIME_INCONSISTENCY);
                let codes = before.chain([code]).chain(after).take(request.ops.len());
                let results = codes.map(Err).collect();
                return (Vec::new(), Ok(Response::Multi(MultiResponse { results })));
            }
        }
    }
    (txn.commit(), Ok(Response::Multi(MultiResponse { results })))
}

/// Whether a multi answers this create with the node's metadata.
fn has_stat(op: &Request, kind: Result<Kind, ErrorCode>) -> bool {
    let owner = kind.ok().map(|kind| kind.owner);
    matches!(op, Request::Create2(_)) || matches!(owner, Some(Owner::Container | Owner::Ttl { .. }))
}

/// Applies one operation. The reply to a create of any kind is that to a `create2`.
fn apply_one(
    txn: &mut Txn<'_>,
    op: &Request,
    kind: Result<Kind, ErrorCode>,
) -> Result<Response, ErrorCode> {
    match op {
        Request::Create(it) | Request::Create2(it) | Request::CreateContainer(it) => {
            let made = txn.create(&it.path, it.data.as_ref(), it.acl.as_deref(), kind?);
            made.map(Response::Create2)
        }
        Request::CreateTtl(it) => {
            let made = txn.create(&it.path, it.data.as_ref(), it.acl.as_deref(), kind?);
            made.map(Response::Create2)
        }
        Request::Delete(it) => {
            let done = txn.delete(&it.path, it.version);
            done.map(|()| Response::Delete(Empty {}))
        }
        Request::SetData(it) => {
            let done = txn.set_data(&it.path, it.data.as_ref(), it.version);
            done.map(|stat| Response::SetData(StatResponse { stat }))
        }
        Request::SetAcl(it) => {
            let done = txn.set_acl(&it.path, it.acl.as_deref(), it.version);
            done.map(|stat| Response::SetAcl(StatResponse { stat }))
        }
        Request::Check(it) => {
            let done = txn.check(&it.path, it.version);
            done.map(|()| Response::Check(Empty {}))
        }
        Request::Sync(it) => Ok(synced(&it.path)),
        Request::Reconfig(_) => Err(ErrorCode::RECONFIG_DISABLED),
        _ => Err(ErrorCode::UNIMPLEMENTED),
    }
}

/// The flags of a create, its time to live, and whether it names an ACL; `None` if the request is no
/// create.
fn of_create(request: &Request) -> Option<(i32, Option<i64>, bool)> {
    match request {
        Request::Create(it) | Request::Create2(it) | Request::CreateContainer(it) => {
            Some((it.flags, None, it.acl.is_some()))
        }
        Request::CreateTtl(it) => Some((it.flags, Some(it.ttl_ms), true)),
        _ => None,
    }
}

/// The reply to a create of this kind; `None` if the request is no create.
fn created(request: &Request, made: Create2Response) -> Option<Response> {
    Some(match request {
        Request::Create(_) => Response::Create(CreateResponse { path: made.path }),
        Request::Create2(_) => Response::Create2(made),
        Request::CreateContainer(_) => Response::CreateContainer(made),
        Request::CreateTtl(_) => Response::CreateTtl(made),
        _ => return None,
    })
}

/// The reply to a `sync`.
pub(super) fn synced(path: &str) -> Response {
    let path = path.to_owned();
    Response::Sync(SyncResponse { path })
}

/// Why the real server could not decode a multi to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unreadable {
    /// A flag is unknown, or does not fit the operation.
    Flag,
    /// A create has null for its ACL.
    NoAcl,
}

/// Whether a multi cannot be decoded because of a null ACL. Such a multi takes no transaction. A
/// `createTTL` with a null ACL fails by itself.
///
/// Source: 3.9.3, by experiment.
fn lacks_acl(request: &MultiRequest, session: SessionId) -> bool {
    let mut ops = request.ops.iter();
    ops.find_map(|op| in_multi(op, session).err()) == Some(Unreadable::NoAcl)
}

/// What a create outside a multi makes, depending on operation and flags.
fn alone(
    request: &Request,
    flags: i32,
    ttl_ms: Option<i64>,
    session: SessionId,
) -> Result<Kind, ErrorCode> {
    let mode = CreateMode::from_flags(flags, ttl_ms.unwrap_or(-1));
    let mode = mode.filter(|mode| mode.ttl_ms().is_some() == ttl_ms.is_some());
    let mode = mode.ok_or(ErrorCode::BAD_ARGUMENTS)?;
    let owner = match (request, ttl_ms) {
        (_, Some(ms)) => ttl_owner(ms)?,
        (Request::CreateContainer(_), _) => Owner::Container,
        // Flag 4 in a plain create makes a plain node.
        _ if mode.is_ephemeral() => Owner::Session(session),
        _ => Owner::Nobody,
    };
    let sequential = mode.is_sequential();
    Ok(Kind { owner, sequential })
}

/// What an operation of a multi makes, if it is a create. Here the flags decide, and hardly the
/// operation.
///
/// The inner error is the error of this operation if it is a create. The outer one fails the whole
/// request.
fn in_multi(op: &Request, session: SessionId) -> Result<Result<Kind, ErrorCode>, Unreadable> {
    let Some((flags, ttl_ms, has_acl)) = of_create(op) else {
        return Ok(Err(ErrorCode::MARSHALLING_ERROR));
    };
    let owner = match CreateMode::from_flags(flags, ttl_ms.unwrap_or(0)) {
        None if ttl_ms.is_some() => Err(ErrorCode::BAD_ARGUMENTS),
        None => return Err(Unreadable::Flag),
        Some(_) if !has_acl => return Err(Unreadable::NoAcl),
        Some(mode) if mode.ttl_ms().is_some() => ttl_owner(ttl_ms.ok_or(Unreadable::Flag)?),
        Some(CreateMode::Container) => Ok(Owner::Container),
        Some(_) if matches!(op, Request::CreateContainer(_)) => Ok(Owner::Container),
        Some(mode) if mode.is_ephemeral() => Ok(Owner::Session(session)),
        Some(_) => Ok(Owner::Nobody),
    };
    let mode = CreateMode::from_flags(flags, 0);
    let sequential = mode.is_some_and(CreateMode::is_sequential);
    Ok(owner.map(|owner| Kind { owner, sequential }))
}

/// Source: `EphemeralType.TTL.toEphemeralOwner`.
fn ttl_owner(ms: i64) -> Result<Owner, ErrorCode> {
    let is_valid = (1..=CreateMode::MAX_TTL_MS).contains(&ms);
    let owner = is_valid.then_some(Owner::Ttl { ms });
    owner.ok_or(ErrorCode::BAD_ARGUMENTS)
}
