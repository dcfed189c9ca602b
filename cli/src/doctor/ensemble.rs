//! Whether the servers are one ensemble. Pure, as `problems`.

use super::ask::Answer;

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
    match (one.mode.as_deref(), other.mode.as_deref()) {
        (Some(one), Some(other)) => {
            one == "standalone" || other == "standalone" || (one == "leader" && other == "leader")
        }
        _ => false,
    }
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
}
