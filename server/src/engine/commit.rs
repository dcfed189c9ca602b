//! Transactions: what each of them does, the same way at the leader and at every follower.
//!
//! Source: `PrepRequestProcessor`, `DataTree.processTxn`, `FinalRequestProcessor`.

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::{ErrorCode, Id, Request, Response, SessionId, Xid, Zxid, records::Empty};

use super::{basics::ConnId, changes::Change, tree::Tree, txn::Txn, writes};

/// A transaction.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) zxid: Zxid,
    pub(super) unix_ms: i64,
    /// The session and the xid of its request.
    pub(super) asked: (SessionId, Xid),
    pub(super) deed: Deed,
    /// Whether the servers know SASL.
    pub(super) knows_sasl: bool,
    /// What the leader has decided.
    pub(super) reply: Result<Response, ErrorCode>,
}

/// The effect of a transaction.
#[derive(Debug)]
pub(super) enum Deed {
    /// Nothing, except that whoever asked is refused.
    Refuse(ErrorCode),
    /// What this request asks for, with the identities of its client.
    Request(Arc<Request>, Arc<[Id]>),
    /// Deletes nodes without a check. If the transaction ends a session, it carries the timeout of
    /// that session.
    Remove(Vec<Arc<str>>, Option<Duration>),
    /// Starts a session on this connection.
    Start(ConnId),
}

impl Deed {
    /// Whether the transaction takes a number. It does even if it fails.
    pub(super) fn takes_zxid(&self, session: SessionId) -> bool {
        let Self::Request(request, _) = self else {
            return true;
        };
        match &**request {
            Request::Sync(_) => false,
            Request::Multi(multi) => !writes::lacks_acl(multi, session),
            _ => true,
        }
    }
}

impl Commit {
    /// Changes the tree. Returns the changes in order, and the reply.
    pub(super) fn apply(&self, tree: &mut Tree) -> (Vec<Change>, Result<Response, ErrorCode>) {
        match &self.deed {
            Deed::Refuse(code) => (Vec::new(), Err(*code)),
            Deed::Start(_) => (Vec::new(), Err(ErrorCode::SESSION_MOVED)),
            Deed::Remove(paths, _) => {
                let mut txn = Txn::new(tree, self, &[]);
                for path in paths {
                    txn.remove(path);
                }
                (txn.commit(), Ok(Response::CloseSession(Empty {})))
            }
            Deed::Request(request, ids) => {
                writes::apply(Txn::new(tree, self, ids), self.asked.0, request)
            }
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
        (Request::Sync(request), _) => Some(writes::synced(&request.path)),
        (
            _,
            Response::Create2(made) | Response::CreateContainer(made) | Response::CreateTtl(made),
        ) => writes::created(request, made),
        _ => None,
    };
    fitting.ok_or(ErrorCode::MARSHALLING_ERROR)
}
