//! The process between `lockkeeper run` and its command, in the moments in which it, or `run`, is stopped or killed.
//!
//! Some tests start a second watchdog themselves, in place of `run`: so they decide what it hears, and when.
#![cfg(target_os = "linux")]

mod support;

use std::{
    fs,
    io::{BufRead as _, BufReader, Write as _},
    net::Shutdown,
    os::{
        fd::OwnedFd,
        unix::{net::UnixStream, process::CommandExt as _},
    },
    process::{Child, Command, Stdio},
    time::Duration,
};

use rustix::{
    io::ioctl_fionread,
    process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit},
    time::{ClockId, clock_gettime},
};
use support::{Arm, Manager, Running, ended, is_alive, pid_of, wait_for, watchdog_of};

/// A shell that stands for a `run` whose first watchdog was killed: it has inherited a process, and started a second watchdog.
struct Inherited {
    run: Child,
    stream: UnixStream,
    its: UnixStream,
    watchdog: Pid,
    worker: Pid,
}

impl Inherited {
    /// The worker prints its pid.
    fn start(worker: &str) -> Self {
        let (stream, its) = UnixStream::pair().unwrap();
        let script = r#"exec 3<&0; sh -c "$WORKER" & read ready
            setsid "$BINARY" --watchdog shared $$ <&3 & echo $!; wait"#;
        let mut shell = Command::new("sh");
        shell.args(["-c", script]).env("WORKER", worker);
        shell.env("BINARY", env!("CARGO_BIN_EXE_lockkeeper"));
        // It leads the group that it names to the watchdog.
        let shell = shell
            .process_group(0)
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut run = shell
            .stdin(OwnedFd::from(its.try_clone().unwrap()))
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(run.stdout.take().unwrap()).lines();
        let mut next = || pid_of(&lines.next().unwrap().unwrap());
        let worker = next();
        (&stream).write_all(b"\n").unwrap();
        Self {
            run,
            stream,
            its,
            watchdog: next(),
            worker,
        }
    }

    /// Waits until the watchdog has looked at what is below `run`.
    fn until_known(&mut self) {
        // It reads a word after it has looked because of the one before.
        for _ in 0..2 {
            self.tell(Duration::from_secs(600));
            wait_for("a look", || ioctl_fionread(&self.its).unwrap() == 0);
        }
    }

    /// Tells the watchdog how long the rest may go on: nanoseconds of the system's clock.
    fn tell(&mut self, time: Duration) {
        let now = Duration::try_from(clock_gettime(ClockId::Monotonic)).unwrap();
        let ns = u64::try_from((now + time).as_nanos()).unwrap();
        self.stream.write_all(&ns.to_be_bytes()).unwrap();
    }

    fn kill_run(&mut self) {
        self.run.kill().unwrap();
        self.run.wait().unwrap();
    }

    fn stop_watchdog(&self) {
        kill_process(self.watchdog, Signal::STOP).unwrap();
        wait_for("the stop", || stat(self.watchdog).1 == "T");
    }

    fn until_all_has_ended(&self) {
        kill_process(self.watchdog, Signal::CONT).unwrap();
        wait_for("the end of the worker", || !is_alive(self.worker));
        wait_for("the end of the watchdog", || !is_alive(self.watchdog));
    }
}

impl Drop for Inherited {
    fn drop(&mut self) {
        let _ = self.run.kill();
        for pid in [self.watchdog, self.worker] {
            let _ = kill_process(pid, Signal::KILL);
        }
    }
}

/// The name and the state of a process: the first fields of its line in `/proc`.
fn stat(pid: Pid) -> (String, String) {
    let line = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let (before, fields) = line.rsplit_once(") ").unwrap();
    let (_, name) = before.split_once('(').unwrap();
    (name.to_owned(), fields[..1].to_owned())
}

const WORKER: &str = "echo $$; exec sleep 600";

/// It had looked again when it heard from a `run` that was gone by then, found nothing, and ended.
#[test]
fn a_second_watchdog_remembers_what_was_below_a_run_that_is_gone() {
    let mut inherited = Inherited::start(WORKER);
    inherited.until_known();
    inherited.stop_watchdog();
    inherited.tell(Duration::from_secs(600));
    inherited.kill_run();
    inherited.stream.shutdown(Shutdown::Both).unwrap();
    inherited.until_all_has_ended();
}

/// It went on killing the group in which it had seen the process first.
#[test]
fn a_second_watchdog_follows_a_process_into_another_group() {
    // In a group with its parent first, and in one of its own after the signal.
    let worker = r#"exec setsid sh -c 'sh -c "trap : USR1; echo \$\$; sleep 600 & wait; exec setsid sleep 600"; true'"#;
    let mut inherited = Inherited::start(worker);
    inherited.until_known();
    inherited.stop_watchdog();
    kill_process(inherited.worker, Signal::USR1).unwrap();
    wait_for("the new group", || stat(inherited.worker).0 == "sleep");
    inherited.kill_run();
    inherited.stream.shutdown(Shutdown::Both).unwrap();
    inherited.until_all_has_ended();
}

/// The time counts from when `run` said it.
#[test]
fn a_watchdog_that_was_stopped_does_not_let_the_command_go_on_for_longer() {
    let mut inherited = Inherited::start(WORKER);
    inherited.until_known();
    inherited.stop_watchdog();
    inherited.tell(Duration::ZERO);
    inherited.until_all_has_ended();
    inherited.kill_run();
}

/// The run ended with an error, and so its lock was free while the command worked.
#[test]
fn a_run_that_cannot_start_another_watchdog_goes_on_and_tries_again() {
    let arm = Arm::embedded();
    let path = arm.path();
    let script = "echo ready; read word; exit 7";
    let options = ["--session-timeout", "2s", "--notify"];
    let mut command = arm.run(&options, &path, &["sh", "-c", script]);
    let manager = Manager::of(&arm, &mut command);
    let (mut run, stdin) = Running::start_to_write(&mut command);
    run.line_that(|line| line == "ready");
    manager.until_begun();
    let first = watchdog_of(run.pid());
    let allowed = getrlimit(Resource::Nofile);
    let none = Rlimit {
        current: Some(3),
        ..allowed
    };
    prlimit(Some(run.pid()), Resource::Nofile, none).unwrap();
    kill_process(first, Signal::KILL).unwrap();
    assert!(run.error_line().contains("its watchdog was killed"));
    let busy = ended(&mut arm.run(&["--try"], &path, &["true"]));
    assert_eq!(busy.status, 75);
    prlimit(Some(run.pid()), Resource::Nofile, allowed).unwrap();
    assert_ne!(watchdog_of(run.pid()), first);
    drop(stdin);
    assert_eq!(run.end().status, 7);
}

/// A run inside the command of a run. All were stopped together, and went on together, while another one had the inner lock.
#[test]
fn a_stopped_run_does_not_stop_the_watchdog_of_a_run_inside_its_command() {
    let arm = Arm::embedded();
    let (outer, inner) = (arm.path(), arm.path());
    let mut command = arm.run(
        &["-q", "--session-timeout", "30s"],
        &outer,
        &[
            "sh",
            "-c",
            r#""$BINARY" run -q --session-timeout 1s "$INNER" -- sh -c 'echo $$; sleep 600'; true"#,
        ],
    );
    command.env("LOCKKEEPER_CONNECT", &arm.connect);
    command.env("BINARY", env!("CARGO_BIN_EXE_lockkeeper"));
    let mut run = Running::start(command.env("INNER", &inner));
    let line = run.line();
    assert_ne!(line, "", "{}", run.error_line());
    let worker = pid_of(&line);
    run.signal(Signal::TSTP);
    wait_for("the stop", || stat(run.pid()).1 == "T");
    let next = ended(&mut arm.run(&[], &inner, &["true"]));
    assert_eq!(next.status, 0);
    assert!(!is_alive(worker));
    run.signal(Signal::CONT);
    assert_eq!(run.end().status, 0);
}
