//! `lockkeeper run` for cron and deploys: statuses of one's own, messages, periods, access, notices, and the stop key.
//!
//! Not here: what every run does (`run`), other signals (`signals`).

mod support;

use std::{
    collections::BTreeMap,
    fs,
    os::unix::net::UnixDatagram,
    path::PathBuf,
    process::Stdio,
    thread,
    time::{Duration, Instant},
};

use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
    proto::OpCode,
};
use lockkeeper_server::When;
use rustix::process::Signal;
use support::{Arm, Manager, Running, ended, is_alive, lockkeeper, pid_of, wait_for};

on_both_arms!(
    a_conflict_has_the_status_that_the_user_wants,
    verbose_tells_each_step_and_quiet_tells_nothing,
    a_run_inside_itself_is_an_error_and_no_deadlock,
    a_session_timeout_that_the_servers_change_is_told,
    only_the_creator_can_enter_a_lock_of_its_own,
    a_deaf_command_is_killed_after_the_grace_time,
    the_script_for_a_lost_lock_is_told_the_reason,
    the_command_gets_no_secrets_unless_asked,
    a_service_manager_is_told_when_the_lock_is_held,
    a_command_runs_once_in_a_period,
    a_stopped_run_stops_its_command,
    a_chroot_that_a_run_creates_is_told,
);

/// A file of one test. Dropping this value deletes the file.
struct TestFile(PathBuf);

impl TestFile {
    fn new(arm: &Arm, name: &str) -> Self {
        let name = format!("{}-{name}", arm.path().replace('/', "_"));
        Self(std::env::temp_dir().join(name))
    }

    fn path(&self) -> &str {
        self.0.to_str().unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(&self.0).unwrap_or_default()
    }
}

impl Drop for TestFile {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn a_conflict_has_the_status_that_the_user_wants(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    for options in [
        &["--try", "-E", "9"][..],
        &["--wait", "2s", "--conflict-exit-code", "9"],
    ] {
        let ended = ended(&mut arm.run(options, &path, &["true"]));
        assert_eq!(ended.status, 9, "{}", ended.stderr);
        assert!(ended.stderr.contains(&path), "{}", ended.stderr);
    }
    // An operator deletes the node of a waiter.
    let waiter = Running::start(&mut arm.run(&["-E", "9"], &path, &["true"]));
    arm.until_nodes(&path, 2);
    let mut nodes = arm.nodes(&path);
    nodes.retain(|node| !guard.path().ends_with(node));
    arm.delete(&format!("{path}/{}", nodes[0]));
    let ended = waiter.end();
    assert_eq!(ended.status, 9, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("place in the queue lost"),
        "{}",
        ended.stderr
    );
    arm.release(guard);
}

fn verbose_tells_each_step_and_quiet_tells_nothing(arm: &Arm) {
    let path = arm.path();
    let holder = Running::start(&mut arm.run(&[], &path, &["sleep", "600"]));
    arm.until_nodes(&path, 1);
    let holder_pid = holder.pid();
    let quiet = ended(&mut arm.run(&["-q", "--try"], &path, &["true"]));
    assert_eq!((quiet.status, &*quiet.stderr), (75, ""));

    let mut waiter = arm.run(&["-v"], &path, &["true"]);
    let mut waiter = waiter
        .stdin(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut said = std::io::BufReader::new(waiter.stderr.take().unwrap());
    let mut line = || {
        let mut line = String::new();
        std::io::BufRead::read_line(&mut said, &mut line).unwrap();
        line
    };
    let waits = line();
    let place = format!("lockkeeper: {path}: waiting for the lock, 1 ahead; held by host=");
    assert!(waits.starts_with(&place), "{waits}");
    assert!(
        waits.ends_with(&format!(" pid={holder_pid} command=sleep\n")),
        "{waits}"
    );
    holder.signal(Signal::TERM);
    let granted = line();
    assert!(
        granted.contains(": granted after ") && granted.contains(", token "),
        "{granted}"
    );
    assert_eq!(line(), format!("lockkeeper: {path}: released\n"));
    assert_eq!(waiter.wait().unwrap().code(), Some(0));
}

fn a_run_inside_itself_is_an_error_and_no_deadlock(arm: &Arm) {
    let (path, other) = (arm.path(), arm.path());
    let me = env!("CARGO_BIN_EXE_lockkeeper");
    let inner = |inner: &str| {
        let command = [
            me,
            "run",
            "--connect",
            &arm.connect,
            inner,
            "--",
            "echo",
            "ran",
        ];
        ended(&mut arm.run(&[], &path, &command))
    };
    let inside = inner(&path);
    assert_eq!(
        (inside.status, &*inside.stdout),
        (64, ""),
        "{}",
        inside.stderr
    );
    assert!(
        inside.stderr.contains("would wait for itself"),
        "{}",
        inside.stderr
    );
    let beside = inner(&other);
    assert_eq!(
        (beside.status, &*beside.stdout),
        (0, "ran\n"),
        "{}",
        beside.stderr
    );
    // The variables of a lock that is not held any more, or is on other servers.
    let mut stale = arm.run(&[], &path, &["echo", "ran"]);
    stale
        .env("LOCKKEEPER_PATH", &path)
        .env("LOCKKEEPER_NODE", format!("{path}/_c_gone-lock-0000000000"));
    assert_eq!(ended(&mut stale).stdout, "ran\n");
}

fn a_session_timeout_that_the_servers_change_is_told(arm: &Arm) {
    let ended = ended(&mut arm.run(&["--session-timeout", "10h"], &arm.path(), &["true"]));
    assert_eq!(ended.status, 0);
    let text = "lockkeeper: the servers grant a session timeout of ";
    assert!(
        ended.stderr.starts_with(text) && ended.stderr.contains(", not 10 h"),
        "{}",
        ended.stderr
    );
}

fn only_the_creator_can_enter_a_lock_of_its_own(arm: &Arm) {
    let run = |path: &str, options: &[&str], auth: Option<&str>| {
        let mut run = arm.run(&[&["--try"], options].concat(), path, &["echo", "ran"]);
        run.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
        ended(&mut run)
    };
    let creator = &["--acl", "creator"];
    let ann = Some("digest:ann:secret");
    for options in [&creator[..], &["--acl", "creator", "--holders", "2"]] {
        let path = arm.path();
        let nobody = run(&path, options, None);
        assert_eq!(nobody.status, 69, "{}", nobody.stderr);
        assert!(nobody.stderr.contains("--auth-file"), "{}", nobody.stderr);
        for _ in 0..2 {
            let hers = run(&path, options, ann);
            assert_eq!(
                (hers.status, &*hers.stdout),
                (0, "ran\n"),
                "{}",
                hers.stderr
            );
        }
        let his = run(&path, &options[2..], Some("digest:bob:secret"));
        assert_eq!((his.status, &*his.stdout), (69, ""), "{}", his.stderr);
        assert!(his.stderr.contains("no permission"), "{}", his.stderr);
    }
    let open = arm.path();
    arm.release(arm.hold(&open));
    let late = run(&open, creator, ann);
    assert_eq!((late.status, &*late.stdout), (64, ""), "{}", late.stderr);
    assert!(
        late.stderr.contains("everyone may change it"),
        "{}",
        late.stderr
    );
}

fn a_deaf_command_is_killed_after_the_grace_time(arm: &Arm) {
    let path = arm.path();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.05; done";
    let mut run = Running::start(&mut arm.run(&["--grace", "300ms"], &path, &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    let begin = Instant::now();
    run.signal(Signal::TERM);
    let ended = run.end();
    assert!(begin.elapsed() >= Duration::from_millis(300));
    assert_eq!(ended.status, 137, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("did not end in the grace time"),
        "{}",
        ended.stderr
    );
    assert!(!is_alive(pid));
    assert_eq!(arm.nodes(&path), Vec::<String>::new());
}

fn the_script_for_a_lost_lock_is_told_the_reason(arm: &Arm) {
    let path = arm.path();
    let hook = r#"echo "$LOCKKEEPER_LOSS at $LOCKKEEPER_PATH""#;
    let script = "echo $LOCKKEEPER_NODE; exec sleep 60";
    let mut run = Running::start(&mut arm.run(&["--on-loss", hook], &path, &["sh", "-c", script]));
    arm.delete(&run.line());
    let ended = run.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    assert!(ended.stdout.contains("was deleted"), "{}", ended.stdout);
    assert!(
        ended.stdout.ends_with(&format!(" at {path}\n")),
        "{}",
        ended.stdout
    );
}

fn the_command_gets_no_secrets_unless_asked(arm: &Arm) {
    for (options, text) in [
        (&[][..], "none\n"),
        (&["--pass-auth"], "digest:ann:secret\n"),
    ] {
        let mut run = arm.run(
            options,
            &arm.path(),
            &["sh", "-c", "echo ${LOCKKEEPER_AUTH:-none}"],
        );
        let ended = ended(run.env("LOCKKEEPER_AUTH", "digest:ann:secret"));
        assert_eq!(
            (ended.status, &*ended.stdout),
            (0, text),
            "{}",
            ended.stderr
        );
    }
}

fn a_service_manager_is_told_when_the_lock_is_held(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let mut run = arm.run(
        &["--notify"],
        &path,
        &["sh", "-c", "echo ${NOTIFY_SOCKET:-none}"],
    );
    let manager = Manager::of(arm, &mut run);
    let mut run = Running::start(&mut run);
    assert_eq!(manager.heard(), format!("STATUS=waiting for {path}"));
    arm.until_nodes(&path, 2);
    arm.release(guard);
    assert_eq!(manager.heard(), format!("READY=1\nSTATUS={path} is held"));
    assert_eq!(run.line(), "none");
    assert_eq!(manager.heard(), "STOPPING=1");
    assert_eq!(run.end().status, 0);
}

/// Otherwise no command would run, and the session would end.
#[test]
fn a_service_manager_that_reads_nothing_does_not_stop_the_run() {
    let arm = Arm::embedded();
    let file = TestFile::new(&arm, "full");
    let _manager = UnixDatagram::bind(&file.0).unwrap();
    let others = UnixDatagram::unbound().unwrap();
    others.set_nonblocking(true).unwrap();
    while others.send_to(b"STATUS=", &file.0).is_ok() {}
    let mut run = arm.run(&["--notify"], &arm.path(), &["echo", "ran"]);
    let mut run = Running::start(run.env("NOTIFY_SOCKET", &file.0));
    wait_for("the end", || !run.is_running());
    assert_eq!(run.end().stdout, "ran\n");
}

/// Several processes ask again and again, for a few periods. Each of the servers' periods has one run at most, and only the first
/// and the last may have none. What decides is the record beside the lock: see the next test but two.
fn a_command_runs_once_in_a_period(arm: &Arm) {
    const PERIOD_MS: u64 = 700;
    let path = arm.path();
    let log = TestFile::new(arm, "once");
    let begin = Instant::now();
    let ask = || {
        let mut statuses = Vec::new();
        while begin.elapsed() < Duration::from_millis(5 * PERIOD_MS) {
            let script = "echo run >> $0";
            let options = ["-q", "--once-per", "700ms"];
            let ended = ended(&mut arm.run(&options, &path, &["sh", "-c", script, log.path()]));
            assert_eq!(ended.stderr, "");
            statuses.push(ended.status);
        }
        statuses
    };
    let statuses: Vec<_> = thread::scope(|scope| {
        let processes: Vec<_> = (0..4).map(|_| scope.spawn(ask)).collect();
        processes
            .into_iter()
            .flat_map(|it| it.join().unwrap())
            .collect()
    });
    let periods = begin.elapsed().as_millis() / u128::from(PERIOD_MS) + 2;
    let mut counts = BTreeMap::new();
    for status in statuses {
        *counts.entry(status).or_insert(0_u128) += 1;
    }
    let runs = counts.get(&0).copied().unwrap_or(0);
    assert_eq!(counts.keys().copied().collect::<Vec<_>>(), [0, 80]);
    assert_eq!(log.text().lines().count() as u128, runs);
    assert!(
        (2..=periods).contains(&runs),
        "{runs} runs in {periods} periods"
    );
}

/// Stops both or neither: a command that goes on while `run` is stopped would lose its lock without a word.
fn a_stopped_run_stops_its_command(arm: &Arm) {
    // A shell that has just started a program waits for it without showing that it is stopped, too.
    let script = "echo $$; exec sleep 600";
    let mut run = Running::start(&mut arm.run(&[], &arm.path(), &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    let state = |pid: rustix::process::Pid| {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
        stat.rsplit(") ").next().unwrap().chars().next().unwrap()
    };
    run.signal(Signal::TSTP);
    wait_for("the stop of both", || {
        state(pid) == 'T' && state(run.pid()) == 'T'
    });
    run.signal(Signal::CONT);
    wait_for("the command to go on", || {
        state(pid) != 'T' && state(run.pid()) != 'T'
    });
    run.signal(Signal::TERM);
    assert_eq!(run.end().status, 143);
}

/// With --strict, success says that the lock was released.
#[test]
fn an_unconfirmed_release_is_a_failure_if_the_user_is_strict() {
    let arm = Arm::embedded();
    let options = ["--session-timeout", "3s", "--strict"];
    let fifo = TestFile::new(&arm, "strict");
    assert!(
        std::process::Command::new("mkfifo")
            .arg(&fifo.0)
            .status()
            .unwrap()
            .success()
    );
    let script = "echo ready; read x < $0; exit 5";
    let mut run =
        Running::start(&mut arm.run(&options, &arm.path(), &["sh", "-c", script, fifo.path()]));
    assert_eq!(run.line(), "ready");
    arm.server.as_ref().unwrap().faults().stall();
    fs::write(&fifo.0, "\n").unwrap();
    let ended = run.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("release not confirmed"),
        "{}",
        ended.stderr
    );
}

/// A chroot with a typing error has locks of its own, which exclude nobody.
fn a_chroot_that_a_run_creates_is_told(arm: &Arm) {
    let chroot = arm.path();
    let connect = format!("{}{chroot}", arm.connect);
    let run = |then: &str| {
        let ran = ended(&mut lockkeeper(&[
            "run",
            "--connect",
            &connect,
            "/l",
            "--",
            "true",
        ]));
        assert_eq!((ran.status, &*ran.stderr), (0, then));
    };
    run(&format!(
        "lockkeeper: the chroot {chroot} does not exist; creating it\n"
    ));
    run("");
}

#[test]
fn a_lock_that_others_hold_is_not_a_period() {
    let arm = Arm::embedded();
    let path = arm.path();
    let guard = arm.hold(&path);
    let options = ["--once-per", "1d", "--try"];
    assert_eq!(ended(&mut arm.run(&options, &path, &["true"])).status, 75);
    arm.release(guard);
    assert_eq!(ended(&mut arm.run(&options, &path, &["false"])).status, 1);
    let again = ended(&mut arm.run(&options, &path, &["true"]));
    assert_eq!(
        again.status, 80,
        "a start counts, also if the command fails"
    );
    assert!(
        again
            .stderr
            .contains("it has run in this period of 1 d 0 h"),
        "{}",
        again.stderr
    );
    // A start that lies ahead, as when the servers' clock was set back.
    arm.set_data(&format!("{path}.once"), "99999999999999");
    assert_eq!(ended(&mut arm.run(&options, &path, &["true"])).status, 80);
    arm.set_data(&format!("{path}.once"), "1000");
    assert_eq!(ended(&mut arm.run(&options, &path, &["true"])).status, 0);
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
        let ended = ended(&mut arm.run(options, &path, &["echo", "ran"]));
        assert_eq!((ended.status, &*ended.stdout), (69, ""), "{}", ended.stderr);
    }
}

/// Status 75 said that it was not acquired.
#[test]
fn a_lock_lost_before_the_period_is_noted_is_a_lost_lock() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&format!("{path}.once"));
    let faults = arm.server.as_ref().unwrap().faults();
    // The first look is before the lock.
    let second_look = When::op(OpCode::GET_DATA)
        .within(format!("{path}.once"))
        .nth(2);
    faults.delay_reply(second_look, Duration::from_secs(1));
    let run = Running::start(&mut arm.run(&["--once-per", "1d"], &path, &["echo", "ran"]));
    arm.until_nodes(&path, 1);
    wait_for("the second look", || faults.pending() == 0);
    let node = arm.nodes(&path).pop().unwrap();
    arm.delete(&format!("{path}/{node}"));
    let ended = run.end();
    assert_eq!((ended.status, &*ended.stdout), (74, ""), "{}", ended.stderr);
    assert!(
        ended.stderr.contains("lock lost before the command began"),
        "{}",
        ended.stderr
    );
}

/// An operator has deleted it, or a client has lost its connection between two creates. Every run failed.
#[test]
fn a_missing_clock_is_made_again() {
    let arm = Arm::embedded();
    let path = arm.path();
    let mut run = arm.run(&["--once-per", "1d"], &path, &["echo", "ran"]);
    arm.create(&format!("{path}.once"));
    let ended = ended(&mut run);
    assert_eq!(
        (ended.status, &*ended.stdout, &*ended.stderr),
        (0, "ran\n", "")
    );
}
