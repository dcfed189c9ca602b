//! A request with what its reply needs.

use std::sync::Arc;

use lockkeeper_proto::{Request, SessionId, Xid};

use super::{basics::ConnId, rules::Fate};

/// A request of a client, and what rules want to happen to it.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) connection: ConnId,
    pub(super) session: SessionId,
    pub(super) xid: Xid,
    pub(super) request: Arc<Request>,
    pub(super) fate: Fate,
}
