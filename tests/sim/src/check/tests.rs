//! Each rule finds a history that breaks it, and passes a similar history that does not.
//!
//! Not here: histories of simulated runs (`tests/seeds.rs`).

use std::{sync::Arc, time::Duration};

use super::{Bounds, Rule, check};
use crate::history::{Answer, Attempt, End, Event, Mode, What};

const BOUNDS: Bounds = Bounds {
    calm: Duration::ZERO,
    max_wait: Some(Duration::from_secs(100)),
    news: Duration::from_secs(2),
    hand_over: None,
    knows_sessions: true,
};

/// Builds a history. Times are whole seconds, in any order.
#[derive(Default)]
struct Script(Vec<Event>);

impl Script {
    fn at(mut self, seconds: u64, client: u32, what: What) -> Self {
        let at = Duration::from_secs(seconds);
        self.0.push(Event { at, client, what });
        self
    }

    fn asks(self, seconds: u64, number: u64, mode: Mode) -> Self {
        let (attempt, lock) = (Attempt(number), Arc::from("/l"));
        let what = What::Asked {
            attempt,
            lock,
            mode,
        };
        self.at(seconds, client(number), what)
    }

    fn places(self, seconds: u64, number: u64) -> Self {
        let what = What::Placed {
            attempt: Attempt(number),
            node: node(number),
            session: session(number),
        };
        self.at(seconds, client(number), what)
    }

    fn gets(self, seconds: u64, number: u64, token: u64, until: u64) -> Self {
        let attempt = Attempt(number);
        let what = What::Granted {
            attempt,
            token,
            node: node(number),
            session: session(number),
        };
        let until = Duration::from_secs(until);
        self.at(seconds, client(number), what).at(
            seconds,
            client(number),
            What::Valid { attempt, until },
        )
    }

    fn stores(self, seconds: u64, number: u64, token: u64, accepted: bool) -> Self {
        let what = What::Stored {
            attempt: Attempt(number),
            store: Arc::from("file"),
            token,
            accepted,
        };
        self.at(seconds, client(number), what)
    }

    fn releases(self, seconds: u64, number: u64) -> Self {
        let attempt = Attempt(number);
        self.at(seconds, client(number), What::LetGo { attempt })
    }

    fn ends(self, seconds: u64, number: u64, end: End) -> Self {
        let attempt = Attempt(number);
        self.at(seconds, client(number), What::Ended { attempt, end })
    }

    fn breaks(&self) -> Vec<Rule> {
        self.breaks_within(&BOUNDS)
    }

    fn breaks_within(&self, bounds: &Bounds) -> Vec<Rule> {
        let mut history = self.0.clone();
        history.sort_by_key(|event| event.at);
        let found = check(&history, bounds);
        found.iter().map(|violation| violation.rule).collect()
    }
}

fn client(number: u64) -> u32 {
    u32::try_from(number).unwrap()
}

fn session(number: u64) -> i64 {
    i64::try_from(number).unwrap()
}

fn node(number: u64) -> String {
    format!("/l/x-lock-{number:010}")
}

fn pair() -> Script {
    let script = Script::default().asks(0, 1, Mode::Exclusive);
    script.asks(0, 2, Mode::Exclusive).gets(1, 1, 10, 6)
}

#[test]
fn a_correct_history_passes() {
    let script = pair().releases(3, 1).ends(4, 1, End::Released);
    let script = script.gets(3, 2, 11, 9).stores(4, 2, 11, true);
    let script = script.stores(5, 1, 10, false).releases(6, 2);
    assert_eq!(script.ends(7, 2, End::Dropped).breaks(), []);
}

#[test]
fn two_holders_at_once_are_found_unless_a_third_party_ended_the_first_hold() {
    let both = || pair().gets(5, 2, 11, 9);
    let ends = |script: Script| script.ends(9, 1, End::Dropped).ends(9, 2, End::Dropped);
    assert_eq!(ends(both()).breaks(), [Rule::Overlap]);
    let late = ends(pair().gets(6, 2, 11, 9));
    assert_eq!(late.breaks(), []);
    let killed = pair().at(4, 0, What::Killed { session: 1 });
    assert_eq!(ends(killed.gets(5, 2, 11, 9)).breaks(), []);
    let deleted = pair().at(4, 0, What::Deleted { node: node(1) });
    assert_eq!(ends(deleted.gets(5, 2, 11, 9)).breaks(), []);
}

#[test]
fn a_grant_shortly_after_its_node_was_deleted_by_hand_is_ignored() {
    for (deleted, breaks) in [(4, vec![]), (2, vec![Rule::Overlap])] {
        let what = What::Deleted { node: node(2) };
        let script = pair().at(deleted, 0, what).gets(5, 2, 11, 9);
        let script = script.ends(9, 1, End::Dropped).ends(9, 2, End::Dropped);
        assert_eq!(script.breaks(), breaks);
    }
}

#[test]
fn a_grant_is_found_if_its_node_was_deleted_before_the_holder_ahead_released() {
    for (deleted, releases, breaks) in [(2, 3, vec![Rule::Gone]), (3, 2, vec![])] {
        let mut script = pair();
        for second in 2..=3 {
            if second == deleted {
                script = script.at(second, 0, What::Deleted { node: node(2) });
            }
            if second == releases {
                let attempt = Attempt(1);
                script = script.at(second, client(1), What::LetGo { attempt });
            }
        }
        let script = script.gets(4, 2, 11, 9);
        let script = script.ends(9, 1, End::Dropped).ends(9, 2, End::Dropped);
        assert_eq!(script.breaks(), breaks);
    }
}

#[test]
fn readers_share_with_readers_and_a_downgraded_writer() {
    let script = Script::default().asks(0, 1, Mode::Shared).gets(1, 1, 10, 9);
    let script = script.asks(1, 2, Mode::Shared).gets(1, 2, 11, 9);
    let readers = || script.ends(3, 1, End::Dropped).ends(3, 2, End::Dropped);
    let writer = readers().asks(2, 3, Mode::Exclusive).gets(4, 3, 13, 9);
    let node = "/l/r__READ__0000000003".to_owned();
    let attempt = Attempt(3);
    let writer = writer.asks(4, 4, Mode::Shared);
    let early = Script(writer.0.clone()).gets(5, 4, 14, 9);
    let early = early.ends(9, 3, End::Dropped).ends(9, 4, End::Dropped);
    assert_eq!(early.breaks(), [Rule::Overlap]);
    let late = writer.at(4, 3, What::Downgrading { attempt });
    let late = late.at(6, 3, What::Downgraded { attempt, node });
    let late = late.gets(5, 4, 14, 9).ends(9, 3, End::Dropped);
    assert_eq!(late.ends(9, 4, End::Dropped).breaks(), []);
}

#[test]
fn a_semaphore_grant_above_the_limit_is_found() {
    let mode = Mode::Lease { limit: 2 };
    let mut script = Script::default();
    for number in 1..=3 {
        script = script.asks(0, number, mode).gets(number, number, number, 9);
    }
    for number in 1..=3 {
        script = script.ends(9, number, End::Dropped);
    }
    assert_eq!(script.breaks(), [Rule::Overlap]);
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    let script = pair().releases(2, 1).ends(2, 1, End::Released);
    let script = script.gets(3, 2, 10, 9).ends(4, 2, End::Released);
    assert_eq!(script.breaks(), [Rule::Tokens]);
}

#[test]
fn a_grant_that_skips_a_queued_waiter_is_found() {
    let queued = || {
        let script = Script::default().asks(0, 1, Mode::Exclusive).places(1, 1);
        script.asks(0, 2, Mode::Exclusive)
    };
    let ends = |script: Script| script.ends(5, 1, End::GivenUp).ends(5, 2, End::Released);
    assert_eq!(ends(queued().gets(3, 2, 11, 9)).breaks(), [Rule::Skipped]);
    let over = queued().at(2, 0, What::SessionOver { session: 1 });
    assert_eq!(ends(over.gets(3, 2, 11, 9)).breaks(), []);
    let unknown = Bounds {
        knows_sessions: false,
        ..BOUNDS
    };
    let script = ends(queued().gets(3, 2, 11, 9));
    assert_eq!(script.breaks_within(&unknown), []);
    let gone = queued().ends(2, 1, End::TimedOut).gets(3, 2, 11, 9);
    assert_eq!(gone.ends(5, 2, End::Released).breaks(), []);
}

#[test]
fn a_store_that_accepts_a_stale_token_or_refuses_the_holder_is_found() {
    let script = pair().releases(2, 1).ends(2, 1, End::Released);
    let script = script.gets(3, 2, 11, 9).stores(4, 2, 11, true);
    let stale = script.stores(5, 1, 10, true).ends(6, 2, End::Released);
    assert_eq!(stale.breaks(), [Rule::Store]);
    let script = pair().stores(2, 1, 10, false).ends(3, 1, End::Dropped);
    assert_eq!(script.ends(3, 2, End::GivenUp).breaks(), [Rule::Store]);
}

#[test]
fn an_attempt_that_does_not_end_or_takes_too_long_is_found() {
    assert_eq!(pair().ends(2, 1, End::Dropped).breaks(), [Rule::Endless]);
    let script = pair().ends(2, 1, End::Dropped);
    let script = script.gets(200, 2, 11, 210).ends(201, 2, End::Dropped);
    assert_eq!(script.breaks(), [Rule::Endless]);
    let calm = Duration::from_secs(150);
    assert_eq!(script.breaks_within(&Bounds { calm, ..BOUNDS }), []);
}

#[test]
fn a_loss_that_did_not_happen_is_found() {
    let script = || pair().ends(2, 2, End::GivenUp);
    let deleted = script().ends(3, 1, End::LostDeleted);
    assert_eq!(deleted.breaks(), [Rule::FalseLoss]);
    let session = script().ends(3, 1, End::LostSession);
    assert_eq!(session.breaks(), [Rule::FalseLoss]);
    let known = script().at(2, 0, What::Deleted { node: node(1) });
    assert_eq!(known.ends(3, 1, End::LostDeleted).breaks(), []);
    let attempt = Attempt(1);
    let reader = format!("/l/r__READ__{}", &node(1)[node(1).len() - 10..]);
    let downgrading = script().at(2, client(1), What::Downgrading { attempt });
    let unheard = downgrading.at(2, 0, What::Deleted { node: reader });
    assert_eq!(unheard.ends(3, 1, End::LostDeleted).breaks(), []);
}

#[test]
fn a_loss_at_one_of_several_locks_ends_the_attempt_at_all() {
    let asked = |lock: &str, number| What::Asked {
        attempt: Attempt(number),
        lock: Arc::from(lock),
        mode: Mode::Exclusive,
    };
    let breaks = |second: u64| {
        let script = Script::default().at(0, 7, asked("/l", 1));
        let script = script.at(second, 7, asked("/m", 2));
        let node = "/l/x".to_owned();
        let script = script.at(2, 0, What::Deleted { node });
        let end = |number| What::Ended {
            attempt: Attempt(number),
            end: End::LostDeleted,
        };
        script.at(3, 7, end(1)).at(3, 7, end(2)).breaks()
    };
    assert_eq!(breaks(0), []);
    assert_eq!(breaks(1), [Rule::FalseLoss], "another attempt");
}

#[test]
fn a_reader_excludes_nobody_after_its_node_was_deleted_even_if_the_holder_never_heard_its_name() {
    let attempt = Attempt(1);
    let reader = format!("/l/r__READ__{}", &node(1)[node(1).len() - 10..]);
    let script = |deleted: String| {
        let writer = Script::default()
            .asks(0, 1, Mode::Exclusive)
            .gets(1, 1, 10, 9);
        let reader = writer.at(2, client(1), What::Downgrading { attempt });
        let gone = reader.at(3, 0, What::Deleted { node: deleted });
        let other = gone.asks(3, 2, Mode::Exclusive).gets(4, 2, 11, 5);
        let other = other.releases(5, 2).ends(5, 2, End::Released);
        other.ends(6, 1, End::LostDeleted).breaks()
    };
    assert_eq!(script(reader), []);
    let breaks = script("/l/r__READ__9999999999".to_owned());
    assert!(breaks.contains(&Rule::Overlap), "{breaks:?}");
}

#[test]
fn newer_data_read_before_the_watch_fires_are_found() {
    let path: Arc<str> = Arc::from("/n");
    let read = |version| What::Read {
        path: path.clone(),
        version,
    };
    let watching = || {
        let (watch, path, version) = (7, path.clone(), 3);
        let what = What::Watching {
            watch,
            path,
            version,
        };
        Script::default().at(0, 1, what).at(1, 1, read(3))
    };
    assert_eq!(watching().at(2, 1, read(4)).breaks(), [Rule::Watch]);
    assert_eq!(watching().at(2, 2, read(4)).breaks(), []);
    assert_eq!(watching().at(2, 1, read(-1)).breaks(), [Rule::Watch]);
    // It was answered before the watch was set, and its task came late to tell it.
    assert_eq!(watching().at(2, 1, read(2)).breaks(), []);
    let fired = watching().at(2, 1, What::Fired { watch: 7 });
    assert_eq!(fired.at(2, 1, read(4)).breaks(), []);
}

#[test]
fn a_write_with_a_false_answer_is_found() {
    for (answer, times, fits) in [
        (Answer::Applied, 1, true),
        (Answer::Applied, 0, false),
        (Answer::Applied, 2, false),
        (Answer::NotApplied, 0, true),
        (Answer::NotApplied, 1, false),
        (Answer::Unknown, 0, true),
        (Answer::Unknown, 1, true),
        (Answer::Unknown, 2, false),
        (Answer::Another, 1, false),
    ] {
        let write = 9;
        let script = Script::default().at(1, 1, What::Answered { write, answer });
        let script = script.at(2, 1, What::Applied { write, times });
        let expected = if fits { vec![] } else { vec![Rule::Write] };
        assert_eq!(script.breaks(), expected, "{answer:?} {times}");
    }
}

#[test]
fn a_node_left_behind_and_a_contradictory_history_are_found() {
    let left = What::Left {
        node: node(1),
        session: 1,
    };
    assert_eq!(Script::default().at(1, 1, left).breaks(), [Rule::Left]);
    let twice = pair().gets(2, 1, 10, 9).ends(3, 1, End::Dropped);
    let twice = twice.ends(3, 2, End::GivenUp);
    assert_eq!(twice.breaks(), [Rule::Record]);
}

#[test]
fn a_missed_or_invented_request_to_release_is_found() {
    let listens = || {
        pair().at(
            1,
            1,
            What::Listening {
                attempt: Attempt(1),
            },
        )
    };
    let heard = |at| {
        move |script: Script| {
            script.at(
                at,
                1,
                What::Heard {
                    attempt: Attempt(1),
                },
            )
        }
    };
    let asked = |script: Script| {
        let (asking, asked) = (node(1), node(1));
        let script = script.at(2, 2, What::Asking { node: asking });
        script.at(3, 2, What::AskedToLetGo { node: asked })
    };
    let ends = |script: Script, at| {
        let script = script.releases(at, 1).ends(at, 1, End::Dropped);
        script.ends(9, 2, End::GivenUp)
    };
    assert_eq!(ends(heard(4)(asked(listens())), 4).breaks(), []);
    assert_eq!(ends(asked(listens()), 5).breaks(), [], "no time to hear");
    assert_eq!(ends(asked(listens()), 6).breaks(), [Rule::Asked]);
    assert_eq!(ends(asked(pair()), 6).breaks(), [], "does not listen");
    assert_eq!(ends(heard(1)(asked(listens())), 4).breaks(), [Rule::Asked]);
    assert_eq!(ends(heard(4)(listens()), 4).breaks(), [Rule::Asked]);
}

#[test]
fn a_release_after_the_limit_and_a_loss_before_the_limit_are_found() {
    let limited = |seconds| {
        let until = Duration::from_secs(seconds);
        let attempt = Attempt(1);
        pair().at(1, 1, What::Limited { attempt, until })
    };
    let ends = |script: Script, at, end| {
        let script = script.releases(at, 1).ends(at, 1, end);
        script.ends(9, 2, End::GivenUp)
    };
    assert_eq!(ends(limited(2), 4, End::Released).breaks(), []);
    assert_eq!(ends(limited(2), 5, End::Released).breaks(), [Rule::Overdue]);
    assert_eq!(ends(limited(2), 5, End::LostOverdue).breaks(), []);
    assert_eq!(
        ends(limited(4), 3, End::LostOverdue).breaks(),
        [Rule::FalseLoss]
    );
    assert_eq!(
        ends(pair(), 3, End::LostOverdue).breaks(),
        [Rule::FalseLoss]
    );
}

#[test]
fn a_waiter_that_gets_the_lock_late_is_found_unless_something_went_wrong() {
    let script = |granted| {
        let attempt = Attempt(2);
        let script = pair().at(0, 2, What::Waiting { attempt });
        let script = script.releases(3, 1).ends(4, 1, End::Released);
        let script = script.gets(granted, 2, 11, 20).releases(granted, 2);
        script.ends(granted, 2, End::Released)
    };
    let bounds = |since| Bounds {
        hand_over: Some((Duration::from_secs(since), Duration::from_secs(2))),
        ..BOUNDS
    };
    assert_eq!(script(6).breaks_within(&bounds(0)), []);
    assert_eq!(script(7).breaks_within(&bounds(0)), [Rule::HandOver]);
    assert_eq!(script(7).breaks_within(&bounds(5)), []);
    assert_eq!(script(7).breaks(), []);
    // The caller did something else meanwhile.
    let script = pair().releases(3, 1).ends(4, 1, End::Released);
    let script = script.gets(7, 2, 11, 20).releases(7, 2);
    let script = script.ends(7, 2, End::Released);
    assert_eq!(script.breaks_within(&bounds(0)), []);
}

#[test]
fn an_election_without_one_leader_is_found() {
    let breaks = |leaders| {
        let latches = 3;
        let what = What::Standing { latches, leaders };
        Script::default().at(1, 0, what).breaks()
    };
    assert_eq!(breaks(0), [Rule::Leader]);
    assert_eq!(breaks(1), []);
    assert_eq!(breaks(2), [Rule::Leader]);
}

#[test]
fn a_watch_that_only_one_side_has_is_found() {
    for is_set in [true, false] {
        let what = What::Strayed {
            watch: "/a (data)".to_owned(),
            session: 1,
            is_set,
        };
        assert_eq!(Script::default().at(1, 0, what).breaks(), [Rule::Strayed]);
    }
}

#[test]
fn a_lease_that_ended_before_the_next_grant_is_counted() {
    let count = |script: Script| super::leases_that_ended(&script.0, &BOUNDS);
    assert_eq!(count(pair().gets(6, 2, 11, 20)), 1);
    assert_eq!(count(pair().releases(3, 1).gets(6, 2, 11, 20)), 0);
    assert_eq!(count(pair().gets(5, 2, 11, 20)), 0);
}
