//! The first frame of a connection: it starts a session or resumes one.
//!
//! The engine closes the connection without a reply if the frame is too short, or if the client has
//! seen later transactions than the server. Otherwise it starts a new session, or attaches the old
//! one to this connection. If the old session does not exist or the password is wrong, it answers
//! with zeros.
//!
//! One deliberate difference: the real server closes the session's present connection before it
//! checks the password. So every client that knows a session id can disconnect the owner. Here a
//! wrong password has no effect on the session.
//!
//! Source: `ZooKeeperServer.processConnectRequest`, `reopenSession`.

use std::time::Duration;

use bytes::Bytes;
use lockkeeper_proto::{
    OpCode, SessionId, Xid,
    connect::{ConnectRequest, ConnectResponse, PASSWORD_LEN},
    jute::{Decode, Encode, Reader},
};

use super::{
    Engine,
    basics::{ConnId, Now, ServerId},
    commit::Deed,
    connection::Phase,
    counters::count,
    member::{Role, Upward},
};

impl Engine {
    /// Handles the first message of a connection.
    pub(super) fn handshake(&mut self, id: ConnId, message: Bytes, now: Now) {
        let Ok(request) = ConnectRequest::decode(&mut Reader::new(message.clone())) else {
            return self.close(id);
        };
        let server = self.connections.server_of(id);
        if !self.is_serving(server) {
            return self.close(id);
        }
        let Some(connection) = self.connections.get_mut(id) else {
            return;
        };
        let knows = request.last_zxid_seen <= self.state.view_at(server).zxid;
        let resumes = request.session_id != SessionId::NONE;
        let is_stalled = self.rules.is_session_stalled(request.session_id);
        if is_stalled || knows && self.state.ensemble.awaits_leader(server, resumes) {
            let wanted = request.session_id;
            (connection.named, connection.unheard) = (wanted, Some(message));
            if !is_stalled && request.password == Some(self.sessions.password(wanted)) {
                self.tell_leader(server, Upward::Resume(wanted), now);
            }
            return;
        }
        self.connections.counters.note(OpCode::CREATE_SESSION);
        if self.rules.refuse_handshakes || !knows {
            return self.close(id);
        }
        let fate = self.rules.fate(request.session_id, None);
        // There is no place for an error.
        if fate.cut_before || fate.refuse.is_some() {
            return self.close(id);
        }
        let timeout = self.config.negotiate(request.timeout_ms);
        if self.leads_in_vain(server) && self.sessions.get(request.session_id).is_none() {
            // It cannot know that the session is over.
            return self.close(id);
        }
        let is_told_later = !resumes && !self.state.ensemble.is_empty();
        if let Some(connection) = self.connections.get_mut(id) {
            connection.knows_read_only = request.read_only.is_some();
            connection.awaits_session = is_told_later;
        }
        let session = if resumes {
            self.resume_session(id, &request, timeout, now)
        } else {
            count(&mut self.connections.counters.sessions);
            let session = self.sessions.create(server, timeout, now.instant);
            tracing::debug!(%session, ?timeout, "session started");
            let _ = self.transact((session, Xid(0)), Deed::Start(id, timeout), now);
            Some(session)
        };
        if fate.lose_reply {
            return self.close(id);
        }
        if let Some(delay) = fate.delay {
            self.connections.hold(id, delay, now.instant);
        }
        if !is_told_later {
            let granted = |session| Some((session, self.sessions.get(session)?.timeout));
            self.welcome(id, session.and_then(granted));
        }
    }

    /// Whether this server takes itself for the leader although there is another one.
    fn leads_in_vain(&self, server: ServerId) -> bool {
        self.state.ensemble.role(server) == Role::Former
    }

    /// Answers the handshake with the session and its timeout, or with zeros if the client has no
    /// session.
    pub(super) fn welcome(&mut self, id: ConnId, granted: Option<(SessionId, Duration)>) {
        let connection = self.connections.get_mut(id);
        let Some(connection) = connection.filter(|own| own.phase == Phase::Fresh) else {
            return;
        };
        connection.awaits_session = false;
        let session = granted.map(|(session, _)| session);
        // A client that is told of an expiry on demand closes the connection when it knows, or has what
        // is left of the time for its handshake.
        let is_refused = session.is_none() && connection.told_end_of.is_none();
        let read_only = connection.knows_read_only.then_some(false);
        if session.is_some() {
            self.connections.end_handshake(id);
        }
        let password = session.map_or(Bytes::from_static(&[0; PASSWORD_LEN]), |session| {
            self.sessions.password(session)
        });
        let response = ConnectResponse {
            protocol_version: 0,
            timeout_ms: granted.map_or(0, |(_, timeout)| millis(timeout)),
            session_id: session.unwrap_or(SessionId::NONE),
            password: Some(password),
            read_only,
        };
        self.connections.with(id, |connection| {
            connection.send(|writer| response.encode(writer));
        });
        if let Some(session) = session {
            self.connections.open(id, session);
            if let Some(session) = self.sessions.get_mut(session) {
                session.connection = Some(id);
            }
        }
        if is_refused {
            self.close(id);
        }
    }

    /// Attaches a session to a connection; `None` if there is no such session or the password is
    /// wrong.
    fn resume_session(
        &mut self,
        id: ConnId,
        request: &ConnectRequest,
        timeout: Duration,
        now: Now,
    ) -> Option<SessionId> {
        let wanted = request.session_id;
        let session = self.sessions.get(wanted)?;
        let (before, is_ending) = (session.connection, session.is_ending);
        if request.password.as_ref() != Some(&self.sessions.password(wanted)) {
            tracing::debug!(session = %wanted, "session not resumed: wrong password");
            return None;
        }
        if is_ending {
            let connection = self.connections.get_mut(id)?;
            (connection.told_end_of, connection.is_deaf) = (Some(wanted), true);
            return None;
        }
        if let Some(before) = before.filter(|before| *before != id) {
            self.close(before);
        }
        let server = self.connections.server_of(id);
        if !self.leads_in_vain(server) {
            let session = self.sessions.get_mut(wanted)?;
            session.timeout = timeout;
            self.sessions.own(wanted, server, now.instant);
        }
        tracing::debug!(session = %wanted, ?timeout, "session resumed");
        Some(wanted)
    }
}

fn millis(time: Duration) -> i32 {
    i32::try_from(time.as_millis()).unwrap_or(i32::MAX)
}
