//! Foreign clients on the embedded server and on a cluster of three: Apache's client in Java, and
//! kazoo in Python.
//!
//! Each test runs one section of a program in tests/foreign. All checks of these programs pass on a
//! real `ZooKeeper`, so a failure here shows that the embedded server differs. Not here: Curator,
//! which runs on both kinds of server (`interop`).

use lockkeeper_test_support as support;
use support::{Arm, programs};
use tokio::process::Command;

/// Runs one section on each arm. It must succeed, and leave no node and no session.
async fn section(program: impl Fn() -> Command, name: &str) {
    for arm in [Arm::Embedded, Arm::Cluster] {
        let ensemble = arm.start().await;
        let server = ensemble.server().expect("an embedded server");
        let before = server.paths();
        let mut program = program();
        program.args([&ensemble.servers(), name]);
        assert_eq!(programs::output(program).await, format!("ok {name}\n"));
        assert_eq!(server.paths(), before);
        server.assert_no_leaks();
    }
}

macro_rules! sections {
    ($program:expr, $needs:literal: $($test:ident = $section:literal;)*) => {$(
        #[tokio::test]
        #[ignore = $needs]
        async fn $test() {
            super::section(|| $program, $section).await;
        }
    )*};
}

mod needs_java {
    use super::programs;

    sections! {
        programs::java("JavaClient"), "needs Java and ZooKeeper's client: tests/run.sh":
        nodes_and_sessions_are_as_apaches_client_expects = "basic";
        one_shot_watches_are_as_apaches_client_expects = "watches";
        persistent_watches_are_as_apaches_client_expects = "persistent";
        transactions_are_as_apaches_client_expects = "multi";
        permissions_are_as_apaches_client_expects = "acl";
        locks_can_be_built_with_apaches_client = "lock";
        apaches_client_survives_a_cut_connection = "reconnect";
        containers_and_expired_nodes_are_deleted_as_apaches_client_expects = "reaping";
    }
}

mod needs_kazoo {
    use super::programs;

    sections! {
        programs::python("kazoo_recipes.py"), "needs Python and kazoo: tests/run.sh":
        paths_and_roots_are_as_kazoo_expects = "paths";
        requests_at_once_are_as_kazoo_expects = "asynchronous";
        kazoos_retries_succeed = "retry";
        kazoo_survives_a_lost_connection = "suspended";
        kazoo_survives_an_expired_session = "expired";
        kazoos_counter_counts = "counter";
        kazoos_queues_are_in_order = "queues";
        kazoos_parties_know_their_members = "parties";
        kazoos_barriers_hold = "barriers";
        kazoos_elections_elect = "elections";
        kazoos_leases_exclude_other_clients = "leases";
        kazoos_readers_and_writers_take_turns = "read_write";
        kazoos_caches_follow_changes = "caches";
        kazoos_partitions_are_divided_among_members = "partitions";
    }

    sections! {
        programs::python("kazoo_client.py"), "needs Python and kazoo: tests/run.sh":
        nodes_and_sessions_are_as_kazoo_expects = "basic";
        watches_are_as_kazoo_expects = "watches";
        transactions_are_as_kazoo_expects = "multi";
        permissions_are_as_kazoo_expects = "acl";
        kazoos_lock_locks = "lock";
    }
}
