//! `lockkeeper ls` and `rm` on a large tree.
//!
//! Not here: all else of the commands for nodes (`transcripts/nodes.txt`).

use std::time::Duration;

use crate::support::{Arm, Running, wait_for};
use lockkeeper::proto::OpCode;
use lockkeeper_server::When;

#[test]
fn a_tree_of_many_nodes_is_walked_and_deleted() {
    let arm = Arm::embedded();
    for child in 0..10 {
        (0..100).for_each(|number| arm.create(&format!("/many/{child}/{number}")));
    }
    let all = arm.said(&["ls", "-R", "/many"]);
    assert_eq!(all.lines().count(), 10 + 1000);
    arm.said(&["rm", "-r", "/many"]);
    arm.refused(&["stat", "/many"]);
}

/// A lock that was taken behind the look for locks was deleted.
#[test]
fn a_recursive_rm_deletes_no_lock_that_is_taken_meanwhile() {
    let (arm, path) = (Arm::embedded(), String::from("/app"));
    arm.create("/app/old/one");
    let faults = arm.server().faults();
    let look = When::op(OpCode::EXISTS).within("/app".to_owned());
    faults.delay_reply(look, Duration::from_secs(1));
    faults.delay_reply(When::op(OpCode::SYNC), Duration::ZERO);
    let rm = Running::start(&mut arm.on(&["rm", "-r", &path]));
    wait_for("the look", || faults.pending() == 0);
    let guard = arm.hold(&path);
    rm.end().is(1, "").says("/app: nodes that were created");
    arm.release(guard);
    arm.said(&["rm", "-r", &path]);
    assert_eq!(arm.nodes("/"), ["zookeeper"]);
}
