//! What is known of the session: what the client needs to resume it, and the durations that follow
//! from its timeout.
//!
//! Not here: the connection (`connection`).

use std::time::{Duration, Instant};

use bytes::Bytes;
use lockkeeper_proto::{
    SessionId, Zxid,
    connect::{ConnectRequest, PASSWORD_LEN},
};

#[cfg(feature = "tokio")]
use crate::machine::ticket::{SessionTicket, Within};
use crate::machine::{config::Config, timing::Timing};

/// A session, or none yet.
pub(super) struct Session {
    id: SessionId,
    password: Bytes,
    timeout: Duration,
    timing: Timing,
    /// The newest transaction that a reply of this session has reported.
    last_zxid: Zxid,
    /// When the client last heard of a server in this session; `None` before the first connection. The
    /// answer to a handshake does not count before the login behind it: a client that cannot log in
    /// would keep a session for ever that it cannot use.
    heard: Option<Instant>,
}

impl Session {
    /// The session of another client, or none yet.
    pub(super) fn first(config: &mut Config) -> Self {
        let none = Self::none(config);
        let Some(ticket) = config.session.take() else {
            return none;
        };
        let timeout = Duration::from_millis(ticket.timeout.0.unsigned_abs().into());
        Self {
            id: ticket.id,
            password: ticket.password,
            timeout,
            timing: Timing::new(config, timeout),
            last_zxid: ticket.last_zxid,
            heard: None,
        }
    }

    /// What another client needs to go on with this session.
    #[cfg(feature = "tokio")]
    pub(super) fn ticket(&self) -> SessionTicket {
        let timeout = i32::try_from(self.timeout.as_millis());
        SessionTicket {
            format: Within(1),
            id: self.id,
            password: self.password.clone(),
            timeout: Within(timeout.unwrap_or(i32::MAX)),
            last_zxid: self.last_zxid,
            chroot: String::new(),
        }
    }

    /// No session yet.
    pub(super) fn none(config: &Config) -> Self {
        Self {
            id: SessionId::NONE,
            password: Bytes::from_static(&[0; PASSWORD_LEN]),
            timeout: config.session_timeout,
            timing: Timing::new(config, config.session_timeout),
            last_zxid: Zxid::ZERO,
            heard: None,
        }
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    pub(super) fn timeout(&self) -> Duration {
        self.timeout
    }

    pub(super) fn timing(&self) -> &Timing {
        &self.timing
    }

    pub(super) fn last_zxid(&self) -> Zxid {
        self.last_zxid
    }

    pub(super) fn heard(&self) -> Option<Instant> {
        self.heard
    }

    /// A server has said something.
    pub(super) fn hear(&mut self, now: Instant) {
        self.heard = Some(now);
    }

    /// A reply names this transaction.
    pub(super) fn see(&mut self, zxid: Zxid) {
        // Some replies name none, or -1.
        self.last_zxid = self.last_zxid.max(zxid);
    }

    /// Whether there is a session.
    pub(super) fn is_resumable(&self) -> bool {
        self.id != SessionId::NONE
    }

    /// The request that begins a session, or resumes this one.
    pub(super) fn request(&self, config: &Config) -> ConnectRequest {
        ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: self.last_zxid,
            timeout_ms: config.session_timeout_ms(),
            session_id: self.id,
            password: Some(self.password.clone()),
            read_only: Some(false),
        }
    }

    /// A server has begun this session, or resumed it, with this timeout.
    pub(super) fn grant(
        &mut self,
        config: &Config,
        (id, password): (SessionId, Bytes),
        timeout: Duration,
    ) {
        (self.id, self.password, self.timeout) = (id, password, timeout);
        self.timing = Timing::new(config, timeout);
    }
}
