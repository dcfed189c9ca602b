//! The record of the demo, and the checks that the lock kept its promises.
//!
//! Pure: it takes events and returns findings. It never asks the lock. The times come from the clients, which share one
//! clock. Not here: printing the findings (`summary`).

use std::time::{Duration, Instant};

use super::events::{Event, What, Write};

/// One period in which a client held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) token: u64,
    pub(super) queued: Instant,
    pub(super) granted: Instant,
    /// When the hold ended: at the release, or at the end of the lease. `None` while the client holds the lock.
    pub(super) ended: Option<Instant>,
    /// When the client was paused, if it was paused during this hold.
    pub(super) stopped: Option<Instant>,
}

impl Hold {
    pub(super) fn waited(&self) -> Duration {
        self.granted.saturating_duration_since(self.queued)
    }
}

/// The record of everything that the clients reported.
#[derive(Debug)]
pub(super) struct Audit {
    /// When each client last entered the queue.
    queued: Vec<Option<Instant>>,
    /// All holds, in the order of the grants.
    pub(super) holds: Vec<Hold>,
    /// The number of writes that the server has applied.
    pub(super) written: u64,
    /// The number of writes without a reply, which the server may have applied.
    pub(super) in_doubt: u64,
    /// The number of writes that were refused because the lock was lost.
    pub(super) refused: u64,
    /// The result of the paused client's late write.
    pub(super) late: Option<Write>,
    /// Whether the paused client's guard said that the lock was lost.
    pub(super) knew: Option<bool>,
    /// The final value of the counter.
    pub(super) count: Option<u64>,
}

/// How the lock went from the paused client to the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Expiry {
    pub(super) client: usize,
    /// From the start of the pause to the end of the lease.
    pub(super) lease: Duration,
    /// From the start of the pause to the next grant.
    pub(super) handed_on: Duration,
}

impl Audit {
    pub(super) fn new(clients: usize) -> Self {
        Self {
            queued: vec![None; clients],
            holds: Vec::new(),
            written: 0,
            in_doubt: 0,
            refused: 0,
            late: None,
            knew: None,
            count: None,
        }
    }

    /// Records an event.
    pub(super) fn note(&mut self, event: &Event) {
        match &event.what {
            What::Queued => {
                if let Some(queued) = self.queued.get_mut(event.client) {
                    *queued = Some(event.at);
                }
            }
            What::Granted { token } => {
                let queued = self.queued.get(event.client).copied().flatten();
                self.holds.push(Hold {
                    client: event.client,
                    token: *token,
                    queued: queued.unwrap_or(event.at),
                    granted: event.at,
                    ended: None,
                    stopped: None,
                });
            }
            What::Released { ended, write } => {
                if let Some(hold) = self.holding(event.client) {
                    hold.ended = Some(*ended);
                }
                self.wrote(write);
            }
            What::Stopped { lease_until } => {
                if let Some(hold) = self.holding(event.client) {
                    hold.ended = Some(*lease_until);
                    hold.stopped = Some(event.at);
                }
            }
            What::Woke { trusts } => self.knew = Some(!trusts),
            What::Late { write, .. } => {
                self.late = Some(write.clone());
                self.wrote(write);
            }
            What::Trouble(_) | What::Left => {}
        }
    }

    fn wrote(&mut self, write: &Write) {
        match write {
            Write::Done => self.written += 1,
            Write::InDoubt(_) => self.in_doubt += 1,
            Write::Refused(_) => self.refused += 1,
            Write::Failed(_) => {}
        }
    }

    /// The client's present hold.
    fn holding(&mut self, client: usize) -> Option<&mut Hold> {
        let mut holds = self.holds.iter_mut().rev();
        holds.find(|hold| hold.client == client && hold.ended.is_none())
    }

    /// How many times a client was granted the lock while another client still held it.
    pub(super) fn overlaps(&self) -> usize {
        let mut holds: Vec<_> = self.holds.iter().collect();
        holds.sort_by_key(|hold| hold.granted);
        let mut overlaps = 0;
        let mut held_until = None;
        for hold in holds {
            if held_until.is_some_and(|until| hold.granted < until) {
                overlaps += 1;
            }
            // A hold without a reported end counts as no overlap: its client has ended too.
            held_until = held_until.max(hold.ended);
        }
        overlaps
    }

    /// Whether each token was higher than the one before.
    pub(super) fn tokens_grow(&self) -> bool {
        self.holds.is_sorted_by(|one, next| one.token < next.token)
    }

    /// Whether the counter equals the number of writes. Each write in doubt may or may not count.
    pub(super) fn counts_add_up(&self) -> bool {
        let possible = self.written..=self.written + self.in_doubt;
        self.count.is_some_and(|count| possible.contains(&count))
    }

    /// Whether the paused client knew that it had lost the lock, and its late write was refused.
    pub(super) fn late_write_refused(&self) -> bool {
        self.knew == Some(true) && matches!(self.late, Some(Write::Refused(_)))
    }

    /// The waits of the clients, shortest first.
    pub(super) fn waits(&self) -> Vec<Duration> {
        sorted(self.holds.iter().map(Hold::waited))
    }

    /// The times from a release to the next grant, shortest first. Counts only grants to clients that waited already.
    pub(super) fn hand_overs(&self) -> Vec<Duration> {
        sorted(self.holds.windows(2).filter_map(|pair| match pair {
            [one, next] if one.stopped.is_none() => {
                let ended = one.ended?;
                (next.queued < ended).then(|| next.granted.saturating_duration_since(ended))
            }
            _ => None,
        }))
    }

    /// How the lock went from the paused client to the next one, if that has happened.
    pub(super) fn expiry(&self) -> Option<Expiry> {
        let at = self.holds.iter().position(|hold| hold.stopped.is_some())?;
        let (hold, next) = (self.holds.get(at)?, self.holds.get(at + 1)?);
        let stopped = hold.stopped?;
        Some(Expiry {
            client: hold.client,
            lease: hold.ended?.saturating_duration_since(stopped),
            handed_on: next.granted.saturating_duration_since(stopped),
        })
    }

    /// The smallest and the largest number of holds of a client.
    pub(super) fn shares(&self) -> (usize, usize) {
        let share = |client| {
            self.holds
                .iter()
                .filter(|hold| hold.client == client)
                .count()
        };
        let shares = || (0..self.queued.len()).map(share);
        (shares().min().unwrap_or(0), shares().max().unwrap_or(0))
    }
}

fn sorted(durations: impl Iterator<Item = Duration>) -> Vec<Duration> {
    let mut durations: Vec<_> = durations.collect();
    durations.sort_unstable();
    durations
}

/// The percentile of sorted durations, by nearest rank; zero if there are none.
pub(super) fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    let last = sorted.len().saturating_sub(1);
    let at = rank.saturating_sub(1).min(last);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Clients that queue, are granted the lock and release it at these times.
    fn audit(holds: &[(usize, u64, [u64; 3])]) -> (Audit, Instant) {
        let start = Instant::now();
        let mut audit = Audit::new(4);
        for (client, token, [queued, granted, ended]) in holds {
            let mut note = |at, what| {
                let (at, client) = (start + ms(at), *client);
                audit.note(&Event { at, client, what });
            };
            note(*queued, What::Queued);
            note(*granted, What::Granted { token: *token });
            let (ended, write) = (start + ms(*ended), Write::Done);
            note(*granted, What::Released { ended, write });
        }
        (audit, start)
    }

    #[test]
    fn holds_one_after_another_do_not_overlap() {
        let (mut audit, _) = audit(&[(0, 5, [0, 1, 9]), (1, 6, [2, 9, 20]), (0, 9, [30, 31, 40])]);
        assert_eq!(audit.overlaps(), 0);
        assert!(audit.tokens_grow());
        assert_eq!(audit.waits(), [ms(1), ms(1), ms(7)]);
        assert_eq!(
            audit.hand_overs(),
            [ms(0)],
            "the third client did not wait for a holder"
        );
        assert_eq!(audit.shares(), (0, 2));
        audit.count = Some(3);
        assert!(audit.counts_add_up());
        audit.count = Some(2);
        assert!(!audit.counts_add_up(), "an increment was lost");
    }

    #[test]
    fn every_overlap_is_counted() {
        let (audit, _) = audit(&[(0, 5, [0, 1, 30]), (1, 6, [0, 10, 12]), (2, 7, [0, 20, 25])]);
        assert_eq!(
            audit.overlaps(),
            2,
            "the third hold overlaps with the first, not with the second"
        );
    }

    #[test]
    fn a_repeated_token_does_not_count_as_growth() {
        let (audit, _) = audit(&[(0, 5, [0, 1, 2]), (1, 5, [0, 3, 4])]);
        assert!(!audit.tokens_grow());
    }

    #[test]
    fn a_paused_client_holds_the_lock_until_its_lease_ends() {
        let (mut audit, start) = audit(&[]);
        let mut note = |at, client, what| {
            let at = start + ms(at);
            audit.note(&Event { at, client, what });
        };
        note(0, 0, What::Queued);
        note(1, 0, What::Granted { token: 1 });
        let lease_until = start + ms(60);
        note(2, 0, What::Stopped { lease_until });
        note(3, 1, What::Queued);
        note(100, 1, What::Granted { token: 2 });
        note(110, 0, What::Woke { trusts: false });
        let write = Write::Refused(String::new());
        note(111, 0, What::Late { value: 1, write });
        assert_eq!(audit.overlaps(), 0);
        assert_eq!(audit.hand_overs(), []);
        let expiry = Expiry {
            client: 0,
            lease: ms(58),
            handed_on: ms(98),
        };
        assert_eq!(audit.expiry(), Some(expiry));
        assert!(audit.late_write_refused());

        audit.holds[1].granted = start + ms(59);
        assert_eq!(audit.overlaps(), 1);
        audit.late = Some(Write::Done);
        assert!(!audit.late_write_refused());
    }

    #[test]
    fn percentiles_are_those_of_the_nearest_rank() {
        let hundred: Vec<_> = (1..=100).map(ms).collect();
        assert_eq!(percentile(&hundred, 50), ms(50));
        assert_eq!(percentile(&hundred, 99), ms(99));
        assert_eq!(percentile(&hundred[..10], 99), ms(10));
        assert_eq!(percentile(&hundred[..1], 50), ms(1));
        assert_eq!(percentile(&[], 50), Duration::ZERO);
    }
}
