//! Transactions, as the servers pass them on.
//!
//! Not here: what each of them does (`writes`).

use std::{sync::Arc, time::Duration};

use lockkeeper_proto::{ErrorCode, Id, Request, Response, SessionId, Xid, Zxid};

use super::basics::ConnId;

/// A transaction.
#[derive(Debug)]
pub(super) struct Commit {
    pub(super) zxid: Zxid,
    pub(super) unix_ms: i64,
    /// The session and the xid of its request.
    pub(super) asked: (SessionId, Xid),
    pub(super) deed: Deed,
    /// What the leader has decided; before that, the error 0.
    pub(super) reply: Result<Response, ErrorCode>,
}

impl Commit {
    /// Whether the leader has decided that a request fails.
    pub(super) fn is_refused(&self) -> bool {
        match &self.reply {
            Err(code) => !code.is_ok(),
            Ok(Response::Multi(multi)) => multi.failure().is_some(),
            Ok(_) => false,
        }
    }
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
    /// Sets the number of the next sequential child of this node.
    Number(Arc<str>, i32),
    /// Starts a session with this timeout on this connection.
    Start(ConnId, Duration),
}
