//! `lockkeeper run` for cron and deploys: statuses of one's own, messages, periods, access, notices.
//!
//! Not here: what every run does (`run`), signals (`signals`).

use std::{
    fs,
    os::unix::net::UnixDatagram,
    process::Command,
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::support::{
    Arm, Files, Manager, Running, contained, ended, lockkeeper, root, wait_for, without_variables,
};
use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
    proto::OpCode,
};
use lockkeeper_server::When;
use rustix::process::Signal;

on_both_arms!(
    a_conflict_has_the_status_that_the_user_wants,
    verbose_tells_each_step_and_quiet_tells_nothing,
    only_the_creator_can_enter_a_lock_of_its_own,
    the_script_for_a_lost_lock_is_told_the_reason,
    the_command_gets_no_secrets_unless_asked,
    a_service_manager_is_told_when_the_lock_is_held,
    a_command_runs_once_in_a_period,
    a_chroot_that_a_run_creates_is_told,
);

fn a_conflict_has_the_status_that_the_user_wants(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    for options in [
        &["--try", "-E", "9"][..],
        &["--wait", "2s", "--conflict-exit-code", "9"],
    ] {
        arm.ran(options, &path, &["true"]).ends(9).says(&path);
    }
    // An operator deletes the node of a waiter.
    let waiter = arm.start(&["-E", "9"], &path, "true");
    arm.until_nodes(&path, 2);
    let mut nodes = arm.nodes(&path);
    nodes.retain(|node| !guard.path().ends_with(node));
    arm.delete(&format!("{path}/{}", nodes[0]));
    waiter.end().ends(9).says("place in the queue lost");
    arm.release(guard);
}

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

fn only_the_creator_can_enter_a_lock_of_its_own(arm: &Arm) {
    let run = |path: &str, options: &[&str], auth: Option<&str>| {
        let mut run = arm.run(&[&["--try"], options].concat(), path, &["echo", "ran"]);
        run.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
        ended(&mut run)
    };
    let creator = &["--acl", "creator"];
    // The node above all of them is open, too.
    let open = arm.path();
    arm.create(&open);
    let ann = Some("digest:ann:secret");
    for options in [&creator[..], &["--acl", "creator", "--holders", "2"]] {
        let path = arm.path();
        run(&path, options, None).ends(69).says("--auth-file");
        for _ in 0..2 {
            run(&path, options, ann).is(0, "ran\n");
        }
        let his = run(&path, &options[2..], Some("digest:bob:secret"));
        his.is(69, "").says("no permission");
    }
    let named = &["--acl", "digest:ann"];
    let path = arm.path();
    let both = Some("digest:bob:secret\ndigest:ann:secret");
    run(&path, named, both).is(0, "ran\n");
    run(&path, &[], ann).is(0, "ran\n");
    let his = run(&path, &[], Some("digest:bob:secret"));
    his.is(69, "").says("no permission");
    // As it is when ann and bob have one certificate.
    let path = arm.path();
    run(&path, creator, both).is(0, "ran\n");
    let late = run(&path, named, ann);
    late.is(64, "").says("exists, and digest:bob may change it");
    let late = run(&open, creator, ann);
    late.is(64, "").says("everyone may change it");
    let once = &["--acl", "creator", "--once-per", "1d"];
    let path = arm.path();
    run(&path, once, ann).is(0, "ran\n");
    let path = arm.path();
    arm.create(&format!("{path}.once"));
    let late = run(&path, once, ann);
    late.is(64, "")
        .says(".once exists, and everyone may change it");
}

/// The nodes would be there, and closed to this run, too.
#[test]
fn a_lock_for_an_identity_that_a_run_does_not_have_is_not_made() {
    let arm = Arm::embedded();
    let path = arm.path();
    for (who, words) in [
        (
            "digest:bob",
            "no line digest:USER:PASSWORD of that user is in",
        ),
        ("digest:ann:secret", "no line"),
        (
            "x509:CN=ann",
            "--acl x509:CN=ann: this run could not use the lock: the servers know it as ",
        ),
        ("ann", "it is world, creator, or an identity"),
    ] {
        let mut run = arm.run(&["--acl", who], &path, &["true"]);
        let refused = ended(run.env("LOCKKEEPER_AUTH", "digest:ann:secret"));
        let refused = refused.is(64, "").says(words);
        assert!(!refused.stderr.contains("secret"), "{refused:?}");
    }
    assert_eq!(arm.nodes("/"), ["zookeeper"]);
}

/// It cannot be told from the others by its host and a shell.
#[test]
fn a_run_says_in_its_node_what_the_user_wants() {
    let arm = Arm::embedded();
    let path = arm.path();
    let mut run = arm.start(
        &["--data", "nightly backup"],
        &path,
        "echo ready; exec sleep 60",
    );
    assert_eq!(run.line(), "ready");
    let shown = arm.said(&["queue", &path]);
    let who = format!(" pid={} nightly backup\n", run.pid());
    assert!(shown.ends_with(&who), "{shown}");
}

fn the_script_for_a_lost_lock_is_told_the_reason(arm: &Arm) {
    let path = arm.path();
    let hook = r#"echo "$LOCKKEEPER_LOSS at $LOCKKEEPER_PATH""#;
    let script = "echo $LOCKKEEPER_NODE; exec sleep 60";
    let mut run = arm.start(&["--on-loss", hook], &path, script);
    arm.delete(&run.line());
    run.end()
        .ends(74)
        .shows("was deleted")
        .shows(&format!(" at {path}\n"));
}

fn the_command_gets_no_secrets_unless_asked(arm: &Arm) {
    let script = ["sh", "-c", "echo ${LOCKKEEPER_AUTH:-none}"];
    for (options, text) in [
        (&[][..], "none\n"),
        (&["--pass-auth"], "digest:ann:secret\n"),
    ] {
        let mut run = arm.run(options, &arm.path(), &script);
        ended(run.env("LOCKKEEPER_AUTH", "digest:ann:secret")).is(0, text);
    }
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

/// A unit clears it. The run failed because of `cannot reach NOTIFY_SOCKET=`.
#[test]
fn an_empty_name_of_a_service_manager_is_none() {
    let arm = Arm::embedded();
    let mut run = arm.run(&["--notify"], &arm.path(), &["echo", "ran"]);
    ended(run.env("NOTIFY_SOCKET", ""))
        .is(0, "ran\n")
        .silently();
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

/// A chroot with a typing error has locks of its own, which exclude nobody.
fn a_chroot_that_a_run_creates_is_told(arm: &Arm) {
    for options in [&[][..], &["-q"]] {
        let chroot = arm.path();
        let connect = format!("{}{chroot}", arm.connect);
        let start = ["run", "--connect", &connect];
        let arguments = [&start, options, &["/l", "--", "true"]].concat();
        let run = || ended(&mut lockkeeper(&arguments)).ends(0);
        let told = format!("lockkeeper: the chroot {chroot} does not exist; creating it\n");
        assert_eq!(run().stderr, told, "{options:?}");
        run().silently();
    }
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

#[test]
fn a_lock_that_others_hold_is_not_a_period() {
    let arm = Arm::embedded();
    let path = arm.path();
    let guard = arm.hold(&path);
    let run = |command| arm.ran(&["--once-per", "1d", "--try"], &path, &[command]);
    run("true").ends(75);
    arm.release(guard);
    // A start counts, also if the command fails.
    run("false").ends(1);
    let again = run("true").ends(80);
    again.says("it has run in this period of 1 d 0 h");
    let record = format!("{path}.once");
    arm.set_data(&record, "yesterday");
    run("true")
        .ends(64)
        .says(".once says \"yesterday\" in place of the time");
    // A start that lies ahead, as when a clock was wrong. It blocked the command for years, and was called a start of this period.
    arm.set_data(&record, "99999999999999");
    let remedy = format!("lockkeeper set {record} ''");
    run("true")
        .ends(64)
        .says("a start at 5138-11-16T09:46:39.999Z, and the servers have 2")
        .says(&remedy);
    arm.said(&["set", &record, ""]);
    run("true").ends(0);
    // The clocks of two servers differ a little.
    let soon = SystemTime::UNIX_EPOCH.elapsed().unwrap() + Duration::from_secs(20);
    arm.set_data(&record, &soon.as_millis().to_string());
    arm.ran(&["--once-per", "5s"], &path, &["true"]).ends(80);
}

/// Nothing has begun. Status 127 on one host had used up the period of all.
#[test]
fn a_command_that_cannot_begin_gives_its_period_back() {
    let (arm, files) = (Arm::embedded(), Files::new("period"));
    let path = arm.path();
    let record = format!("{path}.once");
    let no_program = files.write("no-program", "");
    let run = |command| arm.ran(&["--once-per", "1d"], &path, &[command]);
    arm.create(&record);
    for before in ["", "1000"] {
        arm.set_data(&record, before);
        run("no-such-command").ends(127);
        assert_eq!(arm.data(&record), before);
        run(&no_program).ends(126);
        assert_eq!(arm.data(&record), before);
    }
    run("false").ends(1);
    run("false").ends(80);
}

/// Status 1 could also be that of the command.
#[test]
fn a_refusal_before_the_command_has_the_status_of_a_refusal() {
    let arm = Arm::embedded();
    let path = arm.path();
    let unreadable = vec![Acl::new(Perms::CREATE, "world", "anyone")];
    arm.create("/lockkeeper-cli-test");
    arm.create_with_acl(&format!("{path}.once"), CreateMode::Persistent, unreadable);
    for options in [&["--once-per", "1d"], &["--acl", "creator"]] {
        arm.ran(options, &path, &["echo", "ran"]).is(69, "");
    }
}

/// Status 75 said that it was not acquired.
#[test]
fn a_lock_lost_before_the_period_is_noted_is_a_lost_lock() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&format!("{path}.once"));
    let faults = arm.server().faults();
    // The first look is before the lock.
    let second_look = When::op(OpCode::GET_DATA)
        .within(format!("{path}.once"))
        .nth(2);
    faults.delay_reply(second_look, Duration::from_secs(1));
    let run = arm.start(&["--once-per", "1d"], &path, "echo ran");
    arm.until_nodes(&path, 1);
    wait_for("the second look", || faults.pending() == 0);
    let node = arm.nodes(&path).pop().unwrap();
    arm.delete(&format!("{path}/{node}"));
    run.end()
        .is(74, "")
        .says("lock lost before the command began");
}

/// An operator has deleted it, or a client has lost its connection between two creates. Every run failed.
#[test]
fn a_missing_clock_is_made_again() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&format!("{path}.once"));
    arm.ran(&["--once-per", "1d"], &path, &["echo", "ran"])
        .is(0, "ran\n")
        .silently();
}
