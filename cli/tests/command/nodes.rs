//! `lockkeeper ls` and `rm` on a large tree.
//!
//! Not here: all else of the commands for nodes (`transcripts/nodes.txt`).

use crate::support::Arm;

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
