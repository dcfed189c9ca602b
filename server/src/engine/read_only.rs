//! Servers without a majority: they answer reads from the state that they had, and refuse everything that needs a leader.
//!
//! Such a server accepts only clients that say that they know read-only servers. It gives them sessions that no other
//! server knows, and refuses to resume a session of the ensemble. Its clients can read and watch; nothing changes there.
//! To the word `isro` it answers `ro`.
//!
//! Not for servers that are followers (`followers`). Not here: which state they show (`lag`).
//!
//! Source: `ReadOnlyZooKeeperServer`, `ReadOnlyRequestProcessor`.

use std::time::Duration;

use lockkeeper_proto::{ErrorCode, OpCode, SessionId, connect::ConnectRequest};

use super::{ConnId, Engine, ServerId};

impl Engine {
    /// A server has lost its majority, or has one again. Its connections are cut, and the activity that it had not
    /// reported is lost.
    pub fn set_read_only(&mut self, server: ServerId, is_read_only: bool) {
        self.fail_server(server);
        if is_read_only {
            self.freeze_server(server);
            self.read_only.insert(server);
        }
    }

    /// Whether this is a connection to a read-only server.
    pub(super) fn is_read_only(&self, id: ConnId) -> bool {
        !self.read_only.is_empty() && self.read_only.contains(&self.server_of(id))
    }

    /// A client asks a read-only server for a session.
    pub(super) fn read_only_handshake(
        &mut self,
        id: ConnId,
        request: &ConnectRequest,
        timeout: Duration,
    ) {
        if request.read_only != Some(true) || request.session_id != SessionId::NONE {
            return self.close(id);
        }
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.lagging = true;
        }
        let session = self.sessions.unlisted();
        self.welcome(id, Some(session), timeout, true);
    }

    /// The error with which a read-only server refuses the operation.
    pub(super) fn read_only_refusal(&self, id: ConnId, op: OpCode) -> Option<ErrorCode> {
        let needs_leader = op == OpCode::SYNC || op.is_transaction() && op != OpCode::CLOSE_SESSION;
        (needs_leader && self.is_read_only(id)).then_some(ErrorCode::NOT_READ_ONLY)
    }
}
