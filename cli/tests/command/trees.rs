//! What a command leaves behind, in each way in which a run can end: nobody enters the section while any of it works.
//!
//! Each kind of process that a command may start is tried with each end. The worker holds a lock of the system, flock(2), as long as
//! it lives, or what it has started. The next holder looks whether that lock is free. `LOCKKEEPER_TRIES=1000` repeats each case.

use std::{env, fs, thread, time::Duration};

use crate::support::{
    Arm, Files, Manager, Running, contained, is_alive, pid_of, session_of, until_dead, wait_for,
    watchdog_of,
};
use rustix::process::{Pid, Signal, kill_process};

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
    let (arm, files) = (Arm::embedded(), Files::new(name));
    let path = arm.path();
    let options = [&["-q", "--session-timeout", "2s", "--notify"], options].concat();
    let mut run = arm.run(&options, &path, &["sh", "-c", tree]);
    let manager = Manager::of(&mut run);
    let run = Running::start(run.env("W", WORKER).env("DIR", files.path("")));
    let worker = Worker::of(&files);
    let look = format!("flock -n {} echo free", files.path("section"));
    let next = arm.start(&[], &path, &look);
    arm.until_nodes(&path, 2);
    manager.until_begun();
    end(&arm, &run, &path, worker.0);
    next.end().is(0, "free\n").silently();
    assert!(!is_alive(worker.0), "{name}");
}

/// Its time is over: only the shell was killed, and what it had started went on.
#[test]
fn a_script_for_a_lost_lock_that_takes_too_long_ends_with_all_that_it_has_started() {
    contained(|| {
        let arm = Arm::embedded();
        let hook = "sleep 600 & setsid sleep 600 & echo $$ $!; wait";
        let script = "echo $LOCKKEEPER_NODE; exec sleep 600";
        let mut run = arm.start(&["--on-loss", hook], &arm.path(), script);
        arm.delete(&run.line());
        let [shell, other] = run.words().map(|pid| pid_of(&pid));
        until_dead(shell);
        until_dead(other);
        run.end()
            .ends(74)
            .says("the script of --on-loss did not end in 10 s; it was killed");
    });
}

/// A worker. Dropping this value kills it: a test that fails must not leave it behind.
struct Worker(Pid);

impl Worker {
    fn of(files: &Files) -> Self {
        let file = files.path("worker");
        wait_for("the worker", || fs::exists(&file).unwrap());
        Self(pid_of(files.text("worker").trim()))
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if is_alive(self.0) {
            let _ = kill_process(self.0, Signal::KILL);
        }
    }
}

#[test]
fn a_run_that_gets_term_waits_for_all_that_its_command_has_started() {
    contained(|| {
        each_tree(&[], |_, run, _, _| run.signal(Signal::TERM));
    });
}

/// Shells let what they start in the background ignore INT.
#[test]
fn a_run_that_gets_int_waits_for_what_ignores_it() {
    contained(|| {
        each_tree(&["--grace", "100ms"], |_, run, _, _| {
            run.signal(Signal::INT);
            thread::sleep(Duration::from_millis(100));
            // The run may have ended.
            let _ = kill_process(run.pid(), Signal::TERM);
        });
    });
}

/// A process that ignores TERM is killed after the grace time, and only then the lock is free.
#[test]
fn a_run_that_gets_term_kills_what_is_left_after_the_grace_time() {
    contained(|| {
        each_tree(&["--grace", "50ms"], |_, run, _, worker| {
            kill_process(worker, Signal::STOP).unwrap();
            run.signal(Signal::TERM);
        });
    });
}

#[test]
fn a_lost_lock_ends_all_before_the_session_expires() {
    contained(|| {
        each_tree(&[], |arm, _, path, worker| {
            let session = session_of(arm.server(), path).unwrap();
            arm.server().faults().stall_session(session);
            until_dead(worker);
        });
    });
}

#[test]
fn a_run_that_is_killed_or_stopped_leaves_nothing() {
    contained(|| {
        for signal in [Signal::KILL, Signal::ALARM, Signal::STOP] {
            each_tree(&[], |_, run, _, _| run.signal(signal));
        }
    });
}

/// Nobody would end the command if its run were killed or stopped, too. So the run gives the lock up, and ends all first.
#[test]
fn a_run_whose_watchdog_was_killed_ends_all_and_gives_the_lock_up() {
    contained(|| {
        each_tree(&[], |_, run, _, _| {
            kill_process(watchdog_of(run.pid()), Signal::KILL).unwrap();
        });
        let (arm, path) = (Arm::embedded(), String::from("/l"));
        let mut run = arm.run(
            &["--notify"],
            &path,
            &["sh", "-c", "echo $PPID; sleep 600 & wait"],
        );
        let manager = Manager::of(&mut run);
        let mut run = Running::start(&mut run);
        manager.until_begun();
        kill_process(run.pid_in_line(), Signal::KILL).unwrap();
        run.end().ends(74).says("lock lost: the watchdog");
    });
}

/// A command that ends leaves its worker behind, as under flock(1).
#[test]
fn a_command_that_ends_keeps_the_lock_as_long_as_what_it_has_started() {
    contained(|| {
        const ALONE: &str = r#"until [ -e "$DIR/worker" ]; do sleep 0.02; done; exit 7"#;
        let arm = Arm::embedded();
        // The process of the first one is the command itself.
        for (name, tree) in TREES.into_iter().skip(1) {
            let path = arm.path();
            let script = format!("{{ {tree}; }} & {ALONE}");
            for options in [&[][..], &["--no-wait-children"]] {
                let files = Files::new(name);
                let mut run = arm.run(options, &path, &["sh", "-c", &script]);
                let mut run = Running::start(run.env("W", WORKER).env("DIR", files.path("")));
                let worker = Worker::of(&files);
                // The message comes a second after the end of the command, or with the release.
                let said = run.error_line();
                assert!(said.contains(&worker.0.to_string()), "{name}: {said}");
                let next = arm.ran(&["--try"], &path, &["true"]);
                if options.is_empty() {
                    assert!(said.contains("the lock is held until"), "{name}: {said}");
                    next.ends(75);
                    run.signal(Signal::TERM);
                } else {
                    assert!(said.contains("without the lock"), "{name}: {said}");
                    next.ends(0);
                    kill_process(worker.0, Signal::TERM).unwrap();
                }
                run.end().ends(7);
            }
        }
    });
}
