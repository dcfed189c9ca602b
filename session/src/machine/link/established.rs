//! A connection that accepts requests: whether the server is alive, and when to leave it.
//!
//! Not here: requests and their replies (`requests::in_flight`).

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Endpoint, machine::State};

/// From the connection to a read-only server to the first probe of another one.
///
/// Source: `ClientCnxn.java`, `minPingRwTimeout`.
const FIRST_PROBE: Duration = Duration::from_millis(100);
/// The longest pause between two probes. The pause doubles after each.
///
/// Source: `ClientCnxn.java`, `maxPingRwTimeout`.
const LONGEST_PAUSE: Duration = Duration::from_secs(60);

/// An established connection.
#[derive(Debug)]
pub(crate) struct Link {
    endpoint: Arc<Endpoint>,
    since: Instant,
    last_received: Instant,
    /// The ping that is not answered yet.
    ping: Option<Ping>,
    /// When the last ping was sent, or else when the connection was established.
    last_ping: Instant,
    /// How many identities the server has yet to accept.
    identities: usize,
    /// The state to report as soon as it has.
    unannounced: Option<State>,
    leaving: Leaving,
    /// The search of a client on a read-only server for one that accepts writes.
    search: Option<Search>,
}

#[derive(Clone, Copy, Debug)]
struct Ping {
    sent: Instant,
    /// When the last request ahead of it was answered, or else `sent`: since when it could have
    /// been answered.
    since: Instant,
    /// Whether the transport has yet to take it.
    is_unsent: bool,
}

/// Whether to leave the connection as soon as all requests are answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Leaving {
    No,
    /// For another server. No request fails by a move: nothing new is sent meanwhile.
    Moving,
    /// For good. This is when a clean close gives up waiting for the server.
    Closing(Instant),
}

#[derive(Debug)]
struct Search {
    next: Instant,
    pause: Duration,
    /// Whether a probe waits for its answer.
    is_probing: bool,
}

impl Link {
    /// The server accepts requests from now on.
    pub(crate) fn new(
        endpoint: Arc<Endpoint>,
        now: Instant,
        state: State,
        identities: usize,
    ) -> Self {
        Self {
            endpoint,
            since: now,
            last_received: now,
            ping: None,
            last_ping: now,
            identities,
            unannounced: Some(state),
            leaving: Leaving::No,
            search: (state == State::ReadOnly).then(|| Search {
                next: now + FIRST_PROBE,
                pause: FIRST_PROBE,
                is_probing: false,
            }),
        }
    }

    pub(crate) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(crate) fn lasted(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }

    /// Whether the server has yet to accept an identity.
    pub(crate) fn is_authenticating(&self) -> bool {
        self.identities > 0
    }

    /// The server has accepted one of the identities.
    pub(crate) fn accepted(&mut self) {
        self.identities = self.identities.saturating_sub(1);
    }

    /// The state to report now, once.
    pub(crate) fn announce(&mut self) -> Option<State> {
        if self.is_authenticating() {
            return None;
        }
        self.unannounced.take()
    }

    // Whether the server is alive.

    /// The server has said something.
    pub(crate) fn heard(&mut self, now: Instant) {
        self.last_received = now;
    }

    /// When the server will have been silent for this long.
    pub(crate) fn silence(&self, longest: Duration) -> Instant {
        self.last_received + longest
    }

    pub(crate) fn ping(&mut self, now: Instant) {
        self.last_ping = now;
        self.ping = Some(Ping {
            sent: now,
            since: now,
            is_unsent: true,
        });
    }

    pub(crate) fn last_ping(&self) -> Instant {
        self.last_ping
    }

    pub(crate) fn has_unsent_ping(&self) -> bool {
        self.ping.is_some_and(|ping| ping.is_unsent)
    }

    /// Whether there is a ping for the transport, which takes it.
    pub(crate) fn take_unsent_ping(&mut self) -> bool {
        let ping = self.ping.as_mut();
        ping.is_some_and(|ping| mem::take(&mut ping.is_unsent))
    }

    /// Since when the server could have answered the ping; `None` without a ping under way.
    pub(crate) fn pinged(&self) -> Option<Instant> {
        self.ping.map(|ping| ping.since)
    }

    /// The ping is answered. Returns when it was sent.
    pub(crate) fn pong(&mut self) -> Option<Instant> {
        self.ping.take().map(|ping| ping.sent)
    }

    /// A request that was sent at `sent` is answered. The time of a ping behind it counts from here:
    /// replies come in order, so the server could not have answered it earlier.
    pub(crate) fn answered(&mut self, now: Instant, sent: Instant) {
        if let Some(ping) = self.ping.as_mut().filter(|ping| sent <= ping.sent) {
            ping.since = now;
        }
    }

    // Leaving it.

    pub(crate) fn close(&mut self, deadline: Instant) {
        self.leaving = Leaving::Closing(deadline);
    }

    /// When a clean close gives up; `None` if the client is not being closed.
    pub(crate) fn closing(&self) -> Option<Instant> {
        match self.leaving {
            Leaving::Closing(deadline) => Some(deadline),
            _ => None,
        }
    }

    /// Goes on with another server, unless the client is being closed.
    pub(crate) fn move_on(&mut self) {
        if self.leaving == Leaving::No {
            self.leaving = Leaving::Moving;
        }
    }

    pub(crate) fn is_moving(&self) -> bool {
        self.leaving == Leaving::Moving
    }

    /// When another server is to be asked whether it accepts writes.
    pub(crate) fn next_probe(&self) -> Option<Instant> {
        let search = self.search.as_ref().filter(|search| !search.is_probing);
        search.map(|search| search.next)
    }

    /// Another server is asked now.
    pub(crate) fn probes(&mut self, now: Instant) {
        if let Some(search) = &mut self.search {
            search.is_probing = true;
            search.pause = (search.pause * 2).min(LONGEST_PAUSE);
            search.next = now + search.pause;
        }
    }

    /// A server has answered a probe, or failed to. Returns whether to move to it.
    pub(crate) fn probed(&mut self, accepts_writes: bool) -> bool {
        let Some(search) = &mut self.search else {
            return false;
        };
        search.is_probing = false;
        if accepts_writes {
            self.search = None;
        }
        accepts_writes
    }
}
