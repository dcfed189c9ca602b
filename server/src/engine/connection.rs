//! One connection as the engine sees it: who it is, what it has sent that is not yet a whole frame, what it is to get.
//!
//! Invariant: frames leave in the order in which they were appended, also when some of them are held back.
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

/// How far a connection has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Nothing but perhaps the first bytes has come.
    Fresh,
    /// It speaks for a session.
    Open(SessionId),
    /// What is still to be sent will be sent; nothing is read any more.
    Closing,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) remote: SocketAddr,
    pub(crate) server: ServerId,
    pub(crate) phase: Phase,
    /// The session that it has asked for or got; none for a client that has not.
    pub(crate) named: SessionId,
    /// A handshake that nobody listened to yet.
    pub(crate) unheard: Option<Bytes>,
    /// Who it is, for ACLs: its address, then what it has proved.
    pub(crate) ids: Arc<[Id]>,
    /// How it proves more of that.
    pub(crate) login: Option<Box<dyn sasl::Exchange>>,
    /// Received and not yet read.
    pub(crate) input: BytesMut,
    /// Until when the handshake must be done.
    pub(crate) handshake_due: Instant,
    /// Whether its new session is under way.
    pub(crate) awaits_session: bool,
    /// Whether it reads the frozen state.
    pub(crate) lagging: bool,
    /// Whether what it would get is thrown away: its connection is "lost" in a moment.
    pub(crate) muted: bool,
    pub(crate) traffic: Traffic,
    /// Frames that it was sent.
    pub(crate) sent: u64,
    ready: BytesMut,
    held: VecDeque<Held>,
}

/// Frames that must not leave before a moment.
#[derive(Debug)]
struct Held {
    due: Instant,
    frames: BytesMut,
}

/// What a connection has sent, and how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Reads from the socket that brought something.
    pub reads: u64,
    /// Whole frames, the handshake included.
    pub frames: u64,
    /// Reads that completed more than one frame: the client had put several into one write.
    pub reads_with_several_frames: u64,
}

impl Traffic {
    /// Notes `reads` reads, one or none, that completed `frames` frames.
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
            traffic: Traffic::default(),
            sent: 0,
            ready: BytesMut::new(),
            held: VecDeque::new(),
        }
    }

    /// The session that it speaks for.
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
            Err(error) => tracing::warn!(%error, "a reply cannot be encoded"),
        }
    }

    /// Appends bytes that are no frame: the answer to a four-letter word.
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

    /// Holds back what is appended from now on until `due`, or until what is already held back has left.
    pub(crate) fn hold(&mut self, now: Instant, delay: Duration) {
        let due = now.checked_add(delay).unwrap_or(now);
        let due = self.held.back().map_or(due, |last| due.max(last.due));
        self.held.push_back(Held {
            due,
            frames: BytesMut::new(),
        });
    }

    /// Lets go what is due; whether something can be sent.
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

    /// Everything that may be sent now.
    pub(crate) fn take_ready(&mut self) -> BytesMut {
        self.ready.split()
    }

    /// Whether everything is sent and nothing will come after it.
    pub(crate) fn is_done(&self) -> bool {
        self.phase == Phase::Closing && self.ready.is_empty() && self.held.is_empty()
    }
}
