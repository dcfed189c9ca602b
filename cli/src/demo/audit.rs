//! The checks that the lock kept its promises, and the measurements.
//!
//! Pure: it takes the list of events and returns findings. It never asks the lock. The times come from the clients, which
//! share one clock. Not here: printing the findings (`summary`).

use std::time::{Duration, Instant};

use super::events::{Event, What, Write};

/// One period in which a client held the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Hold {
    pub(super) client: usize,
    pub(super) token: u64,
    pub(super) waited: Duration,
    pub(super) granted: Instant,
    /// When the hold ended: at the release, or at the end of the lease. `None` if the client did not report it.
    pub(super) ended: Option<Instant>,
    /// When the client was paused or cut off, if that was during this hold.
    pub(super) paused: Option<Instant>,
}

/// What the events show.
#[derive(Debug, Default)]
pub(super) struct Audit {
    clients: usize,
    /// All holds, in the order of the grants.
    pub(super) holds: Vec<Hold>,
    /// The number of writes that the server has applied.
    pub(super) written: u64,
    /// The number of writes without a reply, which the server may have applied.
    pub(super) in_doubt: u64,
    /// The number of writes that were refused because the lock was lost.
    pub(super) refused: u64,
    /// The result of the late write of the client that was paused or cut off.
    late: Option<Write>,
    /// Whether its guard said that the lock was lost.
    knew: bool,
    /// The final value of the counter.
    pub(super) count: Option<u64>,
}

impl Audit {
    /// Evaluates the events. `count` is the final value of the counter.
    pub(super) fn new(events: &[Event], clients: usize, count: Option<u64>) -> Self {
        let mut audit = Self {
            clients,
            count,
            ..Self::default()
        };
        for event in events {
            audit.add(event);
        }
        audit
    }

    fn add(&mut self, event: &Event) {
        let (client, at) = (event.client, event.at);
        let mut holds = self.holds.iter_mut().rev();
        let present = holds.find(|hold| hold.client == client && hold.ended.is_none());
        match (&event.what, present) {
            (&What::Granted { token, waited }, _) => self.holds.push(Hold {
                client,
                token,
                waited,
                granted: at,
                ended: None,
                paused: None,
            }),
            (What::Paused { lease_until }, Some(hold)) => {
                hold.ended = Some(*lease_until);
                hold.paused = Some(at);
            }
            (What::CutOff(_), Some(hold)) => hold.paused = Some(at),
            // That of a paused client is known already.
            (What::LeaseEnded, Some(hold)) => hold.ended = Some(at),
            (What::Released { ended, .. }, Some(hold)) => hold.ended = Some(*ended),
            (What::Woken { valid }, _) => self.knew = !valid,
            (What::WroteLate { write, .. }, _) => self.late = Some(write.clone()),
            _ => {}
        }
        if let What::Released { write, .. } | What::WroteLate { write, .. } = &event.what {
            match write {
                Write::Done => self.written += 1,
                Write::InDoubt(_) => self.in_doubt += 1,
                Write::Refused(_) => self.refused += 1,
                Write::Failed(_) => {}
            }
        }
    }

    /// The promises that were broken. `complete` says that the demo was not ended early, so every promise was tested.
    pub(super) fn broken(&self, complete: bool) -> Vec<String> {
        let late_refused = self.knew && matches!(self.late, Some(Write::Refused(_)));
        let late_accepted = self.late == Some(Write::Done);
        let mut broken = Vec::new();
        let mut check = |is_broken: bool, promise: &str| {
            if is_broken {
                broken.push(promise.to_owned());
            }
        };
        let no_holds = complete && self.holds.is_empty();
        check(no_holds, "no client got the lock");
        let overlaps = match self.overlaps() {
            1 => "two clients held the lock at once, 1 time".to_owned(),
            n => format!("two clients held the lock at once, {n} times"),
        };
        check(self.overlaps() > 0, &overlaps);
        let repeated = !self.tokens_grow();
        check(repeated, "a token was not higher than the one before");
        let lost = !self.counts_add_up();
        check(lost, "the counter does not match the number of writes");
        check(late_accepted, "a write without the lock was accepted");
        let never = "no client was paused or cut off, or no other client got its lock";
        check(complete && self.late.is_none(), never);
        let unanswered = self.late.is_some() && !late_refused && !late_accepted;
        let text = "the late write got no answer, or the guard was still valid";
        check(complete && unanswered, text);
        broken
    }

    /// How many times a client was granted the lock while another client still held it.
    pub(super) fn overlaps(&self) -> usize {
        let mut overlaps = 0;
        let mut held_until = None;
        for hold in &self.holds {
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
    fn counts_add_up(&self) -> bool {
        let possible = self.written..=self.written + self.in_doubt;
        self.count.is_some_and(|count| possible.contains(&count))
    }

    /// The waits of the clients, shortest first.
    pub(super) fn waits(&self) -> Vec<Duration> {
        sorted(self.holds.iter().map(|hold| hold.waited))
    }

    /// The times from a release to the next grant, shortest first. Counts only grants to clients that waited already.
    pub(super) fn hand_overs(&self) -> Vec<Duration> {
        let hand_over = |pair: &[Hold]| match pair {
            [one, next] if one.paused.is_none() => {
                let took = next.granted.saturating_duration_since(one.ended?);
                (next.waited > took).then_some(took)
            }
            _ => None,
        };
        sorted(self.holds.windows(2).filter_map(hand_over))
    }

    /// The client that was paused or cut off, the rest of its lease, and the time until the next grant, both from that start.
    pub(super) fn expiry(&self) -> Option<(usize, Duration, Duration)> {
        let at = self.holds.iter().position(|hold| hold.paused.is_some())?;
        let (hold, next) = (self.holds.get(at)?, self.holds.get(at + 1)?);
        let paused = hold.paused?;
        let lease = hold.ended?.saturating_duration_since(paused);
        let handed_on = next.granted.saturating_duration_since(paused);
        Some((hold.client, lease, handed_on))
    }

    /// The smallest and the largest number of holds of a client.
    pub(super) fn shares(&self) -> (usize, usize) {
        let mut shares = vec![0; self.clients];
        for hold in &self.holds {
            if let Some(share) = shares.get_mut(hold.client) {
                *share += 1;
            }
        }
        shares.sort_unstable();
        let (least, most) = (shares.first(), shares.last());
        (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
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
    let at = rank.saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::{super::events::Link, *};

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    /// Clients that wait, are granted the lock and release it at these times.
    fn audit(holds: &[(usize, u64, [u64; 3])], count: u64) -> Audit {
        let start = Instant::now();
        let mut events = Vec::new();
        for &(client, token, [since, granted, ended]) in holds {
            let (waited, write) = (ms(granted - since), Write::Done);
            let (granted, ended) = (start + ms(granted), start + ms(ended));
            let mut event = |at, what| events.push(Event { at, client, what });
            event(granted, What::Granted { token, waited });
            event(ended, What::Released { ended, write });
        }
        Audit::new(&events, 4, Some(count))
    }

    #[test]
    fn holds_one_after_another_do_not_overlap() {
        let three = [(0, 5, [0, 1, 9]), (1, 6, [2, 9, 20]), (0, 9, [30, 31, 40])];
        let kept = audit(&three, 3);
        assert_eq!(kept.broken(false), Vec::<String>::new());
        assert_eq!(kept.waits(), [ms(1), ms(1), ms(7)]);
        let why = "the third client did not wait for a holder";
        assert_eq!(kept.hand_overs(), [ms(0)], "{why}");
        assert_eq!(kept.shares(), (0, 2));
        let lost = "the counter does not match the number of writes";
        assert_eq!(audit(&three, 2).broken(false), [lost]);
        let never_late = "no client was paused or cut off, or no other client got its lock";
        assert_eq!(kept.broken(true), [never_late]);
    }

    #[test]
    fn every_overlap_is_counted() {
        let three = [(0, 5, [0, 1, 30]), (1, 6, [0, 10, 12]), (2, 7, [0, 20, 25])];
        let broken = "two clients held the lock at once, 2 times";
        let why = "the third hold overlaps with the first, not with the second";
        assert_eq!(audit(&three, 3).broken(false), [broken], "{why}");
    }

    #[test]
    fn a_repeated_token_does_not_count_as_growth() {
        let audit = audit(&[(0, 5, [0, 1, 2]), (1, 5, [0, 3, 4])], 2);
        let broken = "a token was not higher than the one before";
        assert_eq!(audit.broken(false), [broken]);
    }

    #[test]
    fn a_paused_client_holds_the_lock_until_its_lease_ends() {
        let paused = |next: u64, write: &Write| {
            let start = Instant::now();
            let (lease_until, write) = (start + ms(60), write.clone());
            let granted = |token| What::Granted {
                token,
                waited: ms(1),
            };
            let events = [
                (1, 0, granted(1)),
                (2, 0, What::Paused { lease_until }),
                (next, 1, granted(2)),
                (110, 0, What::Woken { valid: false }),
                (111, 0, What::WroteLate { value: 1, write }),
            ];
            let events = events.map(|(after, client, what)| {
                let at = start + ms(after);
                Event { at, client, what }
            });
            Audit::new(&events, 2, Some(0))
        };
        let refused = Write::Refused(String::new());
        let kept = paused(100, &refused);
        assert_eq!(kept.broken(true), Vec::<String>::new());
        assert_eq!(kept.hand_overs(), []);
        assert_eq!(kept.expiry(), Some((0, ms(58), ms(98))));

        let overlap = "two clients held the lock at once, 1 time";
        assert_eq!(paused(59, &refused).broken(true), [overlap]);
        let lost = "the counter does not match the number of writes";
        let accepted = "a write without the lock was accepted";
        assert_eq!(paused(100, &Write::Done).broken(true), [lost, accepted]);
    }

    /// The client itself says when its lease has ended, also if that is after the next grant.
    #[test]
    fn a_client_that_is_cut_off_holds_the_lock_until_its_lease_ends() {
        let cut_off = |lease_until: u64, next: u64| {
            let start = Instant::now();
            let granted = |token| What::Granted {
                token,
                waited: ms(1),
            };
            let link = Link {
                server: 1,
                leader: 2,
            };
            let mut events = [
                (1, 0, granted(1)),
                (2, 0, What::CutOff(link)),
                (lease_until, 0, What::LeaseEnded),
                (next, 1, granted(2)),
            ];
            events.sort_by_key(|(after, ..)| *after);
            let events = events.map(|(after, client, what)| {
                let at = start + ms(after);
                Event { at, client, what }
            });
            Audit::new(&events, 2, Some(0))
        };
        let kept = cut_off(60, 100);
        assert_eq!(kept.broken(false), Vec::<String>::new());
        assert_eq!(kept.expiry(), Some((0, ms(58), ms(98))));
        let overlap = "two clients held the lock at once, 1 time";
        assert_eq!(cut_off(60, 59).broken(false), [overlap]);
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
