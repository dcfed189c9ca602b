//! Which server to try next, and when.
//!
//! Servers are tried round-robin in an order shuffled once. Within one round nothing but a little jitter is waited, less where
//! there are very many;
//! after a whole round without success the pause doubles up to [`LONGEST_PAUSE`]. A connection counts as a success only
//! when it lasted: a server that accepts and closes again must not be asked in a loop.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use crate::machine::rng::Rng;
use crate::{Endpoint, Lost};

/// The pause after the first round without success, before jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// No pause is longer: a session of some seconds must survive the restart of the only server.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted so long starts the pauses afresh.
const LASTED: Duration = Duration::from_secs(1);
/// Before each attempt of the first round, so that the clients of a dead server do not all knock at once; of more than
/// four servers each gets a part of it, so that a thousand that refuse do not cost half a minute.
const SCATTER: Duration = Duration::from_millis(50);

/// Of so many servers it is remembered what they said: an error message must have an end.
pub(crate) const REMEMBERED: usize = 16;

/// The servers and how they have done since one was last good.
#[derive(Debug)]
pub(crate) struct Endpoints {
    list: Vec<Arc<Endpoint>>,
    next: usize,
    failures: u32,
    tried: VecDeque<Lost>,
}

impl Endpoints {
    pub(crate) fn new(list: &[Endpoint], rng: &mut Rng) -> Self {
        let mut list: Vec<_> = list.iter().cloned().map(Arc::new).collect();
        rng.shuffle(&mut list);
        Self {
            list,
            next: 0,
            failures: 0,
            tried: VecDeque::new(),
        }
    }

    /// How many servers there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    /// The server whose turn it is; `None` only when there is no server at all.
    pub(crate) fn advance(&mut self) -> Option<Arc<Endpoint>> {
        let endpoint = self.list.get(self.next % self.list.len().max(1)).cloned();
        self.next = self.next.wrapping_add(1);
        endpoint
    }

    /// How long to wait before the next attempt.
    pub(crate) fn pause(&self, rng: &mut Rng) -> Duration {
        let servers = u32::try_from(self.list.len().max(1)).unwrap_or(u32::MAX);
        match self.failures / servers {
            0 => rng.up_to(SCATTER * 4 / servers.max(4)),
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
    pub(crate) fn ended(&mut self, lost: Lost, lasted: Duration) {
        if lasted >= LASTED {
            self.failures = 0;
            self.tried.clear();
        } else {
            self.failures = self.failures.saturating_add(1);
        }
        self.tried.retain(|other| other.endpoint != lost.endpoint);
        if self.tried.len() == REMEMBERED {
            self.tried.pop_front();
        }
        self.tried.push_back(lost);
    }

    /// A server to ask whether it would do better than this one: another one, unless there is no other.
    pub(crate) fn candidate(&mut self, than: &Arc<Endpoint>) -> Option<Arc<Endpoint>> {
        let candidate = self.advance()?;
        if candidate == *than {
            return self.advance();
        }
        Some(candidate)
    }

    /// The next attempt is made at this server.
    pub(crate) fn prefer(&mut self, endpoint: &Arc<Endpoint>) {
        if let Some(index) = self.list.iter().position(|other| other == endpoint) {
            self.next = index;
        }
    }

    /// What was said last.
    pub(crate) fn newest(&self) -> Option<Lost> {
        self.tried.back().cloned()
    }

    /// Whether every server has been tried, and each said what it will say again. Never of more than are remembered.
    pub(crate) fn all_failed_permanently(&self) -> bool {
        let said =
            |endpoint: &Arc<Endpoint>| self.tried.iter().find(|lost| lost.endpoint == *endpoint);
        self.list
            .iter()
            .all(|endpoint| said(endpoint).is_some_and(|lost| lost.cause.is_permanent()))
    }

    /// What each server said last, oldest first; of very many the newest.
    pub(crate) fn failures(&self) -> Arc<[Lost]> {
        self.tried.iter().cloned().collect()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::SessionId;

    use super::*;
    use crate::{Cause, ConnectString};

    fn endpoints(text: &str) -> (Endpoints, Rng) {
        let mut rng = Rng::new(7);
        let servers: ConnectString = text.parse().unwrap();
        (Endpoints::new(servers.endpoints(), &mut rng), rng)
    }

    fn closed(endpoint: &Arc<Endpoint>) -> Lost {
        Lost {
            endpoint: endpoint.clone(),
            session: SessionId::NONE,
            cause: Cause::ClosedByServer,
        }
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
                endpoints.ended(closed(&endpoint), Duration::from_millis(3));
                waited += endpoints.pause(&mut rng);
                if waited > Duration::from_secs(9) {
                    break;
                }
                attempts += 1;
            }
            assert!((9..20).contains(&attempts), "{attempts}");
            assert_eq!(endpoints.failures().len(), 1);
        }
    }

    #[test]
    fn a_connection_that_lasted_is_replaced_at_once() {
        let (mut endpoints, mut rng) = endpoints("a");
        let endpoint = endpoints.advance().unwrap();
        for _ in 0..9 {
            endpoints.ended(closed(&endpoint), Duration::ZERO);
        }
        assert!(endpoints.pause(&mut rng) > SCATTER);
        endpoints.ended(closed(&endpoint), LASTED);
        assert!(endpoints.pause(&mut rng) <= SCATTER);
    }

    /// A thousand servers that are all down made error messages of 60 kB.
    #[test]
    fn of_very_many_servers_the_newest_are_remembered() {
        let names: Vec<_> = (0..1000).map(|n| format!("zk{n}")).collect();
        let (mut endpoints, _) = endpoints(&names.join(","));
        let mut order = Vec::new();
        for _ in 0..2500 {
            let endpoint = endpoints.advance().unwrap();
            endpoints.ended(closed(&endpoint), Duration::ZERO);
            order.push(endpoint);
        }
        let newest: Vec<_> = order[2500 - REMEMBERED..].to_vec();
        let tried: Vec<_> = endpoints
            .failures()
            .iter()
            .map(|l| l.endpoint.clone())
            .collect();
        assert_eq!(tried, newest);
    }
}
