//! Each rule finds a history that breaks it, and passes a similar history that does not. The
//! histories are in `histories.txt`; [`event`] knows what their words mean.
//!
//! Not here: histories of simulated runs (`tests/seeds.rs`).

use std::time::Duration;

use super::{Bounds, check};
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
    for line in script.replace("PAIR", PAIR).split(", ") {
        let words: Vec<_> = line.split(' ').collect();
        let [second, verb, who, arguments @ ..] = &words[..] else {
            panic!("{line}");
        };
        let (number, client) = who.split_once('@').unwrap_or((who, who));
        let number = number.parse().unwrap();
        for (is_own, what) in event(verb, number, arguments) {
            let client = if is_own { client.parse().unwrap() } else { 0 };
            let at = Duration::from_secs(second.parse().unwrap());
            events.push(Event { at, client, what });
        }
    }
    events.sort_by_key(|event| event.at);
    events
}

fn node(number: u64) -> String {
    format!("/l/x-lock-{number:010}")
}

/// The events of a verb, and whether they are of the client itself or of a third party.
#[allow(clippy::too_many_lines, reason = "a table")]
fn event(verb: &str, number: u64, arguments: &[&str]) -> Vec<(bool, What)> {
    let attempt = Attempt(number);
    let (node, session) = (node(number), i64::try_from(number).unwrap());
    let word = |index: usize| arguments.get(index).copied().unwrap_or_default();
    let numeral = |index: usize| word(index).parse::<i64>().unwrap();
    let positive = |index: usize| u64::try_from(numeral(index)).unwrap();
    let what = match verb {
        "asks" => What::Asked {
            attempt,
            lock: arguments.get(1).copied().unwrap_or("/l").into(),
            mode: match word(0) {
                "shared" => Mode::Shared,
                "permit" => Mode::Permit { limit: 2 },
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
            return vec![(true, granted), (true, valid)];
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
        "answers" => What::Answered {
            write: number,
            answer: match word(0) {
                "Applied" => Answer::Applied,
                "NotApplied" => Answer::NotApplied,
                "Unknown" => Answer::Unknown,
                _ => Answer::Another,
            },
        },
        "applied" => What::Applied {
            write: number,
            times: word(0).parse().unwrap(),
        },
        "stand" => What::Standing {
            latches: number.try_into().unwrap(),
            leaders: word(0).parse().unwrap(),
        },
        "strays" => What::Strayed {
            watch: "/a (data)".to_owned(),
            session,
            is_set: word(0) == "set",
        },
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
            return vec![(false, what)];
        }
    };
    vec![(true, what)]
}

/// The bounds that the words in braces ask for.
fn bounds(words: &str) -> Bounds {
    let (word, seconds) = words.split_once(' ').unwrap_or((words, "0"));
    let length = Duration::from_secs(seconds.parse().unwrap());
    match word {
        "" => BOUNDS,
        "blind" => Bounds {
            knows_sessions: false,
            ..BOUNDS
        },
        "calm" => Bounds {
            calm: length,
            ..BOUNDS
        },
        "hand-over" => Bounds {
            hand_over: Some((length, Duration::from_secs(2))),
            ..BOUNDS
        },
        other => panic!("{other}"),
    }
}

#[test]
fn each_history_breaks_the_rules_that_it_names_and_no_others() {
    let text = include_str!("histories.txt").replace("\n  ", " ");
    let rows = text.lines().skip_while(|line| !line.starts_with('#'));
    let rows: Vec<_> = rows.filter_map(|line| line.split_once(" =>")).collect();
    assert_eq!(
        rows.len(),
        text.matches(" =>").count() - 1,
        "all but the explanation"
    );
    for (row, expected) in rows {
        let (words, script) = row
            .trim_start_matches('{')
            .split_once("} ")
            .unwrap_or(("", row));
        let found = check(&history(script), &bounds(words));
        let rules = found
            .iter()
            .map(|violation| format!(" {:?}", violation.rule));
        let rules: String = rules.collect();
        match expected.strip_suffix(" ..") {
            // Others are broken, too.
            Some(rule) => assert!(rules.contains(rule), "{row}: {rules}"),
            None => assert_eq!(rules, expected, "{row}"),
        }
    }
}

#[test]
fn a_lease_that_ended_before_the_next_grant_is_counted() {
    for (script, count) in [
        ("6 gets 2 11 20", 1),
        ("3 releases 1, 6 gets 2 11 20", 0),
        ("5 gets 2 11 20", 0),
    ] {
        let history = history(&format!("PAIR, {script}"));
        assert_eq!(
            super::leases_that_ended(&history, &BOUNDS),
            count,
            "{script}"
        );
    }
}
