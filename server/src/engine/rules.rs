//! Faults that tests ask for: a rule says which request it means, and what happens to that request.
//!
//! Each rule is used once. For each request, the rules are tried in the order in which they were
//! added. Every rule that fits counts the request, and every rule whose count is reached takes
//! effect.
//!
//! Not here: carrying out the effects (`requests`, `handshake`), faults without a request
//! (`hooks`).

use std::{collections::BTreeSet, time::Duration};

use lockkeeper_proto::{
    ErrorCode, OpCode, Request, SessionId,
    multi::{MultiReadRequest, MultiRequest},
    path,
};

use super::set_watches;

/// The request that a rule means: the first one that fits, or the [`nth`](Self::nth).
#[derive(Clone, Debug)]
#[must_use = "a condition does nothing by itself"]
pub struct When {
    ops: fn(OpCode) -> bool,
    op: Option<OpCode>,
    session: Option<SessionId>,
    within: Option<String>,
    skip: u32,
}

impl When {
    /// Any request except pings and handshakes.
    pub fn any() -> Self {
        Self::of(|op| !matches!(op, OpCode::PING | OpCode::CREATE_SESSION))
    }

    /// A request with this operation. [`OpCode::CREATE_SESSION`] means the handshake.
    pub fn op(op: OpCode) -> Self {
        Self {
            op: Some(op),
            ..Self::of(|_| true)
        }
    }

    /// A create of any kind outside a multi.
    pub fn create() -> Self {
        Self::of(OpCode::is_create)
    }

    /// Any request that takes a transaction: creates, `delete`, `setData`, `setACL`, `multi`,
    /// `reconfig`, `closeSession`.
    pub fn write() -> Self {
        Self::of(OpCode::is_transaction)
    }

    fn of(ops: fn(OpCode) -> bool) -> Self {
        Self {
            ops,
            op: None,
            session: None,
            within: None,
            skip: 0,
        }
    }

    /// Only requests of this session.
    pub fn of_session(mut self, session: SessionId) -> Self {
        self.session = Some(session);
        self
    }

    /// Only requests for this path or one below it. A multi fits if one of its operations does.
    pub fn within(mut self, path: impl Into<String>) -> Self {
        self.within = Some(path.into());
        self
    }

    /// The `n`th fitting request from now on, counted from 1.
    pub fn nth(mut self, n: u32) -> Self {
        self.skip = n.saturating_sub(1);
        self
    }

    fn fits(&self, session: SessionId, request: Option<&Request>) -> bool {
        let op = request.map_or(OpCode::CREATE_SESSION, Request::op);
        (self.ops)(op)
            && self.op.is_none_or(|wanted| wanted == op)
            && self.session.is_none_or(|wanted| wanted == session)
            && (self.within.as_deref())
                .is_none_or(|above| request.is_some_and(|request| is_about(request, above)))
    }
}

/// What happens to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Effect {
    /// The server closes the connection and does not execute the request.
    CutBefore,
    /// The server executes the request and then closes the connection. The client gets neither the
    /// reply nor the events that the request causes. Requests behind it are not executed.
    LoseReply,
    /// The reply, and everything that follows it on the connection, is delayed by this time.
    Delay(Duration),
    /// The server does not execute the request and answers with this error.
    Refuse(ErrorCode),
}

/// The effects of all rules on one request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Fate {
    pub(crate) cut_before: bool,
    pub(crate) lose_reply: bool,
    pub(crate) delay: Option<Duration>,
    pub(crate) refuse: Option<ErrorCode>,
}

/// The faults of requests that are switched on.
#[derive(Debug, Default)]
pub struct Rules {
    /// The rules that wait for their request.
    waiting: Vec<(When, Effect)>,
    /// Delays every reply, and everything that follows it on its connection.
    pub delay: Option<Duration>,
    /// Whether the server closes a connection without a reply when it asks for a session.
    pub refuse_handshakes: bool,
    /// Whether all connections are stalled.
    pub(super) all_stalled: bool,
    /// The stalled sessions.
    pub(super) stalled: BTreeSet<SessionId>,
}

impl Rules {
    /// Adds a rule for a future request.
    pub fn add(&mut self, when: When, effect: Effect) {
        self.waiting.push((when, effect));
    }

    /// How many rules wait for their request.
    #[must_use]
    pub fn pending(&self) -> usize {
        self.waiting.len()
    }

    /// The effects of the rules on a request; `None` means a handshake. Each rule that fits counts
    /// the request.
    pub(super) fn fate(&mut self, session: SessionId, request: Option<&Request>) -> Fate {
        let mut fate = Fate {
            delay: self.delay,
            ..Fate::default()
        };
        self.waiting.retain_mut(|(when, effect)| {
            if !when.fits(session, request) {
                return true;
            }
            if let Some(left) = when.skip.checked_sub(1) {
                when.skip = left;
                return true;
            }
            match *effect {
                Effect::CutBefore => fate.cut_before = true,
                Effect::LoseReply => fate.lose_reply = true,
                Effect::Delay(delay) => fate.delay = Some(delay),
                Effect::Refuse(code) => fate.refuse = Some(code),
            }
            false
        });
        fate
    }

    pub(super) fn is_session_stalled(&self, session: SessionId) -> bool {
        self.all_stalled || self.stalled.contains(&session)
    }
}

/// Whether a request names a path at or below `above`.
fn is_about(request: &Request, above: &str) -> bool {
    let within = |path: &str| path::is_within(path, above);
    match request {
        Request::SetWatches(_) | Request::SetWatches2(_) => {
            let lists = set_watches::lists(request);
            lists.is_some_and(|(_, lists)| lists.into_iter().flatten().any(|path| within(path)))
        }
        Request::Multi(MultiRequest { ops }) | Request::MultiRead(MultiReadRequest { ops }) => {
            ops.iter().any(|op| is_about(op, above))
        }
        _ => request.path().is_some_and(within),
    }
}
