//! Every duration that follows from the session timeout `T`: the arithmetic of the lease is here and
//! nowhere else.
//!
//! | part of `T` | what | by |
//! |---|---|---|
//! | 7/8 | a lease lasts from a touch that is proved; the rest is for slow clocks | `lease` |
//! | 1/3 | between a touch and the `sync` that begins its proof; 2/3 of a tick that is known, but at most 4/9 | `wait` |
//! | 1/4 | of the lease is left at a grant; between two touches that are to be proved | `grant`, `proof` |
//! | 1/6 | between a proof behind the end of a lease and the write that confirms it; between pings | `confirm`, `ping` |
//! | 1/8 | before a write of a proof that was refused is sent again | `again` |
//! | 1/12 | between pings in a session that keeps its lease proved | `kept_ping` |
//! | 1/16 | behind a write, before a request of the machine is to prove what users' writes may prove, too | `quiet` |
//! | 1/30 | between touches that are noted apart | `apart` |
//!
//! Not here: when a silent server is left (`link::silent`), when something is due (`deadlines`).

use std::time::Duration;

use super::config::{Config, LeasePolicy, SHORTEST_TIMEOUT};

/// Timers run at least as fast as for this session timeout, or for the requested one if that is
/// longer. A server that grants 25 days would otherwise be trusted for days after it fell silent.
const LONGEST_TIMERS: Duration = Duration::from_secs(60);
/// The longest time between pings of a quiet connection: a firewall on the way may forget it.
///
/// Source: `ClientCnxn.java`, `MAX_SEND_PING_INTERVAL`.
const LONGEST_PING: Duration = Duration::from_secs(10);

impl LeasePolicy {
    /// How much earlier than the session the lease ends.
    pub(crate) fn margin(self, timeout: Duration) -> Duration {
        match self {
            // How much slower than the leader's the client's clock may run: an eighth, since chrony
            // slews a clock by up to a twelfth.
            Self::Proved => timeout / 8,
            Self::Assumed { margin } => margin.unwrap_or(timeout / 3),
        }
    }
}

/// The durations that follow from the negotiated session timeout.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timing {
    /// Between two pings, whatever else is sent: a sixth; at most [`LONGEST_PING`]. The lease
    /// counts from pings and writes.
    ///
    /// Java's client pings when it has sent nothing for a third.
    pub(crate) ping: Duration,
    /// Between two pings in a session that keeps its lease proved: a twelfth. Each third one is the
    /// touch of a proof.
    pub(crate) kept_ping: Duration,
    /// Between a touch and the first request behind it, longer than half a tick: a third, since
    /// servers grant a tick and a half or more, or two thirds of a tick that is known. So a client's
    /// clock may be fast by a third where a session has two ticks, or the tick is known.
    pub(crate) wait: Duration,
    /// How long behind a proof a write confirms it once the lease has ended, longer than a leader
    /// takes to mark all sessions that end in one tick: a sixth.
    pub(crate) confirm: Duration,
    /// Between two touches that are to be proved: a quarter. With the wait of a third behind the
    /// touch, 7/24 of the timeout is left, less three answers, when the next proof is complete.
    pub(crate) proof: Duration,
    /// How long behind the last write a request of the machine waits that is to prove the lease.
    pub(crate) quiet: Duration,
    /// How long behind the last write a proof is confirmed again, if the servers refuse the write.
    pub(crate) again: Duration,
    /// How long the server may be silent before the client gives up the connection: two thirds, so
    /// that a third is left to find another server. Source: `ClientCnxn.java`, `readTimeout`.
    pub(crate) read: Duration,
    /// How long a request may stay unanswered, from when it was sent or the one ahead of it was
    /// answered.
    pub(crate) request: Duration,
    /// How long a request waits for a connection.
    pub(crate) queue_wait: Duration,
    /// How long all servers may be silent before the session counts as expired, although no server
    /// has said so.
    ///
    /// Source: `ClientCnxn.java` from 3.9.3, 4/3 of the timeout. A client needs it whose servers
    /// came back without their data: they close every connection of a client that has seen more
    /// transactions than they have.
    pub(crate) session_end: Duration,
    /// From the instant of which the leader has heard to the end of the lease.
    pub(crate) lease: Duration,
    /// How much of the lease a lock is granted with, at least: a quarter.
    pub(crate) grant: Duration,
}

impl Timing {
    /// Touches are noted that are so far apart: a tenth of the wait, so that few wait at a time.
    pub(crate) fn apart(wait: Duration) -> Duration {
        wait / 10
    }

    /// How long a proof takes, from its touch, when each answer takes as long as `answer` and the
    /// next ping is the next touch.
    pub(crate) fn longest_proof(&self, answer: Duration) -> Duration {
        3 * answer + self.kept_ping + self.wait
    }

    pub(crate) fn new(config: &Config, negotiated: Duration) -> Self {
        let timer = negotiated
            .min(config.session_timeout.max(LONGEST_TIMERS))
            .max(SHORTEST_TIMEOUT);
        let lease = negotiated.saturating_sub(config.lease.margin(negotiated));
        Self {
            ping: (timer / 6).min(LONGEST_PING),
            kept_ping: (timer / 12).min(LONGEST_PING),
            // No session is shorter than a tick and a half: so long a tick is none of these servers.
            wait: (config.tick_time.map(|tick| tick * 2 / 3))
                .map_or(negotiated / 3, |wait| wait.min(negotiated * 4 / 9)),
            confirm: negotiated / 6,
            proof: timer / 4,
            quiet: timer / 16,
            again: timer / 8,
            read: timer * 2 / 3,
            request: config.request_timeout.unwrap_or(timer),
            queue_wait: timer,
            session_end: negotiated.max(SHORTEST_TIMEOUT) * 4 / 3,
            lease,
            // With a large margin, a new lease may be shorter than a quarter.
            grant: (negotiated / 4).min(lease / 2),
        }
    }
}
