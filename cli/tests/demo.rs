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
    for clients in ["2", "8"] {
        let arguments = ["demo", "--clients", clients, "--seconds", "1"];
        // The demo ignores the variable that `run` uses: it writes only to servers from its own command line.
        let demo = &mut lockkeeper(&arguments);
        check(&ended(demo.env("LOCKKEEPER_CONNECT", "nowhere.invalid:1")));
    }
}

/// A demo in a terminal of this width: its output, and its picture. script(1), of util-linux, makes the terminal.
#[cfg(target_os = "linux")]
fn in_a_terminal(columns: usize) -> (String, String) {
    let name = format!("lockkeeper-demo-{}-{columns}.svg", std::process::id());
    let file = std::env::temp_dir().join(name);
    let (binary, svg) = (env!("CARGO_BIN_EXE_lockkeeper"), file.display());
    let command =
        format!("stty cols {columns}; NO_COLOR=1 exec {binary} demo --seconds 1 --svg {svg}");
    let mut script = std::process::Command::new("script");
    let demo = ended(script.args(["--quiet", "--return", "--command", &command, "/dev/null"]));
    assert_eq!(demo.status, 0, "{}", demo.stdout);
    for line in demo.stdout.lines() {
        assert!(line.trim_end().chars().count() <= 80, "{line:?}");
    }
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(picture.contains("late write refused</text>"), "{picture}");
    assert!(picture.ends_with("</svg>\n"), "{picture}");
    (demo.stdout, picture)
}

#[test]
#[cfg(target_os = "linux")]
fn the_demo_has_the_same_width_in_each_terminal_and_draws_a_picture() {
    let [(stdout, picture), _] = [80, 200].map(in_a_terminal);
    let holds = stdout.lines().find_map(|line| line.strip_prefix("holds "));
    let holds = holds.unwrap().split_whitespace().next().unwrap();
    let holds: usize = holds.parse().unwrap();
    // One more is in the legend.
    assert_eq!(picture.matches("<rect class=\"holds\"").count(), holds + 1);
}

#[test]
fn the_demo_can_be_ended_early() {
    let signal = Signal::TERM;
    assert!(!is_ignored(signal));
    let mut demo = Running::start(&mut lockkeeper(&["demo", "--seconds", "600"]));
    demo.line_that(|line| line.contains("██ ░░"));
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
    demo.line_that(|line| line.ends_with("is paused"));
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
    assert!(
        ended.stderr.contains("/nowhere does not exist; create it"),
        "{}",
        ended.stderr
    );
}

fn check(ended: &Ended) {
    let Ended {
        status,
        stdout,
        stderr,
    } = ended;
    assert_eq!((*status, stderr.as_str()), (0, ""), "{stdout}");
    assert!(stdout.contains("is paused\n"), "{stdout}");
    for line in stdout.lines() {
        assert!(line.chars().count() <= 80, "{line:?}");
        assert!(!line.contains(['\u{1b}', '\r']), "{line:?}");
        assert_eq!(line.trim_end(), line);
    }
    for text in [
        "overlaps  0\n",
        "is_valid() = false",
        "server refuses counter =",
        "OK: no two clients held the lock at once",
    ] {
        assert!(stdout.contains(text), "{text:?} is missing:\n{stdout}");
    }
}
