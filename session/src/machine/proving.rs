//! What requests prove of the lease: the router's part for it.
//!
//! Not here: when something is due, and what the answers prove (`lease`).

use std::time::Instant;

use lockkeeper_proto::{ErrorCode, OpCode, Request, Response, jute::Reader, records::SyncRequest};

use super::{
    Encoded, Output,
    lease::{Checked, ForLeader, Step, is_for_leader, is_transaction},
    requests::Pending,
    router::{ReplyTo, Router},
};

impl<T> Router<'_, T> {
    pub(super) fn lease_renewed(&mut self, now: Instant) {
        let (answer, timing) = (self.link.slowest(), self.link.timing());
        if self.lease.take_renewed(now, answer, timing) {
            self.out.push(Output::LeaseRenewed);
        }
    }

    /// What the answer to a request proves, with this code if its reply was read. A read is not
    /// counted: some servers do not count it.
    pub(super) fn prove(
        &mut self,
        now: Instant,
        sent: &Pending<ReplyTo<T>>,
        code: Option<ErrorCode>,
    ) {
        let op = sent.request.op();
        if is_for_leader(op) {
            let is_handled = code.is_some_and(is_transaction);
            let request = ForLeader {
                xid: sent.xid,
                is_write: op.is_write(),
                is_own: sent.is_own(),
            };
            let timing = self.link.timing();
            (self.lease).answered(now, (request, sent.at), is_handled, timing);
            if op.is_write() {
                self.link.write_answered(is_handled);
                if let Some(code) = code {
                    self.link.note_throttling(now, code);
                }
            }
            self.lease_renewed(now);
        }
    }

    /// Sends what is due to keep the lease proved.
    pub(super) fn prove_lease(&mut self) {
        let due = self.lease.due(self.link.slowest(), self.link.timing());
        let Some((_, step)) = due else {
            return;
        };
        self.lease.queued(step);
        let (request, checked) = match step {
            Step::First => {
                let path = "/".to_owned();
                (Request::Sync(SyncRequest { path }).into(), None)
            }
            Step::Second => {
                let max_request = self.link.config().max_request;
                let (nodes, checked) = self.lease.nodes_to_check(max_request);
                (Encoded::check_all(nodes), Some(checked))
            }
        };
        self.requests.push_ahead(request, ReplyTo::Proof(checked));
    }

    /// Which of the nodes that a write of a proof checks are gone.
    pub(super) fn note_checked(checked: Option<&Checked>, op: OpCode, body: &mut Reader) {
        if let Some(checked) = checked {
            if let Ok(Response::Multi(response)) = Response::decode(op, body) {
                if let Some((index, ErrorCode::NO_NODE)) = response.failure() {
                    checked.is_gone(index);
                }
            }
        }
    }
}
