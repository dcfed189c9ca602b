//! `lockkeeper demo`, with its output in a pipe.
//!
//! Not here: colours and the layout of rows (`cli/src/demo`).

mod support;

use rustix::process::Signal;
use support::{Arm, Ended, Running, ended, is_ignored, lockkeeper};

on_both_arms!(no_two_clients_hold_the_lock_at_once_and_no_node_is_left);

fn no_two_clients_hold_the_lock_at_once_and_no_node_is_left(arm: &Arm) {
    let arguments = ["demo", "--connect", &arm.connect, "--seconds", "1"];
    let ended = ended(&mut lockkeeper(&arguments));
    assert!(ended.stdout.contains(&arm.connect), "{}", ended.stdout);
    check(&ended);
    assert_eq!(arm.nodes("/lockkeeper-demo"), Vec::<String>::new());
}

#[test]
fn the_demo_starts_its_own_server_and_fits_any_number_of_clients() {
    for clients in ["2", "24"] {
        let arguments = ["demo", "--clients", clients, "--seconds", "1"];
        // The demo ignores the variable that `run` uses: it writes only to servers from its own command line.
        let demo = &mut lockkeeper(&arguments);
        check(&ended(demo.env("LOCKKEEPER_CONNECT", "nowhere.invalid:1")));
    }
}

#[test]
fn the_demo_can_be_ended_early() {
    let signal = Signal::TERM;
    assert!(!is_ignored(signal));
    let mut demo = Running::start(&mut lockkeeper(&["demo", "--seconds", "600"]));
    while !demo.line().contains("██ ░░") {}
    demo.signal(signal);
    let ended = demo.end();
    assert_eq!(ended.status, 143, "{}", ended.stdout);
    assert!(ended.stdout.contains("overlaps  0\n"), "{}", ended.stdout);
}

/// The paused client used to write after the signal, while it still held the lock. The demo reported its accepted write as a
/// broken promise.
#[test]
fn the_demo_can_be_ended_while_a_client_is_paused() {
    let mut demo = Running::start(&mut lockkeeper(&["demo", "--seconds", "1"]));
    while !demo.line().ends_with("is paused") {}
    demo.signal(Signal::TERM);
    let ended = demo.end();
    assert_eq!(ended.status, 143, "{}", ended.stdout);
    assert!(!ended.stdout.contains("wakes"), "{}", ended.stdout);
    assert!(ended.stdout.contains("OK: "), "{}", ended.stdout);
}

#[test]
fn the_error_names_a_missing_chroot() {
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
        "is paused\n",
        "is_valid() = false",
        "server refuses counter =",
        "OK: no two clients held the lock at once",
    ] {
        assert!(stdout.contains(text), "{text:?} is missing:\n{stdout}");
    }
}
