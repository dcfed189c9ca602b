//! Handling a request: note the activity of its session, apply the rules of tests, execute it,
//! reply.
//!
//! Invariants: replies leave in the order of the requests; the events of a write are appended
//! before its reply.
//!
//! Source: `ZooKeeperServer.processPacket`, `processSasl`, `PrepRequestProcessor`,
//! `FinalRequestProcessor`.

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, SessionId, Xid, Zxid,
    header::RequestHeader,
    jute::{self, Decode},
    records::{AuthPacket, Empty, SaslRequest, SaslResponse},
};

use super::{
    Engine, STASH_LIMIT, auth,
    basics::{ConnId, Now},
    commit::Deed,
    member::{Asked, Upward, proves},
    reads::Reader,
    rules::Fate,
    set_watches,
    view::View,
    writes,
};

/// Whether the request is to create an ephemeral node.
fn makes_ephemeral(request: &Request) -> bool {
    let is_ephemeral =
        |flags| CreateMode::from_flags(flags, 0).is_some_and(CreateMode::is_ephemeral);
    match request {
        Request::Create(create) | Request::Create2(create) => is_ephemeral(create.flags),
        // In a multi, its flags decide.
        Request::CreateTtl(create) => is_ephemeral(create.flags),
        Request::Multi(multi) => multi.ops.iter().any(makes_ephemeral),
        _ => false,
    }
}

impl Engine {
    /// Handles a request of a session.
    pub(super) fn request(&mut self, id: ConnId, session: SessionId, message: Bytes, now: Now) {
        let length = message.len().saturating_add(size_of::<(Asked, Request)>());
        let mut reader = jute::Reader::new(message).tolerant();
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.close(id);
        };
        if op.name().is_some() {
            // Unknown operations are not counted: any client could fill the table with them.
            self.connections.counters.note(op);
        }
        // Two internal operations end the connection, too, although the real server accepts them from
        // every client: `deleteContainer`, which checks no permission, and `createSession`.
        if !op.is_request() {
            let refusal = Err(ErrorCode::UNIMPLEMENTED);
            self.connections.reply(id, xid, Zxid(-1), &refusal);
            return self.close(id);
        }
        // The real server answers these two packets in its I/O thread, where they do not keep a
        // session alive.
        if !proves(op) {
            self.heard(id, session, now);
        }
        let (request, fate) = match Request::decode(op, &mut reader) {
            // The real server cannot handle a null token and closes the connection.
            Ok(Request::Sasl(SaslRequest { token: None })) => return self.close(id),
            Ok(request) => {
                let mut fate = self.rules.fate(session, Some(&request));
                let is_too_early =
                    now.instant < self.ephemerals_from.instant && makes_ephemeral(&request);
                let too_early = is_too_early.then_some(ErrorCode::THROTTLED_OP);
                fate.refuse = fate.refuse.or(too_early);
                (request, fate)
            }
            Err(_) if proves(op) => return self.close(id),
            Err(error) => {
                tracing::debug!(%session, %op, %error, "malformed request");
                // From 3.9 on, a malformed multi takes a zxid; other malformed writes do not.
                if op == OpCode::MULTI {
                    self.state.next_zxid();
                }
                // It is refused in its turn, as a request that asks for nothing.
                let refuse = Some(ErrorCode::MARSHALLING_ERROR);
                let fate = Fate {
                    refuse,
                    ..Fate::default()
                };
                (Request::WhoAmI(Empty {}), fate)
            }
        };
        if fate.cut_before {
            return self.close(id);
        }
        let asked = Asked {
            connection: id,
            session,
            xid,
            request: Arc::new(request),
            length,
            fate,
        };
        let server = self.connections.server_of(id);
        let leads_alone = self.state.ensemble.leads_alone(server);
        let member = self.state.ensemble.members.get_mut(&server);
        let waiting = member.as_ref().and_then(|own| own.waiting.get(&session));
        if waiting.is_some_and(|own| own.length > STASH_LIMIT) {
            tracing::warn!(%session, "connection cut: over 8 MiB of requests wait for a write");
            return self.cut(id);
        }
        if !member.is_some_and(|own| own.take(&asked, leads_alone)) {
            return self.conclude(&asked, now);
        }
        if let Some(connection) = self.connections.get_mut(id) {
            connection.is_deaf = fate.lose_reply;
        }
        if asked.needs_commit() {
            self.tell_leader(server, Upward::Write(asked), now);
        }
    }

    /// Executes a request and answers it, as the rules of tests want it.
    pub(super) fn conclude(&mut self, asked: &Asked, now: Now) {
        let (id, fate, op) = (asked.connection, asked.fate, asked.request.op());
        if fate.lose_reply {
            // Nothing that the request causes is sent. What it leaves, a watch, goes below.
            self.close(id);
        }
        let result = (fate.refuse).map_or_else(|| self.execute(asked, now), Err);
        let is_done = fate.refuse.is_none();
        let ends = op == OpCode::CLOSE_SESSION || proves(op) && result.is_err();
        if let Some(delay) = fate.delay {
            self.connections.hold(id, delay, now.instant);
        }
        let zxid = if is_done && proves(op) {
            Zxid::ZERO
        } else {
            self.view_of(id).zxid
        };
        // The reply to a ping has the xid of pings, not the xid of the request. The protocol
        // demands it.
        let xid = if op == OpCode::PING {
            Xid::PING
        } else {
            asked.xid
        };
        self.connections.reply(id, xid, zxid, &result);
        if is_done && ends || fate.lose_reply {
            self.close(id);
        }
    }

    /// The state that a connection sees.
    fn view_of(&mut self, id: ConnId) -> &mut View {
        let server = self.connections.server_of(id);
        self.state.view_at_mut(server)
    }

    fn execute(&mut self, asked: &Asked, now: Now) -> Result<Response, ErrorCode> {
        let id = asked.connection;
        match &*asked.request {
            Request::Ping(_) => Ok(Response::Ping(Empty {})),
            Request::Sync(request) => Ok(writes::synced(&request.path)),
            Request::Auth(packet) => self.authenticate(id, packet),
            // No mechanism is configured.
            Request::Sasl(_) => Ok(Response::Sasl(SaslResponse { token: None })),
            Request::SetWatches(_) => Ok(Response::SetWatches(self.set_watches(asked))),
            Request::SetWatches2(_) => Ok(Response::SetWatches2(self.set_watches(asked))),
            Request::CloseSession(_) => {
                self.end_session(asked.session, Xid(0), now);
                Ok(Response::CloseSession(Empty {}))
            }
            _ => match self.read(asked) {
                Some(read) => read,
                None => self.write(asked, now),
            },
        }
    }

    fn read(&mut self, asked: &Asked) -> Option<Result<Response, ErrorCode>> {
        let ids = Arc::clone(&self.connections.get(asked.connection)?.ids);
        let view = self.view_of(asked.connection);
        let reader = Reader {
            view,
            connection: asked.connection,
            session: asked.session,
            ids: &ids,
        };
        reader.answer(&asked.request)
    }

    /// Executes one transaction of a client.
    pub(super) fn write(&mut self, asked: &Asked, now: Now) -> Result<Response, ErrorCode> {
        let connection = self.connections.get(asked.connection);
        let ids = connection.map_or_else(|| Arc::from([]), |own| Arc::clone(&own.ids));
        let deed = Deed::Request(Arc::clone(&asked.request), ids);
        self.transact((asked.session, asked.xid), deed, now)
    }

    fn set_watches(&mut self, asked: &Asked) -> Empty {
        let id = asked.connection;
        let view = self.view_of(id);
        for (event, path) in set_watches::apply(view, id, &asked.request) {
            self.connections.notify(id, event, path);
        }
        Empty {}
    }

    fn authenticate(&mut self, id: ConnId, packet: &AuthPacket) -> Result<Response, ErrorCode> {
        let super_digest = self.config.super_digest.as_deref();
        let own = self.connections.get_mut(id).ok_or(ErrorCode::AUTH_FAILED)?;
        own.ids = auth::proved(&own.ids, packet, own.remote.ip(), super_digest)
            .ok_or(ErrorCode::AUTH_FAILED)?;
        Ok(Response::Auth(Empty {}))
    }
}
