//! An outside checker of linearizability judges the tokens, and the writes under a lock.
//!
//! Not here: the checker of this crate, which knows more (`seeds`).

use std::collections::BTreeMap;

use lockkeeper_sim::{
    operations::{Kind, Operation, operations},
    plan::{AIMED, Plan},
    run,
};
use todc_utils::{Action, History, Specification, WGLChecker};

/// A lock, as `operations` says.
struct Lock;

impl Specification for Lock {
    type State = u64;
    type Operation = (Kind, u64);

    fn init() -> u64 {
        0
    }

    fn apply((kind, token): &(Kind, u64), last: &u64) -> (bool, u64) {
        let is_possible = match kind {
            Kind::Grant => token > last,
            Kind::Write => token == last,
        };
        (is_possible, if is_possible { *token } else { *last })
    }
}

/// Whether these operations on one lock are linearizable.
fn is_linearizable(operations: &[Operation]) -> bool {
    let mut actions = Vec::new();
    for (process, operation) in operations.iter().enumerate() {
        let call = (operation.kind, operation.token);
        actions.push((operation.begin, (process, Action::Call(call))));
        let end = operation.end.unwrap_or(usize::MAX);
        actions.push((end, (process, Action::Response(call))));
    }
    actions.sort_by_key(|(index, _)| *index);
    let actions = actions.into_iter().map(|(_, action)| action);
    WGLChecker::<Lock>::is_linearizable(History::from_actions(actions.collect()))
}

#[test]
fn tokens_and_writes_under_a_lock_are_linearizable() {
    let mut checked = 0;
    // Many of the aimed plans write under a lock whose node is deleted.
    for seed in (0..80).map(|number| number * AIMED / 2) {
        let outcome = run(&Plan::of(seed), false);
        let mut locks: BTreeMap<_, Vec<_>> = BTreeMap::new();
        for operation in operations(&outcome.history) {
            checked += 1;
            let lock = operation.lock.clone();
            locks.entry(lock).or_default().push(operation);
        }
        for (lock, operations) in locks {
            assert!(is_linearizable(&operations), "seed {seed}, {lock}");
        }
    }
    assert!(checked > 600, "{checked} operations");
}

#[test]
fn what_is_not_linearizable_is_found() {
    let operation = |kind, token, begin, end| Operation {
        lock: "/l".into(),
        kind,
        token,
        begin,
        end,
    };
    let grants = [
        operation(Kind::Grant, 1, 0, Some(1)),
        operation(Kind::Grant, 2, 2, Some(4)),
    ];
    let with = |write| [&grants[..], &[write]].concat();
    assert!(is_linearizable(&with(operation(Kind::Write, 1, 3, None))));
    assert!(!is_linearizable(&with(operation(Kind::Write, 1, 5, None))));
    assert!(!is_linearizable(&with(operation(
        Kind::Grant,
        2,
        5,
        Some(6)
    ))));
}
