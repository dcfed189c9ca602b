//! The checks that the lock kept its promises, and the measurements.
//!
//! Pure: it takes the list of events and returns findings. It never asks the lock. The times come from the clients, which
//! share one clock. Not here: printing the findings (`screen`).

use std::time::{Duration, Instant};

use super::events::{Event, What, Write};
use crate::duration::Human;

/// One period in which a client held the lock.
#[derive(Clone, Copy, Debug)]
struct Hold {
    client: usize,
    token: u64,
    waited: Duration,
    granted: Instant,
    /// When the hold ended: at the release, or at the end of the lease. `None` if the client did not report it.
    ended: Option<Instant>,
    /// When the client was paused, if that was during this hold.
    paused: Option<Instant>,
}

/// What the events show.
#[derive(Debug, Default)]
pub(super) struct Audit {
    clients: usize,
    /// All holds, in the order of the grants.
    holds: Vec<Hold>,
    /// The numbers of writes that the server has applied, may have applied (there was no reply), and has refused.
    written: u64,
    in_doubt: u64,
    refused: u64,
    /// The result of the late write of the client that was paused.
    late: Option<Write>,
    /// Whether its guard said that the lock was lost.
    knew: bool,
    /// The final value of the counter.
    count: Option<u64>,
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
            (&What::Granted(token, waited), _) => self.holds.push(Hold {
                client,
                token,
                waited,
                granted: at,
                ended: None,
                paused: None,
            }),
            // A paused client cannot tell the end of its lease later.
            (What::Paused(lease_until), Some(hold)) => {
                (hold.paused, hold.ended) = (Some(at), Some(*lease_until));
            }
            (What::Released(ended, _), Some(hold)) => hold.ended = Some(*ended),
            (What::WroteLate(valid, _, write), _) => {
                (self.knew, self.late) = (!valid, Some(write.clone()));
            }
            _ => {}
        }
        if let What::Released(_, write) | What::WroteLate(_, _, write) = &event.what {
            match write {
                Write::Done => self.written += 1,
                Write::InDoubt(_) => self.in_doubt += 1,
                Write::Refused => self.refused += 1,
                Write::Failed(_) => {}
            }
        }
    }

    /// The promises that were broken. `complete` says that the demo was not ended early, so every promise was tested.
    pub(super) fn broken(&self, complete: bool) -> Vec<String> {
        let overlaps = self.overlaps();
        let times = if overlaps == 1 { "time" } else { "times" };
        let overlap = format!("two clients held the lock at once, {overlaps} {times}");
        let is_refused = self.knew && self.late == Some(Write::Refused);
        let is_accepted = self.late == Some(Write::Done);
        let is_unanswered = self.late.is_some() && !is_refused && !is_accepted;
        // Each write in doubt may or may not count.
        let possible = self.written..=self.written + self.in_doubt;
        let counts = self.count.is_some_and(|count| possible.contains(&count));
        let checks = [
            (complete && self.holds.is_empty(), "no client got the lock"),
            (overlaps > 0, &overlap),
            (
                !self.tokens_grow(),
                "a token was not higher than the one before",
            ),
            (!counts, "the counter does not match the number of writes"),
            (is_accepted, "a write without the lock was accepted"),
            (
                complete && self.late.is_none(),
                "no client was paused, or no other client got its lock",
            ),
            (
                complete && is_unanswered,
                "the late write got no answer, or the guard was still valid",
            ),
        ];
        let broken = checks.into_iter().filter(|(is_broken, _)| *is_broken);
        broken.map(|(_, promise)| promise.to_owned()).collect()
    }

    /// How many times a client was granted the lock while another client still held it.
    fn overlaps(&self) -> usize {
        let mut held_until = None;
        let overlaps = self.holds.iter().filter(|hold| {
            let overlaps = held_until.is_some_and(|until| hold.granted < until);
            // A hold without a reported end counts as no overlap: its client has ended too.
            held_until = held_until.max(hold.ended);
            overlaps
        });
        overlaps.count()
    }

    /// Whether each token was higher than the one before.
    fn tokens_grow(&self) -> bool {
        self.holds.is_sorted_by(|one, next| one.token < next.token)
    }

    /// The times from a release to the next grant. Counts only grants to clients that waited already.
    fn hand_overs(&self) -> Vec<Duration> {
        let hand_over = |pair: &[Hold]| match pair {
            [one, next] if one.paused.is_none() => {
                let took = next.granted.saturating_duration_since(one.ended?);
                (next.waited > took).then_some(took)
            }
            _ => None,
        };
        self.holds.windows(2).filter_map(hand_over).collect()
    }

    /// The client that was paused, the rest of its lease, and the time until the next grant, both from that start.
    fn expiry(&self) -> Option<(usize, Duration, Duration)> {
        let at = self.holds.iter().position(|hold| hold.paused.is_some())?;
        let (hold, next) = (self.holds.get(at)?, self.holds.get(at + 1)?);
        let since = |at: Instant| Some(at.saturating_duration_since(hold.paused?));
        Some((hold.client, since(hold.ended?)?, since(next.granted)?))
    }

    /// The smallest and the largest number of holds of a client.
    fn shares(&self) -> (usize, usize) {
        let of = |client| {
            self.holds
                .iter()
                .filter(|hold| hold.client == client)
                .count()
        };
        let shares = || (0..self.clients).map(of);
        (shares().min().unwrap_or(0), shares().max().unwrap_or(0))
    }

    /// The measurements, each with its name.
    pub(super) fn numbers(&self, took: Duration) -> Vec<(&'static str, String)> {
        let (fewest, most) = self.shares();
        let (holds, took) = (self.holds.len(), Human(took));
        let waits = self.holds.iter().map(|hold| hold.waited).collect();
        let mut numbers = vec![
            (
                "holds",
                format!("{holds} in {took}, {fewest} to {most} by each client"),
            ),
            ("overlaps", self.overlaps().to_string()),
            ("waited", distribution(waits)),
        ];
        let hand_overs = self.hand_overs();
        if !hand_overs.is_empty() {
            numbers.push(("hand-over", distribution(hand_overs)));
        }
        if let Some((client, lease, handed_on)) = self.expiry() {
            let (client, lease, next) = (client + 1, Human(lease), Human(handed_on));
            let text =
                format!("client {client}: lease ended after {lease}, next grant after {next}");
            numbers.push(("expiry", text));
        }
        if let (Some(first), Some(last)) = (self.holds.first(), self.holds.last()) {
            let growth = if self.tokens_grow() {
                "each higher than the one before"
            } else {
                "not growing"
            };
            numbers.push((
                "tokens",
                format!("{} to {}, {growth}", first.token, last.token),
            ));
        }
        let count = self
            .count
            .map_or("unknown".to_owned(), |count| count.to_string());
        let doubt = match self.in_doubt {
            0 => String::new(),
            doubt => format!(" and {doubt} in doubt"),
        };
        let (written, refused) = (self.written, self.refused);
        numbers.push((
            "counter",
            format!("{count} after {written} writes{doubt}; {refused} refused"),
        ));
        numbers
    }
}

fn distribution(mut times: Vec<Duration>) -> String {
    times.sort_unstable();
    let [half, most, all] = [50, 99, 100].map(|percent| Human(percentile(&times, percent)));
    format!("p50 {half:<9}p99 {most:<9}longest {all}")
}

/// The percentile of sorted durations, by nearest rank; zero if there are none.
fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted
        .get(rank.saturating_sub(1))
        .copied()
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

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
            event(granted, What::Granted(token, waited));
            event(ended, What::Released(ended, write));
        }
        Audit::new(&events, 4, Some(count))
    }

    #[test]
    fn holds_one_after_another_do_not_overlap() {
        let three = [(0, 5, [0, 1, 9]), (1, 6, [2, 9, 20]), (0, 9, [30, 31, 40])];
        let kept = audit(&three, 3);
        assert_eq!(kept.broken(false), Vec::<String>::new());
        assert_eq!(
            kept.numbers(ms(9))[2].1,
            "p50 1.00 ms  p99 7.00 ms  longest 7.00 ms"
        );
        let why = "the third client did not wait for a holder";
        assert_eq!(kept.hand_overs(), [ms(0)], "{why}");
        assert_eq!(kept.shares(), (0, 2));
        let lost = "the counter does not match the number of writes";
        assert_eq!(audit(&three, 2).broken(false), [lost]);
        let never_late = "no client was paused, or no other client got its lock";
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

    /// It cannot tell when its lease ends, so its first event says that.
    #[test]
    fn a_paused_client_holds_the_lock_until_its_lease_ends() {
        let story = |lease: u64, next: u64, write: Write| {
            let start = Instant::now();
            let granted = |token| What::Granted(token, ms(1));
            let mut events = [
                (1, 0, granted(1)),
                (2, 0, What::Paused(start + ms(lease))),
                (lease, 0, What::LeaseEnded),
                (next, 1, granted(2)),
                (111, 0, What::WroteLate(false, 1, write)),
            ];
            events.sort_by_key(|(after, ..)| *after);
            let events = events.map(|(after, client, what)| Event {
                at: start + ms(after),
                client,
                what,
            });
            Audit::new(&events, 2, Some(0))
        };
        let overlap = "two clients held the lock at once, 1 time";
        let kept = story(60, 100, Write::Refused);
        assert_eq!(kept.broken(true), Vec::<String>::new());
        assert!(kept.hand_overs().is_empty());
        assert_eq!(kept.expiry(), Some((0, ms(58), ms(98))));
        let early = story(60, 59, Write::Refused);
        assert_eq!(early.broken(true), [overlap]);
        let lost = "the counter does not match the number of writes";
        let accepted = "a write without the lock was accepted";
        assert_eq!(story(60, 100, Write::Done).broken(true), [lost, accepted]);
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
