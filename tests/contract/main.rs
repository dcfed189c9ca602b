//! The promises of every kind of lock, tested on the embedded server, on an embedded cluster, and
//! on a real ZooKeeper.
//!
//! A rule is a function that gets a [`Kind`](kinds::Kind), which gives all kinds of lock the same
//! interface. No rule is generic: each one is compiled once and not for each kind. It runs for each
//! kind that it applies to, as three tests: for example
//! `of_a_mutex::first_come_first_served::embedded`, `::cluster` and `::real`.
//!
//! | file | rules about |
//! |---|---|
//! | `exclusion` | how many hold the lock at the same time, and in which order contenders get it |
//! | `grants` | how much of its lease a new holder has; on the embedded server alone |
//! | `long_waits` | waits that no event ends; on the embedded server alone |
//! | `giving_up` | timeouts, tries, and futures that are dropped at any await |
//! | `loss` | what holders and waiters learn of a loss, and when |
//! | `partition` | what holders learn when servers are cut off from each other; on the embedded cluster alone |
//! | `directory` | foreign nodes in the lock's directory, and a directory that is deleted |
//! | `rights` | access control lists of nodes and directories |
//! | `waits` | outages that outlast the session of a waiter; on the embedded server alone |
//! | `outage` | a fault at any request of an acquisition and release; on the embedded server alone |
//! | `mutex` | further methods of tickets and guards: not rules, but tests of the mutex, on both arms |
//! | `plain` | the same for the plain lock, where all contenders use one node name |
//! | `permits` | the same for the semaphore, while its limit changes and in outages |
//! | `types` | what the compiler guarantees |
//! | `stress` | all kinds at the same time, at random |
//!
//! All of them use `kinds`, the common interface, and `rig`, which looks at the lock from outside.
//!
//! Not here: the bugs of other implementations (`known_bugs.rs`), and what only one kind promises:
//! sharing, counting, re-entry (`recipes/tests/locks/kinds.rs`). Nor the futures on threads without a runtime
//! (`recipes/tests/locks/blocking.rs`): they are the same futures.

mod directory;
mod exclusion;
mod giving_up;
mod grants;
mod kinds;
mod long_waits;
mod loss;
mod mutex;
mod outage;
mod partition;
mod permits;
mod plain;
mod rig;
mod rights;
mod stress;
mod types;
mod waits;

use kinds::Kind;
use lockkeeper_test_support as support;
use support::{Arm, Ensemble, run};

/// Runs a rule for one kind on an arm.
async fn check(arm: Arm, kind: Kind, rule: impl AsyncFnOnce(Kind, &Ensemble)) {
    run(arm, async |ensemble: &Ensemble| rule(kind, ensemble).await).await;
}

/// Makes three tests of each rule for one kind. The optional `(..)` holds the arguments of
/// `tokio::test`.
macro_rules! all_arms {
    ($kind:expr, $file:ident: $($rule:ident)*) => {
        all_arms!($kind, $file (flavor = "current_thread"): $($rule)*);
    };
    ($kind:expr, $file:ident $runtime:tt: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;

            #[tokio::test $runtime]
            async fn embedded() {
                check(Arm::Embedded, $kind, $file::$rule).await;
            }

            #[tokio::test $runtime]
            async fn cluster() {
                check(Arm::Cluster, $kind, $file::$rule).await;
            }

            #[tokio::test $runtime]
            #[ignore = "needs a real ZooKeeper: tests/run.sh"]
            async fn real() {
                check(Arm::Real, $kind, $file::$rule).await;
            }
        }
    )*};
}

/// Makes two tests of each rule for one kind, on embedded servers, because the rule needs their
/// faults.
macro_rules! embedded {
    ($kind:expr, $file:ident: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;

            #[tokio::test]
            async fn embedded() {
                check(Arm::Embedded, $kind, $file::$rule).await;
            }

            #[tokio::test]
            async fn cluster() {
                check(Arm::Cluster, $kind, $file::$rule).await;
            }
        }
    )*};
}

/// Makes one test of each rule for one kind. The rule starts clusters of its own.
macro_rules! cluster {
    ($kind:expr, $file:ident: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;

            #[tokio::test]
            async fn cluster() {
                $file::$rule($kind).await;
            }
        }
    )*};
}

/// Makes one test of each rule for one kind, on paused time. The rule starts a server of its own.
macro_rules! paused {
    ($kind:expr, $file:ident: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;

            #[tokio::test(start_paused = true)]
            async fn embedded() {
                $file::$rule($kind).await;
            }
        }
    )*};
}

/// The rules for every kind.
macro_rules! contract {
    ($kind:expr) => {
        all_arms!($kind, exclusion (flavor = "multi_thread", worker_threads = 2):
            it_never_has_more_holders_than_allowed tasks_of_one_session_take_turns);
        all_arms!($kind, exclusion: it_can_have_as_many_holders_as_allowed);
        all_arms!($kind, giving_up:
            a_timeout_leaves_nothing an_attempt_dropped_at_any_poll_leaves_nothing a_waiter_that_gives_up_is_skipped
            a_guard_dropped_outside_a_runtime_releases a_dropped_lock_can_be_taken_again_at_once);
        all_arms!($kind, loss: a_closed_client_ends_holds_and_waits);
        all_arms!($kind, directory:
            its_directory_may_be_deleted_between_two_uses foreign_nodes_in_the_directory_are_ignored);
        all_arms!($kind, long_waits: a_contender_behind_a_node_that_it_may_not_read_is_granted_the_lock);
        all_arms!($kind, rights: what_it_makes_is_closed_to_strangers);
        embedded!($kind, loss: the_holder_is_told_before_another_contender_holds_it);
        paused!($kind, grants: a_new_holder_has_a_quarter_of_its_lease);
        paused!($kind, long_waits:
            a_lost_event_costs_a_waiter_two_session_timeouts
            a_node_that_may_not_be_read_costs_two_session_timeouts
            a_waiter_leaves_a_server_that_shows_what_its_leader_does_not_have);
        paused!($kind, waits: an_outage_of_sixty_timeouts_does_not_end_a_wait);
        cluster!($kind, partition: a_holder_that_is_cut_off_is_told_before_another_contender_holds_it);
        embedded!($kind, outage:
            a_connection_lost_at_any_request_only_costs_time an_attempt_dropped_at_any_request_leaves_nothing);
    };
}

/// The rules for the kinds that grant the lock in order: all but readers and the plain lock.
macro_rules! in_order {
    ($kind:expr) => {
        all_arms!($kind, exclusion: first_come_first_served);
    };
}

/// The rules for the kinds whose waiters have nodes, and get an error when their node is deleted.
///
/// These are all kinds but two: a waiter for the plain lock has no node, and a latch creates a new
/// one.
macro_rules! waits_by_node {
    ($kind:expr) => {
        all_arms!($kind, loss: a_waiter_whose_node_is_deleted_is_told);
    };
}

/// The rules for the kinds that return errors: all but the latch.
macro_rules! tells {
    ($kind:expr) => {
        all_arms!($kind, loss:
            a_holder_whose_node_is_deleted_is_told releasing_a_lost_lock_is_an_error
            a_view_of_a_hold_sees_its_loss a_view_of_a_hold_ends_with_its_release);
        all_arms!($kind, rights: who_may_not_enter_is_told_so);
        embedded!($kind, outage: an_attempt_refused_at_any_request_leaves_nothing);
    };
}

/// The rules for the kinds that have a try, and a timeout of their own: all but the elections.
macro_rules! tries {
    ($kind:expr) => {
        all_arms!($kind, giving_up: a_try_takes_a_free_lock_and_refuses_a_held_one);
        paused!($kind, waits: a_timeout_in_an_outage_names_its_cause);
    };
}

/// Makes a module for each kind, with the tests of these groups of rules.
macro_rules! kinds {
    ($($module:ident: $kind:expr, $($rules:ident)*;)*) => {$(
        mod $module {
            use super::*;
            $($rules!($kind);)*
        }
    )*};
}

kinds! {
    of_a_mutex: Kind::Mutex, contract in_order tells waits_by_node tries;
    of_a_plain_lock: Kind::Plain, contract tells tries;
    of_a_writer: Kind::Writer, contract in_order tells waits_by_node tries;
    of_readers: Kind::Reader, contract tells waits_by_node tries;
    of_one_permit: Kind::Permits(1), contract in_order tells waits_by_node tries;
    of_three_permits: Kind::Permits(3), contract in_order tells waits_by_node tries;
    of_a_reentrant_mutex: Kind::Reentrant, contract in_order tells waits_by_node tries;
    of_two_locks_at_once: Kind::Both, contract in_order tells waits_by_node tries;
    of_a_leader: Kind::Leader, contract in_order tells waits_by_node;
    of_a_latch: Kind::Latch, contract in_order;
}
