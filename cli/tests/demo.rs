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

/// A demo in a terminal of this width: its output, and its picture. script(1), of util-linux, makes the terminal.
#[cfg(target_os = "linux")]
fn in_a_terminal(columns: usize, options: &str) -> (String, String) {
    let (pid, kind) = (std::process::id(), options.len());
    let name = format!("lockkeeper-demo-{pid}-{columns}-{kind}.svg");
    let file = std::env::temp_dir().join(name);
    let (binary, svg) = (env!("CARGO_BIN_EXE_lockkeeper"), file.display());
    let command = format!(
        "stty cols {columns}; NO_COLOR=1 exec {binary} demo --seconds 1 --svg {svg} {options}"
    );
    let mut script = std::process::Command::new("script");
    let demo = ended(script.args(["--quiet", "--return", "--command", &command, "/dev/null"]));
    assert_eq!(demo.status, 0, "{}", demo.stdout);
    for line in demo.stdout.lines() {
        assert!(
            line.trim_end().chars().count() <= columns.min(80),
            "{line:?}"
        );
    }
    let picture = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    assert!(picture.contains("late write refused</text>"), "{picture}");
    assert!(picture.ends_with("</svg>\n"), "{picture}");
    (demo.stdout, picture)
}

#[test]
#[cfg(target_os = "linux")]
fn the_demo_fits_a_narrow_terminal_and_draws_a_picture() {
    let (stdout, picture) = in_a_terminal(50, "");
    let holds = stdout.lines().find_map(|line| line.strip_prefix("holds "));
    let holds: usize = holds
        .unwrap()
        .split_whitespace()
        .next()
        .unwrap()
        .parse()
        .unwrap();
    // One more is in the legend.
    assert_eq!(picture.matches("<rect class=\"holds\"").count(), holds + 1);
    assert!(!picture.contains("<line class=\"severed\""), "{picture}");
}

#[test]
#[cfg(target_os = "linux")]
fn a_partition_is_drawn_in_a_terminal_of_any_width_and_in_a_picture() {
    let demos = [50, 80, 200].map(|columns| in_a_terminal(columns, "--partition --clients 3"));
    for (stdout, picture) in demos {
        assert!(
            stdout.contains("client 1 ── server ") && stdout.contains(" ──╳── leader"),
            "{stdout}"
        );
        assert_eq!(picture.matches("<line class=\"severed\"").count(), 1);
        assert_eq!(picture.matches("<line class=\"link\"").count(), 2);
        assert!(picture.contains(">the lease ends</text>"), "{picture}");
    }
}

/// The server of client 1 does not know that it is cut off, and neither does its client: only the lease ends.
#[test]
fn the_lease_of_a_client_that_is_cut_off_ends_before_the_next_grant() {
    let demo = ended(&mut lockkeeper(&["demo", "--partition", "--seconds", "1"]));
    check_rest(&demo);
    let at = |text: &str| {
        let line = demo.stdout.lines().position(|line| line.contains(text));
        line.unwrap_or_else(|| panic!("{text:?} is missing:\n{}", demo.stdout))
    };
    let order = [
        at("is cut off:"),
        at("──╳── leader"),
        at("client 1: session expired after"),
        at("the link is whole again"),
        at("client 1: is_valid() = false; it writes"),
        at("server refuses counter ="),
    ];
    assert!(order.is_sorted(), "{order:?}\n{}", demo.stdout);
    at("lease of client 1 has ended"); // `check_rest` has seen that the times do not overlap

    let refused = ended(&mut lockkeeper(&[
        "demo",
        "--partition",
        "--connect",
        "127.0.0.1:1",
    ]));
    assert_eq!(refused.status, 64);
    assert!(
        refused
            .stderr
            .contains("'--partition' cannot be used with '--connect"),
        "{}",
        refused.stderr
    );
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
    check_rest(ended);
    assert!(ended.stdout.contains("is paused\n"), "{}", ended.stdout);
}

/// All but what happens to one client.
fn check_rest(ended: &Ended) {
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
        "is_valid() = false",
        "server refuses counter =",
        "OK: no two clients held the lock at once",
    ] {
        assert!(stdout.contains(text), "{text:?} is missing:\n{stdout}");
    }
}
