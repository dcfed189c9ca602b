//! What every kind of lock promises, on the embedded server and on a real ZooKeeper.
//!
//! A rule is a generic function over [`Kind`](kinds::Kind), which adapts the kinds of lock to one shape. Each rule is run
//! for each kind that it concerns: `mutex::first_come_first_served::embedded`, and `::real`.
//!
//! | file | rules about |
//! |---|---|
//! | `exclusion` | who holds it at the same time, and in which order they get it |
//! | `giving_up` | timeouts, futures dropped at any await, tries |
//! | `loss` | what a holder and a waiter are told, and when |
//! | `directory` | what happens around the lock in its directory |
//! | `outage` | a fault at any request of a whole life; on the embedded server alone |
//! | `mutex` | what guards can do besides: no rules, but tests of the mutex, on both arms |
//! | `plain` | the same of the plain lock, whose node has everybody's name |
//! | `leases` | the same of the semaphore, while its limit and its sessions change |
//! | `types` | what the compiler promises |
//! | `stress` | all of it at once, at random |
//!
//! Not here: the bugs of other implementations, one by one (`known_bugs`), and what one kind alone promises: sharing,
//! counting, re-entry (`recipes/tests/kinds.rs`).

mod directory;
mod exclusion;
mod giving_up;
mod kinds;
mod leases;
mod loss;
mod mutex;
mod outage;
mod plain;
mod rig;
mod stress;
#[path = "../support/mod.rs"]
mod support;
mod types;

use kinds::{Both, Latching, Leading, Leasing, Reading, Reentering, Writing};
use lockkeeper::{Mutex, PlainMutex};

/// Makes two tests of each rule for one kind, on a runtime of several threads where it says so.
macro_rules! both_arms {
    ($kind:ty, $file:ident: $($rule:ident)*) => {
        both_arms!($kind, $file (flavor = "current_thread"): $($rule)*);
    };
    ($kind:ty, $file:ident $runtime:tt: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;
            use crate::support::{Arm, run};

            #[tokio::test $runtime]
            async fn embedded() {
                run(Arm::Embedded, $file::$rule::<$kind>).await;
            }

            #[tokio::test $runtime]
            #[ignore = "needs a real ZooKeeper: tests/run.sh"]
            async fn real() {
                run(Arm::Real, $file::$rule::<$kind>).await;
            }
        }
    )*};
}

/// Makes a test of each rule for one kind, on the embedded server, whose faults it takes.
macro_rules! embedded {
    ($kind:ty, $file:ident: $($rule:ident)*) => {$(
        mod $rule {
            use super::*;
            use crate::support::{Arm, run};

            #[tokio::test]
            async fn embedded() {
                run(Arm::Embedded, $file::$rule::<$kind>).await;
            }
        }
    )*};
}

/// What concerns every kind.
macro_rules! contract {
    ($kind:ty) => {
        both_arms!($kind, exclusion (flavor = "multi_thread", worker_threads = 2):
            never_more_than_so_many_hold_it tasks_of_one_session_take_turns);
        both_arms!($kind, exclusion: as_many_hold_it_as_may);
        both_arms!($kind, giving_up:
            a_timeout_leaves_nothing dropped_at_any_poll_it_leaves_nothing a_waiter_that_gives_up_is_skipped
            dropped_outside_a_runtime_it_is_free it_can_be_taken_again_at_once);
        both_arms!($kind, loss: a_closed_client_ends_holds_and_waits);
        both_arms!($kind, directory:
            its_directory_may_go_between_two_uses strangers_in_the_directory_are_nobody);
        embedded!($kind, loss: told_before_anybody_else_holds_it);
        embedded!($kind, outage:
            a_connection_lost_at_any_request_costs_nothing dropped_at_any_request_it_leaves_nothing);
    };
}

/// What concerns the kinds in which one comes after the other: all but readers and the plain lock.
macro_rules! in_order {
    ($kind:ty) => {
        both_arms!($kind, exclusion: first_come_first_served);
    };
}

/// What concerns the kinds in which one comes after the other, or beside it, by nodes of their own: all but the plain lock
/// and the latch, which stands again.
macro_rules! waits_by_node {
    ($kind:ty) => {
        both_arms!($kind, loss: a_waiter_whose_node_is_deleted_is_told);
    };
}

/// What concerns the kinds that tell their errors: all but the latch.
macro_rules! tells {
    ($kind:ty) => {
        both_arms!($kind, loss:
            a_holder_whose_node_is_deleted_is_told a_release_of_what_is_lost_is_an_error);
        embedded!($kind, outage: refused_at_any_request_it_leaves_nothing);
    };
}

/// What concerns the kinds that can be tried.
macro_rules! tries {
    ($kind:ty) => {
        both_arms!($kind, giving_up: a_try_takes_what_is_free_and_refuses_what_is_held);
    };
}

mod of_a_mutex {
    use super::*;
    contract!(Mutex);
    in_order!(Mutex);
    tells!(Mutex);
    waits_by_node!(Mutex);
    tries!(Mutex);
}

mod of_a_plain_lock {
    use super::*;
    contract!(PlainMutex);
    tells!(PlainMutex);
    tries!(PlainMutex);
}

mod of_a_writer {
    use super::*;
    contract!(Writing);
    in_order!(Writing);
    tells!(Writing);
    waits_by_node!(Writing);
    tries!(Writing);
}

mod of_readers {
    use super::*;
    contract!(Reading);
    tells!(Reading);
    waits_by_node!(Reading);
    tries!(Reading);
}

mod of_one_lease {
    use super::*;
    contract!(Leasing<1>);
    in_order!(Leasing<1>);
    tells!(Leasing<1>);
    waits_by_node!(Leasing<1>);
    tries!(Leasing<1>);
}

mod of_three_leases {
    use super::*;
    contract!(Leasing<3>);
    in_order!(Leasing<3>);
    tells!(Leasing<3>);
    waits_by_node!(Leasing<3>);
    tries!(Leasing<3>);
}

mod of_a_reentrant_mutex {
    use super::*;
    contract!(Reentering);
    in_order!(Reentering);
    tells!(Reentering);
    waits_by_node!(Reentering);
    tries!(Reentering);
}

mod of_two_locks_at_once {
    use super::*;
    contract!(Both);
    in_order!(Both);
    tells!(Both);
    waits_by_node!(Both);
    tries!(Both);
}

mod of_a_leader {
    use super::*;
    contract!(Leading);
    in_order!(Leading);
    tells!(Leading);
    waits_by_node!(Leading);
}

mod of_a_latch {
    use super::*;
    contract!(Latching);
    in_order!(Latching);
}
