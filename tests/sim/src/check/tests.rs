//! Each rule finds a history that breaks it, and passes a similar history that does not.
//!
//! A history is written as a list of events: the second, what happens, and the number of the
//! attempt, which is also that of its client, its session and its node. [`event`] knows the rest.
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

/// Two attempts, of which the first is granted with token 10 and valid until second 6.
const PAIR: &str = "0 asks 1, 0 asks 2, 1 gets 1 10 6";

/// The events of a script, in order of time.
fn history(script: &str) -> Vec<Event> {
    let mut events = Vec::new();
    for line in script.split(", ").filter(|line| !line.is_empty()) {
        let words: Vec<_> = line.split(' ').collect();
        let [second, verb, number, arguments @ ..] = &words[..] else {
            panic!("{line}");
        };
        let (second, number): (u64, u64) = (second.parse().unwrap(), number.parse().unwrap());
        for (client, what) in event(verb, number, arguments) {
            let (at, client) = (Duration::from_secs(second), client.try_into().unwrap());
            events.push(Event { at, client, what });
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

fn node(number: u64) -> String {
    format!("/l/x-lock-{number:010}")
}

/// The clients and kinds of the events of a verb; client 0 is a third party.
fn event(verb: &str, number: u64, arguments: &[&str]) -> Vec<(u64, What)> {
    let attempt = Attempt(number);
    let (node, session) = (node(number), i64::try_from(number).unwrap());
    let word = |index: usize| arguments.get(index).copied().unwrap_or_default();
    let numeral = |index: usize| word(index).parse::<i64>().unwrap();
    let positive = |index: usize| u64::try_from(numeral(index)).unwrap();
    let what = match verb {
        "asks" => What::Asked {
            attempt,
            lock: "/l".into(),
            mode: match word(0) {
                "shared" => Mode::Shared,
                "lease" => Mode::Lease { limit: 2 },
                _ => Mode::Exclusive,
            },
        },
        "places" => What::Placed {
            attempt,
            node,
            session,
        },
        "waits" => What::Waiting(attempt),
        "gets" => {
            let granted = What::Granted {
                attempt,
                token: positive(0),
                node,
                session,
            };
            let until = Duration::from_secs(positive(1));
            let valid = What::Valid { attempt, until };
            return vec![(number, granted), (number, valid)];
        }
        "scant" => What::Scant {
            attempt,
            left: Duration::from_secs(positive(0)),
            timeout: Duration::from_secs(positive(1)),
        },
        "limited" => What::Limited {
            attempt,
            until: Duration::from_secs(positive(0)),
        },
        "listens" => What::Listening(attempt),
        "hears" => What::Heard(attempt),
        "downgrades" => What::Downgrading(attempt),
        "becomes" => What::Downgraded {
            attempt,
            node: word(0).to_owned(),
        },
        "stores" => What::Stored {
            attempt,
            store: "file".into(),
            token: positive(0),
            accepted: word(1) == "accepted",
        },
        "releases" => What::LetGo(attempt),
        "ends" => What::Ended {
            attempt,
            end: match word(0) {
                "released" => End::Released,
                "timed-out" => End::TimedOut,
                "given-up" => End::GivenUp,
                "deleted" => End::LostDeleted,
                "session" => End::LostSession,
                "overdue" => End::LostOverdue,
                _ => End::Dropped,
            },
        },
        "watches" => What::Watching {
            watch: 7,
            path: "/n".into(),
            version: numeral(0),
        },
        "fires" => What::Fired(7),
        "reads" => What::Read {
            path: "/n".into(),
            version: numeral(0),
        },
        "leaves" => What::Left { node, session },
        // What a third party does, or everybody.
        _ => {
            let what = match verb {
                "asking" => What::Asking(node),
                "asked" => What::AskedToLetGo(node),
                "delete" if !word(0).is_empty() => What::Deleted(word(0).to_owned()),
                "delete" => What::Deleted(node),
                "kill" => What::Killed(session),
                "over" => What::SessionOver(session),
                _ => panic!("{verb}"),
            };
            return vec![(0, what)];
        }
    };
    vec![(number, what)]
}

fn breaks(script: &str) -> Vec<Rule> {
    breaks_within(&BOUNDS, script)
}

fn breaks_within(bounds: &Bounds, script: &str) -> Vec<Rule> {
    let found = check(&history(script), bounds);
    found.into_iter().map(|violation| violation.rule).collect()
}

/// Checks what each of these histories breaks, when it goes on from the pair.
fn from_pair(rows: &[(&str, &[Rule])]) {
    for (script, expected) in rows {
        assert_eq!(breaks(&format!("{PAIR}, {script}")), *expected, "{script}");
    }
}

#[test]
fn a_correct_history_passes() {
    from_pair(&[(
        "3 releases 1, 4 ends 1 released, 3 gets 2 11 9, 4 stores 2 11 accepted, \
         5 stores 1 10 refused, 6 releases 2, 7 ends 2",
        &[],
    )]);
}

#[test]
fn two_holders_at_once_are_found_unless_a_third_party_ended_the_first_hold() {
    from_pair(&[
        ("5 gets 2 11 9, 9 ends 1, 9 ends 2", &[Rule::Overlap]),
        ("6 gets 2 11 9, 9 ends 1, 9 ends 2", &[]),
        ("4 kill 1, 5 gets 2 11 9, 9 ends 1, 9 ends 2", &[]),
        ("4 delete 1, 5 gets 2 11 9, 9 ends 1, 9 ends 2", &[]),
        // A grant shortly after its own node was deleted by hand is ignored.
        ("4 delete 2, 5 gets 2 11 9, 9 ends 1, 9 ends 2", &[]),
        (
            "2 delete 2, 5 gets 2 11 9, 9 ends 1, 9 ends 2",
            &[Rule::Overlap],
        ),
    ]);
    let leases = "0 asks 1 lease, 0 asks 2 lease, 0 asks 3 lease, 1 gets 1 1 9, 2 gets 2 2 9, \
                  3 gets 3 3 9, 9 ends 1, 9 ends 2, 9 ends 3";
    assert_eq!(breaks(leases), [Rule::Overlap]);
}

#[test]
fn a_grant_is_found_if_its_node_was_deleted_before_the_holder_ahead_released() {
    from_pair(&[
        (
            "2 delete 2, 3 releases 1, 4 gets 2 11 9, 9 ends 1, 9 ends 2",
            &[Rule::Gone],
        ),
        (
            "2 releases 1, 3 delete 2, 4 gets 2 11 9, 9 ends 1, 9 ends 2",
            &[],
        ),
    ]);
}

#[test]
fn readers_share_with_readers_and_a_downgraded_writer() {
    let writer = "0 asks 1 shared, 1 gets 1 10 9, 1 asks 2 shared, 1 gets 2 11 9, 3 ends 1, 3 ends 2, \
                  2 asks 3, 4 gets 3 13 9, 4 asks 4 shared";
    let early = format!("{writer}, 5 gets 4 14 9, 9 ends 3, 9 ends 4");
    assert_eq!(breaks(&early), [Rule::Overlap]);
    let late = format!(
        "{writer}, 4 downgrades 3, 6 becomes 3 /l/r__READ__0000000003, 5 gets 4 14 9, 9 ends 3, 9 ends 4"
    );
    assert_eq!(breaks(&late), []);
}

#[test]
fn a_reader_excludes_nobody_after_its_node_was_deleted_even_if_the_holder_never_heard_its_name() {
    let script = |reader: &str| {
        breaks(&format!(
            "0 asks 1, 1 gets 1 10 9, 2 downgrades 1, 3 delete 1 {reader}, 3 asks 2, 4 gets 2 11 5, \
             5 releases 2, 5 ends 2 released, 6 ends 1 deleted"
        ))
    };
    assert_eq!(script("/l/r__READ__0000000001"), []);
    let others = script("/l/r__READ__9999999999");
    assert!(others.contains(&Rule::Overlap), "{others:?}");
}

#[test]
fn a_token_that_does_not_grow_is_found() {
    from_pair(&[(
        "2 releases 1, 2 ends 1 released, 3 gets 2 10 9, 4 ends 2 released",
        &[Rule::Tokens],
    )]);
}

#[test]
fn a_grant_that_skips_a_queued_waiter_is_found() {
    let ends = "5 ends 1 given-up, 5 ends 2 released";
    let queued = "0 asks 1, 1 places 1, 0 asks 2";
    let script = format!("{queued}, 3 gets 2 11 9, {ends}");
    assert_eq!(breaks(&script), [Rule::Skipped]);
    let unknown = Bounds {
        knows_sessions: false,
        ..BOUNDS
    };
    assert_eq!(breaks_within(&unknown, &script), []);
    let over = format!("{queued}, 2 over 1, 3 gets 2 11 9, {ends}");
    assert_eq!(breaks(&over), []);
    let gone = format!("{queued}, 2 ends 1 timed-out, 3 gets 2 11 9, 5 ends 2 released");
    assert_eq!(breaks(&gone), []);
}

#[test]
fn a_store_that_accepts_a_stale_token_or_refuses_the_holder_is_found() {
    from_pair(&[
        (
            "2 releases 1, 2 ends 1 released, 3 gets 2 11 9, 4 stores 2 11 accepted, \
             5 stores 1 10 accepted, 6 ends 2 released",
            &[Rule::Store],
        ),
        (
            "2 stores 1 10 refused, 3 ends 1, 3 ends 2 given-up",
            &[Rule::Store],
        ),
    ]);
}

#[test]
fn an_attempt_that_does_not_end_or_takes_too_long_is_found() {
    let slow = "2 ends 1, 200 gets 2 11 210, 201 ends 2";
    from_pair(&[("2 ends 1", &[Rule::Endless]), (slow, &[Rule::Endless])]);
    let calm = Duration::from_secs(150);
    let late = Bounds { calm, ..BOUNDS };
    assert_eq!(breaks_within(&late, &format!("{PAIR}, {slow}")), []);
}

#[test]
fn a_loss_that_did_not_happen_is_found() {
    from_pair(&[
        ("2 ends 2 given-up, 3 ends 1 deleted", &[Rule::FalseLoss]),
        ("2 ends 2 given-up, 3 ends 1 session", &[Rule::FalseLoss]),
        ("2 ends 2 given-up, 2 delete 1, 3 ends 1 deleted", &[]),
        (
            "2 ends 2 given-up, 2 downgrades 1, 2 delete 1 /l/r__READ__0000000001, 3 ends 1 deleted",
            &[],
        ),
    ]);
}

#[test]
fn a_loss_at_one_of_several_locks_ends_the_attempt_at_all() {
    let asked = |lock: &str, number| What::Asked {
        attempt: Attempt(number),
        lock: Arc::from(lock),
        mode: Mode::Exclusive,
    };
    let ended = |number| What::Ended {
        attempt: Attempt(number),
        end: End::LostDeleted,
    };
    let breaks = |second: u64| {
        let events = [
            (0, 7, asked("/l", 1)),
            (second, 7, asked("/m", 2)),
            (2, 0, What::Deleted("/l/x".to_owned())),
            (3, 7, ended(1)),
            (3, 7, ended(2)),
        ];
        let history = events.map(|(at, client, what)| Event {
            at: Duration::from_secs(at),
            client,
            what,
        });
        let found = check(&history, &BOUNDS).into_iter();
        found.map(|violation| violation.rule).collect::<Vec<_>>()
    };
    assert_eq!(breaks(0), []);
    assert_eq!(breaks(1), [Rule::FalseLoss], "another attempt");
}

#[test]
fn a_missed_or_invented_request_to_release_is_found() {
    const ASKED: &str = "2 asking 1, 3 asked 1";
    for (begin, end, expected) in [
        ("1 listens 1, 4 hears 1", 4, &[][..]),
        ("1 listens 1", 5, &[]), // no time to hear
        ("1 listens 1", 6, &[Rule::Asked]),
        ("", 6, &[]), // does not listen
        ("1 listens 1, 1 hears 1", 4, &[Rule::Asked]),
    ] {
        let begin = format!("{PAIR}, {begin}, {ASKED}");
        let script = format!("{begin}, {end} releases 1, {end} ends 1, 9 ends 2 given-up");
        assert_eq!(breaks(&script), expected, "{script}");
    }
    from_pair(&[(
        "1 listens 1, 4 hears 1, 4 releases 1, 4 ends 1, 9 ends 2 given-up",
        &[Rule::Asked],
    )]);
}

#[test]
fn a_release_after_the_limit_and_a_loss_before_the_limit_are_found() {
    for (begin, end, expected) in [
        ("1 limited 1 2", "4 releases 1, 4 ends 1 released", &[][..]),
        (
            "1 limited 1 2",
            "5 releases 1, 5 ends 1 released",
            &[Rule::Overdue],
        ),
        ("1 limited 1 2", "5 releases 1, 5 ends 1 overdue", &[]),
        (
            "1 limited 1 4",
            "3 releases 1, 3 ends 1 overdue",
            &[Rule::FalseLoss],
        ),
        ("", "3 releases 1, 3 ends 1 overdue", &[Rule::FalseLoss]),
    ] {
        let script = format!("{PAIR}, {begin}, {end}, 9 ends 2 given-up");
        assert_eq!(breaks(&script), expected, "{script}");
    }
}

#[test]
fn a_waiter_that_gets_the_lock_late_is_found_unless_something_went_wrong() {
    let script = |begin: &str, granted: u64| {
        format!(
            "{PAIR}, {begin}, 3 releases 1, 4 ends 1 released, {granted} gets 2 11 20, \
             {granted} releases 2, {granted} ends 2 released"
        )
    };
    let breaks = |since, script: &str| {
        let hand_over = Some((Duration::from_secs(since), Duration::from_secs(2)));
        let bounds = Bounds {
            hand_over,
            ..BOUNDS
        };
        breaks_within(&bounds, script)
    };
    assert_eq!(breaks(0, &script("0 waits 2", 6)), []);
    assert_eq!(breaks(0, &script("0 waits 2", 7)), [Rule::HandOver]);
    assert_eq!(breaks(5, &script("0 waits 2", 7)), []);
    assert_eq!(super::tests::breaks(&script("0 waits 2", 7)), []);
    // The caller did something else meanwhile.
    assert_eq!(breaks(0, &script("", 7)), []);
    let scant = |left: u64| {
        let with = format!("6 scant 2 {left} 14, 6 releases 2");
        script("", 6).replace("6 releases 2", &with)
    };
    assert_eq!(breaks(0, &scant(4)), [Rule::Scant]);
    assert_eq!(breaks(5, &scant(4)), []);
    assert_eq!(breaks(0, &scant(5)), [], "it has waited for its lease");
}

#[test]
fn newer_data_read_before_the_watch_fires_are_found() {
    for (script, expected) in [
        ("2 reads 1 4", &[Rule::Watch][..]),
        ("2 reads 2 4", &[]),
        ("2 reads 1 -1", &[Rule::Watch]),
        // It was answered before the watch was set, and its task came late to tell it.
        ("2 reads 1 2", &[]),
        ("2 fires 1, 2 reads 1 4", &[]),
    ] {
        let script = format!("0 watches 1 3, 1 reads 1 3, {script}");
        assert_eq!(breaks(&script), expected, "{script}");
    }
}

/// What is broken by a history of such events.
fn breaks_by<const N: usize>(events: [What; N]) -> Vec<Rule> {
    let history = events.map(|what| Event {
        at: Duration::from_secs(1),
        client: 1,
        what,
    });
    let found = check(&history, &BOUNDS).into_iter();
    found.map(|violation| violation.rule).collect()
}

#[test]
fn a_write_with_a_false_answer_is_found() {
    for (answer, fits) in [
        (Answer::Applied, [false, true, false]),
        (Answer::NotApplied, [true, false, false]),
        (Answer::Unknown, [true, true, false]),
        (Answer::Another, [false, false, false]),
    ] {
        for (times, fits) in (0..).zip(fits) {
            let write = 9;
            let answered = What::Answered { write, answer };
            let broken = breaks_by([answered, What::Applied { write, times }]);
            assert_eq!(broken.is_empty(), fits, "{answer:?} {times}");
        }
    }
}

#[test]
fn what_is_wrong_at_the_end_is_found() {
    for (leaders, expected) in [(0, &[Rule::Leader][..]), (1, &[]), (2, &[Rule::Leader])] {
        let latches = 3;
        assert_eq!(breaks_by([What::Standing { latches, leaders }]), expected);
    }
    for is_set in [true, false] {
        let (watch, session) = ("/a (data)".to_owned(), 1);
        let strayed = What::Strayed {
            watch,
            session,
            is_set,
        };
        assert_eq!(breaks_by([strayed]), [Rule::Strayed]);
    }
    assert_eq!(breaks("1 leaves 1"), [Rule::Left]);
}

#[test]
fn a_contradictory_history_is_found() {
    from_pair(&[(
        "2 gets 1 10 9, 3 ends 1, 3 ends 2 given-up",
        &[Rule::Record],
    )]);
}

#[test]
fn a_lease_that_ended_before_the_next_grant_is_counted() {
    for (script, count) in [
        ("6 gets 2 11 20", 1),
        ("3 releases 1, 6 gets 2 11 20", 0),
        ("5 gets 2 11 20", 0),
    ] {
        let history = history(&format!("{PAIR}, {script}"));
        assert_eq!(
            super::leases_that_ended(&history, &BOUNDS),
            count,
            "{script}"
        );
    }
}
