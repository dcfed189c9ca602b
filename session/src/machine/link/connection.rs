//! What is known of a connection that accepts requests: whether the server is alive, and what has yet
//! to be answered before the client may leave.
//!
//! Not here: requests and their replies (`requests`).

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use crate::Endpoint;

/// An established connection.
pub(super) struct Connection {
    endpoint: Arc<Endpoint>,
    since: Instant,
    /// The ping that is not answered yet.
    ping: Option<Ping>,
    /// When the last ping was sent; before the first one, when the connection began.
    last_ping: Instant,
    /// How many identities the server has yet to accept.
    identities: usize,
    /// How many writes were sent and are not answered.
    writes: usize,
    /// Whether the connection was reported, which it is as soon as the server has.
    is_announced: bool,
    /// When a clean close gives up waiting for the server; `None` unless the client is being closed.
    closing: Option<Instant>,
}

#[derive(Clone, Copy)]
struct Ping {
    sent: Instant,
    /// When the last request ahead of it was answered, or else `sent`: since when it could have
    /// been answered.
    since: Instant,
    /// Whether the transport has yet to take it.
    is_unsent: bool,
}

impl Connection {
    /// The server accepts requests from now on.
    pub(super) fn new(endpoint: Arc<Endpoint>, now: Instant, identities: usize) -> Self {
        Self {
            endpoint,
            since: now,
            ping: None,
            last_ping: now,
            identities,
            writes: 0,
            is_announced: false,
            closing: None,
        }
    }

    pub(super) fn endpoint(&self) -> &Arc<Endpoint> {
        &self.endpoint
    }

    pub(super) fn lasted(&self, now: Instant) -> Duration {
        now.duration_since(self.since)
    }

    /// Whether the server has yet to accept an identity.
    pub(super) fn is_authenticating(&self) -> bool {
        self.identities > 0
    }

    /// The server has accepted one of the identities.
    pub(super) fn accepted(&mut self) {
        self.identities = self.identities.saturating_sub(1);
    }

    /// Whether to report the connection now, once.
    pub(super) fn announce(&mut self) -> bool {
        !self.is_authenticating() && !mem::replace(&mut self.is_announced, true)
    }

    // Whether the server is alive.

    /// A ping is sent now.
    pub(super) fn ping(&mut self, now: Instant) {
        self.last_ping = now;
        self.ping = Some(Ping {
            sent: now,
            since: now,
            is_unsent: true,
        });
    }

    /// When the next ping is due, so long after the last one.
    pub(super) fn ping_due(&self, interval: Duration) -> Instant {
        self.last_ping + interval
    }

    /// Whether there is a ping for the transport, which takes it.
    pub(super) fn take_unsent_ping(&mut self) -> bool {
        let ping = self.ping.as_mut();
        ping.is_some_and(|ping| mem::take(&mut ping.is_unsent))
    }

    /// Since when the server could have answered the ping; `None` without a ping under way.
    pub(super) fn pinged(&self) -> Option<Instant> {
        self.ping.map(|ping| ping.since)
    }

    /// The ping is answered. Returns when it was sent.
    pub(super) fn pong(&mut self) -> Option<Instant> {
        self.ping.take().map(|ping| ping.sent)
    }

    /// A request that was sent at `sent` is answered. The time of a ping behind it counts from here:
    /// replies come in order, so the server could not have answered it earlier.
    pub(super) fn answered(&mut self, now: Instant, sent: Instant) {
        if let Some(ping) = self.ping.as_mut().filter(|ping| sent <= ping.sent) {
            ping.since = now;
        }
    }

    // Leaving it.

    pub(super) fn write_sent(&mut self) {
        self.writes += 1;
    }

    pub(super) fn write_answered(&mut self) {
        self.writes = self.writes.saturating_sub(1);
    }

    /// Whether writes were sent and are not answered.
    pub(super) fn has_writes(&self) -> bool {
        self.writes > 0
    }

    pub(super) fn close(&mut self, deadline: Instant) {
        self.closing = Some(deadline);
    }

    /// When a clean close gives up; `None` if the client is not being closed.
    pub(super) fn closing(&self) -> Option<Instant> {
        self.closing
    }
}
