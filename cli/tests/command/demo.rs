//! `lockkeeper demo`.

use crate::support::{Arm, Ended, Running, ended, in_a_terminal, lockkeeper};
use rustix::process::Signal;

on_both_arms!(no_two_clients_hold_the_lock_at_once_and_no_node_is_left);

fn no_two_clients_hold_the_lock_at_once_and_no_node_is_left(arm: &Arm) {
    check(ended(&mut arm.on(&["demo", "--seconds", "1"])).shows(&arm.connect));
    assert!(!arm.said(&["ls"]).contains("lockkeeper-demo"));
}

#[test]
fn the_demo_starts_its_own_server_and_fits_any_number_of_clients() {
    for clients in ["2", "8"] {
        let arguments = ["demo", "--clients", clients, "--seconds", "1"];
        // The demo ignores the variable that `run` uses: it writes only to servers from its own command line.
        let demo = &mut lockkeeper(&arguments);
        check(ended(demo.env("LOCKKEEPER_CONNECT", "nowhere.invalid:1")));
    }
}

#[test]
fn the_demo_fits_a_terminal() {
    let binary = env!("CARGO_BIN_EXE_lockkeeper");
    check(in_a_terminal(&format!(
        "NO_COLOR=1 exec {binary} demo --seconds 1"
    )));
}

#[test]
fn the_demo_can_be_ended_early_also_while_a_client_is_paused() {
    let arm = Arm::embedded();
    for (seconds, sign) in [("600", "██ ░░"), ("1", ", is paused")] {
        let mut demo = Running::start(&mut arm.on(&["demo", "--seconds", seconds]));
        demo.line_that(|line| line.contains(sign));
        demo.signal(Signal::TERM);
        let ended = demo.end().ends(143);
        assert!(!ended.stdout.contains("wakes"), "{}", ended.stdout);
        assert_eq!(arm.said(&["ls"]), "zookeeper\n");
    }
}

fn check(ended: Ended) {
    let stdout = ended.ends(0).silently().stdout;
    for line in stdout.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
        assert_eq!(line.trim_end(), line);
    }
    for text in [
        "is paused\n",
        "overlaps  0\n",
        "is_valid() = false",
        "server refuses counter =",
        "OK: no two clients held the lock at once",
    ] {
        assert!(stdout.contains(text), "{text:?} is missing:\n{stdout}");
    }
}
