//! `lockkeeper run --shared` and `--holders`: which commands may run at the same time.

mod support;

use rustix::process::Signal;
use support::{Arm, Running, ended};

on_both_arms!(
    readers_share_and_exclude_a_writer,
    only_the_given_number_of_holders_run,
    kinds_that_do_not_exclude_each_other_are_bad_usage,
);

/// A command that prints `running`, and runs until it gets a signal.
const UNTIL_TOLD: &[&str] = &["sh", "-c", "echo running; exec sleep 60"];

fn stop(running: Running) {
    running.signal(Signal::TERM);
    assert_eq!(running.end().status, 128 + 15);
}

fn readers_share_and_exclude_a_writer(arm: &Arm) {
    let path = arm.path();
    let readers: Vec<_> = (0..2)
        .map(|_| {
            let mut reader = Running::start(&mut arm.run(&["--shared"], &path, UNTIL_TOLD));
            assert_eq!(reader.line(), "running");
            reader
        })
        .collect();
    let writer = ended(&mut arm.run(&["--try"], &path, &["true"]));
    assert_eq!(writer.status, 75);
    for reader in readers {
        stop(reader);
    }
    let mut writer = Running::start(&mut arm.run(&[], &path, UNTIL_TOLD));
    assert_eq!(writer.line(), "running");
    let reader = ended(&mut arm.run(&["--shared", "--try"], &path, &["true"]));
    assert_eq!(reader.status, 75);
    stop(writer);
    assert_eq!(arm.nodes(&path), Vec::<String>::new());
}

fn only_the_given_number_of_holders_run(arm: &Arm) {
    let path = arm.path();
    let options = ["--holders", "2"];
    let holders: Vec<_> = (0..2)
        .map(|_| {
            let mut holder = Running::start(&mut arm.run(&options, &path, UNTIL_TOLD));
            assert_eq!(holder.line(), "running");
            holder
        })
        .collect();
    let third = ended(&mut arm.run(&["--holders", "2", "--try"], &path, &["true"]));
    assert_eq!(third.status, 75);
    for holder in holders {
        stop(holder);
    }
    let free = ended(&mut arm.run(&["--holders", "2", "--try"], &path, &["true"]));
    assert_eq!(free.status, 0);
    assert_eq!(arm.nodes(&format!("{path}/leases")), Vec::<String>::new());
}

/// A run with `--holders 2` and one without were both started on one path, and nobody was told.
fn kinds_that_do_not_exclude_each_other_are_bad_usage(arm: &Arm) {
    let several = ["--holders", "2"];
    for (held, options, found) in [
        (&several[..], &[][..], "a semaphore"),
        (&[], &several, "a mutex"),
        (&several, &["--shared"], "a semaphore"),
        (&["--shared"], &several, "a reader"),
    ] {
        let path = arm.path();
        let mut holder = Running::start(&mut arm.run(held, &path, UNTIL_TOLD));
        assert_eq!(holder.line(), "running");
        for wait in [&["--try"][..], &["--wait", "20s"], &[]] {
            let refused = ended(&mut arm.run(&[options, wait].concat(), &path, &["true"]));
            assert_eq!(refused.status, 64, "{held:?} {options:?} {wait:?}");
            assert!(refused.stderr.contains(found), "{}", refused.stderr);
            assert!(refused.stderr.contains(&path), "{}", refused.stderr);
        }
        stop(holder);
    }
}

#[test]
fn holders_needs_a_number_from_one_and_excludes_shared() {
    for options in [
        &["--holders", "0"][..],
        &["--holders", "x"],
        &["--shared", "--holders", "2"],
    ] {
        let arguments = [&["run"], options, &["/locks/x", "--", "true"]].concat();
        let refused = ended(&mut support::lockkeeper(&arguments));
        assert_eq!(refused.status, 64, "{options:?}");
        assert!(refused.stderr.contains("--holders"), "{}", refused.stderr);
    }
}
