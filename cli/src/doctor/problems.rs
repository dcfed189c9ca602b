//! What is wrong with the servers, and what to do. Pure: it judges answers, and asks nobody.

use std::{collections::BTreeSet, time::Duration};

use super::ask::{Answer, Told};
use crate::duration::Long;

/// Clocks that are further apart make the times in the output of this program, and of logs, hard to compare.
const FAR_APART_MS: u64 = 1000;
/// What `run` asks for by default.
const USUAL_SESSION: Duration = Duration::from_secs(10);
/// With a longer round trip, the shortest session has no time for a lost packet.
const ROUNDS_IN_A_SESSION: u32 = 20;

/// Something that is wrong.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Problem {
    pub(super) server: String,
    pub(super) what: String,
    pub(super) cure: &'static str,
}

/// All that is wrong, in the order of the servers.
pub(super) fn of(answers: &[Answer], is_encrypted: bool) -> Vec<Problem> {
    let mut problems = Vec::new();
    let versions: BTreeSet<_> = answers
        .iter()
        .filter_map(|it| it.version.as_deref())
        .collect();
    for answer in answers {
        let mut add = |what: String, cure| {
            problems.push(Problem {
                server: answer.server.clone(),
                what,
                cure,
            });
        };
        match &answer.told {
            Err(error) => add(error.clone(), cure_of(error)),
            Ok(told) => examine(told, &mut add),
        }
        if !is_encrypted && answer.told.is_ok() && !is_local(&answer.server) {
            add(
                "the connection is not encrypted".to_owned(),
                "give --tls-ca and a secure port, or be sure of the network",
            );
        }
        if versions.len() > 1
            && let Some(version) = &answer.version
        {
            add(
                format!("it runs {version}, and others run another version"),
                "finish the upgrade",
            );
        }
    }
    problems
}

fn examine(told: &Told, add: &mut impl FnMut(String, &'static str)) {
    if told.longest_session < USUAL_SESSION {
        add(
            format!(
                "it grants sessions of at most {}",
                Long(told.longest_session)
            ),
            "raise maxSessionTimeout: a short outage costs every lock",
        );
    }
    if let Some(shortest) = told.shortest_session
        && told.round_trip > shortest / ROUNDS_IN_A_SESSION
    {
        add(
            format!("a round trip takes {}", Long(told.round_trip)),
            "ask for longer sessions, or use a server nearby",
        );
    }
    if let Err(error) = &told.persistent_watches {
        add(
            format!("no persistent watches: {error}"),
            "use ZooKeeper 3.6 or later for watch and queue --follow",
        );
    }
    if let Some(Err(error)) = &told.containers {
        add(
            format!("no container was created below /: {error}"),
            "use ZooKeeper 3.5.1 or later, or create the directories of locks yourself",
        );
    }
    match &told.clock_ms {
        Some(Ok(ms)) if ms.unsigned_abs() > FAR_APART_MS => add(
            format!(
                "its clock is {} from ours",
                Long(Duration::from_millis(ms.unsigned_abs()))
            ),
            "synchronize the clocks: ages and times in the output are wrong, locks are not affected",
        ),
        Some(Err(error)) => add(
            format!("no node was created below /: {error}"),
            "give an identity that may, or a chroot, or --no-write",
        ),
        _ => {}
    }
}

/// What to do about a server without a session.
fn cure_of(error: &str) -> &'static str {
    let cures = [
        ("refused", "start the server, or correct the port"),
        ("not ZooKeeper", "correct the port"),
        (
            "expects TLS",
            "look whether the server is serving; a secure port needs --tls-ca",
        ),
        ("lookup", "correct the name, or the name service"),
        (
            "no such node",
            "create the chroot, or correct it in --connect",
        ),
        (
            "certificate",
            "correct --tls-ca, --tls-server-name, or the server's certificate",
        ),
        ("authentication", "correct the identity in --auth-file"),
    ];
    let known = cures.iter().find(|(part, _)| error.contains(part));
    known.map_or(
        "look whether the server is up, and at the network",
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
    use super::*;

    type Fault = fn(&mut Told);

    fn answer(told: Result<Told, String>) -> Answer {
        Answer {
            server: "127.0.0.1:1".to_owned(),
            told,
            version: None,
            mode: None,
            tick: None,
            sync_limit: None,
        }
    }

    fn healthy() -> Told {
        Told {
            round_trip: Duration::from_millis(1),
            shortest_session: Some(Duration::from_secs(4)),
            longest_session: Duration::from_secs(40),
            persistent_watches: Ok(()),
            containers: Some(Ok(())),
            clock_ms: Some(Ok(-3)),
            identities: Vec::new(),
        }
    }

    #[test]
    fn a_healthy_server_has_no_problem_and_each_fault_is_one() {
        assert_eq!(of(&[answer(Ok(healthy()))], false), []);
        let faults: [(Fault, &str); 5] = [
            (
                |told| told.longest_session = Duration::from_secs(4),
                "sessions of at most 4.00 s",
            ),
            (
                |told| told.round_trip = Duration::from_millis(201),
                "a round trip takes 201 ms",
            ),
            (
                |told| told.persistent_watches = Err("x".into()),
                "no persistent watches: x",
            ),
            (
                |told| told.containers = Some(Err("x".into())),
                "no container",
            ),
            (
                |told| told.clock_ms = Some(Ok(-61_000)),
                "its clock is 1 m 1 s from ours",
            ),
        ];
        for (fault, text) in faults {
            let mut told = healthy();
            fault(&mut told);
            let problems = of(&[answer(Ok(told))], false);
            assert_eq!(problems.len(), 1, "{problems:?}");
            assert!(problems[0].what.contains(text), "{problems:?}");
        }
        let mut other = answer(Ok(healthy()));
        other.version = Some("3.8.0".to_owned());
        let mut newer = answer(Ok(healthy()));
        newer.version = Some("3.9.3".to_owned());
        assert_eq!(of(&[other, newer], false).len(), 2);
        let mut far = answer(Ok(healthy()));
        far.server = "zk1:2181".to_owned();
        assert_eq!(of(&[far], false)[0].what, "the connection is not encrypted");
        let down = of(
            &[answer(Err("Connection refused (os error 111)".into()))],
            true,
        );
        assert_eq!(down[0].cure, "start the server, or correct the port");
    }
}
