//! Until when the session lives for certain, and who needs to know.
//!
//! Not here: how that is known (`machine::lease`, `machine::proof`).

use std::{sync::Arc, time::Instant};

use lockkeeper_proto::SessionId;

use super::{
    Client, Raw,
    shared::{Core, Shared},
    sync::select::select,
};
use crate::{State, machine::LeaseToken};

/// Until when the session cannot have ended. Returned by [`Client::lease`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lease {
    /// The session.
    pub session_id: SessionId,
    /// The session's state.
    pub state: State,
    /// The end of the lease: before this instant no server can have ended the session.
    ///
    /// `None` without a session, and once the client is being closed. The instant is on the clock
    /// of [`Instant::now`], or on the clock that [`Builder::clock`](super::Builder::clock) set, see
    /// [`Client::now`].
    ///
    /// [`LeasePolicy`](crate::LeasePolicy) has the assumptions.
    pub valid_until: Option<Instant>,
    /// Whether `valid_until` is in the future.
    ///
    /// The comparison uses a clock that also counts the time for which the computer slept.
    pub is_valid: bool,
}

impl Client {
    /// Returns the lease of the session: until when no server can have ended it.
    ///
    /// It is a local computation and asks no server. Under
    /// [`LeasePolicy::Proved`](crate::LeasePolicy::Proved) the lease ends when the client has
    /// written nothing for a while, unless it holds a lock or is the next to get one.
    #[must_use]
    pub fn lease(&self) -> Lease {
        let mut core = self.shared.lock();
        // Other contenders may get the locks of this session as soon as it is given up.
        let deadline = (!core.is_closing()).then(|| core.machine.lease_deadline());
        let deadline = deadline.flatten();
        let time = core.clock.look();
        Lease {
            session_id: core.machine.link().session_id(),
            state: core.machine.link().state(),
            valid_until: deadline.map(|deadline| time.running(deadline)),
            is_valid: deadline.is_some_and(|deadline| time.now < deadline),
        }
    }
}

impl Core {
    /// Whether the lease of this session is good for a grant to a contender that waits for it since
    /// `since`, or from now on.
    fn is_lease_good(&mut self, session_id: SessionId, since: Option<Instant>) -> bool {
        let is_own = self.machine.link().session_id() == session_id && !self.is_closing();
        let now = self.clock.now();
        is_own && self.machine.is_lease_good(now, since.unwrap_or(now))
    }
}

impl Raw<'_> {
    /// Keeps the lease of the session valid for as long as the returned value exists and servers
    /// answer.
    ///
    /// Under [`LeasePolicy::Proved`](crate::LeasePolicy::Proved) the client writes a transaction
    /// that changes nothing whenever it has written nothing for an eighth of the session timeout.
    #[must_use]
    pub fn keep_lease(self) -> LeaseKeeper {
        let shared = &self.client.shared;
        let core = shared.lock();
        let token = core.machine.keep_lease();
        // The client's task is awake before its next ping. Only a scarce lease needs it earlier.
        if core.machine.is_lease_scarce() {
            shared.acted(core);
        }
        LeaseKeeper {
            shared: shared.clone(),
            _token: token,
        }
    }

    /// Whether the lease of this session is good for a grant: a quarter of the session timeout is
    /// left.
    #[must_use]
    pub fn is_lease_good(self, session_id: SessionId) -> bool {
        (self.client.shared.lock()).is_lease_good(session_id, None)
    }
}

/// Keeps the lease valid while it exists. Made by [`Raw::keep_lease`].
#[derive(Debug)]
pub struct LeaseKeeper {
    shared: Arc<Shared>,
    _token: LeaseToken,
}

impl LeaseKeeper {
    /// Waits until the lease of this session is good for a grant, or the session is over. Returns
    /// whether the lease is good.
    ///
    /// Slow servers may not leave a quarter of the session timeout. After a quarter of waiting, a
    /// lease is good that reaches to half a session timeout after the call.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub async fn renewed(&self, session_id: SessionId) -> bool {
        let since = self.shared.lock().clock.now();
        loop {
            let changed = self.shared.snapshot.changed().notified();
            let renewed = self.shared.lease_renewed.notified();
            let is_over = !(self.shared.snapshot).look(|now| now.is_session(session_id));
            let (is_closing, is_good) = self.shared.act(|core| {
                let is_good = core.is_lease_good(session_id, Some(since));
                if !is_good {
                    core.machine.await_lease(since);
                }
                (core.is_closing(), is_good)
            });
            if is_over || is_closing || is_good {
                return is_good;
            }
            let _either = select(renewed, changed).await;
        }
    }
}
