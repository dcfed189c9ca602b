//! Which server to try next, and when.
//!
//! Servers are tried round-robin in an order shuffled once. Within one round nothing but a little jitter is waited;
//! after a whole round without success the pause doubles up to [`LONGEST_PAUSE`]. A connection counts as a success only
//! when it lasted: a server that accepts and closes again must not be asked in a loop.

use std::{sync::Arc, time::Duration};

use super::rng::Rng;
use crate::{Endpoint, Lost};

/// The pause after the first round without success, before jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// No pause is longer: a session of some seconds must survive the restart of the only server.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted so long starts the pauses afresh.
const LASTED: Duration = Duration::from_secs(1);
/// Before the first attempt after a loss, so that the clients of a dead server do not all knock at once.
const SCATTER: Duration = Duration::from_millis(50);

/// The servers and how they have done since one was last good.
#[derive(Debug)]
pub(super) struct Endpoints {
    list: Vec<Arc<Endpoint>>,
    next: usize,
    failures: u32,
    tried: Vec<Lost>,
}

impl Endpoints {
    pub(super) fn new(list: &[Endpoint], rng: &mut Rng) -> Self {
        let mut list: Vec<_> = list.iter().cloned().map(Arc::new).collect();
        rng.shuffle(&mut list);
        Self {
            list,
            next: 0,
            failures: 0,
            tried: Vec::new(),
        }
    }

    /// The server whose turn it is; `None` only when there is no server at all.
    pub(super) fn advance(&mut self) -> Option<Arc<Endpoint>> {
        let endpoint = self.list.get(self.next % self.list.len().max(1)).cloned();
        self.next = self.next.wrapping_add(1);
        endpoint
    }

    /// How long to wait before the next attempt.
    pub(super) fn pause(&self, rng: &mut Rng) -> Duration {
        let servers = u32::try_from(self.list.len().max(1)).unwrap_or(u32::MAX);
        match self.failures / servers {
            0 => rng.up_to(SCATTER),
            round => {
                let doublings = round.saturating_sub(1).min(16);
                let pause = FIRST_PAUSE
                    .saturating_mul(1 << doublings)
                    .min(LONGEST_PAUSE);
                pause * 2 / 3 + rng.up_to(pause / 3)
            }
        }
    }

    /// A connection, or an attempt at one, has ended after `lasted` (zero when no session came about).
    pub(super) fn ended(&mut self, lost: Lost, lasted: Duration) {
        if lasted >= LASTED {
            self.failures = 0;
            self.tried.clear();
        } else {
            self.failures = self.failures.saturating_add(1);
        }
        self.tried.retain(|other| other.endpoint != lost.endpoint);
        self.tried.push(lost);
    }

    /// Whether every server has been tried, and each said what it will say again.
    pub(super) fn are_hopeless(&self) -> bool {
        let said =
            |endpoint: &Arc<Endpoint>| self.tried.iter().find(|lost| lost.endpoint == *endpoint);
        self.list
            .iter()
            .all(|endpoint| said(endpoint).is_some_and(|lost| lost.cause.is_lasting()))
    }

    /// What each server said last, oldest first.
    pub(super) fn tried(&self) -> Arc<[Lost]> {
        self.tried.clone().into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cause, ConnectString};

    fn endpoints(text: &str) -> (Endpoints, Rng) {
        let mut rng = Rng::new(7);
        let servers: ConnectString = text.parse().unwrap();
        (Endpoints::new(servers.endpoints(), &mut rng), rng)
    }

    #[test]
    fn every_server_has_its_turn() {
        let (mut endpoints, _) = endpoints("a,b,c");
        let mut round: Vec<_> = (0..3)
            .map(|_| endpoints.advance().unwrap().to_string())
            .collect();
        assert_eq!(endpoints.advance().unwrap().to_string(), round[0]);
        round.sort();
        assert_eq!(round, ["a:2181", "b:2181", "c:2181"]);
    }

    /// A server that accepts and closes at once was asked 18,000 times a second by another client.
    #[test]
    fn a_server_that_accepts_and_closes_is_asked_less_than_twenty_times_in_nine_seconds() {
        for seed in 0..50 {
            let (mut endpoints, _) = endpoints("a");
            let mut rng = Rng::new(seed);
            let (mut waited, mut attempts) = (Duration::ZERO, 1);
            let endpoint = endpoints.advance().unwrap();
            loop {
                let lost = Lost {
                    endpoint: endpoint.clone(),
                    cause: Cause::ClosedByServer,
                };
                endpoints.ended(lost, Duration::from_millis(3));
                waited += endpoints.pause(&mut rng);
                if waited > Duration::from_secs(9) {
                    break;
                }
                attempts += 1;
            }
            assert!((9..20).contains(&attempts), "{attempts}");
            assert_eq!(endpoints.tried().len(), 1);
        }
    }

    #[test]
    fn a_connection_that_lasted_is_replaced_at_once() {
        let (mut endpoints, mut rng) = endpoints("a");
        let endpoint = endpoints.advance().unwrap();
        let lost = || Lost {
            endpoint: endpoint.clone(),
            cause: Cause::ClosedByServer,
        };
        for _ in 0..9 {
            endpoints.ended(lost(), Duration::ZERO);
        }
        assert!(endpoints.pause(&mut rng) > SCATTER);
        endpoints.ended(lost(), LASTED);
        assert!(endpoints.pause(&mut rng) <= SCATTER);
    }
}
