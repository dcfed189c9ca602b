//! Operations that servers do not know, so that the machine does not send them again.
//!
//! A server that does not know an operation says so and closes the connection, with everything else
//! that is under way on it. The machine believes it for the next connection, which follows at once,
//! and forgets it with the one after: servers are restarted to be upgraded.
//!
//! A connection that ends without such an answer proves nothing, and each caller decides whether to
//! ask again. But watches are set again on every connection. When that has ended many connections in
//! a row, the operation counts as unknown, too.

use lockkeeper_proto::{ErrorCode, OpCode, Zxid, header::ReplyHeader};

use crate::{Error, Peer};

/// The zxid in the header of an answer that the server does not know the operation. Source:
/// `FinalRequestProcessor`, `ZooKeeperServer.processPacket`.
const NO_TRANSACTION: Zxid = Zxid(-1);

#[derive(Debug)]
struct Unknown {
    op: OpCode,
    /// The last connection on which this is believed.
    until: u64,
    /// The server that did not know the operation.
    peer: Peer,
}

/// Which operations servers do not know.
#[derive(Debug, Default)]
pub(super) struct Support {
    unknown: Vec<Unknown>,
}

impl Support {
    /// Notes that a server did not know the operation, on the connection of this number.
    pub(super) fn note_unknown(&mut self, op: OpCode, connection: u64, peer: &Peer) {
        self.unknown.retain(|unknown| unknown.op != op);
        self.unknown.push(Unknown {
            op,
            until: connection + 1,
            peer: peer.clone(),
        });
    }

    /// The connection of this number is established.
    pub(super) fn connected(&mut self, connection: u64) {
        self.unknown.retain(|unknown| unknown.until >= connection);
    }

    /// The error for a caller of an unknown operation. Nothing is sent.
    pub(super) fn refusal(&self, op: OpCode) -> Option<Error> {
        let unknown = self.unknown.iter().find(|unknown| unknown.op == op)?;
        Some(Error::unsupported(op, unknown.peer.clone()))
    }
}

/// Whether a reply says that the server does not know the operation.
///
/// Servers that know `createTTL` and `reconfig` and do not have them enabled answer with the same
/// code.
pub(crate) fn is_unknown(op: OpCode, header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED
        && (overtakes(header) || !matches!(op, OpCode::CREATE_TTL | OpCode::RECONFIG))
}

/// Whether a reply says so before the server has answered the requests ahead of it.
pub(crate) fn overtakes(header: &ReplyHeader) -> bool {
    header.err == ErrorCode::UNIMPLEMENTED && header.zxid == NO_TRANSACTION
}
