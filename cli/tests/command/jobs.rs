//! `lockkeeper run` as a job of an interactive shell, in a terminal: `&`, Ctrl-Z, `bg`, `fg`, and the end of the terminal.
//!
//! Not here: the foreground of a script (`signals`).

use std::{
    io::{BufRead as _, BufReader, Write as _},
    process::{Child, ChildStdin},
    sync::mpsc::{Receiver, channel},
    thread,
};

use crate::support::{Arm, LIMIT, contained, is_alive, pid_of, state_of, terminal, wait_for};
use rustix::process::{Pid, Signal, kill_process};

/// Waits for a line. A Ctrl-C ends it in its own way.
const READER: &str = r#"trap 'echo interrupted; exit 7' INT; echo begun; read x; echo "read $x""#;

/// The command had a group of its own, which stopped when it read, and which the shell did not know.
#[test]
fn a_job_that_reads_stops_and_fg_brings_it_back() {
    contained(|| {
        let arm = Arm::embedded();
        let mut shell = Shell::start(&arm, "", READER);
        for (keys, answer, status) in [
            ("typed\n", "read typed", "status 0"),
            ("\x03", "interrupted", "status 7"),
        ] {
            shell.keys("$RUN \"$SCRIPT\" & echo \"pid $!\"\n");
            let run = pid_of(&shell.line("pid "));
            shell.line("begun");
            until_stopped(run, true);
            shell.keys("jobs\n");
            shell.line_with("Stopped");
            shell.keys("fg\n");
            until_stopped(run, false);
            shell.keys(keys);
            shell.line(answer);
            shell.keys("echo \"status $?\"\n");
            shell.line(status);
        }
    });
}

/// The group was chosen at the grant, when the job was in the background.
#[test]
fn a_job_that_gets_the_lock_in_the_background_can_use_the_terminal_later() {
    contained(|| {
        let arm = Arm::embedded();
        let mut shell = Shell::start(&arm, "", READER);
        let guard = arm.hold(&shell.path);
        shell.keys("sh -c 'echo \"pid $$\"; exec $RUN \"$SCRIPT\"'\n");
        let run = pid_of(&shell.line("pid "));
        arm.until_nodes(&shell.path, 2);
        shell.keys("\x1a");
        until_stopped(run, true);
        shell.keys("bg\n");
        until_stopped(run, false);
        arm.release(guard);
        shell.line("begun");
        until_stopped(run, true);
        shell.keys("fg\n");
        until_stopped(run, false);
        shell.keys("typed\n");
        shell.line("read typed");
    });
}

/// The command stayed stopped, and the lock held, for ever. Some shells send HUP and CONT to their jobs; without that the watchdog ends
/// this one when the lease of the stopped run is over.
#[test]
fn a_job_that_is_stopped_ends_with_its_terminal() {
    contained(|| {
        let arm = Arm::embedded();
        let mut shell = Shell::start(&arm, "--session-timeout 2s", READER);
        shell.keys("$RUN \"$SCRIPT\" & echo \"pid $!\"\n");
        let run = pid_of(&shell.line("pid "));
        shell.line("begun");
        until_stopped(run, true);
        let path = shell.path.clone();
        drop(shell);
        wait_for("the end of the job", || !is_alive(run));
        arm.until_nodes(&path, 0);
    });
}

/// It comes from no terminal, and no other process of the group gets it.
#[test]
fn an_interrupt_for_a_run_in_the_background_is_passed_on() {
    contained(|| {
        let script =
            "trap 'echo interrupted; exit 7' INT; echo begun; while :; do sleep 0.05; done";
        let arm = Arm::embedded();
        let mut shell = Shell::start(&arm, "", script);
        shell.keys("$RUN \"$SCRIPT\" & echo \"pid $!\"\n");
        let run = pid_of(&shell.line("pid "));
        shell.line("begun");
        kill_process(run, Signal::INT).unwrap();
        shell.line("interrupted");
    });
}

fn until_stopped(pid: Pid, is_stopped: bool) {
    let what = format!("a stop: {is_stopped}");
    wait_for(&what, || (state_of(pid) == Some('T')) == is_stopped);
}

/// An interactive shell in a terminal. `$RUN` is `lockkeeper run OPTIONS PATH -- sh -c`. Dropping this value closes the terminal.
struct Shell {
    path: String,
    terminal: Child,
    keyboard: ChildStdin,
    screen: Receiver<String>,
}

impl Shell {
    fn start(arm: &Arm, options: &str, script: &str) -> Self {
        let path = arm.path();
        let run = format!("{options} {path}");
        let mut terminal = terminal(arm, &run, "exec sh -i", script)
            .envs([("PS1", ""), ("TERM", "dumb"), ("SHELL", "/bin/sh")])
            .spawn()
            .expect("env(1) is needed, and script(1), of util-linux");
        let (keyboard, stdout) = (terminal.stdin.take(), terminal.stdout.take());
        let lines = BufReader::new(stdout.unwrap()).lines();
        let (shown, screen) = channel();
        thread::spawn(move || {
            lines
                .map_while(Result::ok)
                .try_for_each(|line| shown.send(line))
        });
        Self {
            path,
            terminal,
            keyboard: keyboard.unwrap(),
            screen,
        }
    }

    fn keys(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).unwrap();
    }

    /// The rest of the next line that begins so.
    fn line(&self, start: &str) -> String {
        self.next(start, |line| line.strip_prefix(start).map(str::to_owned))
    }

    fn line_with(&self, part: &str) -> String {
        self.next(part, |line| line.contains(part).then(|| line.to_owned()))
    }

    fn next(&self, what: &str, find: impl Fn(&str) -> Option<String>) -> String {
        let mut shown = Vec::new();
        loop {
            let Ok(line) = self.screen.recv_timeout(LIMIT) else {
                panic!("{what:?} is missing: {shown:?}");
            };
            if let Some(found) = find(line.trim_end()) {
                return found;
            }
            shown.push(line);
        }
    }
}

impl Drop for Shell {
    fn drop(&mut self) {
        let _ = self.terminal.kill();
        let _ = self.terminal.wait();
    }
}
