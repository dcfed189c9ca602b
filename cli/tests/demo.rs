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

/// script(1), of util-linux, runs the demo in a narrow terminal.
#[test]
#[cfg(target_os = "linux")]
fn the_demo_fits_a_narrow_terminal_and_draws_a_picture() {
    let file = std::env::temp_dir().join(format!("lockkeeper-demo-{}.svg", std::process::id()));
    let (binary, svg) = (env!("CARGO_BIN_EXE_lockkeeper"), file.display());
    let command = format!("stty cols 50; NO_COLOR=1 exec {binary} demo --seconds 1 --svg {svg}");
    let mut script = std::process::Command::new("script");
    let demo = ended(script.args(["--quiet", "--return", "--command", &command, "/dev/null"]));
    assert_eq!(demo.status, 0, "{}", demo.stdout);
    for line in demo.stdout.lines() {
        assert!(line.trim_end().chars().count() <= 50, "{line:?}");
    }
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let holds = demo
        .stdout
        .lines()
        .find_map(|line| line.strip_prefix("holds "));
    let holds: usize = holds
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // One more is in the legend.
    assert_eq!(picture.matches("<rect class=\"holds\"").count(), holds + 1);
    assert!(picture.contains("late write refused</text>"), "{picture}");
    assert!(picture.ends_with("</svg>\n"), "{picture}");
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
