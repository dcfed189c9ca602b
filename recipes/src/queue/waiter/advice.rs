//! What the other contenders of the same client know of the queue, so that a waiter need not list it.
//!
//! Without advice it does. Not here: what the contenders know together (`order::crowd`), what may be
//! concluded from it (`turn`).

use std::sync::Arc;

use lockkeeper_proto::{OpCode, Response};
use lockkeeper_session::machine::Encoded;

use super::Waiter;

impl Waiter {
    /// Waits for the last contender of the same client ahead, without a listing. Returns whether
    /// there is one.
    pub(super) fn follow(&mut self, last: Option<(Arc<str>, usize)>) -> bool {
        let (Some((nearest, ahead)), Some(own)) = (last, self.own()) else {
            return false;
        };
        self.ahead = ahead;
        let missing = self.turn.follow(&own, nearest);
        self.watch(missing, &own);
        true
    }

    /// Takes what the others know: that it is this waiter's turn, or whom to wait for. Returns
    /// whether they know it.
    pub(super) async fn take_advice(&mut self) -> bool {
        let is_told = self.turn.has_left() && self.take_turn_or_follow();
        is_told || self.waits_behind_few().await
    }

    /// The node just ahead was deleted. Returns whether the others know that nobody is ahead, or who
    /// is.
    fn take_turn_or_follow(&mut self) -> bool {
        let Some(member) = self.node.member() else {
            return false;
        };
        let connection = self.connection();
        let may_use = |listed_on| self.turn.may_be_first(connection, listed_on);
        if member.is_first(self.node.name(), may_use) {
            self.turn.first();
            return true;
        }
        let last = self.left.and_then(|left| member.left(left));
        self.follow(last)
    }

    /// Waits behind the few that may be ahead, if the others know them. Returns whether it does.
    pub(super) async fn waits_behind_few(&mut self) -> bool {
        if self.turn.has_thinned() && !self.looks_ahead().await {
            return false;
        }
        let (Some(member), Some(own)) = (self.node.member(), self.own()) else {
            return false;
        };
        let Some(ahead) = member.few_ahead(&own) else {
            return false;
        };
        let connection = self.connection();
        let Some(missing) = self.turn.narrow(&own, &ahead, connection) else {
            return false;
        };
        self.ahead = ahead.len();
        self.watch(missing, &own);
        true
    }

    /// Looks which of the few that may be ahead of the nearest one are there. Returns whether the
    /// servers have said it of each.
    pub(super) async fn looks_ahead(&self) -> bool {
        let directory = self.node.directory();
        let is_present = self.connection().is_some_and(|now| self.turn.is_on(now));
        let member = self.node.member().filter(|_| is_present);
        let few = member.and_then(|member| Some((member, member.few_ahead(self.node.name())?)));
        let Some((member, mut far)) = few else {
            return false;
        };
        // The last one is the nearest. Its deletion is reported.
        far.pop();
        let look = |node: &Arc<str>| Encoded::read(OpCode::EXISTS, &directory.in_pieces(node));
        let requests = far.iter().map(look).collect();
        let raw = directory.client.raw();
        let replies = raw.submit_all_with_backpressure(requests).await;
        for (reply, node) in replies.into_iter().zip(&far) {
            match reply.await {
                Ok(Response::Exists(_)) => {}
                Err(error) if error.is_no_node() => member.event(node, true),
                _ => return false,
            }
        }
        true
    }
}
