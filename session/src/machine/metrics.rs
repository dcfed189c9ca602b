//! What a client has done, counted where it is decided.
//!
//! Plain numbers behind the machine's lock: counting costs an addition, and a snapshot is of one moment. Not here:
//! exporting them; whoever runs the client asks for a snapshot as often as it likes.

use super::Machine;
use crate::{DurationHistogram, Effect, Error};

/// What a client has done since it was made, and what it is doing now.
///
/// Requests are those of callers, without pings and what the client itself sends to keep its watches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Metrics {
    /// Requests that were answered with success.
    pub succeeded: u64,
    /// Requests that a server refused: "no node", "bad version", ..
    pub refused: u64,
    /// Requests that were sent and not answered: whether they were applied is unknown.
    pub unknown: u64,
    /// Requests that failed before they were sent: no server in time, too long, the client closed, ..
    pub not_sent: u64,
    /// From the hand-over of a request to the transport to its reply, of all that were answered.
    pub round_trips: DurationHistogram,
    /// Bytes handed to the transport, with the lengths of frames.
    pub bytes_sent: u64,
    /// Bytes of whole frames that came, with their lengths.
    pub bytes_received: u64,
    /// Attempts to connect.
    pub attempts: u64,
    /// How often a server took the session on: one less is the number of reconnects.
    pub connections: u64,
    /// Sessions that expired.
    pub expired_sessions: u64,
    /// Events that came for watches.
    pub events: u64,
    /// Requests that wait for their replies now.
    pub in_flight: usize,
    /// Requests that wait to be sent now.
    pub queued: usize,
    /// Bytes of their paths and data.
    pub queued_bytes: usize,
    /// Callers that wait for room now.
    pub waiting: usize,
    /// Listeners that wait for watches now.
    pub watches: usize,
}

impl Metrics {
    /// Reconnects: connections but the first.
    #[must_use]
    pub fn reconnects(&self) -> u64 {
        self.connections.saturating_sub(1)
    }

    /// Counts a request by how it ended.
    pub(crate) fn settled(&mut self, error: Option<&Error>) {
        let counter = match error {
            None => &mut self.succeeded,
            Some(error) if error.code().is_some() => &mut self.refused,
            Some(error) if error.effect() == Effect::Unknown => &mut self.unknown,
            Some(_) => &mut self.not_sent,
        };
        *counter += 1;
    }
}

impl<T> Machine<T> {
    /// What the client has done so far, and what it is doing now.
    #[must_use]
    pub fn metrics(&self) -> Metrics {
        Metrics {
            connections: self.connections,
            in_flight: self.in_flight.len(),
            queued: self.queue.len(),
            queued_bytes: self.queue.bytes(),
            watches: self.watches.len(),
            ..self.metrics.clone()
        }
    }
}

/// A length as it is counted.
pub(crate) fn bytes(length: usize) -> u64 {
    u64::try_from(length).unwrap_or(u64::MAX)
}
