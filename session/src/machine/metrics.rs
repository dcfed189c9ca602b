//! Counters of what a client has done.
//!
//! They are plain numbers behind the machine's lock: counting costs an addition, and a snapshot
//! shows one moment. Not here: exporting them. The application takes a snapshot as often as it
//! needs one: `examples/prometheus.rs`.

use super::Reply;
use crate::{DurationHistogram, Effect, Error, ErrorKind};

/// What a client has done since it was made, and what it does now.
///
/// Requests are those of callers. Pings, and requests with which the client keeps its watches, are
/// not counted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests that a server has done. The client could read the replies, or not.
    pub succeeded: u64,
    /// Requests that a server refused: "no node", "bad version", ..
    pub refused: u64,
    /// Requests that were sent and not answered. Whether they were applied is unknown, except for
    /// reads.
    pub unknown: u64,
    /// Requests that failed before they were sent: no server in time, request too long, client
    /// closed, ..
    pub not_sent: u64,
    /// The time from handing a request to the transport to its reply, for every request that was
    /// answered.
    pub round_trips: DurationHistogram,
    /// Bytes handed to the transport, frame lengths included.
    pub bytes_sent: u64,
    /// Bytes of complete frames received, frame lengths included.
    pub bytes_received: u64,
    /// Attempts to connect.
    pub attempts: u64,
    /// Connections established.
    pub connections: u64,
    /// Sessions that expired.
    pub expired_sessions: u64,
    /// Servers that were left because they showed what their leader did not have.
    pub servers_left: u64,
    /// Watch events received.
    pub events: u64,
    /// Requests that wait for a reply now.
    pub in_flight: usize,
    /// Requests that wait to be sent now.
    pub queued: usize,
    /// Bytes of the paths and data of queued requests.
    pub queued_bytes: usize,
    /// Callers that wait for capacity now.
    pub waiting: usize,
    /// Listeners to watches now.
    pub watches: usize,
}

impl Metrics {
    /// Pending requests: those that wait to be sent, and those that wait for a reply.
    #[must_use]
    pub fn outstanding(&self) -> usize {
        self.in_flight + self.queued
    }

    /// The numbers that only grow, each with its name for an exporter.
    pub fn counters(&self) -> impl Iterator<Item = (&'static str, u64)> + use<> {
        [
            ("lockkeeper_client_succeeded_total", self.succeeded),
            ("lockkeeper_client_refused_total", self.refused),
            ("lockkeeper_client_unknown_total", self.unknown),
            ("lockkeeper_client_not_sent_total", self.not_sent),
            ("lockkeeper_client_bytes_sent_total", self.bytes_sent),
            (
                "lockkeeper_client_bytes_received_total",
                self.bytes_received,
            ),
            ("lockkeeper_client_attempts_total", self.attempts),
            ("lockkeeper_client_connections_total", self.connections),
            (
                "lockkeeper_client_expired_sessions_total",
                self.expired_sessions,
            ),
            ("lockkeeper_client_servers_left_total", self.servers_left),
            ("lockkeeper_client_events_total", self.events),
        ]
        .into_iter()
    }

    /// The numbers of the present moment, each with its name for an exporter.
    pub fn gauges(&self) -> impl Iterator<Item = (&'static str, usize)> + use<> {
        [
            ("lockkeeper_client_in_flight", self.in_flight),
            ("lockkeeper_client_queued", self.queued),
            ("lockkeeper_client_queued_bytes", self.queued_bytes),
            ("lockkeeper_client_waiting", self.waiting),
            ("lockkeeper_client_watches", self.watches),
        ]
        .into_iter()
    }

    /// Counts a request by its result.
    pub(crate) fn settled(&mut self, result: &Result<Reply, Error>) {
        let counter = match result {
            Ok(reply) if reply.is_refused() => &mut self.refused,
            Ok(_) => &mut self.succeeded,
            Err(error) if error.code().is_some() => &mut self.refused,
            Err(error) if matches!(error.kind(), ErrorKind::ReplyTooLarge { .. }) => {
                &mut self.succeeded
            }
            Err(error) if error.effect() == Effect::Unknown => &mut self.unknown,
            Err(_) => &mut self.not_sent,
        };
        *counter += 1;
    }
}

/// A length as a counter.
pub(crate) fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
