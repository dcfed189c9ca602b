//! Where the machine is: between two connections, in one, or at its end. What belongs to a
//! connection is here, and is dropped with it.

use std::{fmt, time::Instant};

use super::{
    lease::Proving,
    link::{Attempt, Link},
    requests::InFlight,
    watches::Arrivals,
};
use crate::Error;

pub(crate) enum Phase<T> {
    /// The next server is tried at this time.
    Paused(Instant),
    /// A server has yet to accept the client.
    Trying(Attempt),
    /// A server accepts requests.
    Open(Box<Open<T>>),
    /// The machine accepts no request any more, for this reason.
    Ended(Error),
}

/// What each part knows of an established connection.
pub(crate) struct Open<T> {
    pub(crate) link: Link,
    pub(crate) in_flight: InFlight<T>,
    pub(crate) arrivals: Arrivals,
    pub(crate) proving: Proving,
}

impl<T> Phase<T> {
    pub(crate) fn open(now: Instant, link: Link, proving: Proving) -> Self {
        Self::Open(Box::new(Open {
            link,
            in_flight: InFlight::new(now),
            arrivals: Arrivals::default(),
            proving,
        }))
    }

    /// The connection, if requests can be sent on it.
    pub(crate) fn connection(&self) -> Option<&Open<T>> {
        match self {
            Self::Open(open) => Some(open),
            _ => None,
        }
    }

    pub(crate) fn connection_mut(&mut self) -> Option<&mut Open<T>> {
        match self {
            Self::Open(open) => Some(open),
            _ => None,
        }
    }

    /// When a clean close gives up; `None` if the client is not being closed.
    pub(crate) fn closing(&self) -> Option<Instant> {
        self.connection()?.link.closing()
    }
}

impl<T> fmt::Debug for Phase<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Paused(_) => f.write_str("Paused"),
            Self::Trying(attempt) => fmt::Debug::fmt(attempt, f),
            Self::Open(open) => fmt::Debug::fmt(&open.link, f),
            Self::Ended(error) => fmt::Debug::fmt(error, f),
        }
    }
}
