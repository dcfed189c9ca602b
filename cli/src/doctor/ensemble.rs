//! Whether the servers are one ensemble, and all of it. It judges answers, as `problems`.

use std::iter;

use super::{
    ask::{Answer, SIZES},
    report::Problem,
};

/// The servers that cannot be of one ensemble with this one.
pub(super) fn strangers<'a>(one: &Answer, all: &'a [Answer]) -> Vec<&'a str> {
    let strangers = all.iter().filter(|other| {
        // Nodes prove more than modes, which change with each election.
        let are_compared = one.node.is_some() && other.node.is_some();
        one.strangers.contains(&other.server)
            || other.strangers.contains(&one.server)
            || (!are_compared && one.server != other.server && modes_exclude(one, other))
    });
    strangers.map(|it| it.server.as_str()).collect()
}

/// A server that runs alone is in no ensemble, and no ensemble has two leaders.
fn modes_exclude(one: &Answer, other: &Answer) -> bool {
    let modes = [one, other].map(|it| it.mode.as_deref());
    let is_one_alone = modes.contains(&Some("standalone")) && !modes.contains(&None);
    is_one_alone || modes == [Some("leader"); 2]
}

/// What to do about a server whose data may differ.
pub(super) const COMPARE: &str = "compare what ls -R shows on each server; stop one that differs, and let it copy the data of the leader";

/// The servers that have more or fewer nodes or sessions than their leader, whenever both were asked. A server that lags by less than
/// the pause between two questions has caught up at the second one with what the leader had at the first.
pub(super) fn sizes(answers: &[Answer]) -> Vec<Problem> {
    let is_leader = |it: &&Answer| it.mode.as_deref() == Some("leader");
    let leader = answers.iter().find(is_leader);
    let mut notes = Vec::new();
    for (kind, (name, _)) in SIZES.iter().enumerate() {
        for (answer, leader) in answers.iter().zip(leader.iter().cycle()) {
            let (own, other) = (&answer.sizes[kind], &leader.sizes[kind]);
            let is_known = !own.is_empty() && !other.is_empty();
            let is_less = own.iter().max() < other.iter().min();
            if is_known && (is_less || own.iter().min() > other.iter().max()) {
                let [own, other] = [own, other].map(|it| it.last().copied().unwrap_or_default());
                let leader = &leader.server;
                let what = format!("it has {own} {name}, and its leader {leader} has {other}");
                notes.push(Problem::new(answer, true, what, COMPARE));
            }
        }
    }
    notes
}

/// What is wrong between the servers that were asked, and the voting members by the ensemble's configuration.
///
/// The configuration may have other addresses than the ones that clients use. So a server is called no member only if all the
/// members were asked, too.
pub(super) fn membership(answers: &[Answer]) -> Vec<Problem> {
    let known = answers.iter().find_map(|it| {
        let all: Vec<_> = it.config.lines().filter_map(member).collect();
        (!all.is_empty()).then_some((it, all))
    });
    let Some((source, all)) = known else {
        return Vec::new();
    };
    let is_member = |it: &Answer| all.iter().any(|(address, _)| is_at(it, address));
    let voters = all.iter().filter(|(_, votes)| *votes);
    let voters: Vec<_> = voters.map(|(address, _)| address.as_str()).collect();
    let names = voters.join(", ");
    let (asked, count) = (answers.len(), voters.len());
    let (members, others): (Vec<_>, Vec<_>) = answers.iter().partition(|it| is_member(it));
    let mut problems = Vec::new();
    if count > asked {
        // A single name may stand for all members, unless it is the one of a member.
        let is_note = asked == 1 && members.is_empty();
        let what = format!(
            "--connect lacks members: the ensemble has {count} ({names}), and it names {asked}"
        );
        let cure = "name all members: a client goes on as long as it knows a server that serves";
        problems.push(Problem::new(source, is_note, what, cure));
    }
    let is_asked = |voter: &&str| members.iter().any(|it| is_at(it, voter));
    if voters.iter().all(is_asked) {
        let what = format!("it is not a member of the ensemble, whose voting members are {names}");
        let cure = "leave it out of --connect, unless this is another name of a member";
        let problem = |it| Problem::new(it, true, what.clone(), cure);
        problems.extend(others.into_iter().map(problem));
    }
    if count % 2 == 0 {
        let what = format!("the ensemble has an even number of voting members: {count}");
        let cure = "take one away, or add one: with one less, as many servers may fail";
        problems.push(Problem::new(source, true, what, cure));
    }
    problems
}

/// Whether a member with this address in the configuration is this server. Older forms of the configuration have no port for clients.
fn is_at(answer: &Answer, address: &str) -> bool {
    let mut names = iter::once(&answer.server).chain(&answer.name);
    names.any(|it| it == address || it.rsplit_once(':').is_some_and(|(host, _)| host == address))
}

/// The address for clients of the member in a line of the configuration, such as
/// `server.1=zk1:2888:3888:participant;0.0.0.0:2181`, and whether it votes.
fn member(line: &str) -> Option<(String, bool)> {
    let (_, member) = line.strip_prefix("server.")?.split_once('=')?;
    let (quorum, client) = member.split_once(';').unwrap_or((member, ""));
    let (host, port) = client.rsplit_once(':').unwrap_or(("", client));
    let host = match host {
        // All addresses of the member's machine.
        "" | "0.0.0.0" | "[::]" | "[0:0:0:0:0:0:0:0]" => match quorum.split_once("]:") {
            Some((host, _)) => format!("{host}]"),
            None => quorum.split(':').next()?.to_owned(),
        },
        host => host.to_owned(),
    };
    let address = format!("{host}:{port}").trim_end_matches(':').to_owned();
    Some((address, !quorum.ends_with(":observer")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(name: &str, mode: &str, node: Option<&str>, strangers: &[&str]) -> Answer {
        Answer {
            server: name.to_owned(),
            mode: Some(mode.to_owned()).filter(|it| !it.is_empty()),
            node: node.map(str::to_owned),
            strangers: strangers.iter().copied().map(str::to_owned).collect(),
            ..Answer::default()
        }
    }

    #[test]
    fn modes_that_exclude_each_other_are_told_unless_nodes_prove_more() {
        for (modes, is_one) in [
            (["leader", "follower"], true),
            (["follower", "follower"], true),
            (["observer", "leader"], true),
            (["standalone", ""], true),
            (["standalone", "standalone"], false),
            (["standalone", "follower"], false),
            (["leader", "standalone"], false),
            (["leader", "leader"], false),
        ] {
            let all = |node| {
                [
                    server("a", modes[0], node, &[]),
                    server("b", modes[1], None, &[]),
                ]
            };
            for both in [all(None), all(Some("/n"))] {
                assert_eq!(strangers(&both[0], &both).is_empty(), is_one, "{modes:?}");
                assert_eq!(strangers(&both[1], &both).is_empty(), is_one, "{modes:?}");
            }
            let proved = modes.map(|mode| server(mode, mode, Some("/n"), &[]));
            assert_eq!(strangers(&proved[0], &proved), [] as [&str; 0]);
        }
        let again = ["a", "a"].map(|name| server(name, "standalone", None, &[]));
        assert_eq!(strangers(&again[0], &again), [] as [&str; 0], "given twice");
    }

    #[test]
    fn a_node_that_one_server_does_not_show_is_told_of_both() {
        let all = [
            server("a", "leader", Some("/a"), &["c"]),
            server("b", "follower", Some("/b"), &[]),
            server("c", "follower", None, &[]),
        ];
        let told = all.each_ref().map(|it| strangers(it, &all));
        assert_eq!(told, [vec!["c"], vec![], vec!["a"]]);
    }

    #[test]
    fn a_server_with_other_counts_than_its_leader_is_told_unless_it_may_only_lag() {
        let all = |sizes: [[&[u64]; 3]; 2]| {
            let mut all = [
                server("a", "leader", None, &[]),
                server("b", "follower", None, &[]),
            ];
            for (answer, sizes) in all.iter_mut().zip(sizes) {
                answer.sizes = sizes.map(<[u64]>::to_vec);
            }
            all
        };
        let told = |of_leader, own| {
            let notes = sizes(&all([[of_leader, &[1, 1], &[]], [own, &[1, 1], &[]]])).into_iter();
            let told = notes.map(|it| format!("{} {}: {}", it.is_note, it.server, it.what));
            told.collect::<Vec<_>>()
        };
        for (of_leader, own, counts) in [
            (&[7][..], &[5][..], Some((5, 7))),
            (&[7, 7], &[5, 5], Some((5, 7))),
            (&[7, 8], &[9, 10], Some((10, 8))),
            (&[7, 7], &[7, 7], None),
            (&[7, 7], &[5, 7], None),
            // It lags by less than a pause.
            (&[7, 9], &[5, 8], None),
            (&[7, 5], &[5, 7], None),
            (&[], &[5], None),
        ] {
            let note = counts.map(|(own, other)| {
                format!("true b: it has {own} nodes, and its leader a has {other}")
            });
            assert_eq!(
                told(of_leader, own),
                Vec::from_iter(note),
                "{of_leader:?} {own:?}"
            );
        }
        // Older servers do not count sessions.
        let older = all([[&[7], &[1], &[3]], [&[7], &[1], &[]]]);
        assert_eq!(sizes(&older), []);
        let sessions = all([[&[7, 7], &[1, 1], &[3, 4]], [&[7, 7], &[1, 1], &[5, 5]]]);
        let note = "it has 5 sessions, and its leader a has 4";
        assert_eq!(sizes(&sessions)[0].what, note);
        let mut ephemerals = all([[&[7, 7], &[1, 1], &[]], [&[7, 7], &[2, 2], &[]]]);
        let note = "it has 2 ephemeral nodes, and its leader a has 1";
        assert_eq!(sizes(&ephemerals)[0].what, note);
        ephemerals[0].mode = None;
        assert_eq!(sizes(&ephemerals), [], "no leader is known");
    }

    fn told(config: &str, servers: &[&str]) -> Vec<(String, bool)> {
        let servers = servers.iter().map(|name| server(name, "", None, &[]));
        let mut servers: Vec<_> = servers.collect();
        servers.last_mut().unwrap().config = config.to_owned();
        let told = membership(&servers).into_iter();
        told.map(|it| (format!("{}: {}", it.server, it.what), it.is_note))
            .collect()
    }

    #[test]
    fn an_address_for_clients_is_read_from_the_configuration() {
        for (line, address) in [
            (
                "server.1=zk1:2888:3888:participant;0.0.0.0:2181",
                Some("zk1:2181"),
            ),
            ("server.1=zk1:2888:3888;2181", Some("zk1:2181")),
            (
                "server.1=10.0.0.1:2888:3888|10.0.0.2:2888:3888;2181",
                Some("10.0.0.1:2181"),
            ),
            (
                "server.2=zk1:2888:3888:participant;10.0.0.1:2182",
                Some("10.0.0.1:2182"),
            ),
            (
                "server.3=[::1]:2888:3888:participant;[0:0:0:0:0:0:0:0]:2181",
                Some("[::1]:2181"),
            ),
            ("server.3=zk3:2888:3888:participant", Some("zk3")),
            (
                "server.4=zk4:2888:3888:observer;0.0.0.0:2181",
                Some("zk4:2181"),
            ),
            ("version=100000000", None),
        ] {
            let is_voter = !line.contains("observer");
            let expected = address.map(|it| (it.to_owned(), is_voter));
            assert_eq!(member(line), expected, "{line}");
        }
    }

    #[test]
    fn members_that_are_not_named_and_servers_that_are_none_are_told() {
        let config = |voters: usize| {
            let line = |n| format!("server.{n}=zk{n}:2888:3888:participant;0.0.0.0:2181\n");
            (1..=voters).map(line).collect::<String>() + "version=1\n"
        };
        let three = ["zk1:2181", "zk2:2181", "zk3:2181"];
        let lacking = [(
            "zk2:2181: --connect lacks members: the ensemble has 3 (zk1:2181, zk2:2181, zk3:2181), and it names 2"
                .to_owned(),
            false,
        )];
        assert_eq!(told(&config(3), &three), []);
        assert_eq!(told(&config(3), &three[..2]), lacking);
        assert_eq!(told(&config(3), &three[..1]).len(), 1, "a member");
        let one = told(&config(3), &["zk:2181"]);
        assert!(one.len() == 1 && one[0].1, "maybe a name of all of them");
        let portless = config(3).replace(";0.0.0.0:2181", "");
        let problem = told(&portless, &three[..1]);
        assert!(problem.len() == 1 && !problem[0].1, "a member");
        assert_eq!(told(&portless, &three), []);
        assert_eq!(
            told(&config(3), &["a:1", "b:1"]).len(),
            1,
            "fewer than members"
        );
        assert_eq!(
            told(&config(3), &["a:1", "b:1", "c:1", "d:1"]),
            [],
            "other names"
        );
        let even = |server: &str| {
            let text = "the ensemble has an even number of voting members: 2";
            (format!("{server}: {text}"), true)
        };
        assert_eq!(told(&config(2), &three[..2]), [even("zk2:2181")]);
        let none = "zk3:2181: it is not a member of the ensemble, whose voting members are zk1:2181, zk2:2181";
        let none = (none.to_owned(), true);
        assert_eq!(told(&config(2), &three), [none, even("zk3:2181")]);
        let observer = config(1) + "server.2=zk2:2888:3888:observer;0.0.0.0:2181";
        assert_eq!(told(&observer, &three[..2]), []);
        for alone in ["", "version=0"] {
            assert_eq!(told(alone, &three), []);
        }
    }
}
