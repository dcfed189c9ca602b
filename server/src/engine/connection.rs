//! One connection inside the engine: its identities, its input that is not yet a whole frame, its
//! pending output.
//!
//! Invariant: frames leave in the order in which they were appended, even if some of them are held
//! back. Not here: sockets (`net`), all connections (`connections`), watches (`watches`).

use std::{
    collections::VecDeque,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::{Bytes, BytesMut};
use lockkeeper_proto::{
    ErrorCode, EventType, Id, KeeperState, SessionId, WatcherEvent, Xid, Zxid, frame,
    header::ReplyHeader,
    jute::{Encode, Writer},
};

use super::{
    auth,
    basics::{ServerId, after},
    counters::count,
};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// No whole frame has come yet.
    Fresh,
    /// The handshake is done: the connection belongs to a session.
    Open(SessionId),
    /// The engine sends the rest of the output and reads nothing more.
    Closing,
}

/// One connection.
#[derive(Debug)]
#[allow(clippy::struct_excessive_bools, reason = "the flags are independent")]
pub(super) struct Connection {
    pub(super) remote: SocketAddr,
    pub(super) server: ServerId,
    pub(super) phase: Phase,
    /// The session that the client has asked for or got; `SessionId::NONE` before that.
    pub(super) named: SessionId,
    /// A handshake that came while its session was stalled, or its server had no leader.
    pub(super) unheard: Option<Bytes>,
    /// The identities for ACLs: first the address, then those that the client has proved.
    pub(super) ids: Arc<[Id]>,
    /// Bytes that were received and not handled yet.
    pub(super) input: BytesMut,
    /// The deadline of the handshake.
    pub(super) handshake_due: Instant,
    /// Whether the client knows read-only servers.
    pub(super) knows_read_only: bool,
    /// Whether its new session has not reached the follower yet.
    pub(super) awaits_session: bool,
    /// The session of whose end the client is told here.
    pub(super) told_end_of: Option<SessionId>,
    /// Whether nothing more is read from it: the reply to its last request will be lost, or its
    /// client was told that its session is over.
    pub(super) is_deaf: bool,
    /// The number of frames that the client has sent, including the handshake.
    pub(super) received: u64,
    /// The number of frames that the server has appended for it.
    pub(super) sent: u64,
    /// Bytes that may be sent now.
    pub(super) ready: BytesMut,
    /// Frames that must not leave before a moment.
    held: VecDeque<(Instant, BytesMut)>,
}

impl Connection {
    pub(super) fn new(remote: SocketAddr, server: ServerId, handshake_due: Instant) -> Self {
        Self {
            remote,
            server,
            phase: Phase::Fresh,
            named: SessionId::NONE,
            unheard: None,
            ids: Arc::from([auth::address_id(remote.ip())]),
            input: BytesMut::new(),
            handshake_due,
            knows_read_only: false,
            awaits_session: false,
            told_end_of: None,
            is_deaf: false,
            received: 0,
            sent: 0,
            ready: BytesMut::new(),
            held: VecDeque::new(),
        }
    }

    /// The session that the connection belongs to.
    pub(super) fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open(session) => Some(session),
            Phase::Fresh | Phase::Closing => None,
        }
    }

    /// The session of whose end the client can know: what tells of the end has left.
    pub(super) fn knows_end_of(&self) -> Option<SessionId> {
        let has_left = self.ready.is_empty() && self.held.is_empty();
        self.told_end_of.filter(|_| has_left)
    }

    /// Appends a frame.
    pub(super) fn send(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        if self.phase == Phase::Closing {
            return;
        }
        let out = self.held.back_mut().map(|(_, frames)| frames);
        match frame::append(out.unwrap_or(&mut self.ready), write) {
            Ok(_) => count(&mut self.sent),
            Err(error) => tracing::warn!(%error, "cannot encode a reply"),
        }
    }

    /// Appends a reply.
    pub(super) fn reply(&mut self, header: ReplyHeader, body: Option<&impl Encode>) {
        self.send(|writer| {
            header.encode(writer);
            if let Some(body) = body {
                body.encode(writer);
            }
        });
    }

    /// Appends a notification.
    pub(super) fn notify(&mut self, zxid: Zxid, event_type: EventType, path: &str) {
        let event = WatcherEvent {
            event_type,
            state: KeeperState::SYNC_CONNECTED,
            path: path.to_owned(),
        };
        let (xid, err) = (Xid::NOTIFICATION, ErrorCode::OK);
        self.reply(ReplyHeader { xid, zxid, err }, Some(&event));
    }

    /// Holds back what is appended from now on, until `now + delay`. Frames that are held back
    /// already leave first.
    pub(super) fn hold(&mut self, now: Instant, delay: Duration) {
        let due = after(now, delay);
        let due = self.held.back().map_or(due, |(last, _)| due.max(*last));
        self.held.push_back((due, BytesMut::new()));
    }

    /// Releases the held-back frames that are due.
    pub(super) fn release(&mut self, now: Instant) {
        while self.release_due().is_some_and(|due| due <= now) {
            let Some((_, frames)) = self.held.pop_front() else {
                break;
            };
            self.ready.unsplit(frames);
        }
    }

    /// When [`release`](Self::release) has something to do.
    pub(super) fn release_due(&self) -> Option<Instant> {
        self.held.front().map(|(due, _)| *due)
    }

    /// Whether the connection is closing and its whole output was taken.
    pub(super) fn is_done(&self) -> bool {
        self.phase == Phase::Closing && self.ready.is_empty() && self.held.is_empty()
    }
}
