//! The lease of the session: until when no server can have ended it, by the policy of the user.
//!
//! Not here: what answers prove, and why (`proof`).

use std::{sync::Arc, time::Instant};

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, Version, Xid,
    multi::{MultiOp, MultiRequest},
    records::CheckVersionRequest,
};

use super::{
    LeasePolicy, Machine, Output, State,
    link::connection::Connection,
    proof::{Proof, is_transaction},
    requests::in_flight::{InFlight, ReplyTo},
};

/// Keeps the lease proved while it lives. Made by [`Machine::keep_lease`].
#[derive(Debug)]
pub struct LeaseToken(#[allow(dead_code, reason = "the machine counts its clones")] Arc<()>);

impl<T> Machine<T> {
    /// The instant until which no server can have ended the session: see [`LeasePolicy`]. `None`
    /// without a session, or with one that only a read-only server knows.
    #[must_use]
    pub fn lease_deadline(&self) -> Option<Instant> {
        let from = self.session.lease_from(self.config.lease)?;
        Some(from + self.timing.lease)
    }

    /// Returns a token; while any token lives, the client writes often enough to keep the lease
    /// proved.
    #[must_use]
    pub fn keep_lease(&self) -> LeaseToken {
        LeaseToken(self.lease_keepers.clone())
    }

    /// Asks for [`Output::LeaseRenewed`] as soon as the lease is valid. Needs a [`LeaseToken`].
    pub fn await_lease(&mut self) {
        self.awaits_lease = true;
    }

    /// The handshake, which was sent at `sent`, is answered.
    pub(crate) fn begin_lease(&mut self, now: Instant, sent: Instant, state: State, is_new: bool) {
        let timeout = self.session.timeout;
        let Some(connection) = &mut self.connection else {
            return;
        };
        // A read-only server has no leader.
        if state == State::ReadOnly {
            return;
        }
        connection.proof = Some(Proof::new(sent, now, timeout, !is_new));
        self.session.confirm(sent);
        if is_new {
            // A session is made by a transaction, and the leader counts from when it handled it.
            self.session.prove(sent);
        }
        self.lease_renewed(now);
    }

    /// A ping that was sent at this instant is answered: its server has heard of the session.
    pub(crate) fn ping_answered(&mut self, now: Instant, sent: Instant) {
        if self.touched(now, sent).is_some() {
            self.lease_renewed(now);
        }
    }

    /// A request of the client was sent and answered at these instants. Returns the proof; `None`
    /// on a read-only server.
    fn touched(&mut self, now: Instant, sent: Instant) -> Option<&mut Proof> {
        let connection = self.connection.as_mut()?;
        let proof = connection.proof.as_mut()?;
        proof.touched(sent, now);
        self.session.confirm(sent);
        Some(proof)
    }

    /// A request is answered with this code; `None` if the reply was not read.
    ///
    /// A read is not counted: some servers do not count it.
    pub(crate) fn write_answered(
        &mut self,
        now: Instant,
        request: &InFlight<T>,
        reply: Option<ErrorCode>,
    ) {
        if !request.op.is_write() {
            return;
        }
        if let Some(proof) = self.touched(now, request.sent) {
            let is_transaction = reply.is_some_and(is_transaction);
            if let Some(touched) = proof.answered(request.xid, is_transaction) {
                self.session.prove(touched);
            }
            self.lease_renewed(now);
        }
    }

    fn lease_renewed(&mut self, now: Instant) {
        if self.awaits_lease && self.lease_deadline().is_some_and(|deadline| now < deadline) {
            self.awaits_lease = false;
            self.outputs.push_back(Output::LeaseRenewed);
        }
    }

    /// When the next ping is due.
    pub(crate) fn ping_due(&self, open: &Connection<T>) -> Instant {
        if self.awaits_lease && matches!(self.config.lease, LeasePolicy::Assumed { .. }) {
            open.last_ping
        } else {
            open.last_ping + self.timing.ping
        }
    }

    /// When the next write is due that is to prove something. A client that writes for its users
    /// needs none.
    pub(crate) fn proof_due(&self, open: &Connection<T>) -> Option<Instant> {
        if Arc::strong_count(&self.lease_keepers) == 1 || self.config.lease != LeasePolicy::Proved {
            return None;
        }
        let proof = open.proof.as_ref()?;
        if open.is_proving || open.is_moving {
            return None;
        }
        let interval = self.timing.proof;
        let regular = proof.regular_write(interval);
        // The lease is about to run out, or has: a write goes out as soon as it proves something.
        let lasts = self.timing.lease.saturating_sub(interval);
        let runs_out = self.session.proved.map(|proved| proved + lasts);
        let useful = proof.next_write(self.session.proved);
        let urgent = useful.map(|useful| runs_out.map_or(useful, |runs_out| useful.max(runs_out)));
        [regular, urgent].into_iter().flatten().min()
    }

    /// Sends a transaction that changes nothing.
    pub(crate) fn send_proof(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.is_proving = true;
            let check = MultiOp::Check(CheckVersionRequest {
                path: "/".to_owned(),
                version: Version::ANY,
            });
            let request = Request::Multi(MultiRequest { ops: vec![check] });
            self.enqueue_own(request, ReplyTo::Proof);
        }
    }

    /// The write of [`send_proof`](Self::send_proof) is answered.
    pub(crate) fn proof_answered(&mut self) {
        if let Some(connection) = &mut self.connection {
            connection.is_proving = false;
        }
    }

    /// Whether an operation is a write: it goes into the proof when it is sent.
    pub(crate) fn write_sent(connection: &mut Connection<T>, now: Instant, xid: Xid, op: OpCode) {
        if let Some(proof) = &mut connection.proof
            && op.is_write()
        {
            proof.sent(now, xid);
        }
    }
}
