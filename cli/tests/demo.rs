//! `lockkeeper demo`, as it is seen in a file.

mod support;

use rustix::process::Signal;
use support::{Arm, Ended, Running, ended, is_ignored, lockkeeper};

on_both_arms!(nobody_holds_the_lock_together_and_nothing_is_left_behind);

fn nobody_holds_the_lock_together_and_nothing_is_left_behind(arm: &Arm) {
    let arguments = ["demo", "--connect", &arm.connect, "--seconds", "1"];
    let ended = ended(&mut lockkeeper(&arguments));
    assert!(ended.stdout.contains(&arm.connect), "{}", ended.stdout);
    check(&ended);
    assert_eq!(arm.nodes("/lockkeeper-demo"), Vec::<String>::new());
}

#[test]
fn it_brings_a_server_of_its_own_and_fits_any_number_of_clients() {
    for clients in ["2", "24"] {
        let arguments = ["demo", "--clients", clients, "--seconds", "1"];
        // What is set for `run` does not concern it: it writes where it is told to, and nowhere else.
        let demo = &mut lockkeeper(&arguments);
        check(&ended(demo.env("LOCKKEEPER_CONNECT", "nowhere.invalid:1")));
    }
}

#[test]
fn it_can_be_ended_early() {
    let signal = Signal::TERM;
    assert!(!is_ignored(signal));
    let mut demo = Running::start(&mut lockkeeper(&["demo", "--seconds", "600"]));
    while !demo.line().contains("██ ░░") {}
    demo.signal(signal);
    let ended = demo.end();
    assert_eq!(ended.status, 143, "{}", ended.stdout);
    assert!(ended.stdout.contains("overlaps  0\n"), "{}", ended.stdout);
}

#[test]
fn a_chroot_that_is_missing_is_named() {
    let arm = Arm::embedded();
    let servers = format!("{}/nowhere", arm.connect);
    let ended = ended(&mut lockkeeper(&["demo", "--connect", &servers]));
    assert_eq!(ended.status, 69);
    assert!(ended.stderr.contains("chroot /nowhere"), "{}", ended.stderr);
}

fn check(ended: &Ended) {
    let Ended {
        status,
        stdout,
        stderr,
    } = ended;
    assert_eq!((*status, stderr.as_str()), (0, ""), "{stdout}");
    for line in stdout.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
        assert_eq!(line.trim_end(), line);
    }
    for text in [
        "overlaps  0\n",
        "stands still\n",
        "is_valid() = false",
        "server refuses counter =",
        "OK: no two clients held the lock at once",
    ] {
        assert!(stdout.contains(text), "{text:?} is missing:\n{stdout}");
    }
}
