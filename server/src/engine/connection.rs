//! One connection inside the engine: its identities, its input that is not yet a whole frame, its pending output.
//!
//! Invariant: frames leave in the order in which they were appended, even if some of them are held back.
//! Not here: sockets (`net`), watches (`watches`).

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

use super::{ServerId, auth, sasl};

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    pub(crate) server: ServerId,
    pub(crate) phase: Phase,
    /// The session that the client has asked for or got; `SessionId::NONE` before that.
    pub(crate) named: SessionId,
    /// A handshake that came while its session was stalled, or its server had no leader.
    pub(crate) unheard: Option<Bytes>,
    /// The identities for ACLs: first the address, then those that the client has proved.
    pub(crate) ids: Arc<[Id]>,
    /// The SASL exchange, once it has begun.
    pub(crate) login: Option<Box<dyn sasl::Exchange>>,
    /// Bytes that were received and not handled yet.
    pub(crate) input: BytesMut,
    /// The deadline of the handshake.
    pub(crate) handshake_due: Instant,
    /// Whether its new session has not reached the follower yet.
    pub(crate) awaits_session: bool,
    /// Whether it reads the frozen state.
    pub(crate) lagging: bool,
    /// Whether its output is discarded, because the connection is about to be closed.
    pub(crate) muted: bool,
    /// Whether nothing more is read from it, because the reply to its last request will be lost.
    pub(crate) is_deaf: bool,
    pub(crate) traffic: Traffic,
    /// The number of frames that the server has appended for it.
    pub(crate) sent: u64,
    ready: BytesMut,
    held: VecDeque<Held>,
}

/// Frames that must not leave before `due`.
#[derive(Debug)]
struct Held {
    due: Instant,
    frames: BytesMut,
}

/// Counts of what a client has sent on a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Traffic {
    /// Reads from the socket that returned bytes.
    pub reads: u64,
    /// Whole frames, including the handshake.
    pub frames: u64,
    /// Reads that completed more than one frame: the client had put several frames into one write.
    pub reads_with_several_frames: u64,
}

impl Traffic {
    /// Counts `reads` reads (none or one) that completed `frames` frames.
    pub(crate) fn note(&mut self, reads: u64, frames: u64) {
        self.reads = self.reads.saturating_add(reads);
        self.frames = self.frames.saturating_add(frames);
        if frames > 1 && reads > 0 {
            self.reads_with_several_frames = self.reads_with_several_frames.saturating_add(1);
        }
    }
}

impl Connection {
    pub(crate) fn new(remote: SocketAddr, server: ServerId, handshake_due: Instant) -> Self {
        Self {
            remote,
            server,
            phase: Phase::Fresh,
            named: SessionId::NONE,
            unheard: None,
            ids: Arc::from([auth::address_id(remote.ip())]),
            login: None,
            input: BytesMut::new(),
            handshake_due,
            awaits_session: false,
            lagging: false,
            muted: false,
            is_deaf: false,
            traffic: Traffic::default(),
            sent: 0,
            ready: BytesMut::new(),
            held: VecDeque::new(),
        }
    }

    /// The session that the connection belongs to.
    pub(crate) fn session(&self) -> Option<SessionId> {
        match self.phase {
            Phase::Open(session) => Some(session),
            Phase::Fresh | Phase::Closing => None,
        }
    }

    /// Appends a frame.
    pub(crate) fn send(&mut self, write: impl FnOnce(&mut Writer<'_>)) {
        if self.muted || self.phase == Phase::Closing {
            return;
        }
        let out = match self.held.back_mut() {
            Some(held) => &mut held.frames,
            None => &mut self.ready,
        };
        match frame::append(out, write) {
            Ok(_) => self.sent = self.sent.saturating_add(1),
            Err(error) => tracing::warn!(%error, "cannot encode a reply"),
        }
    }

    /// Appends bytes that are not a frame: the answer to a four-letter word.
    pub(crate) fn send_raw(&mut self, bytes: &[u8]) {
        self.ready.extend_from_slice(bytes);
    }

    /// Appends a reply.
    pub(crate) fn reply(&mut self, xid: Xid, zxid: Zxid, body: Result<&impl Encode, ErrorCode>) {
        let err = body.as_ref().err().copied().unwrap_or(ErrorCode::OK);
        self.send(|writer| {
            ReplyHeader { xid, zxid, err }.encode(writer);
            if let Ok(body) = body {
                body.encode(writer);
            }
        });
    }

    /// Appends a notification.
    pub(crate) fn notify(&mut self, zxid: Zxid, event_type: EventType, path: &str) {
        let event = WatcherEvent {
            event_type,
            state: KeeperState::SYNC_CONNECTED,
            path: path.to_owned(),
        };
        self.reply(Xid::NOTIFICATION, zxid, Ok(&event));
    }

    /// Holds back what is appended from now on, until `now + delay`. Frames that are held back already leave first.
    pub(crate) fn hold(&mut self, now: Instant, delay: Duration) {
        let due = now.checked_add(delay).unwrap_or(now);
        let due = self.held.back().map_or(due, |last| due.max(last.due));
        self.held.push_back(Held {
            due,
            frames: BytesMut::new(),
        });
    }

    /// Releases the held-back frames that are due. Returns whether there is something to send.
    pub(crate) fn release(&mut self, now: Instant) -> bool {
        while self.held.front().is_some_and(|held| held.due <= now)
            && let Some(held) = self.held.pop_front()
        {
            self.ready.unsplit(held.frames);
        }
        !self.ready.is_empty()
    }

    /// When [`release`](Self::release) has something to do.
    pub(crate) fn release_due(&self) -> Option<Instant> {
        self.held.front().map(|held| held.due)
    }

    /// Bytes that may be sent now.
    pub(crate) fn ready_len(&self) -> usize {
        self.ready.len()
    }

    /// Takes everything that may be sent now.
    pub(crate) fn take_ready(&mut self) -> BytesMut {
        self.ready.split()
    }

    /// Whether the connection is closing and its whole output was taken.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Closing && self.ready.is_empty() && self.held.is_empty()
    }
}
