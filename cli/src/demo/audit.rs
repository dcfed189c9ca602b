//! Whether the lock kept its promises, and the measurements.
//!
//! Pure: it looks at what the clients did, and never asks the lock. The times come from the clients, which share one clock.

use super::story::{Does, Span, Story};
use crate::duration::Human;

/// The promises that were broken. `count` is the value of the counter.
pub(super) fn broken(story: &Story, count: u64) -> impl Iterator<Item = &'static str> {
    let checks = [
        (overlaps(story) == 0, "two clients held the lock at once"),
        (
            holds(story).is_sorted_by(|one, next| one.token < next.token),
            "a token was not higher than the one before",
        ),
        (
            count == story.writes,
            "the counter does not match the number of writes",
        ),
        (
            story.late == Some((false, true)),
            "no late write was refused, or the guard was valid until then",
        ),
    ];
    let broken = checks.into_iter().filter(|(is_kept, _)| !is_kept);
    broken.map(|(_, promise)| promise)
}

/// The measurements, each with its name.
pub(super) fn numbers(story: &Story, count: u64) -> [(&'static str, String); 3] {
    let of = |client| holds(story).filter(move |it| it.client == client).count();
    let shares: Vec<_> = (0..story.now.len()).map(of).collect();
    let (fewest, most) = (
        shares.iter().min().unwrap_or(&0),
        shares.iter().max().unwrap_or(&0),
    );
    let (all, took) = (shares.iter().sum::<usize>(), Human(story.start.elapsed()));
    [
        (
            "holds",
            format!("{all} in {took}, {fewest} to {most} by each client"),
        ),
        ("overlaps", overlaps(story).to_string()),
        ("counter", format!("{count} after {} writes", story.writes)),
    ]
}

/// The times in which a client relied on the lock, in the order of the grants.
fn holds(story: &Story) -> impl Iterator<Item = &Span> {
    let holds = story.spans.iter();
    let holds = holds.filter(|it| matches!(it.does, Does::Hold | Does::Pause));
    let mut holds: Vec<_> = holds.collect();
    holds.sort_by_key(|it| it.from);
    holds.into_iter()
}

/// How many times a client was granted the lock while another client still held it.
fn overlaps(story: &Story) -> usize {
    let mut held_until = story.start;
    let overlaps = holds(story).filter(|hold| {
        let overlaps = hold.from < held_until;
        held_until = held_until.max(hold.to);
        overlaps
    });
    overlaps.count()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    /// A story of these times: what a client does, with which token, from when to when, in milliseconds.
    fn story(spans: &[(usize, Does, u64, u64, u64)]) -> Story {
        let mut story = Story::new(3);
        let at = |ms| story.start + Duration::from_millis(ms);
        let span = |&(client, does, token, from, to): &_| Span {
            client,
            does,
            token,
            from: at(from),
            to: at(to),
        };
        story.spans = spans.iter().map(span).collect();
        story
    }

    fn broken_in(story: &Story, count: u64) -> Vec<&'static str> {
        broken(story, count).collect()
    }

    #[test]
    fn each_broken_promise_is_told() {
        let holds = [
            (0, Does::Hold, 5, 1, 9),
            (1, Does::Wait, 0, 1, 9),
            (1, Does::Hold, 6, 9, 20),
            (2, Does::Pause, 7, 20, 50),
            (2, Does::PauseOn, 7, 50, 90),
            (0, Does::Hold, 9, 60, 70),
        ];
        let mut story = story(&holds);
        let late = "no late write was refused, or the guard was valid until then";
        assert_eq!(broken_in(&story, 0), [late]);
        story.late = Some((true, true));
        assert_eq!(broken_in(&story, 0), [late]);
        story.late = Some((false, true));
        assert_eq!(broken_in(&story, 0), [] as [&str; 0]);
        story.late = Some((false, false));
        story.writes = 1;
        assert_eq!(broken_in(&story, 1), [late]);
        let lost = "the counter does not match the number of writes";
        assert_eq!(broken_in(&story, 2), [lost, late]);
        // The last hold overlaps with the first, not with the second.
        let early = [
            (1, Does::Hold, 6, 10, 12),
            (0, Does::Hold, 5, 1, 30),
            (2, Does::Hold, 6, 20, 25),
        ];
        let early = self::story(&early);
        assert_eq!(overlaps(&early), 2);
        let disorder = "a token was not higher than the one before";
        let overlap = "two clients held the lock at once";
        assert_eq!(broken_in(&early, 0), [overlap, disorder, late]);
    }
}
