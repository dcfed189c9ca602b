//! `lockkeeper run` and signals: to `run` itself, and passed on to the command.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::Command,
};

use crate::support::{
    Arm, Files, Running, comm_of, contained, ended, is_alive, is_ignored, lockkeeper, pid_of,
    session_of, state_of, terminal, until_dead, wait_for,
};
use rustix::process::{Signal, kill_process};

on_both_arms!(
    contained:
    signals_are_passed_on,
    a_signal_ends_the_wait_and_leaves_no_node,
    a_holder_stopped_for_too_long_ends_its_command,
    a_stopped_run_stops_its_command,
    a_signal_that_was_ignored_stays_ignored,
    signals_that_the_parent_has_blocked_are_received,
    a_signal_to_end_ends_a_command_that_is_stopped,
);

const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];

fn signals_are_passed_on(arm: &Arm) {
    let path = arm.path();
    let names = ["INT", "TERM", "HUP", "QUIT", "USR1", "USR2"];
    let signals = ENDING.into_iter().chain([Signal::USR1, Signal::USR2]);
    for (name, signal) in names
        .into_iter()
        .zip(signals)
        .filter(|it| !is_ignored(it.1))
    {
        let script = format!(
            "trap 'echo got {name}; exit 9' {name}; echo ready; while :; do sleep 0.05; done"
        );
        let mut run = arm.start(&[], &path, &script);
        assert_eq!(run.line(), "ready");
        run.signal(signal);
        run.end().is(9, &format!("got {name}\n"));
    }
}

fn a_signal_ends_the_wait_and_leaves_no_node(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    for (signal, status) in [(Signal::TERM, 143), (Signal::INT, 130)] {
        if is_ignored(signal) {
            continue;
        }
        let run = arm.start(&[], &path, "echo ran");
        arm.until_nodes(&path, 2);
        run.signal(signal);
        run.end().is(status, "");
        assert_eq!(arm.nodes(&path).len(), 1, "only the holder's");
    }
    arm.release(guard);
}

fn a_holder_stopped_for_too_long_ends_its_command(arm: &Arm) {
    let path = arm.path();
    let options = ["--session-timeout", "2s"];
    let mut holder = arm.start(&options, &path, "echo $$; exec sleep 60");
    let pid = holder.pid_in_line();
    holder.signal(Signal::STOP);
    // The watchdog ends it, at about the time when the session ends: `run` cannot.
    until_dead(pid);
    wait_for("the end of the session", || arm.nodes(&path).is_empty());
    holder.signal(Signal::CONT);
    holder.end().ends(74).says("lock lost");
}

/// Stops both or neither: a command that goes on while `run` is stopped would lose its lock without a word.
fn a_stopped_run_stops_its_command(arm: &Arm) {
    // A shell that has just started a program waits for it without showing that it is stopped, too.
    let mut run = arm.start(&[], &arm.path(), "echo $$; exec sleep 600");
    let pids = [run.pid_in_line(), run.pid()];
    let are_stopped = || pids.map(|pid| state_of(pid) == Some('T'));
    run.signal(Signal::TSTP);
    wait_for("the stop of both", || are_stopped() == [true; 2]);
    run.signal(Signal::CONT);
    wait_for("the command to go on", || are_stopped() == [false; 2]);
    run.signal(Signal::TERM);
    run.end().ends(143);
}

/// Under nohup(1), neither `run` nor its command handles a hang-up.
fn a_signal_that_was_ignored_stays_ignored(arm: &Arm) {
    let files = Files::new("ignored");
    let fifo = files.fifo("fifo");
    let script = "echo ready; read x < \"$0\"; echo $x";
    let inner = arm.run(&[], &arm.path(), &["sh", "-c", script, &fifo]);
    let mut nohup = Command::new("sh");
    nohup
        .args(["-c", "trap '' HUP; exec \"$0\" \"$@\""])
        .arg(inner.get_program())
        .args(inner.get_args());
    let mut run = Running::start(&mut nohup);
    assert_eq!(run.line(), "ready");
    run.signal(Signal::HUP);
    std::fs::write(&fifo, "alive\n").unwrap();
    run.end().is(0, "alive\n");
}

/// Some service managers and language runtimes block them. `run` never heard of the end of its command, and TERM was lost. The command
/// gets the mask as the parent had it.
fn signals_that_the_parent_has_blocked_are_received(arm: &Arm) {
    // env(1), of GNU coreutils, since 8.31.
    let blocked = |command: &Command| {
        let mut env = Command::new("env");
        env.arg("--block-signal").arg(command.get_program());
        env.args(command.get_args());
        env
    };
    let show = ["grep", "SigBlk", "/proc/self/status"];
    let mask = ended(&mut blocked(Command::new(show[0]).args(&show[1..])));
    let path = arm.path();
    let serve = [&["serve", "--"], &show[..]].concat();
    for command in [arm.run(&[], &path, &show), lockkeeper(&serve)] {
        Running::start(&mut blocked(&command))
            .end()
            .is(0, &mask.stdout)
            .silently();
    }
    let guard = arm.hold(&path);
    let run = Running::start(&mut blocked(&arm.run(&[], &path, &show)));
    arm.until_nodes(&path, 2);
    run.signal(Signal::TERM);
    run.end().is(143, "");
    arm.release(guard);
}

/// `docker stop` sends TERM, and after its time KILL. The command stayed stopped, and the lock held.
fn a_signal_to_end_ends_a_command_that_is_stopped(arm: &Arm) {
    let path = arm.path();
    for signal in ENDING.into_iter().filter(|it| !is_ignored(*it)) {
        let mut run = arm.start(&[], &path, "echo $$; exec sleep 600");
        let pid = run.pid_in_line();
        wait_for("the command", || comm_of(pid) == "sleep\n");
        kill_process(pid, Signal::STOP).unwrap();
        wait_for("the stop", || state_of(pid) == Some('T'));
        run.signal(signal);
        run.end().ends(128 + signal.as_raw());
    }
}

/// In the foreground the command can use the terminal. Ctrl-C reaches it once: from the terminal, not from `run`.
#[test]
fn in_a_terminal_the_command_gets_ctrl_c_once() {
    contained(|| {
        let arm = Arm::embedded();
        let script = r#"i=0; trap 'i=$((i+1))' INT; read x; echo "read $x"; echo ready
            while [ $i = 0 ]; do sleep 0.05; done; sleep 0.3; echo "interrupts: $i"; exit 3"#;
        // The shell replaces itself with `exec`: some shells would end on a Ctrl-C that their child has survived.
        let command = r#"exec $RUN "$SCRIPT""#;
        let mut terminal = terminal(&arm, &arm.path(), command, script);
        let mut terminal = terminal.spawn().unwrap();
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
    });
}

/// In the foreground the command has no process group of its own. Only the shell ended, and what it had started went on.
#[test]
fn in_a_terminal_a_script_and_its_children_end_with_the_lock() {
    contained(|| {
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
            let command = r#"$RUN "$SCRIPT"; true"#;
            let mut terminal = terminal(&arm, &arm.path(), command, script);
            let mut terminal = terminal.spawn().unwrap();
            let mut line = String::new();
            let mut screen = BufReader::new(terminal.stdout.take().unwrap());
            screen.read_line(&mut line).unwrap();
            let words: Vec<_> = line.split_whitespace().collect();
            let [node, run, started @ ..] = words.as_slice() else {
                panic!("{line}");
            };
            assert_eq!(started.len(), 3);
            lose(&arm, node, run);
            for pid in started {
                until_dead(pid_of(pid));
            }
            terminal.wait().unwrap();
        }
    });
}

/// A run inside the command of a run. All were stopped together, and went on together, while another one had the inner lock.
#[test]
fn a_stopped_run_does_not_stop_the_watchdog_of_a_run_inside_its_command() {
    contained(|| {
        let arm = Arm::embedded();
        let (outer, inner) = (arm.path(), arm.path());
        let script =
            r#""$BINARY" run -q --session-timeout 1s "$INNER" -- sh -c 'echo $$; sleep 600'; true"#;
        let options = ["-q", "--session-timeout", "30s"];
        let mut run = arm.run(&options, &outer, &["sh", "-c", script]);
        run.env("LOCKKEEPER_CONNECT", &arm.connect);
        run.env("BINARY", env!("CARGO_BIN_EXE_lockkeeper"));
        let mut run = Running::start(run.env("INNER", &inner));
        let worker = run.pid_in_line();
        run.signal(Signal::TSTP);
        wait_for("the stop", || state_of(run.pid()) == Some('T'));
        arm.ran(&[], &inner, &["true"]).ends(0);
        assert!(!is_alive(worker));
        run.signal(Signal::CONT);
        run.end().ends(0);
    });
}

/// The time counts from when `run` said it: not from when the watchdog, which was stopped, too, has read it.
#[test]
fn a_watchdog_that_was_stopped_does_not_let_the_command_go_on_for_longer() {
    contained(|| {
        let arm = Arm::embedded();
        let path = arm.path();
        let options = ["--session-timeout", "8s"];
        let mut run = arm.start(&options, &path, "echo $$; exec sleep 600");
        let (pid, watchdog) = (run.pid_in_line(), crate::support::watchdog_of(run.pid()));
        for process in [watchdog, run.pid()] {
            kill_process(process, Signal::STOP).unwrap();
        }
        wait_for("the end of the session", || arm.nodes(&path).is_empty());
        let went_on = std::time::Instant::now();
        kill_process(watchdog, Signal::CONT).unwrap();
        until_dead(pid);
        assert!(went_on.elapsed().as_secs() < 4, "{:?}", went_on.elapsed());
    });
}

/// The release waited for silent servers until the end of the lease. No signal had an effect.
#[test]
fn a_signal_ends_the_wait_for_a_release() {
    contained(|| {
        let arm = Arm::embedded();
        let script = "trap '' TERM; echo begun; read line; exit 7";
        for (options, status) in [(&[][..], 7), (&["--strict"], 74)] {
            let path = arm.path();
            let options = [&["--session-timeout", "60s"], options].concat();
            let mut run = arm.run(&options, &path, &["sh", "-c", script]);
            let (mut run, stdin) = Running::start_to_write(&mut run);
            assert_eq!(run.line(), "begun");
            let session = session_of(arm.server(), &path).unwrap();
            arm.server().faults().stall_session(session);
            drop(stdin);
            // One that comes before the end of the command is for that.
            wait_for("the end", || {
                run.signal(Signal::TERM);
                !run.is_running()
            });
            run.end().ends(status).says("release not confirmed (");
        }
    });
}
