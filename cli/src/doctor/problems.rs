//! What is wrong with the servers, and what to do. Pure: it judges answers, and asks nobody.

use std::{collections::BTreeSet, time::Duration};

use super::{
    ask::{Answer, ENFORCED, UPGRADE},
    ensemble,
    report::Problem,
};
use crate::duration::Human;

/// Clocks that are further apart make the times in the output of this program, and of logs, hard to compare.
const FAR_APART_MS: u64 = 1000;
/// What `run` asks for by default.
const USUAL_SESSION_MS: u64 = 10_000;
/// With a longer round trip, a short session of 4 s has no time for a lost packet.
const LONG_ROUND_TRIP_MS: f64 = 200.0;
/// So few connections from one address are soon used up: each process that locks has one.
const FEW_CONNECTIONS: usize = 10;

/// All that is wrong, in the order of the servers.
pub(super) fn of(answers: &[Answer]) -> Vec<Problem> {
    let mut problems = Vec::new();
    let versions: BTreeSet<_> = answers.iter().flat_map(|it| &it.version).collect();
    for answer in answers {
        let mut note = |what, cure| problems.push(Problem::new(answer, true, what, cure));
        if answer.encryption.is_none() && answer.error.is_none() && !is_local(&answer.server) {
            let what = "the connection is not encrypted".to_owned();
            let cure = "give --tls-ca and a secure port, or be sure of the network";
            note(what, cure);
        }
        if let Some(flaw) = answer.version.as_deref().and_then(flaw) {
            note(flaw.to_owned(), "upgrade to the latest 3.8 or 3.9");
        }
        if let Some(count @ 1..) = answer.digest_mismatches {
            // No problem for certain: 3.8.0 counts sound transactions, too, also a server that runs alone.
            let what = "its data may differ from those of its leader (digest mismatches: ";
            note(format!("{what}{count})"), ensemble::COMPARE);
        }
        if let count @ 1.. = answer.local_sessions {
            let what = format!("it has local sessions ({count}), in which no lock can live");
            note(what, UPGRADE);
        }
        if let Some(limit @ 1..=FEW_CONNECTIONS) = answer.max_client_connections {
            let what = format!("it accepts {limit} connections from one address");
            let cure = "raise maxClientCnxns: it refuses further clients of that address";
            note(what, cure);
        }
        let mut add = |what, cure| problems.push(Problem::new(answer, false, what, cure));
        match &answer.error {
            Some(error) => add(error.clone(), cure_of(error)),
            None => examine(answer, &mut add),
        }
        let strangers = ensemble::strangers(answer, answers).join(", ");
        if !strangers.is_empty() {
            let cure =
                "give the servers of one ensemble: otherwise two clients can hold one lock at once";
            add(format!("it is not of one ensemble with {strangers}"), cure);
        }
        if let Some(version) = answer.version.as_ref().filter(|_| versions.len() > 1) {
            let what = format!("it runs {version}, and others run another version");
            add(what, "finish the upgrade");
        }
    }
    let is_one = |it: &Answer| ensemble::strangers(it, answers).is_empty();
    if answers.iter().all(is_one) {
        problems.extend(ensemble::membership(answers));
        problems.extend(ensemble::sizes(answers));
    }
    problems
}

fn examine(answer: &Answer, add: &mut impl FnMut(String, &'static str)) {
    if let Some(ms @ ..USUAL_SESSION_MS) = answer.longest_session_ms {
        let longest = Human(Duration::from_millis(ms));
        let what = format!("it grants sessions of at most {longest}");
        let cure = "raise maxSessionTimeout: a short outage costs every lock";
        add(what, cure);
    }
    if let Some(ms) = answer.round_trip_ms.filter(|ms| *ms > LONG_ROUND_TRIP_MS) {
        let time = Human(Duration::from_secs_f64(ms / 1e3));
        let what = format!("a round trip takes {time}");
        add(what, "ask for longer sessions, or use a server nearby");
    }
    let apart = answer.clock_ms.map_or(0, i64::unsigned_abs);
    if apart > FAR_APART_MS {
        let apart = Human(Duration::from_millis(apart));
        let what = format!("its clock is {apart} from ours");
        let cure = "synchronize the clocks: ages and times in the output are wrong, locks are not affected";
        add(what, cure);
    }
    for (what, cure) in &answer.refused {
        add(what.clone(), cure);
    }
}

/// What is known of a version.
///
/// Sources: zookeeper.apache.org, news of 2 February 2024; the release notes of 3.9.2; for 3.8, apache/zookeeper pull request 2132,
/// which is newer than 3.8.3.
fn flaw(version: &str) -> Option<&'static str> {
    let mut numbers = version.split(|c: char| !c.is_ascii_digit());
    let mut next = || numbers.next().and_then(|it| it.parse::<u32>().ok());
    match (next()?, next()?, next()?) {
        (3, ..=7, _) => Some("its release line gets no fixes any more"),
        (3, 8, ..=3) | (3, 9, ..=1) => {
            Some("a restarted server of its version may lack transactions (ZOOKEEPER-4785)")
        }
        _ => None,
    }
}

/// What to do about a server without a session.
fn cure_of(error: &str) -> &'static str {
    let cures = [
        ("refused", "start the server, or correct the port"),
        ("not ZooKeeper: it said", "correct the port"),
        (
            "no quorum",
            "start a majority of the ensemble's servers, and look whether they reach each other",
        ),
        (
            "expects TLS",
            "look whether the server is serving; a secure port needs --tls-ca",
        ),
        ("lookup", "correct the name, or the name service"),
        (
            "certificate",
            "correct --tls-ca, --tls-server-name, or the server's certificate",
        ),
        (
            ENFORCED,
            "give an identity that it demands (enforce.auth.schemes): for example a line digest:USER:PASSWORD in --auth-file; this command has no SASL",
        ),
        ("authentication", "correct the identity in --auth-file"),
    ];
    let known = cures.iter().find(|(part, _)| error.contains(part));
    known.map_or(
        "look whether the server is up, at the port, and at the network",
        |(_, cure)| cure,
    )
}

fn is_local(server: &str) -> bool {
    ["127.", "localhost:", "[::1]"]
        .iter()
        .any(|start| server.starts_with(start))
}

#[cfg(test)]
mod tests {
    use lockkeeper::error::Cause;

    use super::*;

    type Fault = fn(&mut Answer);

    fn healthy() -> Answer {
        Answer {
            server: "127.0.0.1:1".to_owned(),
            round_trip_ms: Some(1.0),
            longest_session_ms: Some(40_000),
            clock_ms: Some(-3),
            ..Answer::default()
        }
    }

    #[test]
    fn a_healthy_server_has_no_problem_and_each_fault_is_one() {
        assert_eq!(of(&[healthy()]), []);
        let faults: [(Fault, &str); 7] = [
            (
                |it| it.digest_mismatches = Some(1),
                "may differ from those of its leader (digest mismatches: 1)",
            ),
            (
                |it| it.longest_session_ms = Some(4000),
                "sessions of at most 4.00 s",
            ),
            (
                |it| it.round_trip_ms = Some(201.0),
                "a round trip takes 201 ms",
            ),
            (
                |it| it.refused = vec![("no container: x".into(), "")],
                "no container: x",
            ),
            (
                |it| it.clock_ms = Some(-61_000),
                "its clock is 1 m 1 s from ours",
            ),
            (
                |it| it.server = "zk1:2181".into(),
                "the connection is not encrypted",
            ),
            (
                |it| it.error = Some("Connection refused (os error 111)".into()),
                "refused",
            ),
        ];
        for (fault, text) in faults {
            let mut answer = healthy();
            fault(&mut answer);
            let problems = of(&[answer]);
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].what.contains(text), "{problems:?}");
        }
        let of_version = |version: &str| Answer {
            version: Some(version.to_owned()),
            ..healthy()
        };
        assert_eq!(of(&[of_version("3.8.4"), of_version("3.9.3")]).len(), 2);
        for (version, flaw) in [
            (
                "3.4.14-4c25d480e66aadd371de8bd2fd8da255ac140bcf",
                "no fixes",
            ),
            ("3.7.2", "no fixes"),
            (
                "3.8.0-5a02a05eddb59aee6ac762f7ea82e92a68eb9c0f",
                "ZOOKEEPER-4785",
            ),
            ("3.9.1", "ZOOKEEPER-4785"),
        ] {
            let notes = of(&[of_version(version)]);
            assert!(
                notes[0].is_note && notes[0].what.contains(flaw),
                "{notes:?}"
            );
        }
        for version in [
            "3.8.4",
            "3.9.3-lockkeeper-0.1.0",
            "3.10.0",
            "4.0.0",
            "3.8",
            "x",
        ] {
            assert_eq!(of(&[of_version(version)]), []);
        }
    }

    /// The client's words for a port where nobody answers the handshake name three causes.
    #[test]
    fn an_error_has_the_cure_of_its_cause() {
        for (error, cure) in [
            (
                Cause::NotZooKeeper("HTTP/1.1 400".into()),
                "correct the port",
            ),
            (
                Cause::ClosedInHandshake,
                "look whether the server is serving",
            ),
        ] {
            let told = cure_of(&error.to_string());
            assert!(told.starts_with(cure), "{error}: {told}");
        }
    }
}
