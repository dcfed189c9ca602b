//! The first frame of a connection: it starts a session or resumes one.
//!
//! The engine closes the connection without a reply if the frame is too short, or if the client has seen later
//! transactions than the server. Otherwise it starts a new session, or attaches the old one to this connection. If the
//! old session does not exist or the password is wrong, it answers with zeros.
//!
//! One deliberate difference: the real server closes the session's present connection before it checks the password. So
//! every client that knows a session id can disconnect the owner. Here a wrong password has no effect on the session.
//!
//! Source: `ZooKeeperServer.processConnectRequest`, `reopenSession`.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    ErrorCode, OpCode, SessionId, Xid,
    connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN},
    jute::{Decode, Encode, Reader},
};

use super::{
    ConnId, Engine, Now, ServerId,
    connection::{Connection, Phase},
    followers::Mutation,
    rules::Seen,
};

impl Engine {
    /// Handles the first message of a connection.
    pub(super) fn handshake(&mut self, id: ConnId, message: Bytes, now: Now) {
        let Ok(request) = ConnectRequest::decode(&mut Reader::new(message.clone())) else {
            return self.close(id);
        };
        if self.rules.is_session_stalled(request.session_id) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.named = request.session_id;
                connection.unheard = Some(message);
            }
            return;
        }
        let awaits = |own: &Connection| own.awaits_session;
        if self.connections.get(&id).is_some_and(awaits) {
            return self.close(id);
        }
        let server = self.server_of(id);
        let lags = self.lags(server, request.last_zxid_seen);
        if lags.is_some() && self.awaits_leader(id, request.session_id) {
            if let Some(connection) = self.connections.get_mut(&id) {
                connection.named = request.session_id;
                connection.unheard = Some(message);
            }
            return;
        }
        self.counters.note(OpCode::CREATE_SESSION);
        let Some(lagging) = lags else {
            return self.close(id);
        };
        if self.rules.refuse_handshakes || request.last_zxid_seen > self.live.zxid {
            return self.close(id);
        }
        let fate = self.rules.fate(Seen {
            op: OpCode::CREATE_SESSION,
            session: request.session_id,
            request: None,
        });
        if fate.cut_before {
            return self.close(id);
        }
        let timeout = self.negotiate(request.timeout_ms);
        if self.is_read_only(id) {
            return self.read_only_handshake(id, &request, timeout);
        }
        let is_new = request.session_id == SessionId::NONE;
        if self.leads_in_vain(server) && self.sessions.get(request.session_id).is_none() {
            // It cannot know that the session is over.
            return self.close(id);
        }
        let session = if is_new {
            Some(self.start_session(server, timeout, now))
        } else {
            self.resume_session(id, &request, timeout, now)
        };
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.muted = fate.lose_reply;
            // A follower applies the start of the session before it answers, so a new session does not lag behind.
            connection.lagging = lagging && !is_new;
            connection.awaits_session = is_new && self.followers.is_some();
        }
        if let Some(delay) = fate.delay {
            self.hold(id, delay, now);
        }
        let knows_read_only = request.read_only.is_some();
        if let Some(session) = session.filter(|_| is_new && self.followers.is_some()) {
            let start = Mutation::Start(id, timeout, knows_read_only);
            let answer = Err(ErrorCode::SESSION_MOVED);
            return self.replicate((session, Xid(0)), start, answer, now);
        }
        self.welcome(id, session, timeout, knows_read_only);
    }

    /// Answers the handshake with the session, or with zeros if the client has no session.
    pub(super) fn welcome(
        &mut self,
        id: ConnId,
        session: Option<SessionId>,
        timeout: Duration,
        knows_read_only: bool,
    ) {
        let is_read_only = self.is_read_only(id);
        let Some(connection) = self.connections.get_mut(&id) else {
            return;
        };
        if connection.phase != Phase::Fresh {
            return;
        }
        connection.awaits_session = false;
        self.handshakes.remove(&(connection.handshake_due, id));
        let password = session.map_or(Bytes::from_static(&[0; PASSWORD_LEN]), |session| {
            self.sessions.password(session)
        });
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: session.map_or(0, |_| millis(timeout)),
            session_id: session.unwrap_or(SessionId::NONE),
            password: Some(password),
            read_only: knows_read_only.then_some(is_read_only),
        };
        self.counters.replies = self.counters.replies.saturating_add(1);
        self.with(id, |connection| {
            connection.send(|writer| response.encode(writer));
            if let Some(session) = session {
                connection.phase = Phase::Open(session);
                connection.named = session;
            }
        });
        if let Some(session) = session.and_then(|session| self.sessions.get_mut(session)) {
            session.connection = Some(id);
        }
        let is_muted = |own: &Connection| own.muted;
        if session.is_none() || self.connections.get(&id).is_some_and(is_muted) {
            self.close(id);
        }
    }

    fn start_session(&mut self, server: ServerId, timeout: Duration, now: Now) -> SessionId {
        self.next_zxid();
        let session = self.sessions.create(timeout, now.instant);
        if let Some(state) = self.sessions.get_mut(session) {
            state.owner = server;
        }
        self.counters.sessions = self.counters.sessions.saturating_add(1);
        tracing::debug!(%session, ?timeout, "session started");
        session
    }

    /// Attaches a session to a connection; `None` if there is no such session or the password is wrong.
    fn resume_session(
        &mut self,
        id: ConnId,
        request: &ConnectRequest,
        timeout: Duration,
        now: Now,
    ) -> Option<SessionId> {
        let wanted = request.session_id;
        self.sessions.get(wanted)?;
        if request.password.as_ref() != Some(&self.sessions.password(wanted)) {
            tracing::debug!(session = %wanted, "session not resumed: wrong password");
            return None;
        }
        if let Some(before) = self.connection_of(wanted).filter(|before| *before != id) {
            self.close(before);
        }
        let server = self.server_of(id);
        if !self.leads_in_vain(server) {
            let session = self.sessions.get_mut(wanted)?;
            (session.timeout, session.owner) = (timeout, server);
            self.sessions.touch(wanted, now.instant);
        }
        tracing::debug!(session = %wanted, ?timeout, "session resumed");
        Some(wanted)
    }

    /// The configured value, or two ticks.
    pub(super) fn min_session_timeout(&self) -> Duration {
        let set = self.config.min_session_timeout;
        set.unwrap_or_else(|| self.config.tick_time.saturating_mul(2))
    }

    /// The timeout that the server grants. Never zero, because a client takes zero as a refusal.
    fn negotiate(&self, asked_ms: i32) -> Duration {
        let asked = Duration::from_millis(u64::try_from(asked_ms).unwrap_or(0));
        let min = self.min_session_timeout().max(Duration::from_millis(1));
        asked.max(min).min(self.config.max_session_timeout.max(min))
    }
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
