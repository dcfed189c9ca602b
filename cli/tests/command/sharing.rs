//! `lockkeeper run --shared` and `--holders`: which commands may run at the same time.

use crate::support::{Arm, Running};
use rustix::process::Signal;

on_both_arms!(
    readers_share_and_exclude_a_writer,
    only_the_given_number_of_holders_run,
    kinds_that_do_not_exclude_each_other_are_bad_usage,
);

/// Starts a command that runs until it gets a signal.
fn running(arm: &Arm, options: &[&str], path: &str) -> Running {
    let mut run = arm.start(options, path, "echo running; exec sleep 60");
    assert_eq!(run.line(), "running");
    run
}

fn stop(running: Running) {
    running.signal(Signal::TERM);
    running.end().ends(128 + 15);
}

fn readers_share_and_exclude_a_writer(arm: &Arm) {
    let path = arm.path();
    let readers = [0; 2].map(|_| running(arm, &["--shared"], &path));
    arm.ran(&["--try"], &path, &["true"]).ends(75);
    readers.into_iter().for_each(stop);
    let writer = running(arm, &[], &path);
    arm.ran(&["--shared", "--try"], &path, &["true"]).ends(75);
    stop(writer);
    assert_eq!(arm.nodes(&path), [""; 0]);
}

fn only_the_given_number_of_holders_run(arm: &Arm) {
    let path = arm.path();
    let holders = [0; 2].map(|_| running(arm, &["--holders", "2"], &path));
    let tried = || arm.ran(&["--holders", "2", "--try"], &path, &["true"]);
    tried().ends(75);
    let third = arm.ran(&["--holders", "3", "--try"], &path, &["true"]);
    third.ends(64).says(&path).says("has the limit 2");
    holders.into_iter().for_each(stop);
    tried().ends(0);
    assert_eq!(arm.nodes(&format!("{path}/leases")), [""; 0]);
}

/// A run with `--holders 2` and one without were both started on one path, and nobody was told.
fn kinds_that_do_not_exclude_each_other_are_bad_usage(arm: &Arm) {
    let several = ["--holders", "2"];
    for (held, options, found) in [
        (&several[..], &[][..], "a semaphore"),
        (&[], &several, "a mutex"),
        (&several, &["--shared"], "a semaphore"),
        (&["--shared"], &several, "a read lock"),
    ] {
        let path = arm.path();
        let holder = running(arm, held, &path);
        for wait in [&["--try"][..], &["--wait", "20s"], &[]] {
            let refused = arm.ran(&[options, wait].concat(), &path, &["true"]);
            refused.ends(64).says(found).says(&path);
        }
        stop(holder);
    }
}
