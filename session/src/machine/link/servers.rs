//! Which server to try next, and when.
//!
//! Servers are tried round-robin, in an order that is shuffled once. Within one round the client
//! waits only a small random delay. After a whole round without success the pause doubles, up to
//! [`LONGEST_PAUSE`]. A connection counts as a success only when it lasted: a server that accepts
//! connections and closes them must not be asked in a loop.
//!
//! A server *owes* while a write of this session that went to it may still be applied: its connection
//! ended first. The write may lie in the server's queue to the leader. Elsewhere the leader refuses
//! it, but a handshake with that server overtakes the queue and makes the write valid again, even if
//! the client gives the handshake up. Whatever the session has found out meanwhile at other servers
//! is then wrong. So such a server is not even dialed for a minute while another one owes nothing,
//! unless the session is over. Sources: `FollowerRequestProcessor.java` (`queuedRequests`),
//! `LearnerHandler.java` (`REVALIDATE`), `SessionTrackerImpl.java` (`setOwner`).

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{Endpoint, Lost, machine::rng::Rng};

/// The pause after the first round without success, before jitter.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
/// The longest pause. A session of some seconds must survive the restart of the only server.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);
/// A connection that lasted this long resets the pauses.
const LASTED: Duration = Duration::from_secs(1);
/// The longest random delay before an attempt of the first round. It keeps the clients of a dead
/// server from reconnecting all at once. With more than four servers each gets a part of it, so
/// that a thousand that refuse do not cost half a minute.
const SCATTER: Duration = Duration::from_millis(50);
/// How long a server is avoided that shows what its leader does not have, or that owes. A server
/// passes a write on within this time, or never: its leader drops a server that is later than
/// `syncLimit` ticks. Source: `LearnerHandler.java` (`SyncLimitCheck`).
const AVOIDED: Duration = Duration::from_secs(60);

/// How many servers the client remembers a failure of. It bounds the length of error messages.
pub(super) const REMEMBERED: usize = 16;

/// The servers, and their failures since one of them last worked.
#[derive(Debug)]
pub struct Servers {
    list: Vec<Arc<Endpoint>>,
    next: usize,
    rng: Rng,
    /// Failed attempts in a row.
    failed: u32,
    /// The last failure of each server, oldest first.
    failures: Vec<Lost>,
    /// A server that is not tried before this moment, if there is another one that accepts clients.
    avoided: Option<(Arc<Endpoint>, Instant)>,
    /// Attempts in a row without a connection.
    unreached: usize,
    /// The servers that owe, and until when they may.
    owing: Vec<(Arc<Endpoint>, Instant)>,
    /// The lost connection that is not replaced yet, and when it was lost.
    outage: Option<(Instant, Lost)>,
}

impl Servers {
    /// The servers of this list, in an order that the seed gives.
    #[must_use]
    pub fn new(list: &[Endpoint], seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        let mut list: Vec<_> = list.iter().cloned().map(Arc::new).collect();
        rng.shuffle(&mut list);
        Self {
            list,
            next: 0,
            rng,
            failed: 0,
            failures: Vec::new(),
            avoided: None,
            unreached: 0,
            owing: Vec::new(),
            outage: None,
        }
    }

    /// How many servers there are.
    pub(super) fn len(&self) -> usize {
        self.list.len()
    }

    /// The next server; `None` only when the list is empty.
    pub fn advance(&mut self, now: Instant) -> Option<Arc<Endpoint>> {
        self.owing.retain(|(_, until)| now < *until);
        // Once all others have failed, the session must not end for want of a server.
        let have_failed = self.unreached + 1 >= self.candidates();
        (self.avoided).take_if(|(_, until)| have_failed || *until <= now);
        self.unreached += 1;
        let in_turn = self.in_turn().enumerate();
        let (behind_next, endpoint) =
            in_turn.min_by_key(|(_, it)| (self.is_owing(it), self.is_avoided(it)))?;
        let endpoint = endpoint.clone();
        self.next = (self.next + behind_next + 1) % self.list.len();
        Some(endpoint)
    }

    /// All servers, from the next one on.
    fn in_turn(&self) -> impl Iterator<Item = &Arc<Endpoint>> {
        let before_next = self.list.iter().take(self.next);
        self.list.iter().skip(self.next).chain(before_next)
    }

    /// How many servers are tried in turn.
    fn candidates(&self) -> usize {
        match self.list.len().saturating_sub(self.owing.len()) {
            0 => self.list.len(),
            candidates => candidates,
        }
    }

    /// Whether there is another server than this one that owes nothing.
    #[inline]
    pub(super) fn has_other(&self, endpoint: &Arc<Endpoint>) -> bool {
        let is_other = |it: &Arc<Endpoint>| it != endpoint && !self.is_owing(it);
        self.list.len() > 1 && self.list.iter().any(is_other)
    }

    /// The next server beside this one that owes nothing.
    pub(super) fn other(&self, endpoint: &Arc<Endpoint>) -> Option<Arc<Endpoint>> {
        let is_other = |it: &&Arc<Endpoint>| *it != endpoint && !self.is_owing(it);
        let others = self.in_turn().filter(is_other);
        others.min_by_key(|it| self.is_avoided(it)).cloned()
    }

    /// Tries this server next, which accepts clients.
    pub(super) fn begin_with(&mut self, endpoint: &Arc<Endpoint>) {
        (self.avoided).take_if(|(avoided, _)| avoided == endpoint);
        let at = self.list.iter().position(|it| it == endpoint);
        self.next = at.unwrap_or(self.next);
    }

    /// A connection to this server has ended ahead of the answer to a write.
    pub fn owes(&mut self, now: Instant, endpoint: &Arc<Endpoint>) {
        self.owes_nothing(endpoint);
        self.owing.push((endpoint.clone(), now + AVOIDED));
    }

    /// Until when one of them may owe.
    pub(super) fn owed_until(&self, now: Instant) -> Option<Instant> {
        let untils = self.owing.iter().map(|(_, until)| *until);
        untils.filter(|until| now < *until).max()
    }

    fn is_avoided(&self, endpoint: &Arc<Endpoint>) -> bool {
        (self.avoided.as_ref()).is_some_and(|(avoided, _)| avoided == endpoint)
    }

    fn is_owing(&self, endpoint: &Arc<Endpoint>) -> bool {
        self.owing.iter().any(|(it, _)| it == endpoint)
    }

    /// The leader has answered a write of the present connection, which is to this server. What the
    /// server had from earlier connections went ahead of that write.
    pub(super) fn owes_nothing(&mut self, endpoint: &Arc<Endpoint>) {
        self.owing.retain(|(it, _)| it != endpoint);
    }

    /// The session is over, and all that is owed with it.
    pub(super) fn session_over(&mut self) {
        self.owing.clear();
    }

    /// Does not try this server for some time.
    pub(super) fn avoid(&mut self, now: Instant, endpoint: Arc<Endpoint>) {
        self.avoided = Some((endpoint, now + AVOIDED));
    }

    /// How long to wait before the next attempt.
    pub(super) fn pause(&mut self) -> Duration {
        let servers = u32::try_from(self.candidates().max(1)).unwrap_or(u32::MAX);
        match self.failed / servers {
            0 => self.rng.up_to(SCATTER * 4 / servers.max(4)),
            round => {
                let doublings = round.saturating_sub(1).min(16);
                let pause = FIRST_PAUSE
                    .saturating_mul(1 << doublings)
                    .min(LONGEST_PAUSE);
                pause * 2 / 3 + self.rng.up_to(pause / 3)
            }
        }
    }

    /// A connection was established before it was lost.
    pub(super) fn outage(&mut self, now: Instant, lost: Lost) {
        self.outage = Some((now, lost));
    }

    /// A server was reached. Returns how long there was no connection, and why; `None` if none was
    /// lost.
    pub(super) fn end_outage(&mut self, now: Instant) -> Option<(Duration, Lost)> {
        self.unreached = 0;
        let (since, lost) = self.outage.take()?;
        Some((now.duration_since(since), lost))
    }

    /// Notes that a connection has ended after `lasted`. An attempt that failed lasted zero.
    pub(super) fn ended(&mut self, lost: Lost, lasted: Duration) {
        if lasted >= LASTED {
            self.failed = 0;
            self.failures.clear();
        } else {
            self.failed = self.failed.saturating_add(1);
        }
        self.failures
            .retain(|other| other.endpoint != lost.endpoint);
        if self.failures.len() == REMEMBERED {
            self.failures.remove(0);
        }
        self.failures.push(lost);
    }

    /// Whether every server has been tried, and each failed permanently. Never true with more than
    /// [`REMEMBERED`] servers.
    pub(super) fn all_failed_permanently(&self) -> bool {
        let failure =
            |endpoint: &Arc<Endpoint>| self.failures.iter().find(|lost| lost.endpoint == *endpoint);
        self.list
            .iter()
            .all(|endpoint| failure(endpoint).is_some_and(|lost| lost.cause.is_permanent()))
    }

    /// The last failure of each server, oldest first; at most [`REMEMBERED`]. `pending` is that of
    /// an attempt that still lasts: it counts if it is the first one at its server.
    pub(super) fn failures(&self, pending: Option<Lost>) -> Arc<[Lost]> {
        let is_first = |lost: &Lost| self.failures.iter().all(|it| it.endpoint != lost.endpoint);
        let mut newest = self.failures.clone();
        newest.extend(pending.filter(is_first));
        if newest.len() > REMEMBERED {
            newest.remove(0);
        }
        newest.into()
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_proto::SessionId;

    use super::*;
    use crate::{Cause, ConnectString};

    #[allow(clippy::disallowed_methods, reason = "any moment will do")]
    fn now() -> Instant {
        Instant::now()
    }

    fn servers(text: &str, seed: u64) -> Servers {
        let servers: ConnectString = text.parse().unwrap();
        Servers::new(servers.endpoints(), seed)
    }

    #[test]
    fn a_server_that_is_avoided_is_tried_when_its_time_is_over_or_there_is_no_other() {
        let now = now();
        for (list, later) in [("a,b,c", AVOIDED), ("a", Duration::ZERO)] {
            let mut servers = servers(list, 7);
            let avoided = servers.advance(now).unwrap();
            servers.avoid(now, avoided.clone());
            let is_alone = list == "a";
            for _ in 0..3 * servers.len() {
                let tried = servers.advance(now);
                assert_eq!(tried.as_ref() == Some(&avoided), is_alone);
                servers.end_outage(now);
            }
            let mut tried = (0..3).map(|_| servers.advance(now + later));
            assert!(tried.any(|it| it.as_ref() == Some(&avoided)));
        }
    }

    /// A dial of such a server makes its late writes valid again.
    #[test]
    fn a_server_that_owes_is_not_tried_before_all_do_or_a_minute_is_over() {
        let now = now();
        let moment = Duration::from_nanos(1);
        let tried = |servers: &mut Servers, at| {
            let round = (0..6).map(|_| servers.advance(at).unwrap());
            round.collect::<Vec<_>>()
        };
        let mut servers = servers("a,b,c", 7);
        let [first, second, third] = [(); 3].map(|()| servers.advance(now).unwrap());
        servers.owes(now, &first);
        servers.owes(now, &second);
        // Again.
        servers.owes(now + moment, &first);
        // Not even if the others are to be avoided.
        servers.avoid(now, third.clone());
        let are_all = |tried: Vec<_>, one: &Arc<Endpoint>| tried.iter().all(|it| it == one);
        assert!(are_all(
            tried(&mut servers, now + AVOIDED.saturating_sub(moment)),
            &third
        ));
        assert!(servers.has_other(&first) && !servers.has_other(&third));
        assert!(!tried(&mut servers, now + AVOIDED).contains(&first));
        servers.owes(now, &second);
        servers.owes(now, &third);
        let all = tried(&mut servers, now);
        assert!([&first, &second].iter().all(|it| all.contains(it)));
        servers.owes_nothing(&second);
        assert!(are_all(tried(&mut servers, now), &second));
        servers.session_over();
        assert!(tried(&mut servers, now).contains(&first));
    }

    /// The pauses grow as if there were no others.
    #[test]
    fn who_may_try_only_one_server_does_not_try_it_in_a_loop() {
        let mut servers = servers("a,b,c", 7);
        let now = now();
        let [first, second, third] = [(); 3].map(|()| servers.advance(now).unwrap());
        servers.owes(now, &first);
        servers.owes(now, &second);
        for _ in 0..2 {
            servers.ended(closed(&third), Duration::ZERO);
        }
        assert!(servers.pause() > SCATTER);
    }

    fn closed(endpoint: &Arc<Endpoint>) -> Lost {
        Lost {
            endpoint: endpoint.clone(),
            session: SessionId::NONE,
            cause: Cause::ClosedByServer,
        }
    }

    #[test]
    fn servers_are_tried_round_robin() {
        let mut servers = servers("a,b,c", 7);
        let mut round: Vec<_> = (0..3)
            .map(|_| servers.advance(now()).unwrap().to_string())
            .collect();
        assert_eq!(servers.advance(now()).unwrap().to_string(), round[0]);
        round.sort();
        assert_eq!(round, ["a:2181", "b:2181", "c:2181"]);
    }

    /// Another client asked a server that accepts and closes at once 18,000 times a second.
    #[test]
    fn a_server_that_accepts_and_closes_is_tried_less_than_twenty_times_in_nine_seconds() {
        for seed in 0..50 {
            let mut servers = servers("a", seed);
            let (mut waited, mut attempts) = (Duration::ZERO, 1);
            let endpoint = servers.advance(now()).unwrap();
            loop {
                servers.ended(closed(&endpoint), Duration::from_millis(3));
                waited += servers.pause();
                if waited > Duration::from_secs(9) {
                    break;
                }
                attempts += 1;
            }
            assert!((9..20).contains(&attempts), "{attempts}");
            assert_eq!(servers.failures(None).len(), 1);
        }
    }

    #[test]
    fn a_connection_that_lasted_is_replaced_at_once() {
        let mut servers = servers("a", 7);
        let endpoint = servers.advance(now()).unwrap();
        for _ in 0..9 {
            servers.ended(closed(&endpoint), Duration::ZERO);
        }
        assert!(servers.pause() > SCATTER);
        servers.ended(closed(&endpoint), LASTED);
        assert!(servers.pause() <= SCATTER);
    }

    /// With a thousand dead servers, error messages were 60 kB long.
    #[test]
    fn only_the_newest_failures_are_remembered() {
        let names: Vec<_> = (0..1000).map(|n| format!("zk{n}")).collect();
        let mut servers = servers(&names.join(","), 7);
        let mut order = Vec::new();
        for _ in 0..2500 {
            let endpoint = servers.advance(now()).unwrap();
            servers.ended(closed(&endpoint), Duration::ZERO);
            order.push(endpoint);
        }
        let newest: Vec<_> = order[2500 - REMEMBERED..].to_vec();
        let tried: Vec<_> = servers
            .failures(None)
            .iter()
            .map(|l| l.endpoint.clone())
            .collect();
        assert_eq!(tried, newest);
    }
}
