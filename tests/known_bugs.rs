//! The known bugs of other implementations, and the tests that show their absence here.
//!
//! The last column names a file from `tests/`, or from the root of the repository, and a test in it.
//! Many of these tests make the same fault at any request of any kind of lock. The test
//! `every_row_is_covered` looks whether each of them exists.
//!
//! | row | where | the bug | tests that show its absence, and remarks |
//! |---|---|---|---|
//! | 1 | CURATOR-604 | the new session took the dying node of its expired session for its own | `recipes/src/node/requests.rs::a_node_with_our_name_in_another_session_is_not_ours`, `contract/waits.rs::an_outage_of_sixty_timeouts_does_not_end_a_wait` |
//! | 2 | CURATOR-620, -696 | the same for a leader latch | `recipes/src/node/requests.rs::a_node_with_our_name_in_another_session_is_not_ours`, `recipes/tests/locks/elections.rs::a_latch_stands_again_after_a_refusal_and_after_each_loss` |
//! | 3 | CURATOR-498 | a node of a closing session was adopted after a lost reply | `recipes/src/node/requests.rs::a_node_with_our_name_in_another_session_is_not_ours`, `recipes/src/node/late.rs::a_create_that_a_look_has_not_found_is_deleted_when_it_comes` |
//! | 4 | CURATOR-652, -653 | the resets and reconnects of two contenders overlapped | `recipes/tests/locks/elections.rs::only_a_candidate_that_lost_its_node_creates_a_new_one` |
//! | 5 | CURATOR-206, kazoo #2, libkv PR 156 | a holder was not told that its session had expired | `contract/loss.rs::the_holder_is_told_before_another_contender_holds_it`, `recipes/tests/locks/holds.rs::a_short_outage_suspends_the_holder_and_loses_nothing` |
//! | 6 | CURATOR-621, -276 | a queued writer overtook a writer that had become a reader | `recipes/tests/locks/crowd.rs::a_writer_that_becomes_a_reader_is_still_ahead`, `recipes/src/order/rank.rs::a_writer_that_became_a_reader_keeps_its_place` |
//! | 7 | Curator | a re-entry succeeded after the lock was lost | `recipes/tests/locks/kinds.rs::a_lost_lock_is_not_taken_again_by_its_owner` |
//! | 8 | go-zk | a waiter whose own node was deleted was granted the lock | `contract/loss.rs::a_waiter_whose_node_is_deleted_is_told`, `recipes/src/queue/waiter.rs::a_changed_node_is_watched_again_before_the_queue_is_listed` |
//! | 9 | Curator and kazoo | contenders of two implementations ignored each other's nodes | `contract/mutex.rs::a_contender_waits_for_nodes_of_other_implementations`; we cannot change that kazoo ignores our nodes by default; this is documented |
//! | 10 | Curator | two contenders had the same number | `recipes/src/order/rank.rs::exhausted_numbers_are_refused_and_never_ordered` |
//! | 11 | kazoo #606, #730 | negative numbers were compared as text | `recipes/src/order/rank.rs::exhausted_numbers_are_refused_and_never_ordered`, `recipes/tests/locks/holds.rs::contenders_without_a_number_are_refused_and_leave_nothing` |
//! | 12 | go-zk PR 65, ZOOKEEPER-4372 | a minus sign was taken for a separator | `recipes/tests/locks/holds.rs::contenders_without_a_number_are_refused_and_leave_nothing`, `recipes/src/order/name.rs::names_of_every_implementation_are_read` |
//! | 13 | kazoo #213 | tries took permits without the semaphore's mutex | `contract/stress.rs::nothing_is_left_after_many_random_acquisitions` |
//! | 14 | kezhuw | each clone of a guard released the lock | `contract/types.rs::types_that_release_on_drop_cannot_be_cloned` |
//! | 15 | ZooKeeper's `WriteLock` | two contenders of one session adopted one node | `contract/exclusion.rs::tasks_of_one_session_take_turns` |
//! | 16 | etcd #11456, #10811 | a waiter was granted the lock after its lease had run out | `model/tests/contract/turns.rs::a_waiter_takes_its_turn_only_by_what_it_was_told_and_never_waits_without_a_watch`, `model/tests/contract/permits.rs::permits_are_granted_only_behind_a_listing_with_room_at_a_later_limit`, `contract/grants.rs::a_new_holder_has_a_quarter_of_its_lease`, `recipes/tests/locks/losses.rs::a_multi_lock_is_not_granted_without_its_first_lock` |
//! | 17 | etcd #11457 | a paused holder wrote while another held the lock | `contract/mutex.rs::every_method_of_a_guard_reports_that_its_node_was_deleted`, `contract/plain.rs::a_guard_of_an_expired_session_deletes_nothing` |
//! | 18 | Curator GH-1290 | any wake-up was taken for a grant | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`; barriers are not offered |
//! | 19 | Curator, kazoo, kezhuw, go-zk | a node was looked for without a barrier after a lost reply, and a second one was created | `recipes/tests/locks/lagging.rs::a_create_with_a_lost_reply_is_found_on_a_lagging_server`, `recipes/src/node/requests.rs::a_barrier_that_was_refused_is_repeated` |
//! | 20 | CURATOR-45 | a create was given up although the server had applied it | `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 21 | CURATOR-79, -62 | an interrupt during the create left the node | `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 22 | CURATOR-205, -468 | an interrupt during the clean-up left the node | `recipes/tests/locks/releases.rs::a_release_is_confirmed_when_the_repeated_delete_finds_the_node` |
//! | 23 | vitess PR 15757 | the clean-up ran under a deadline that had passed | `contract/giving_up.rs::a_timeout_leaves_nothing`, `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 24 | CURATOR-678 | a release that lost its connection left the node | `recipes/tests/locks/releases.rs::a_release_is_confirmed_when_the_repeated_delete_finds_the_node`, `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time` |
//! | 25 | CURATOR-315, -335, -462 | an attempt created a permit, failed, and did not return it | `contract/outage.rs::an_attempt_refused_at_any_request_leaves_nothing`, `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 26 | CURATOR-48, -190, -489 | names grew with each retry, or were the same for all clients | `recipes/src/node/late.rs::a_create_that_a_look_has_not_found_is_deleted_when_it_comes`, `recipes/src/order/name.rs::a_protected_name_has_the_format_of_curator_and_is_unique` |
//! | 27 | CURATOR-3 | a node was created after the close | `recipes/src/node/life.rs::an_attempt_of_a_closed_client_ends`, `contract/loss.rs::a_closed_client_ends_holds_and_waits` |
//! | 28 | kazoo #732 | a refused try lost its connection in the clean-up and left its node | `recipes/tests/locks/lagging.rs::a_try_whose_clean_up_is_cut_off_leaves_nothing` |
//! | 29 | kazoo #429 | the same at a semaphore | `recipes/tests/locks/lagging.rs::a_try_whose_clean_up_is_cut_off_leaves_nothing` |
//! | 30 | go-zookeeper #229 | the listing after the create failed and the node was forgotten | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`, `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 31 | go-zk | a foreign node with another kind of name made every attempt fail | `contract/directory.rs::foreign_nodes_in_the_directory_are_ignored` |
//! | 32 | kezhuw | the clean-up deleted a wrong path | `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing`, `contract/giving_up.rs::an_attempt_dropped_at_any_poll_leaves_nothing` |
//! | 33 | kezhuw | a name was compared with a whole path, so a node was not found | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`, `contract/outage.rs::an_attempt_dropped_at_any_request_leaves_nothing` |
//! | 34 | zookeeper-async | a drop did nothing, or panicked | `contract/giving_up.rs::a_guard_dropped_outside_a_runtime_releases`, `contract/giving_up.rs::an_attempt_dropped_at_any_poll_leaves_nothing` |
//! | 35 | zk-ruby #49, #54, aiozk PR 34 | a timeout left the node; a lost connection led to a second node | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`, `contract/giving_up.rs::a_timeout_leaves_nothing` |
//! | 36 | `DistributedLock` #156, nakadi PR 1257 | nodes piled up over short outages | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`, `contract/stress.rs::nothing_is_left_after_many_random_acquisitions` |
//! | 37 | spring-integration PR 2557 | a refused try wrote | `wire_counts/costs.rs::the_table_of_costs_equals_the_measurements_and_no_operation_exceeds_its_target` |
//! | 38 | CURATOR-716 | one release woke all waiters | `recipes/tests/locks/crowd.rs::a_crowd_lists_the_queue_rarely` |
//! | 39 | Curator | all readers listed again at each release | `wire_counts/costs.rs::the_table_of_costs_equals_the_measurements_and_no_operation_exceeds_its_target` |
//! | 40 | kazoo #649 | readers waited for writers behind them | `recipes/src/order/rank.rs::readers_wait_for_the_last_writer_before_them_and_writers_for_everybody` |
//! | 41 | kazoo 7dd4c4c | a contender ahead gave up, and this was taken for a grant | `contract/giving_up.rs::a_waiter_that_gives_up_is_skipped`, `recipes/tests/locks/crowd.rs::who_gives_up_does_not_let_the_next_one_pass` |
//! | 42 | go-zk #145 | the number 0 was skipped | `contract/exclusion.rs::first_come_first_served`: its first contender has this number |
//! | 43 | ZooKeeper's `WriteLock` | a watch was left after the predecessor had gone | `operations/one_shot.rs::known_nodes_are_watched_with_one_request` |
//! | 44 | Curator's first semaphore | a waiter watched only one of several holders | `contract/exclusion.rs::it_never_has_more_holders_than_allowed` |
//! | 45 | CURATOR-75 | a raised limit woke nobody | `recipes/tests/locks/losses.rs::asking_for_more_than_a_shared_limit_is_an_error_and_blocks_nobody` |
//! | 46 | CURATOR-495 | a callback blocked the session | `recipes/tests/locks/crowd.rs::a_waiter_that_is_not_polled_blocks_nobody_and_misses_no_event`; no user code runs in the session's task: watchers are futures |
//! | 47 | CURATOR-527 | an event came before the waiter slept | `recipes/tests/locks/crowd.rs::a_waiter_that_is_not_polled_blocks_nobody_and_misses_no_event` |
//! | 48 | CURATOR-644, -645, -504 | candidates replaced their nodes again and again | `recipes/tests/locks/elections.rs::only_a_candidate_that_lost_its_node_creates_a_new_one` |
//! | 49 | CURATOR-724 | the directory was deleted in an outage and not created again | `recipes/tests/locks/elections.rs::a_latch_stands_again_after_a_refusal_and_after_each_loss` |
//! | 50 | Curator | a refused candidate never tried again | `recipes/tests/locks/elections.rs::a_latch_stands_again_after_a_refusal_and_after_each_loss` |
//! | 51 | CURATOR-16, -73, -104, -518, -671 | an expiry ended the candidacy | `recipes/tests/locks/elections.rs::a_latch_stands_again_after_a_refusal_and_after_each_loss` |
//! | 52 | CURATOR-43 | all contenders waited for a foreign node that sorts first | `contract/directory.rs::foreign_nodes_in_the_directory_are_ignored` |
//! | 53 | kazoo #282 | a waiter hung after a short outage | `contract/outage.rs::a_connection_lost_at_any_request_only_costs_time`, `recipes/tests/locks/crowd.rs::a_crowd_lists_the_queue_rarely_also_after_its_connection_was_cut` |
//! | 54 | kazoo #482, #83 | an acquire hung on a closed client | `contract/loss.rs::a_closed_client_ends_holds_and_waits` |
//! | 55 | twitter/commons #20 | a waiter never learned of the expiry | `contract/waits.rs::an_outage_of_sixty_timeouts_does_not_end_a_wait` |
//! | 56 | kezhuw #82 | deletes in a transaction woke nobody | `contract/mutex.rs::release_with_writes_releases_and_wakes_the_next_in_one_transaction` |
//! | 57 | zookeeper-async | a binary search ran on a list in another order | `contract/exclusion.rs::it_never_has_more_holders_than_allowed`, `fuzz/checks/tests/arbitrary.rs::listings_of_contenders_break_no_promise` |
//! | 58 | Netflix/curator #75 | an owner waited for itself | `recipes/tests/locks/kinds.rs::many_tasks_of_one_owner_share_its_hold`, `recipes/tests/locks/kinds.rs::a_multi_lock_takes_all_or_none_and_in_one_order` |
//! | 59 | ZooKeeper's `SetWatches` | after an outage, the event of the node ahead came before that of the waiter's own | `session/src/machine/tests/restore.rs::events_are_kept_back_until_all_watches_are_restored`, `recipes/tests/locks/crowd.rs::a_waiter_without_its_node_is_not_granted_the_lock` |
//! | 60 | CURATOR-211, -307 | a contender missing from the listing took itself for the last one | `contract/waits.rs::an_outage_of_sixty_timeouts_does_not_end_a_wait` |
//! | 61 | CURATOR-107 | watches piled up, one for each turn | `contract/stress.rs::nothing_is_left_after_many_random_acquisitions` |
//! | 62 | Curator | watches piled up, one for each timeout | `contract/giving_up.rs::an_attempt_dropped_at_any_poll_leaves_nothing`, `contract/stress.rs::nothing_is_left_after_many_random_acquisitions` |
//! | 63 | CURATOR-180, kazoo #563 | the directory was reaped between two requests | `recipes/src/node/life.rs::a_directory_that_vanishes_is_made_again_and_not_for_ever`, `contract/directory.rs::its_directory_may_be_deleted_between_two_uses` |
//! | 64 | Curator's multi-lock | after a failure the other locks were still tried, each with the whole timeout | `recipes/tests/locks/kinds.rs::a_lock_that_fails_stops_the_rest_of_a_multi_lock` |
//! | 65 | kazoo | the timeout restarted at each wake-up | `recipes/src/queue/timeout.rs::wake_ups_do_not_prolong_a_wait` |
//! | 66 | kazoo | a cancel hit the next acquire | `contract/giving_up.rs::an_attempt_dropped_at_any_poll_leaves_nothing`; there is no flag: a caller cancels by dropping the future |
//! | 67 | CURATOR-337, -358 | a contender left while another client looked | `recipes/tests/locks/inspect.rs::a_contender_that_leaves_meanwhile_is_left_out` |
//! | 68 | CURATOR-376 | a release hit the next hold of the same handle | `contract/types.rs::a_release_consumes_the_guard`; a release consumes its guard, so it cannot hit another hold |
//! | 69 | CURATOR-559 | retries inside retries multiplied | `recipes/tests/locks/lost_creates.rs::each_lost_create_is_repeated_once` |
//! | 70 | CURATOR-688 | version numbers overflowed | `recipes/tests/locks/data.rs::a_holder_reads_and_updates_the_data_of_its_node` |
//! | 71 | Curator | the second hold could not be revoked | `recipes/tests/locks/hand_over.rs::who_took_a_lock_over_hears_of_requests_to_release_it` |
//! | 72 | kazoo | request numbers (xids) were used twice in a session | `session/src/machine/tests/options.rs::xids_start_again_before_they_become_those_of_pings_and_events` |
//! | 73 | kazoo | node names were used twice | `contract/directory.rs::its_directory_may_be_deleted_between_two_uses` |
//! | 74 | kezhuw | an outage caused a storm of requests | `session/src/machine/link/servers.rs::a_server_that_accepts_and_closes_is_tried_less_than_twenty_times_in_nine_seconds` |
//!
//! Not here: the tests.

use std::{fs, path::Path};

/// The rows of the table, each with the files and tests in its last column.
fn table() -> Vec<(usize, Vec<&'static str>)> {
    let lines = include_str!("known_bugs.rs").lines();
    let rows = lines.filter_map(|line| {
        let mut cells = line.strip_prefix("//! | ")?.split(" | ");
        let number = cells.next()?.parse().ok()?;
        let tests = cells.nth(2)?;
        Some((number, tests.split('`').skip(1).step_by(2).collect()))
    });
    rows.collect()
}

#[test]
fn every_row_is_covered() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let table = table();
    let rows = table.iter().map(|(row, _)| *row);
    assert!(rows.eq(1..=74), "rows are missing");
    for (row, tests) in table {
        assert!(!tests.is_empty(), "row {row} is not covered");
        for test in tests {
            let (file, name) = test.split_once("::").expect("a file and a test");
            let [inside, outside] = [root.join("tests").join(file), root.join(file)];
            let source = fs::read_to_string(inside).or_else(|_| fs::read_to_string(outside));
            let source = source.unwrap_or_else(|_| panic!("row {row}: no file {file}"));
            let begins = ["(", "<"].map(|end| format!("fn {name}{end}"));
            let is_there = begins.iter().any(|begin| source.contains(begin));
            assert!(is_there, "row {row}: no test {name} in {file}");
        }
    }
}
