//! `lockkeeper run` leaves no process to its parent. In a container, the first process may be one that does not wait for strangers.
//!
//! The only test of its program: the system gives that program the processes that others leave behind.

#[path = "command/support/mod.rs"]
mod support;

use rustix::{
    io::Errno,
    process::{WaitId, WaitIdOptions, getpid, set_child_subreaper, waitid},
};
use support::Arm;

#[test]
fn a_run_leaves_no_process_behind() {
    set_child_subreaper(Some(getpid())).unwrap();
    let arm = Arm::embedded();
    let path = arm.path();
    for (script, status) in [("exit 0", 0), ("kill -KILL $$", 137)] {
        arm.ran(&[], &path, &["sh", "-c", script]).ends(status);
        none_is_left();
    }
    let mut run = arm.start(&[], &path, "echo $LOCKKEEPER_NODE; exec sleep 600");
    arm.delete(&run.line());
    run.end().ends(74);
    none_is_left();
    // The process of the command is there when it turns out that the command must not begin.
    let guard = arm.hold(&path);
    let run = arm.start(&["--once-per", "1d"], &path, "echo ran");
    arm.until_nodes(&path, 2);
    arm.set_data(&format!("{path}.once"), "99999999999999");
    arm.release(guard);
    run.end().is(64, "");
    none_is_left();
}

/// This process has no children, alive or dead.
fn none_is_left() {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOHANG | WaitIdOptions::NOWAIT;
    assert_eq!(waitid(WaitId::All, look).unwrap_err(), Errno::CHILD);
}
