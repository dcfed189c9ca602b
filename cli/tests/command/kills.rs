//! Who is killed when `run`, its watchdog or both are killed: what the command has started, and nobody else.
//!
//! All tests run in a PID namespace of their own, where one can be made. `LOCKKEEPER_TRIES=300` tries that many random trees.

use std::{
    cell::Cell,
    env, fs,
    io::{self, Write as _},
    os::unix::{fs::PermissionsExt as _, process::CommandExt as _},
    process::{Child, Command},
    thread,
    time::Duration,
};

use crate::support::{
    Arm, Files, Manager, Running, children, contained, ended, is_alive, marked, namespace, pid_of,
    root, until_dead, wait_for, watchdog_of,
};
use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, TestRunner},
};
use rustix::process::{Pid, Signal, geteuid, kill_process};

/// A way to start something in a shell.
const WAYS: [&str; 5] = [
    "{}; true",
    "{} & wait; true",
    "timeout 300 {}; true",
    "setsid -w {}; true",
    "setsid {} & sleep 600",
];

/// Whom a signal kills, in this order, with a pause of some microseconds between two.
#[derive(Clone, Copy, Debug)]
enum Victim {
    Run,
    Watchdog,
    /// Whatever killall(1) or pkill(1) would find by the name of the program.
    Named,
}

/// A command that starts a tree of processes, each by one of the ways.
fn tree() -> impl Strategy<Value = String> {
    Just("sleep 600".to_owned()).prop_recursive(3, 6, 2, |below| {
        let below = prop::collection::vec((select(&WAYS[..]), below), 1..=2);
        below.prop_map(|below| {
            let scripts = below.into_iter().map(|(way, script)| {
                let script = format!("sh -c '{}'", script.replace('\'', r"'\''"));
                way.replace("{}", &script)
            });
            scripts.collect::<Vec<_>>().join(" & ")
        })
    })
}

fn kills() -> impl Strategy<Value = (u64, Vec<(Victim, u64)>)> {
    let victims = select(&[Victim::Run, Victim::Watchdog, Victim::Named][..]);
    let kill = (victims, 0..400_u64);
    // From before the watchdog is there, to long after the command has begun.
    (0..120_u64, prop::collection::vec(kill, 1..=2))
}

/// Processes that have nothing to do with the command. Dropping this value kills them.
struct Bystanders(Child, Vec<Pid>);

impl Bystanders {
    /// In the group of this process, as `run` is; and one that the first process of the namespace has inherited.
    fn start() -> Self {
        let sleep = || {
            let mut sleep = Command::new("sleep");
            sleep.arg("600");
            sleep
        };
        let inherited =
            ended(Command::new("sh").args(["-c", "sleep 600 > /dev/null 2>&1 & echo $!"]));
        let beside = sleep().spawn().unwrap();
        let pids = vec![Pid::from_child(&beside), pid_of(inherited.stdout.trim())];
        Self(beside, pids)
    }

    fn are_alive(&self) -> bool {
        self.1.iter().all(|pid| is_alive(*pid))
    }
}

impl Drop for Bystanders {
    fn drop(&mut self) {
        for pid in &self.1 {
            let _ = kill_process(*pid, Signal::KILL);
        }
        let _ = self.0.wait();
    }
}

/// A watchdog whose `run` was gone took the first process of the machine for its `run`, and killed everything.
#[test]
fn kills_at_any_time_reach_all_of_the_command_and_nobody_else() {
    contained(|| {
        let tries = env::var("LOCKKEEPER_TRIES").map_or(30, |tries| tries.parse().unwrap());
        let config = Config {
            failure_persistence: None,
            ..Config::with_cases(tries)
        };
        let (arm, bystanders) = (Arm::embedded(), Bystanders::start());
        let case = Cell::new(0);
        let found = TestRunner::new(config).run(&(tree(), kills()), |(tree, (delay, kills))| {
            case.set(case.get() + 1);
            try_one(
                &arm,
                &bystanders,
                &format!("MARK={}", case.get()),
                &tree,
                delay,
                &kills,
            );
            Ok(())
        });
        found.unwrap();
    });
}

fn try_one(
    arm: &Arm,
    bystanders: &Bystanders,
    mark: &str,
    tree: &str,
    delay: u64,
    kills: &[(Victim, u64)],
) {
    // The shell has a child before it becomes `run`.
    let run = arm.run(
        &["-q", "--session-timeout", "2s"],
        &arm.path(),
        &["sh", "-c", tree],
    );
    let mut shell = Command::new("sh");
    shell.args(["-c", "sleep 600 & echo $!; exec env \"$@\"", "sh", mark]);
    let mut run = Running::start(shell.arg(run.get_program()).args(run.get_args()));
    let child = run.pid_in_line();
    thread::sleep(Duration::from_millis(delay));
    let watchdog = || {
        let found = marked(mark);
        let found = found.iter().find(|(_, name)| name == "lock-watchdog\n");
        found.map(|(pid, _)| *pid)
    };
    let victims: Vec<_> = kills
        .iter()
        .map(|(victim, pause)| {
            let pids = match victim {
                Victim::Run => vec![run.pid()],
                Victim::Watchdog => watchdog().into_iter().collect(),
                Victim::Named => named(mark),
            };
            (pids, *pause)
        })
        .collect();
    let guardians: Vec<_> = watchdog().into_iter().chain([run.pid()]).collect();
    let commands: Vec<_> = guardians.iter().flat_map(|it| children(*it)).collect();
    for (pids, pause) in &victims {
        for pid in pids {
            let _ = kill_process(*pid, Signal::KILL);
        }
        thread::sleep(Duration::from_micros(*pause));
    }
    let is_killed = |pid: &Pid| victims.iter().any(|(pids, _)| pids.contains(pid));
    if guardians.iter().all(is_killed) {
        // Nobody is left who could reach more than the command itself.
        commands
            .into_iter()
            .filter(|it| *it != child)
            .for_each(until_dead);
    } else if victims.iter().any(|(pids, _)| !pids.is_empty()) {
        wait_for("the end of all", || marked(mark).is_empty());
    }
    assert!(bystanders.are_alive());
    assert!(is_alive(child), "a child that `run` had before");
    drop(run);
    let _ = kill_process(child, Signal::KILL);
    // A command that nobody ends any more may start another process meanwhile.
    wait_for("the end of all", || {
        let left = marked(mark);
        for (pid, _) in &left {
            let _ = kill_process(*pid, Signal::KILL);
        }
        left.is_empty()
    });
}

/// What killall(1) and pkill(1) would find by the name of the program.
fn named(mark: &str) -> Vec<Pid> {
    let mut found = marked(mark);
    found.retain(|(_, name)| name.contains("lockkeeper"));
    found.into_iter().map(|(pid, _)| pid).collect()
}

/// The watchdog had the name of the program. Its command went on, and the next holder entered.
#[test]
fn killing_all_processes_with_the_name_of_the_program_ends_the_command() {
    contained(|| {
        let arm = Arm::embedded();
        for round in 0..20 {
            let mark = format!("MARK={round}");
            let mut run = arm.run(&[], &arm.path(), &["sh", "-c", "echo $$; sleep 600; true"]);
            let mut run = Running::start(run.env("MARK", round.to_string()));
            run.pid_in_line();
            let victims = named(&mark);
            assert_eq!(victims, [run.pid()]);
            for pid in victims {
                kill_process(pid, Signal::KILL).unwrap();
            }
            wait_for("the end of all", || marked(&mark).is_empty());
        }
    });
}

/// Nobody is left who could end the command. The system does.
#[test]
fn a_command_ends_when_its_run_and_its_watchdog_are_killed() {
    contained(|| {
        let arm = Arm::embedded();
        for _ in 0..20 {
            let mut run = arm.start(&[], &arm.path(), "echo $$; exec sleep 600");
            let (command, watchdog) = (run.pid_in_line(), watchdog_of(run.pid()));
            kill_process(watchdog, Signal::KILL).unwrap();
            run.signal(Signal::KILL);
            until_dead(command);
        }
    });
}

/// A script calls sudo(8). Nobody heard of such a process, and it worked beside the next holder.
#[test]
fn a_process_of_another_user_is_named_when_it_cannot_be_ended() {
    contained(|| {
        if !geteuid().is_root() {
            println!("left out: only root can make a program that changes its user");
            return;
        }
        let (arm, files) = (Arm::embedded(), Files::new("user"));
        let directory = files.path("");
        fs::set_permissions(&directory, fs::Permissions::from_mode(0o755)).unwrap();
        let (program, setpriv) = (files.path("lockkeeper"), files.path("setpriv"));
        fs::copy(env!("CARGO_BIN_EXE_lockkeeper"), &program).unwrap();
        fs::copy("/usr/bin/setpriv", &setpriv).unwrap();
        fs::set_permissions(&setpriv, fs::Permissions::from_mode(0o4755)).unwrap();
        for is_killed in [false, true] {
            let options = ["--session-timeout", "2s", "--grace", "100ms", "--notify"];
            let script = r#""$0" --reuid 1 --clear-groups sh -c 'echo $$; exec sleep 600'; true"#;
            let command = ["sh", "-c", script, &setpriv];
            let prepared = arm.run(&options, &arm.path(), &command);
            let mut run = Command::new(&program);
            run.args(prepared.get_args()).uid(65534).gid(65534);
            let manager = Manager::of(&mut run).hears_everybody();
            let mut run = Running::start(&mut run);
            let other = run.pid_in_line();
            manager.until_begun();
            run.signal(if is_killed {
                Signal::KILL
            } else {
                Signal::TERM
            });
            let said = run.error_line();
            let named = format!("(pid {other}) belongs to another user");
            assert!(said.contains(&named), "{said}");
            assert!(is_alive(other));
            kill_process(other, Signal::KILL).unwrap();
            if !is_killed {
                run.end().ends(143);
            }
        }
    });
}

/// The lock was taken, and then there was no such file.
#[test]
fn a_run_that_cannot_see_its_processes_says_so_before_it_takes_the_lock() {
    contained(|| {
        let arm = Arm::embedded();
        let path = arm.path();
        // The file system of the outer namespace.
        let run = arm.run(&[], &path, &["true"]);
        let mut inside = Command::new("unshare");
        inside
            .args(["--pid", "--fork"])
            .arg(run.get_program())
            .args(run.get_args());
        let tried = ended(Command::new("unshare").args(["--pid", "--fork", "true"]));
        if tried.status != 0 {
            println!("left out: no PID namespace can be made");
            return;
        }
        ended(&mut inside)
            .ends(71)
            .says("/proc")
            .says("another PID namespace");
        assert_eq!(arm.nodes(&path), [""; 0]);
    });
}

/// What the command had started worked on beside the next holder: nobody was left to end it. The system ends a PID namespace with
/// its first process.
#[test]
fn nothing_in_a_namespace_outlives_its_run_and_its_watchdog() {
    if ended(&mut namespace(&["true"])).status != 0 {
        // Not by a macro, whose output is hidden when the test passes.
        let _ = io::stderr().write_all(b"NOT TESTED: unshare(1) can make no PID namespace here\n");
        return;
    }
    contained(|| {
        let runbook = fs::read_to_string(root().join("docs/guide/runbook.md")).unwrap();
        let (_, line) = runbook.split_once(" -- unshare ").unwrap();
        let options = line.split_whitespace();
        let options: Vec<_> = options.take_while(|it| it.starts_with("--")).collect();
        let arm = Arm::embedded();
        for (round, way) in (0..20).zip(WAYS.iter().cycle()) {
            let mark = format!("MARK={round}");
            let tree = way.replace("{}", "sh -c 'echo started; sleep 600; true'");
            let command = [&["unshare"], &options[..], &["sh", "-c", &tree]].concat();
            let mut run = arm.run(&[], &arm.path(), &command);
            let mut run = Running::start(run.env("MARK", round.to_string()));
            assert_eq!(run.line(), "started");
            let both = [run.pid(), watchdog_of(run.pid())];
            // The first one is not to see the end of the other.
            for signal in [Signal::STOP, Signal::KILL] {
                for pid in both {
                    kill_process(pid, signal).unwrap();
                }
            }
            wait_for("the end of all", || marked(&mark).is_empty());
        }
    });
}
