//! `lockkeeper run` and signals: to `run` itself, and passed on to the command.

mod support;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, Command, Stdio},
};

use rustix::process::{Signal, kill_process};
use support::{Arm, Running, is_alive, is_ignored, pid_of, wait_for};

on_both_arms!(
    signals_are_passed_on,
    a_signal_ends_a_script_and_its_children,
    a_signal_ends_the_wait_and_leaves_no_node,
    the_lock_of_a_killed_holder_becomes_free,
    a_holder_stopped_for_too_long_ends_its_command,
    a_signal_that_was_ignored_stays_ignored,
);

fn signals_are_passed_on(arm: &Arm) {
    let path = arm.path();
    for (name, signal) in [
        ("INT", Signal::INT),
        ("TERM", Signal::TERM),
        ("HUP", Signal::HUP),
        ("QUIT", Signal::QUIT),
        ("USR1", Signal::USR1),
        ("USR2", Signal::USR2),
    ] {
        if is_ignored(signal) {
            continue;
        }
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let mut run = Running::start(&mut arm.run(&[], &path, &["sh", "-c", &script]));
        assert_eq!(run.line(), "ready");
        run.signal(signal);
        let ended = run.end();
        assert_eq!(ended.stdout, format!("got {name}\n"));
        assert_eq!(ended.status, 9, "{name}");
    }
}

fn a_signal_ends_a_script_and_its_children(arm: &Arm) {
    let script = "sleep 60 & echo $!; wait";
    let mut run = Running::start(&mut arm.run(&[], &arm.path(), &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    run.signal(Signal::TERM);
    assert_eq!(run.end().status, 143);
    wait_for("the end of the script's child", || !is_alive(pid));
}

fn a_signal_ends_the_wait_and_leaves_no_node(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        if is_ignored(signal) {
            continue;
        }
        let run = Running::start(&mut arm.run(&[], &path, &["echo", "ran"]));
        wait_for("a second node", || arm.nodes(&path).len() == 2);
        run.signal(signal);
        let ended = run.end();
        assert_eq!((ended.status, ended.stdout.as_str()), (status, ""));
        assert_eq!(arm.nodes(&path).len(), 1, "only the holder's");
    }
    arm.release(guard);
}

fn the_lock_of_a_killed_holder_becomes_free(arm: &Arm) {
    let path = arm.path();
    let options = ["--session-timeout", "4s"];
    let script = "echo $$; exec sleep 60";
    let mut holder = Running::start(&mut arm.run(&options, &path, &["sh", "-c", script]));
    let pid = pid_of(&holder.line());
    let mut next = Running::start(&mut arm.run(&[], &path, &["echo", "ran"]));
    wait_for("a second node", || arm.nodes(&path).len() == 2);
    assert!(next.is_running());

    holder.signal(Signal::KILL);
    assert_eq!(next.line(), "ran");
    assert_eq!(next.end().status, 0);
    assert!(!is_alive(pid), "it was ended long before the session");
}

fn a_holder_stopped_for_too_long_ends_its_command(arm: &Arm) {
    let path = arm.path();
    let options = ["--session-timeout", "2s"];
    let script = "echo $$; exec sleep 60";
    let mut holder = Running::start(&mut arm.run(&options, &path, &["sh", "-c", script]));
    let pid = pid_of(&holder.line());
    holder.signal(Signal::STOP);
    // The watchdog ends it, at about the time when the session ends: `run` cannot.
    wait_for("the end of the command", || !is_alive(pid));
    wait_for("the end of the session", || arm.nodes(&path).is_empty());

    holder.signal(Signal::CONT);
    let ended = holder.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    assert!(ended.stderr.contains("lock lost"), "{}", ended.stderr);
    assert!(!is_alive(pid));
}

/// As under nohup(1): neither `run` nor its command handles a hang-up.
fn a_signal_that_was_ignored_stays_ignored(arm: &Arm) {
    let script = "echo ready; read x < \"$0\"; echo $x";
    let fifo = std::env::temp_dir().join(arm.path().replace('/', "_"));
    assert!(
        Command::new("mkfifo")
            .arg(&fifo)
            .status()
            .unwrap()
            .success()
    );
    let inner = arm.run(
        &[],
        &arm.path(),
        &["sh", "-c", script, fifo.to_str().unwrap()],
    );
    let mut nohup = Command::new("sh");
    nohup
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args());
    let mut run = Running::start(&mut nohup);
    assert_eq!(run.line(), "ready");
    run.signal(Signal::HUP);
    std::fs::write(&fifo, "alive\n").unwrap();
    std::fs::remove_file(&fifo).unwrap();
    assert_eq!(run.line(), "alive");
    assert_eq!(run.end().status, 0);
}

/// In the foreground the command can use the terminal. Ctrl-C reaches it once: from the terminal, not from `run`.
#[test]
#[cfg(target_os = "linux")]
fn in_a_terminal_the_command_gets_ctrl_c_once() {
    let arm = Arm::embedded();
    let script = r#"i=0; trap 'i=$((i+1))' INT; read x; echo "read $x"; echo ready
        while [ $i = 0 ]; do sleep 0.05; done; sleep 0.3; echo "interrupts: $i"; exit 3"#;
    // The shell replaces itself with `exec`: some shells would end on a Ctrl-C that their child has survived.
    let mut terminal = terminal(&arm, r#"exec $RUN "$SCRIPT""#, script);
    let mut keyboard = terminal.stdin.take().unwrap();
    let mut screen = BufReader::new(terminal.stdout.take().unwrap());
    let mut next = |keys: &[u8]| {
        keyboard.write_all(keys).unwrap();
        let mut line = String::new();
        screen.read_line(&mut line).unwrap();
        line.trim_end().to_owned()
    };
    assert_eq!(next(b"typed\n"), "read typed");
    assert_eq!(next(b""), "ready");
    assert_eq!(next(b"\x03"), "interrupts: 1");
    assert_eq!(terminal.wait().unwrap().code(), Some(3));
}

/// In the foreground the command has no process group of its own. Only the shell ended, and what it had started went on.
#[test]
#[cfg(target_os = "linux")]
fn in_a_terminal_a_script_and_its_children_end_with_the_lock() {
    type Lose = fn(&Arm, node: &str, run: &str);
    let losses: [Lose; 2] = [
        |arm, node, _| arm.delete(node),
        |_, _, run| kill_process(pid_of(run), Signal::KILL).unwrap(),
    ];
    // A child, and one that ignores TERM and has a child of its own. None of them ends with the terminal.
    let script = r#"trap '' HUP; sleep 600 & export RUN=$(ps -o ppid= -p $PPID) CHILD=$!
        sh -c 'trap "" TERM; sleep 600 & echo $LOCKKEEPER_NODE $RUN $CHILD $$ $!; wait; true'; true"#;
    for lose in losses {
        let arm = Arm::embedded();
        // A shell that stays keeps the terminal.
        let mut terminal = terminal(&arm, r#"$RUN "$SCRIPT"; true"#, script);
        let mut line = String::new();
        let mut screen = BufReader::new(terminal.stdout.take().unwrap());
        screen.read_line(&mut line).unwrap();
        let words: Vec<_> = line.split_whitespace().collect();
        let [node, run, started @ ..] = words.as_slice() else {
            panic!("{line}");
        };
        lose(&arm, node, run);
        for pid in started {
            wait_for("the end of a child", || !is_alive(pid_of(pid)));
        }
        assert_eq!(started.len(), 3);
        terminal.wait().unwrap();
    }
}

/// A shell in a new terminal. `$RUN` is `lockkeeper run PATH -- sh -c`.
#[cfg(target_os = "linux")]
fn terminal(arm: &Arm, command: &str, script: &str) -> Child {
    let binary = env!("CARGO_BIN_EXE_lockkeeper");
    let path = arm.path();
    // script(1), of util-linux, runs the shell, and types the text that it reads from stdin.
    // env(1), of GNU coreutils, lets Ctrl-C through if the caller of the test ignores it: a shell cannot undo that.
    Command::new("env")
        .args([
            "--default-signal=INT",
            "script",
            "--quiet",
            "--return",
            "--flush",
            "--echo",
            "never",
            "--command",
            command,
            "/dev/null",
        ])
        .env("RUN", format!("{binary} run {path} -- sh -c"))
        .env("LOCKKEEPER_CONNECT", &arm.connect)
        .env("SCRIPT", script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("env(1) is needed, and script(1), of util-linux")
}
