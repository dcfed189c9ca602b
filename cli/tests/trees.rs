//! What a command leaves behind, in each way in which a run can end: nobody enters the section while any of it works.
//!
//! Each kind of process that a command may start is tried with each end. The worker holds a lock of the system, flock(2), as long as
//! it lives, or what it has started. The next holder looks whether that lock is free. `LOCKKEEPER_TRIES=1000` repeats each case.
#![cfg(target_os = "linux")]

mod support;

use std::{env, fs, path::Path, thread, time::Duration};

use rustix::process::{Pid, Signal, kill_process};
use support::{Arm, Manager, Running, ended, is_alive, pid_of, session_of, wait_for, watchdog_of};

/// Ways to start the worker, `$W`. To most of them, a signal to the command or its group does not come by itself.
const TREES: [(&str, &str); 6] = [
    ("child", r#"eval "$W""#),
    ("shell", r#"sh -c "$W"; true"#),
    ("background", r#"sh -c "$W" & wait; true"#),
    ("timeout", r#"timeout 300 sh -c "$W"; true"#),
    ("setsid", r#"setsid -w sh -c "$W"; true"#),
    (
        "daemon",
        r#"setsid sh -c 'sh -c "$W" &'; until [ -e "$DIR/worker" ]; do sleep 0.02; done
        while kill -0 $(cat "$DIR/worker"); do sleep 0.05; done 2> /dev/null"#,
    ),
];

/// It takes a moment to end.
const WORKER: &str = r#"exec 9> "$DIR/section"; flock -n 9 || exit 99; trap "sleep 0.3; exit" TERM
    echo $$ > "$DIR/new"; mv "$DIR/new" "$DIR/worker"; while :; do sleep 0.05; done"#;

/// Tries one end of a run with each tree. The next run gets the lock afterwards, and finds the section free.
fn each_tree(options: &[&str], end: impl Fn(&Arm, &Running, &str, Pid) + Sync) {
    let tries = env::var("LOCKKEEPER_TRIES").map_or(1, |tries| tries.parse().unwrap());
    thread::scope(|scope| {
        for (name, tree) in TREES {
            let end = &end;
            scope.spawn(move || (0..tries).for_each(|_| try_one(name, tree, options, end)));
        }
    });
}

fn try_one(name: &str, tree: &str, options: &[&str], end: impl Fn(&Arm, &Running, &str, Pid)) {
    let arm = Arm::embedded();
    let path = arm.path();
    let directory = env::temp_dir().join(path.replace('/', "_"));
    fs::create_dir(&directory).unwrap();
    let options = [&["-q", "--session-timeout", "2s", "--notify"], options].concat();
    let mut run = arm.run(&options, &path, &["sh", "-c", tree]);
    let manager = Manager::of(&arm, &mut run);
    let run = Running::start(run.env("W", WORKER).env("DIR", &directory));
    let worker = worker_in(&directory);
    let section = directory.join("section");
    let look = ["flock", "-n", section.to_str().unwrap(), "echo", "free"];
    let next = Running::start(&mut arm.run(&[], &path, &look));
    arm.until_nodes(&path, 2);
    manager.until_begun();
    end(&arm, &run, &path, worker);
    let next = next.end();
    assert_eq!(
        (next.status, &*next.stdout, &*next.stderr),
        (0, "free\n", ""),
        "{name}"
    );
    assert!(!is_alive(worker), "{name}");
    drop(run);
    fs::remove_dir_all(directory).unwrap();
}

fn worker_in(directory: &Path) -> Pid {
    let file = directory.join("worker");
    wait_for("the worker", || file.exists());
    pid_of(fs::read_to_string(file).unwrap().trim())
}

#[test]
fn a_run_that_gets_term_waits_for_all_that_its_command_has_started() {
    each_tree(&[], |_, run, _, _| run.signal(Signal::TERM));
}

/// Shells let what they start in the background ignore INT.
#[test]
fn a_run_that_gets_int_waits_for_what_ignores_it() {
    each_tree(&["--grace", "100ms"], |_, run, _, _| {
        run.signal(Signal::INT);
        thread::sleep(Duration::from_millis(100));
        // The run may have ended.
        let _ = kill_process(run.pid(), Signal::TERM);
    });
}

/// A process that ignores TERM is killed after the grace time, and only then the lock is free.
#[test]
fn a_run_that_gets_term_kills_what_is_left_after_the_grace_time() {
    each_tree(&["--grace", "50ms"], |_, run, _, worker| {
        kill_process(worker, Signal::STOP).unwrap();
        run.signal(Signal::TERM);
    });
}

#[test]
fn a_lost_lock_ends_all_before_the_session_expires() {
    each_tree(&[], |arm, _, path, worker| {
        let server = arm.server.as_ref().unwrap();
        let session = session_of(server, path).unwrap();
        server.faults().stall_session(session);
        wait_for("the end of the worker", || !is_alive(worker));
    });
}

#[test]
fn a_killed_run_leaves_nothing() {
    each_tree(&[], |_, run, _, _| run.signal(Signal::KILL));
}

#[test]
fn a_stopped_run_leaves_nothing_when_its_lease_has_ended() {
    each_tree(&[], |_, run, _, _| run.signal(Signal::STOP));
}

/// The second watchdog has no processes of its own below it, but knows those that it has seen.
#[test]
fn a_killed_watchdog_is_replaced() {
    for last in [Signal::KILL, Signal::STOP] {
        each_tree(&[], |_, run, _, _| {
            let first = watchdog_of(run.pid());
            kill_process(first, Signal::KILL).unwrap();
            wait_for("another watchdog", || watchdog_of(run.pid()) != first);
            thread::sleep(Duration::from_millis(500));
            run.signal(last);
        });
    }
}

/// Without a watchdog that has begun the command, `run` itself waits for all, and knows the command's status.
#[test]
fn a_run_whose_watchdog_was_killed_goes_on() {
    each_tree(&[], |_, run, _, _| {
        kill_process(watchdog_of(run.pid()), Signal::KILL).unwrap();
        run.signal(Signal::TERM);
    });
    let arm = Arm::embedded();
    let mut run = arm.run(
        &["-q", "--notify"],
        &arm.path(),
        &["sh", "-c", "echo $PPID; sleep 0.3 & sleep 0.2; exit 7"],
    );
    let manager = Manager::of(&arm, &mut run);
    let mut run = Running::start(&mut run);
    manager.until_begun();
    kill_process(pid_of(&run.line()), Signal::KILL).unwrap();
    assert_eq!(run.end().status, 7);
}

/// A command that ends leaves its worker behind, as under flock(1).
#[test]
fn a_command_that_ends_keeps_the_lock_as_long_as_what_it_has_started() {
    const ALONE: &str = r#"until [ -e "$DIR/worker" ]; do sleep 0.02; done; exit 7"#;
    let arm = Arm::embedded();
    // The process of the first one is the command itself.
    for (name, tree) in TREES.into_iter().skip(1) {
        let path = arm.path();
        let directory = env::temp_dir().join(path.replace('/', "_"));
        fs::create_dir(&directory).unwrap();
        let script = format!("{{ {tree}; }} & {ALONE}");
        for options in [&[][..], &["--no-wait-children"]] {
            let mut run = arm.run(options, &path, &["sh", "-c", &script]);
            let mut run = Running::start(run.env("W", WORKER).env("DIR", &directory));
            let worker = worker_in(&directory);
            // The message comes a second after the end of the command, or with the release.
            let said = run.error_line();
            assert!(said.contains(&worker.to_string()), "{name}: {said}");
            let next = ended(&mut arm.run(&["--try"], &path, &["true"]));
            if options.is_empty() {
                assert!(said.contains("the lock is held until"), "{name}: {said}");
                assert_eq!(next.status, 75, "{name}");
                run.signal(Signal::TERM);
            } else {
                assert!(said.contains("without the lock"), "{name}: {said}");
                assert_eq!(next.status, 0, "{name}");
                kill_process(worker, Signal::TERM).unwrap();
            }
            assert_eq!(run.end().status, 7, "{name}");
            fs::remove_file(directory.join("worker")).unwrap();
        }
        fs::remove_dir_all(directory).unwrap();
    }
}
