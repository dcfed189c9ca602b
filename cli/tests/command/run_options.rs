//! `lockkeeper run` for cron and deploys: messages, periods and notices.
//!
//! Not here: what every run does (`run`), signals (`signals`), `--acl` (`transcripts/identities.txt`), the records of periods
//! (`transcripts/periods.txt`).

use std::{
    fs,
    os::unix::net::UnixDatagram,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Arm, Files, Manager, Running, contained, ended, launcher_of, root, wait_for, watchdog_of,
    without_variables,
};
use lockkeeper::proto::OpCode;
use lockkeeper_server::When;
use rustix::process::{Signal, kill_process};

on_both_arms!(
    verbose_tells_each_step_and_quiet_tells_nothing,
    a_service_manager_is_told_when_the_lock_is_held,
    a_command_runs_once_in_a_period,
);

fn verbose_tells_each_step_and_quiet_tells_nothing(arm: &Arm) {
    let path = arm.path();
    let holder = Running::start(&mut arm.run(&[], &path, &["sleep", "600"]));
    arm.until_nodes(&path, 1);
    arm.ran(&["-q", "--try"], &path, &["true"])
        .ends(75)
        .silently();
    let mut waiter = arm.start(&["-v"], &path, "true");
    let waits = waiter.error_line();
    let place = format!("lockkeeper: {path}: waiting for the lock, 1 ahead; held by host=");
    assert!(waits.starts_with(&place), "{waits}");
    let who = format!(" pid={} command=sleep, queued ", holder.pid());
    assert!(waits.contains(&who) && waits.ends_with(" ago"), "{waits}");
    holder.signal(Signal::TERM);
    let granted = waiter.error_line();
    for part in [": granted after ", ", token "] {
        assert!(granted.contains(part), "{granted}");
    }
    let released = waiter.error_line();
    assert_eq!(released, format!("lockkeeper: {path}: released"));
    waiter.end().ends(0);
}

fn a_service_manager_is_told_when_the_lock_is_held(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let script = ["sh", "-c", "echo ${NOTIFY_SOCKET:-none}"];
    let mut run = arm.run(&["--notify"], &path, &script);
    let manager = Manager::of(&mut run);
    let run = Running::start(&mut run);
    assert_eq!(manager.heard(), format!("STATUS=waiting for {path}"));
    arm.until_nodes(&path, 2);
    arm.release(guard);
    let heard = manager.heard();
    run.end().is(0, "none\n");
    assert_eq!(heard, format!("READY=1\nSTATUS={path} is held"));
    assert_eq!(manager.heard(), "STOPPING=1");
}

/// Otherwise no command would run, and the session would end.
#[test]
fn a_service_manager_that_reads_nothing_does_not_stop_the_run() {
    let (arm, files) = (Arm::embedded(), Files::new("full"));
    let socket = files.path("socket");
    let _manager = UnixDatagram::bind(&socket).unwrap();
    let others = UnixDatagram::unbound().unwrap();
    others.set_nonblocking(true).unwrap();
    while others.send_to(b"STATUS=", &socket).is_ok() {}
    let mut run = arm.run(&["--notify"], &arm.path(), &["echo", "ran"]);
    let run = Running::start(run.env("NOTIFY_SOCKET", &socket));
    run.end().is(0, "ran\n");
}

/// Several processes ask again and again, for a few periods. Each of the servers' periods has one run at most, and only the first
/// and the last may have none. What decides is the record beside the lock: see the next test but one.
fn a_command_runs_once_in_a_period(arm: &Arm) {
    const PERIOD_MS: u64 = 700;
    let (path, files) = (arm.path(), Files::new("once"));
    let (log, begin) = (files.path("log"), Instant::now());
    let ask = || {
        let mut statuses = Vec::new();
        while begin.elapsed() < Duration::from_millis(5 * PERIOD_MS) {
            let script = ["sh", "-c", "echo run >> $0", &log];
            let ran = arm.ran(&["-q", "--once-per", "700ms"], &path, &script);
            statuses.push(ran.silently().status);
        }
        statuses
    };
    let statuses: Vec<_> = thread::scope(|scope| {
        let processes = [0; 4].map(|_| scope.spawn(ask));
        processes.map(|it| it.join().unwrap()).concat()
    });
    let periods = begin.elapsed().as_millis() / u128::from(PERIOD_MS) + 2;
    let runs = statuses.iter().filter(|it| **it == 0).count();
    assert!(
        statuses.iter().all(|it| [0, 80].contains(it)),
        "{statuses:?}"
    );
    assert!(runs < statuses.len(), "{statuses:?}");
    assert_eq!(files.text("log").lines().count(), runs);
    let possible = 2..=periods;
    assert!(
        possible.contains(&(runs as u128)),
        "{runs} in {periods} periods"
    );
}

/// The crontabs of two machines start it. Both have seen that the command did not run yet, before they wait for the lock.
#[test]
fn of_two_starts_at_the_same_moment_one_runs_the_command() {
    contained(|| {
        let arm = Arm::embedded();
        for round in 0..6 {
            let path = arm.path();
            let guard = (round % 2 == 0).then(|| arm.hold(&path));
            let start = || arm.start(&["-q", "--once-per", "365d"], &path, "echo ran");
            let both = [start(), start()];
            if let Some(guard) = guard {
                arm.until_nodes(&path, 3);
                arm.release(guard);
            }
            let mut ended = both.map(|it| it.end().silently());
            ended.sort_by_key(|it| it.status);
            let [one, other] = ended;
            one.is(0, "ran\n");
            other.is(80, "");
        }
    });
}

/// Several machines have the crontab. All but the first ended with 80, which `-E 0` did not change, and all started on the border of the
/// period, where clocks that differ a little make two periods.
#[test]
fn the_crontab_of_the_runbook_runs_a_job_once_in_a_period() {
    let (arm, files) = (Arm::embedded(), Files::new("crontab"));
    let runbook = fs::read_to_string(root().join("docs/guide/runbook.md")).unwrap();
    let mut lines = runbook.lines();
    let line = lines.find(|it| it.contains(" * * * *  LOCKKEEPER_CONNECT="));
    let (times, line) = line.unwrap().split_once(" * * * *  ").unwrap();
    for minute in times.split(',') {
        let minute: u32 = minute.parse().unwrap();
        assert!((2..=13).contains(&(minute % 15)), "{minute}");
    }
    let (_, line) = line.split_once(" lockkeeper ").unwrap();
    let log = files.path("log");
    let line = line.replace("/opt/report.sh", &format!("sh -c 'echo ran >> {log}'"));
    let line = line.replace("--once-per 15m", "--once-per 365d");
    let cron = || {
        let mut cron = Command::new("sh");
        let script = format!("exec \"$0\" {line}");
        without_variables(cron.args(["-c", &script, env!("CARGO_BIN_EXE_lockkeeper")]));
        ended(cron.env("LOCKKEEPER_CONNECT", &arm.connect))
    };
    for _ in 0..2 {
        cron().is(0, "").silently();
    }
    assert_eq!(files.text("log"), "ran\n");
    // That it never got the lock is another status.
    let guard = arm.hold("/jobs/report");
    arm.said(&["set", "/jobs/report.once", ""]);
    let options = &["--once-per", "1d", "--done-exit-code", "0", "--try"];
    arm.ran(options, "/jobs/report", &["true"]).ends(75);
    arm.release(guard);
}

/// The look at the record under the lock takes a second. The first look is before the lock.
fn delay_second_look(arm: &Arm, path: &str) {
    let look = When::op(OpCode::GET_DATA).within(format!("{path}.once"));
    let faults = arm.server().faults();
    faults.delay_reply(look.nth(2), Duration::from_secs(1));
}

/// Status 75 said that it was not acquired.
#[test]
fn a_lock_lost_before_the_period_is_noted_is_a_lost_lock() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&format!("{path}.once"));
    delay_second_look(&arm, &path);
    let run = arm.start(&["--once-per", "1d"], &path, "echo ran");
    arm.until_nodes(&path, 1);
    let faults = arm.server().faults();
    wait_for("the second look", || faults.pending() == 0);
    let node = arm.nodes(&path).pop().unwrap();
    arm.delete(&format!("{path}/{node}"));
    run.end()
        .is(74, "")
        .says("lock lost before the command began");
}

/// Status 71 said that the watchdog was killed.
#[test]
fn a_lock_lost_while_the_command_begins_is_a_lost_lock() {
    contained(|| {
        let arm = Arm::embedded();
        let path = arm.path();
        arm.create(&format!("{path}.once"));
        delay_second_look(&arm, &path);
        let options = ["--once-per", "1d", "--session-timeout", "2s"];
        let run = arm.start(&options, &path, "echo ran");
        let launcher = launcher_of(watchdog_of(run.pid()));
        kill_process(launcher, Signal::STOP).unwrap();
        run.end().is(74, "").says("its lock was lost before");
    });
}

/// Status 69. If only the answer to the note was lost, nobody ran the command in this period.
#[test]
fn a_connection_that_is_lost_while_the_period_is_noted_costs_no_run() {
    contained(|| {
        let arm = Arm::embedded();
        // The first look is before the lock.
        for (op, node, nth) in [
            (OpCode::SET_DATA, ".once/clock", 2),
            (OpCode::GET_DATA, ".once", 2),
            (OpCode::MULTI, "", 1),
        ] {
            for is_applied in [false, true] {
                let path = arm.path();
                for made in [".once", ".once/clock"] {
                    arm.create(&format!("{path}{made}"));
                }
                let faults = arm.server().faults();
                let request = When::op(op).within(format!("{path}{node}")).nth(nth);
                if is_applied {
                    faults.lose_reply(request);
                } else {
                    faults.cut_before(request);
                }
                let options = ["--once-per", "365d"];
                let ran = arm.ran(&options, &path, &["echo", "ran"]);
                assert_eq!(faults.pending(), 0);
                ran.is(0, "ran\n").silently();
                arm.ran(&options, &path, &["echo", "ran"]).is(80, "");
            }
        }
    });
}
