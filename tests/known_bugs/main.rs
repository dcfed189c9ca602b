//! The known bugs of other implementations, one by one, and that they are not here.
//!
//! Each test opens with the story of its bug, and most of them do what it takes on the embedded server: replies lost,
//! listings that lag, sessions that expire at an exact request. A file of this folder covers a row with its tests named
//! `row_NN_..`; where another test covers it, that one is named. `every_row_is_covered` holds this table to its word.
//!
//! | row | where | what it was | the tests that show its absence; what cannot concern us |
//! |---|---|---|---|
//! | 1 | CURATOR-604 | the dying node of a former session, taken for one's own | `former_sessions` |
//! | 2 | CURATOR-620, -696 | the same for a leader | `former_sessions` |
//! | 3 | CURATOR-498 | a lost create of a former session, adopted | `former_sessions`, `recipes/src/node/identity.rs::a_node_with_our_name_in_another_session_is_not_ours` |
//! | 4 | CURATOR-652, -653 | resets and reconnects that ran into each other | `former_sessions` |
//! | 5 | CURATOR-206, kazoo #2, libkv PR 156 | a holder not told that its session is over | `former_sessions`, `contract/loss.rs::told_before_anybody_else_holds_it` |
//! | 6 | CURATOR-621, -276 | a writer that became a reader, overtaken | `two_holders`, `recipes/src/queue/rank.rs::a_writer_that_became_a_reader_keeps_its_place` |
//! | 7 | Curator | re-entry after a loss | `former_sessions` |
//! | 8 | go-zk | a waiter whose own node is gone | `two_holders`, `contract/loss.rs::a_waiter_whose_node_is_deleted_is_told` |
//! | 9 | Curator and kazoo | two who do not see each other's nodes | `contract/mutex.rs::nodes_of_other_implementations_are_waited_for`; that kazoo passes over ours by default is out of our hands, and documented |
//! | 10 | Curator | the same number twice | `numbers`, `recipes/src/queue/rank.rs::exhausted_numbers_are_refused_and_never_ordered` |
//! | 11 | kazoo #606, #730 | negative numbers compared as text | `numbers` |
//! | 12 | go-zk PR 65, ZOOKEEPER-4372 | the minus sign as a separator | `numbers`, `recipes/src/node/name.rs::contenders_of_every_implementation_are_read` |
//! | 13 | kazoo #213 | tries that took leases outside the line | `two_holders` |
//! | 14 | kezhuw | copies of a guard, each of which releases | `two_holders`, `contract/types.rs::what_releases_on_drop_cannot_be_copied` |
//! | 15 | ZooKeeper's `WriteLock` | two of one session with one node | `two_holders` |
//! | 16 | etcd #11456, #10811 | granted after a sleep without another look at the lease | `two_holders` |
//! | 17 | etcd #11457 | a paused holder that writes | `two_holders` |
//! | 18 | Curator GH-1290 | any wake-up taken for the right one | `two_holders`; barriers are not offered |
//! | 19 | Curator, kazoo, kezhuw, go-zk | a lost create looked for without a barrier | `orphans` |
//! | 20 | CURATOR-45 | a create given up that had happened | `orphans` |
//! | 21 | CURATOR-79, -62 | interrupted during the create | `orphans`, `contract/outage.rs::dropped_at_any_request_it_leaves_nothing` |
//! | 22 | CURATOR-205, -468 | interrupted during the clean-up | `orphans` |
//! | 23 | vitess PR 15757 | a clean-up under the deadline that had passed | `orphans` |
//! | 24 | CURATOR-678 | a release that met a loss | `orphans`, `contract/outage.rs::a_connection_lost_at_any_request_costs_nothing` |
//! | 25 | CURATOR-315, -335, -462 | a lease made, then given up | `orphans_of_tries`, `contract/outage.rs::refused_at_any_request_it_leaves_nothing` |
//! | 26 | CURATOR-48, -190, -489 | names that grow, or that all have | `orphans_of_tries`, `recipes/src/node/name.rs::a_protected_name_is_curators_and_no_two_are_alike` |
//! | 27 | CURATOR-3 | a node made after the close | `orphans_of_tries` |
//! | 28 | kazoo #732 | a refused try, cut off in its clean-up | `orphans_of_tries` |
//! | 29 | kazoo #429 | the same at a semaphore | `orphans_of_tries` |
//! | 30 | go-zookeeper #229 | the listing after the create failed | `orphans` |
//! | 31 | go-zk | a stranger's node that cannot be read | `contract/directory.rs::strangers_in_the_directory_are_nobody` |
//! | 32 | kezhuw | a clean-up that named the node wrongly | `orphans`, `contract/giving_up.rs::dropped_at_any_poll_it_leaves_nothing` |
//! | 33 | kezhuw | a look for a lost create that compared wrongly | `orphans` |
//! | 34 | zookeeper-async | drops that did nothing, or panicked | `contract/giving_up.rs::dropped_outside_a_runtime_it_is_free`, `contract/giving_up.rs::dropped_at_any_poll_it_leaves_nothing` |
//! | 35 | zk-ruby #49, #54, aiozk PR 34 | a timeout that left the node; a second node after a loss | `waiting`, `contract/giving_up.rs::a_timeout_leaves_nothing` |
//! | 36 | `DistributedLock` #156, nakadi PR 1257 | nodes that pile up over short outages | `contract/outage.rs::a_connection_lost_at_any_request_costs_nothing`, `contract/stress.rs::after_any_number_of_acquisitions_nothing_is_left` |
//! | 37 | spring-integration PR 2557 | a try that wrote | `wire_counts/main.rs::a_refused_try_is_one_read_and_writes_nothing` |
//! | 38 | CURATOR-716 | one release woke all | `wakeups` |
//! | 39 | Curator | readers that all list again | `wakeups` |
//! | 40 | kazoo #649 | readers that wait for writers behind them | `wakeups` |
//! | 41 | kazoo 7dd4c4c | one ahead that gave up, taken for a grant | `wakeups`, `contract/giving_up.rs::a_waiter_that_gives_up_is_skipped` |
//! | 42 | go-zk #145 | the number 0 passed over | `wakeups` |
//! | 43 | ZooKeeper's `WriteLock` | a watch left too late | `wakeups` |
//! | 44 | Curator's first semaphore | one holder watched of several | `wakeups` |
//! | 45 | CURATOR-75 | a raised limit that woke nobody | `wakeups` |
//! | 46 | CURATOR-495 | a callback that blocked the session | `wakeups`; nothing of a user's runs in the session's task: watchers are futures |
//! | 47 | CURATOR-527 | an event before the waiter slept | `wakeups` |
//! | 48 | CURATOR-644, -645, -504 | candidates that chase each other | `elections` |
//! | 49 | CURATOR-724 | a directory that vanished in an outage | `elections` |
//! | 50 | Curator | a refused candidate that never stood again | `elections` |
//! | 51 | CURATOR-16, -73, -104, -518, -671 | an expiry that ended the standing | `elections` |
//! | 52 | CURATOR-43 | a stranger's node that sorts first | `contract/directory.rs::strangers_in_the_directory_are_nobody` |
//! | 53 | kazoo #282 | a waiter that hung after a short outage | `waiting` |
//! | 54 | kazoo #482, #83 | an acquire that hung on a closed client | `contract/loss.rs::a_closed_client_ends_holds_and_waits` |
//! | 55 | twitter/commons #20 | an expiry that nobody heard | `waiting` |
//! | 56 | kezhuw #82 | deletes in a transaction that woke nobody | `waiting` |
//! | 57 | zookeeper-async | a search in another order than the sort's | `contract/exclusion.rs::never_more_than_so_many_hold_it`, `recipes/src/queue/rank.rs::exactly_one_is_first_and_everybody_else_waits_for_the_one_before` |
//! | 58 | Netflix/curator #75 | an owner that waits for itself | `waiting` |
//! | 59 | events after an outage | ours told after the one ahead | `waiting` |
//! | 60 | CURATOR-211, -307 | not in the listing, so last in it | `errors` |
//! | 61 | CURATOR-107 | watches that pile up, one for each turn | `errors` |
//! | 62 | Curator | watches that pile up, one for each timeout | `errors` |
//! | 63 | CURATOR-180, kazoo #563 | a directory reaped between two requests | `errors`, `contract/directory.rs::its_directory_may_go_between_two_uses` |
//! | 64 | Curator's multi-lock | the rest tried after a failure, n times the timeout | `errors` |
//! | 65 | kazoo | a timeout that began anew | `errors` |
//! | 66 | kazoo | a cancel that hit the next acquire | `contract/giving_up.rs::dropped_at_any_poll_it_leaves_nothing`; there is no flag: to cancel is to drop the future |
//! | 67 | CURATOR-337, -358 | who left while somebody looked | `errors` |
//! | 68 | CURATOR-376 | a release that hit the next hold of the handle | `contract/types.rs::a_release_takes_the_guard_away`; handles know nothing of holds |
//! | 69 | CURATOR-559 | repetitions within repetitions | `errors` |
//! | 70 | CURATOR-688 | versions that run over | `errors` |
//! | 71 | Curator | the second hold could not be asked to let go | `requests` |
//! | 72 | kazoo | numbers of requests used again | `requests` |
//! | 73 | kazoo | names used again | `errors` |
//! | 74 | kezhuw | an outage answered with a storm | `requests`, `session/src/machine/link/endpoints.rs::a_server_that_accepts_and_closes_is_asked_less_than_twenty_times_in_nine_seconds` |
//!
//! Not here: the promises themselves, for every kind of lock (`contract`).

#[path = "../support/counting.rs"]
mod counting;
mod elections;
mod errors;
mod former_sessions;
mod numbers;
mod orphans;
mod orphans_of_tries;
mod requests;
mod rig;
#[path = "../support/mod.rs"]
mod support;
mod two_holders;
mod waiting;
mod wakeups;

use std::{fs, path::Path};

/// The rows of the table, each with the tests that it names.
fn table() -> Vec<(usize, Vec<&'static str>)> {
    let lines = include_str!("main.rs").lines();
    let rows = lines.filter_map(|line| {
        let mut cells = line.strip_prefix("//! | ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        let tests = cells.nth(2)?;
        Some((number, tests.split('`').skip(1).step_by(2).collect()))
    });
    rows.collect()
}

/// The rows that a test named `row_12_and_34_..` covers.
fn rows_of(test: &str) -> impl Iterator<Item = usize> {
    let parts = test.strip_prefix("row_").unwrap_or_default().split('_');
    parts
        .map_while(|part| match part {
            "and" => Some(None),
            number => number.parse().ok().map(Some),
        })
        .flatten()
}

fn tests_in(source: &str) -> Vec<&str> {
    source
        .lines()
        .filter_map(|line| line.trim_start().split_once("fn "))
        .filter(|(before, _)| matches!(*before, "" | "async " | "pub(crate) async "))
        .filter_map(|(_, rest)| rest.split(['(', '<']).next())
        .collect()
}

#[test]
fn every_row_is_covered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = table();
    let rows: Vec<_> = table.iter().map(|(row, _)| *row).collect();
    assert!(rows.iter().copied().eq(1..=74), "{rows:?}");
    let mut written_down = 0;
    for (row, tests) in &table {
        assert!(!tests.is_empty(), "row {row} is not covered");
        for test in tests {
            let (file, name) = match test.split_once("::") {
                Some((file, name)) => (file.to_owned(), Some(name)),
                None => (format!("known_bugs/{test}.rs"), None),
            };
            // Files of this package are named from its tests on, those of others from the root.
            let path = [root.join("tests").join(&file), root.join(&file)];
            let path = path.iter().find(|path| path.exists());
            let path = path.unwrap_or_else(|| panic!("row {row}: no file {file}"));
            let source = fs::read_to_string(path).unwrap();
            let tests = tests_in(&source);
            let found = tests.iter().filter(|test| match name {
                Some(name) => **test == name,
                None => rows_of(test).any(|covered| covered == *row),
            });
            let found = found.count();
            assert!(found > 0, "row {row}: no such test in {file}");
            written_down += found * usize::from(name.is_none());
        }
    }
    // And the other way round: no test of a row stands here that the table does not know of.
    let here = root.join("tests/known_bugs");
    let files = fs::read_dir(here).unwrap().map(|file| file.unwrap().path());
    let sources = files.map(|file| fs::read_to_string(file).unwrap());
    let all: usize = sources
        .map(|source| {
            let tests = tests_in(&source);
            tests
                .iter()
                .map(|test| rows_of(test).count())
                .sum::<usize>()
        })
        .sum();
    assert_eq!(
        all, written_down,
        "a test of a row that the table does not name"
    );
}
