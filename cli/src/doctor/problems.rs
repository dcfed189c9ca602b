//! What is wrong with the servers, and what to do. It judges answers, and asks nobody.

use std::{collections::BTreeSet, time::Duration};

use super::{
    ask::{Answer, ENFORCED, NOT_SERVING, UPGRADE},
    ensemble,
    report::Problem,
};
use crate::{duration::Human, text};

/// Clocks that are further apart make the times in the output of this program, and of logs, hard to compare.
const FAR_APART_MS: u64 = 1000;
/// What `run` asks for by default.
const USUAL_SESSION_MS: u64 = 10_000;
/// With a longer round trip, a short session of 4 s has no time for a lost packet.
const LONG_ROUND_TRIP_MS: f64 = 200.0;
/// Days before the end of a certificate from which it is told.
const SOON: u64 = 30;
const DAY_MS: u64 = 24 * 3600 * 1000;
/// The client's words for a server that accepts a connection, and says nothing.
const SILENT: &str = "handshake not answered";
/// So few connections from one address are soon used up: each process that locks has one.
const FEW_CONNECTIONS: usize = 10;

/// All that is wrong, in the order of the servers.
pub(super) fn of(answers: &[Answer]) -> Vec<Problem> {
    let mut problems = Vec::new();
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
        if let Some(end) = answer.certificate_ends_ms {
            let left = end.saturating_sub(text::millis(text::now()));
            if left < SOON * DAY_MS {
                let is_note = left >= DAY_MS;
                let left = Human(Duration::from_millis(left));
                let what = format!("its certificate ends in {left}");
                problems.push(Problem::new(answer, is_note, what, RENEW));
            }
        }
        let mut add = |what, cure| problems.push(Problem::new(answer, false, what, cure));
        match &answer.error {
            Some(error) => {
                let (what, cure) = without_session(answer, error, answers);
                add(what, cure);
            }
            None => examine(answer, &mut add),
        }
        let strangers = ensemble::strangers(answer, answers).join(", ");
        if !strangers.is_empty() {
            let cure =
                "give the servers of one ensemble: otherwise two clients can hold one lock at once";
            add(format!("it is not of one ensemble with {strangers}"), cure);
        }
    }
    let versions = answers.iter().filter_map(|it| it.version.as_deref());
    let versions: BTreeSet<_> = versions.collect();
    if versions.len() > 1 {
        let versions = Vec::from_iter(versions).join(", ");
        let what = format!("the servers run different versions: {versions}");
        let cure = "finish the upgrade; while it goes on, this is as it should be";
        problems.extend(answers.first().map(|it| Problem::new(it, true, what, cure)));
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
    if let (Some(tick), Some(shortest)) = (answer.tick_ms, answer.shortest_session_ms)
        && shortest.saturating_mul(2) < tick.saturating_mul(3)
    {
        let [tick, shortest] = [tick, shortest].map(|ms| Human(Duration::from_millis(ms)));
        let what = format!(
            "it grants sessions of {shortest}, with a tick of {tick}: below 1.5 ticks a lease is not safe"
        );
        let cure = "set minSessionTimeout to two ticks, which is its default";
        add(what, cure);
    }
    if let Some(what) = too_slow(answer) {
        let cure = "ask for longer sessions (--session-timeout), and look at the disks and the load of the servers";
        add(what, cure);
    } else if let Some(ms) = answer.round_trip_ms.filter(|ms| *ms > LONG_ROUND_TRIP_MS) {
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

/// Whether the usual session is too short for a proof of its lease, which takes three answers, one behind the other. With the session
/// timeout `T`, they have `7/8 T - T/12 - T/3` (`docs/safety.md`, "How long a lease lasts").
fn too_slow(answer: &Answer) -> Option<String> {
    let times = [
        ("a round trip", answer.round_trip_ms),
        ("a sync", answer.sync_ms),
        ("a write", answer.write_ms),
    ];
    let known = times.into_iter().filter_map(|(what, ms)| Some((what, ms?)));
    let (slowest, ms) = known.max_by(|(_, one), (_, other)| one.total_cmp(other))?;
    let longest = answer.longest_session_ms.unwrap_or(USUAL_SESSION_MS);
    let longest = Duration::from_millis(longest).as_secs_f64();
    let usual = Duration::from_millis(USUAL_SESSION_MS).as_secs_f64();
    let usual = usual.min(longest);
    let needed = ms / 1e3 * 3.0 * 24.0 / 11.0;
    let better = match needed.ceil() {
        better if better <= longest => format!("{better} s can"),
        _ => format!("nor can {longest} s, which is the longest that it grants"),
    };
    let time = Human(Duration::from_secs_f64(ms / 1e3));
    (needed > usual).then(|| {
        format!(
            "{slowest} takes {time}; a session timeout of {usual} s cannot prove a lease; {better}"
        )
    })
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

/// Why there is no session, and what to do. The other servers show whether the cause is this one.
fn without_session(answer: &Answer, error: &str, all: &[Answer]) -> (String, &'static str) {
    let others_serve = all.iter().any(|it| it.error.is_none());
    let is_silent = error.starts_with(SILENT);
    let (more, cure) = if error.contains(NOT_SERVING) {
        if others_serve {
            (": it is not with the majority, which serves", LOOK_INSIDE)
        } else {
            let cure = "start a majority of the ensemble's servers, and look whether they reach each other";
            (": it has no quorum", cure)
        }
    } else if is_silent && answer.has_spoken == Some(true) {
        let error = error.split(" (").next().unwrap_or(error);
        let (more, cure) = match answer.mode.as_deref() {
            _ if others_serve => (
                "it answers words, and other servers open sessions",
                LOOK_INSIDE,
            ),
            Some("follower" | "observer") => (
                "it answers words, so its leader does not answer it",
                "stop the server that answers no word: the others elect another leader",
            ),
            _ => (
                "it answers words, but no write",
                "look at its disks and its load, or give a longer --timeout",
            ),
        };
        return (format!("{error}: {more}"), cure);
    } else if is_silent && answer.has_spoken == Some(false) {
        let cure = "stop its process, which hangs, and start it again; or correct the port";
        ("; it answers no word, either", cure)
    } else if is_silent {
        ("", LOOK_OUTSIDE)
    } else {
        ("", cure_of(error))
    };
    (format!("{error}{more}"), cure)
}

/// What to do about a certificate that ends.
const RENEW: &str = "renew the server's certificate";
const LOOK_OUTSIDE: &str = "look whether the server is up, at the port, and at the network";
/// What to do about a server that fails while others serve.
const LOOK_INSIDE: &str = "look at its log, and at the space on the disks of its dataDir and dataLogDir (df); then restart it";

/// What to do about a server without a session.
fn cure_of(error: &str) -> &'static str {
    let cures = [
        (
            "Connection refused",
            "start the server, or correct the port",
        ),
        ("not ZooKeeper: it said", "correct the port"),
        (
            "expects TLS",
            "look whether the server is serving; a secure port needs --tls-ca",
        ),
        ("lookup", "correct the name, or the name service"),
        (
            "requires a client certificate",
            "give --tls-cert and --tls-key",
        ),
        (
            "alert: CertificateExpired",
            "renew the certificate of --tls-cert",
        ),
        (
            "refused the client certificate",
            "give --tls-cert and --tls-key of an authority that the server trusts",
        ),
        ("certificate has expired", RENEW),
        (
            "certificate",
            "correct --tls-ca, --tls-server-name, or the server's certificate",
        ),
        (
            ENFORCED,
            "give an identity that it demands: --kerberos, or a line sasl:USER:PASSWORD in --auth-file, with sessionRequireClientSASLAuth=true or requireClientAuthScheme=sasl; with enforce.auth.enabled=true one of enforce.auth.schemes",
        ),
        (
            "icket expired",
            "run kinit again, or set KRB5_CLIENT_KTNAME to a keytab, which renews the ticket",
        ),
        (
            ": Server ",
            "name the server as its principal does, give --kerberos-service, or add that principal to the KDC",
        ),
        (
            "Clock skew too great",
            "set the clock of this machine, or that of the KDC",
        ),
        (
            "KDC for ",
            "start the KDC, or correct the realm in krb5.conf",
        ),
        (
            "no ticket for ",
            "run kinit, or set KRB5_CLIENT_KTNAME to a keytab with the principal of --kerberos",
        ),
        (
            "authentication",
            "correct the identity in --auth-file; with --kerberos, compare the clocks, and the server's keytab with the KDC",
        ),
        (
            " not answered within",
            "it is slow: give a longer --timeout, and look at its disks and its load",
        ),
    ];
    let known = cures.iter().find(|(part, _)| error.contains(part));
    known.map_or(LOOK_OUTSIDE, |(_, cure)| cure)
}

fn is_local(server: &str) -> bool {
    let starts = ["127.", "localhost:", "[::1]"];
    starts.iter().any(|start| server.starts_with(start))
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
        let mixed = of(&[
            of_version("3.8.4"),
            of_version("3.9.3"),
            of_version("3.9.3"),
        ]);
        let told: Vec<_> = mixed.iter().map(|it| (it.is_note, &*it.what)).collect();
        let one = "the servers run different versions: 3.8.4, 3.9.3";
        assert_eq!(told, [(true, one)], "an upgrade that rolls is no problem");
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

    #[test]
    fn servers_that_are_too_slow_to_prove_a_lease_are_told() {
        let slow = |write, longest| {
            too_slow(&Answer {
                write_ms: Some(write),
                sync_ms: Some(2.0),
                longest_session_ms: Some(longest),
                ..healthy()
            })
        };
        let told = |better| {
            let what = "a write takes 4.10 s; a session timeout of 10 s cannot prove a lease; ";
            Some(format!("{what}{better}"))
        };
        assert_eq!(slow(4_100.0, 40_000), told("27 s can"));
        let none = "nor can 20 s, which is the longest that it grants";
        assert_eq!(slow(4_100.0, 20_000), told(none));
        // 3 r = 11/24 T.
        assert_eq!(slow(1_527.0, 40_000), None);
        assert!(slow(1_528.0, 40_000).is_some());
        assert!(slow(1_000.0, 6_000).unwrap().contains("of 6 s cannot"));
    }

    #[test]
    fn sessions_of_less_than_a_tick_and_a_half_are_told() {
        for (shortest, count) in [(2_999, 1), (3_000, 0), (4_000, 0)] {
            let answer = Answer {
                tick_ms: Some(2_000),
                shortest_session_ms: Some(shortest),
                ..healthy()
            };
            assert_eq!(of(&[answer]).len(), count, "{shortest}");
        }
    }

    /// Each alone would be told to start a majority, or asked whether it is ZooKeeper.
    #[test]
    fn the_cause_is_looked_for_at_the_server_that_has_it() {
        let silent = || Cause::HandshakeTimeout(Duration::from_secs(1)).to_string();
        let failed = |error: String, mode: Option<&str>, has_spoken| Answer {
            error: Some(error),
            mode: mode.map(str::to_owned),
            has_spoken: Some(has_spoken),
            ..healthy()
        };
        let waits = || failed(format!("it is {NOT_SERVING}"), None, true);
        for (all, what, cure) in [
            (vec![waits()], "it has no quorum", "start a majority"),
            (
                vec![waits(), healthy()],
                "the majority, which serves",
                "look at its log",
            ),
            (
                vec![
                    failed(silent(), Some("follower"), true),
                    failed(silent(), None, false),
                ],
                "within 1000 ms: it answers words, so its leader does not answer it",
                "stop the server that answers no word",
            ),
            (
                vec![
                    failed(silent(), None, false),
                    failed(silent(), Some("follower"), true),
                ],
                "it answers no word, either",
                "stop its process",
            ),
            (
                vec![failed(silent(), Some("follower"), true), healthy()],
                "other servers open sessions",
                "look at its log",
            ),
            (
                vec![failed(silent(), Some("standalone"), true)],
                "it answers words, but no write",
                "look at its disks",
            ),
        ] {
            let (told, told_cure) = without_session(&all[0], all[0].error.as_ref().unwrap(), &all);
            assert!(told.contains(what), "{told}");
            assert!(told_cure.starts_with(cure), "{told}: {told_cure}");
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

    /// The words of MIT's library.
    #[test]
    fn the_reason_for_a_missing_ticket_has_its_cure() {
        for (reason, cure) in [
            ("No Kerberos credentials available", "run kinit, or"),
            ("Ticket expired", "run kinit again"),
            (
                "Server zookeeper/a@B not found in Kerberos database",
                "name the server",
            ),
            ("Clock skew too great", "set the clock"),
            ("Cannot contact any KDC for realm 'B'", "start the KDC"),
            ("Cannot find KDC for realm \"B\"", "start the KDC"),
            ("no answer of any KDC for 2 s", "start the KDC"),
        ] {
            let told = cure_of(&format!("no ticket for zookeeper@a: {reason}"));
            assert!(told.starts_with(cure), "{reason}: {told}");
        }
    }
}
