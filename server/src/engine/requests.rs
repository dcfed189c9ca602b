//! Handling a request: note the activity of its session, apply the rules of tests, execute it, reply.
//!
//! Invariants: replies leave in the order of the requests; the events of a write are appended before its reply.
//!
//! Source: `ZooKeeperServer.processPacket`, `PrepRequestProcessor`, `FinalRequestProcessor`.

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, Id, OpCode, Request, Response, SessionId, Xid, Zxid,
    header::RequestHeader,
    jute::{Decode, NegativeCounts, Reader},
    multi::{MultiOp, MultiRequest},
    records::{AuthPacket, Empty, SaslRequest, SyncResponse},
};

use super::{
    ConnId, Engine, Now, auth,
    reads::{self, Asker},
    rules::{Fate, Seen},
    set_watches,
    txn::{Author, Txn},
    writes::{self, MultiOutcome},
};

/// Whether the request is to create an ephemeral node.
fn makes_ephemeral(request: &Request) -> bool {
    let is_ephemeral =
        |flags| CreateMode::from_flags(flags, 0).is_some_and(CreateMode::is_ephemeral);
    match request {
        Request::Create(create) | Request::Create2(create) => is_ephemeral(create.flags),
        Request::Multi(multi) => multi.ops.iter().any(|op| match op {
            MultiOp::Create(create) | MultiOp::Create2(create) => is_ephemeral(create.flags),
            _ => false,
        }),
        _ => false,
    }
}

/// The reply to a request.
struct Answer {
    zxid: Zxid,
    result: Result<Response, ErrorCode>,
    /// Whether the connection is closed after the reply.
    close: bool,
}

impl Engine {
    /// Handles a request of a session.
    pub(super) fn request(&mut self, id: ConnId, session: SessionId, message: Bytes, now: Now) {
        let mut reader = Reader::new(message)
            .with_negative_counts(NegativeCounts::Empty)
            .with_lossy_strings();
        let Ok(RequestHeader { xid, op }) = RequestHeader::decode(&mut reader) else {
            return self.close(id);
        };
        if op.name().is_some() {
            // Unknown operations are not counted: any client could fill the table with them.
            self.counters.note(op);
        }
        let proves = matches!(op, OpCode::AUTH | OpCode::SASL);
        if !proves && self.is_nobody(id) {
            self.reply(id, xid, Zxid::ZERO, &Err(self.refusal()));
            return self.close(id);
        }
        // Two internal operations end the connection, too, although the real server accepts them from every client:
        // `deleteContainer`, which checks no permission, and `createSession`.
        if !op.is_request() {
            self.reply(id, xid, Zxid(-1), &Err(ErrorCode::UNIMPLEMENTED));
            return self.close(id);
        }
        // The real server answers these two packets in its I/O thread, where they do not keep a session alive.
        if !proves {
            self.heard(id, session, now);
        }
        let request = match Request::decode(op, &mut reader) {
            // The real server cannot handle a null token and closes the connection.
            Ok(Request::Sasl(SaslRequest { token: None })) => return self.close(id),
            Ok(request) => request,
            Err(error) => {
                tracing::debug!(%session, %op, %error, "malformed request");
                return self.malformed(id, xid, op);
            }
        };
        let fate = self.rules.fate(Seen {
            op,
            session,
            request: Some(&request),
        });
        if fate.cut_before {
            return self.close(id);
        }
        self.turn_is_over = op == OpCode::GET_ALL_CHILDREN_NUMBER;
        let is_too_early = now.instant < self.ephemerals_from && makes_ephemeral(&request);
        let too_early = is_too_early.then_some(ErrorCode::THROTTLED_OP);
        let fate = Fate {
            refuse: fate.refuse.or(too_early),
            ..fate
        };
        if self.followers.is_some() {
            self.request_at_follower(id, session, xid, request, fate, now);
        } else {
            self.conclude(id, session, xid, &request, fate, now);
        }
    }

    /// Executes a request and answers it, as the rules of tests want it.
    pub(super) fn conclude(
        &mut self,
        id: ConnId,
        session: SessionId,
        xid: Xid,
        request: &Request,
        fate: Fate,
        now: Now,
    ) {
        let op = request.op();
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.muted = fate.lose_reply;
        }
        let refusal = fate.refuse.or_else(|| self.read_only_refusal(id, op));
        let answer = match refusal {
            Some(code) => self.seen_by(id, Err(code)),
            None => self.execute(id, session, request, now),
        };
        if let Some(delay) = fate.delay {
            self.hold(id, delay, now);
        }
        // The reply to a ping has the xid of pings, not the xid of the request. The protocol demands it.
        let xid = if op == OpCode::PING { Xid::PING } else { xid };
        match answer.result {
            Err(code) if op == OpCode::SASL => self.refuse_token(id, xid, code),
            result => self.reply(id, xid, answer.zxid, &result),
        }
        if answer.close || fate.lose_reply {
            self.close(id);
        }
    }

    /// Answers a body that cannot be decoded. From 3.9 on, a malformed multi takes a zxid; other malformed writes do
    /// not.
    fn malformed(&mut self, id: ConnId, xid: Xid, op: OpCode) {
        match op {
            OpCode::AUTH | OpCode::SASL => return self.close(id),
            OpCode::MULTI => {
                self.catch_up(id);
                self.next_zxid();
            }
            _ => {}
        }
        let zxid = self.view_of(id).zxid;
        self.reply(id, xid, zxid, &Err(ErrorCode::MARSHALLING_ERROR));
    }

    fn execute(&mut self, id: ConnId, session: SessionId, request: &Request, now: Now) -> Answer {
        match request {
            Request::Ping(_) => self.seen_by(id, Ok(Response::Ping(Empty {}))),
            Request::Sync(request) => {
                self.catch_up(id);
                let path = request.path.clone();
                self.seen_by(id, Ok(Response::Sync(SyncResponse { path })))
            }
            Request::Auth(packet) => self.authenticate(id, packet),
            Request::Sasl(request) => {
                let result = self.log_in(id, request);
                Answer {
                    zxid: Zxid::ZERO,
                    close: result.is_err(),
                    result,
                }
            }
            Request::SetWatches(request) => {
                let response = Response::SetWatches(Empty {});
                self.set_watches(id, request.into(), response)
            }
            Request::SetWatches2(request) => {
                let response = Response::SetWatches2(Empty {});
                self.set_watches(id, request.into(), response)
            }
            Request::Reconfig(_) => {
                self.catch_up(id);
                self.next_zxid();
                self.seen_by(id, Err(ErrorCode::RECONFIG_DISABLED))
            }
            Request::CloseSession(_) => {
                // Only a read-only server knows its sessions.
                if !self.is_read_only(id) {
                    self.catch_up(id);
                    self.end_session(session, Xid(0), now);
                }
                let result = Ok(Response::CloseSession(Empty {}));
                Answer {
                    close: true,
                    ..self.seen_by(id, result)
                }
            }
            _ => {
                let result = self
                    .read(id, session, request)
                    .unwrap_or_else(|| self.write(id, session, request, now));
                self.seen_by(id, result)
            }
        }
    }

    fn read(
        &mut self,
        id: ConnId,
        session: SessionId,
        request: &Request,
    ) -> Option<Result<Response, ErrorCode>> {
        let ids = self.connections.get(&id)?.ids.clone();
        let asker = Asker {
            connection: id,
            session,
            ids: &ids,
        };
        reads::answer(self.view_of(id), asker, request)
    }

    /// Executes one transaction. It takes a zxid even if it fails.
    pub(super) fn write(
        &mut self,
        id: ConnId,
        session: SessionId,
        request: &Request,
        now: Now,
    ) -> Result<Response, ErrorCode> {
        self.catch_up(id);
        let ids = self.connections.get(&id).map(|own| own.ids.clone());
        self.transaction(ids.as_deref().unwrap_or_default(), session, request, now)
    }

    /// Executes one transaction of somebody with these identities.
    pub(super) fn transaction(
        &mut self,
        ids: &[Id],
        session: SessionId,
        request: &Request,
        now: Now,
    ) -> Result<Response, ErrorCode> {
        if let Request::Multi(multi) = request
            && writes::lacks_acl(multi, session)
        {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        let author = Author {
            zxid: self.next_zxid(),
            unix_ms: now.unix_ms,
            ids,
            knows_sasl: self.config.sasl.is_some(),
        };
        let mut txn = Txn::new(&mut self.live.tree, author);
        let result = match request {
            Request::Multi(request) => return self.finish_multi(author, session, request),
            _ => writes::apply(&mut txn, session, request).unwrap_or(Err(ErrorCode::UNIMPLEMENTED)),
        };
        if result.is_ok() {
            let changes = txn.commit();
            self.publish(author.zxid, changes);
        }
        result
    }

    fn finish_multi(
        &mut self,
        author: Author<'_>,
        session: SessionId,
        request: &MultiRequest,
    ) -> Result<Response, ErrorCode> {
        let mut txn = Txn::new(&mut self.live.tree, author);
        match writes::apply_multi(&mut txn, session, request) {
            MultiOutcome::Applied(response) => {
                let changes = txn.commit();
                self.publish(author.zxid, changes);
                Ok(Response::Multi(response))
            }
            MultiOutcome::Failed(response) => {
                txn.roll_back();
                Ok(Response::Multi(response))
            }
            MultiOutcome::Malformed => Err(ErrorCode::MARSHALLING_ERROR),
        }
    }

    fn set_watches(
        &mut self,
        id: ConnId,
        lists: set_watches::Lists<'_>,
        response: Response,
    ) -> Answer {
        let missed = set_watches::apply(self.view_of(id), id, lists);
        for (event, path) in missed {
            self.with(id, |connection| connection.notify(Zxid(-1), event, path));
            self.counters.notifications = self.counters.notifications.saturating_add(1);
        }
        self.seen_by(id, Ok(response))
    }

    fn authenticate(&mut self, id: ConnId, packet: &AuthPacket) -> Answer {
        let proved = (self.connections.get_mut(&id)).and_then(|connection| {
            let identity = auth::identity(packet, connection.remote.ip())?;
            if self.config.super_digest.as_deref() == Some(&*identity.id) {
                connection.ids = auth::with(&connection.ids, auth::super_id())?;
            }
            connection.ids = auth::with(&connection.ids, identity)?;
            Some(())
        });
        Answer {
            zxid: Zxid::ZERO,
            result: proved
                .map(|()| Response::Auth(Empty {}))
                .ok_or(ErrorCode::AUTH_FAILED),
            close: proved.is_none(),
        }
    }

    /// A reply with the zxid of the state that the connection sees.
    fn seen_by(&mut self, id: ConnId, result: Result<Response, ErrorCode>) -> Answer {
        Answer {
            zxid: self.view_of(id).zxid,
            result,
            close: false,
        }
    }

    pub(super) fn reply(
        &mut self,
        id: ConnId,
        xid: Xid,
        zxid: Zxid,
        result: &Result<Response, ErrorCode>,
    ) {
        self.counters.replies = self.counters.replies.saturating_add(1);
        self.with(id, |connection| {
            connection.reply(xid, zxid, result.as_ref().map_err(|code| *code));
        });
    }
}
