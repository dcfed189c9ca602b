//! `lockkeeper run`: exclusion, time limits, lost locks.
//!
//! Not here: signals (`signals`), what a command has started (`trees`), statuses, variables and messages
//! (`transcripts/run.txt`), `--shared` and `--holders` (`transcripts/sharing.txt`).

use std::{
    fs,
    io::{BufRead as _, BufReader, PipeReader, PipeWriter, Read as _, Write as _},
    net::TcpListener,
    os::{fd::OwnedFd, unix::net::UnixDatagram},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use crate::support::{
    Arm, Files, Manager, Running, contained, ended, is_alive, is_in, lockkeeper, session_of,
    until_dead, wait_for, watchdog_of,
};
use lockkeeper::proto::{ErrorCode, OpCode};
use lockkeeper_server::When;
use rustix::process::{Signal, kill_process};

on_both_arms!(
    contained:
    forty_runs_on_one_path_exclude_each_other,
    a_try_takes_a_free_lock_and_writes_nothing_at_one_that_is_taken,
    a_wait_ends_at_its_limit_and_leaves_no_node,
    a_lost_lock_ends_a_script_and_its_children,
    a_command_whose_lock_somebody_asks_for_gets_term,
    a_command_that_ignores_term_is_killed,
    a_command_that_ends_without_the_lock_gives_status_74,
);

/// So many may start in the same second, from cron.
fn forty_runs_on_one_path_exclude_each_other(arm: &Arm) {
    let (path, files) = (arm.path(), Files::new("exclusion"));
    let script =
        r#"echo "in $LOCKKEEPER_TOKEN" >> "$0"; sleep 0.02; echo "out $LOCKKEEPER_TOKEN" >> "$0""#;
    let log = files.path("log");
    let run = |_| Running::start(&mut arm.run(&[], &path, &["sh", "-c", script, &log]));
    let runs: Vec<_> = (0..40).map(run).collect();
    for run in runs {
        run.end().ends(0);
    }
    let text = files.text("log");
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 80, "{text}");
    let mut last = 0;
    for pair in lines.chunks(2) {
        let token = pair[0].strip_prefix("in ").unwrap();
        assert_eq!(pair[1].strip_prefix("out "), Some(token), "{text}");
        let token: u64 = token.parse().unwrap();
        assert!(last < token, "{text}");
        last = token;
    }
}

fn a_try_takes_a_free_lock_and_writes_nothing_at_one_that_is_taken(arm: &Arm) {
    let path = arm.path();
    arm.ran(&["--try"], &path, &["echo", "ran"]).is(0, "ran\n");
    let guard = arm.hold(&path);
    arm.set_data(&guard.path(), "the nightly backup");
    let creates = || {
        arm.is_embedded()
            .then(|| arm.server().counters().requests_of(OpCode::CREATE2))
    };
    let before = (arm.nodes(&path), creates());
    for options in [&["--try"][..], &["--wait", "0"]] {
        let tried = arm.ran(options, &path, &["echo", "ran"]).is(75, "");
        let text =
            format!("lockkeeper: {path}: the lock is taken; held by the nightly backup, queued ");
        assert!(tried.stderr.starts_with(&text), "{tried:?}");
    }
    assert_eq!((arm.nodes(&path), creates()), before);
    arm.release(guard);
}

fn a_wait_ends_at_its_limit_and_leaves_no_node(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let start = Instant::now();
    let waited = arm
        .ran(&["--wait", "3s"], &path, &["echo", "ran"])
        .is(75, "");
    assert!(start.elapsed() >= Duration::from_secs(3));
    // It says how long it has waited, which is a little more on a busy machine.
    let waited = waited
        .says("lock not acquired in ")
        .says(" s; held by session 0x");
    let seconds = waited.stderr.split("lock not acquired in ").nth(1);
    let seconds = seconds.and_then(|rest| rest.split(" s").next()?.parse::<f64>().ok());
    assert!(seconds.is_some_and(|it| it >= 3.0), "{}", waited.stderr);
    arm.until_nodes(&path, 1);
    arm.release(guard);
}

fn a_lost_lock_ends_a_script_and_its_children(arm: &Arm) {
    let script = "sleep 61 & echo $! $LOCKKEEPER_NODE; sleep 62; echo never";
    let mut run = arm.start(&[], &arm.path(), script);
    let [pid, node] = run.words();
    arm.delete(&node);
    run.end()
        .is(74, "")
        .says("lock lost: the lock node was deleted");
    assert!(!is_alive(crate::support::pid_of(&pid)));
}

fn a_command_whose_lock_somebody_asks_for_gets_term(arm: &Arm) {
    let path = arm.path();
    let script = "trap 'read x; exit 5' TERM; echo $LOCKKEEPER_NODE; while :; do sleep 0.1; done";
    let command = &mut arm.run(&[], &path, &["sh", "-c", script]);
    let (mut run, stdin) = Running::start_to_write(command);
    let [node] = run.words();
    arm.set_data(&node, "__REVOKE__");
    let shown = || arm.said(&["queue", &path]);
    wait_for("the node says so", || {
        shown().contains(", asked to release the lock")
    });
    assert!(shown().contains("  host="), "and by whom it is held");
    drop(stdin);
    run.end()
        .is(5, "")
        .says("asked to release the lock; ending the command");
    assert_eq!(arm.nodes(&path), [""; 0]);
}

fn a_command_that_ignores_term_is_killed(arm: &Arm) {
    let script = "trap '' TERM; echo $$ $LOCKKEEPER_NODE; while :; do sleep 0.1; done";
    for is_lost in [false, true] {
        let path = arm.path();
        let mut run = arm.start(&["--grace", "300ms"], &path, script);
        let ([pid, node], begin) = (run.words(), Instant::now());
        if is_lost {
            arm.delete(&node);
        } else {
            run.signal(Signal::TERM);
        }
        let status = if is_lost { 74 } else { 137 };
        run.end()
            .is(status, "")
            .says("did not end in the grace time");
        assert!(begin.elapsed() >= Duration::from_millis(300));
        assert!(!is_alive(crate::support::pid_of(&pid)));
        assert_eq!(arm.nodes(&path), [""; 0]);
    }
}

/// `run` is stopped, its lock is lost, its command ends with 0, and then `run` goes on. It must not pass on that 0. The watchdog,
/// which would have ended the command, was killed before.
fn a_command_that_ends_without_the_lock_gives_status_74(arm: &Arm) {
    let path = arm.path();
    let script = "echo $$; read x; exit 0";
    let options = ["--session-timeout", "4s", "--notify"];
    let mut run = arm.run(&options, &path, &["sh", "-c", script]);
    let manager = Manager::of(&mut run);
    let (mut run, mut stdin) = Running::start_to_write(&mut run);
    let pid = run.pid_in_line();
    manager.until_begun();
    // The other order would give `run` the time to let the watchdog go on.
    run.signal(Signal::STOP);
    kill_process(watchdog_of(run.pid()), Signal::STOP).unwrap();
    wait_for("the end of the session", || arm.nodes(&path).is_empty());
    stdin.write_all(b"\n").unwrap();
    until_dead(pid);
    run.signal(Signal::CONT);
    run.end().ends(74);
}

/// `run` hears of the end of the watchdog before what it has said.
#[test]
fn commands_that_end_at_once_have_their_status() {
    let arm = Arm::embedded();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for status in 0..15 {
                    let script = format!("exit {status}");
                    arm.ran(&[], &arm.path(), &["sh", "-c", &script])
                        .ends(status);
                }
            });
        }
    });
}

/// An update of the package does that. The command never started, and with `--once-per` its period was over.
#[test]
fn a_run_whose_program_is_replaced_while_it_waits_starts_its_command() {
    let arm = Arm::embedded();
    let path = arm.path();
    let guard = arm.hold(&path);
    let binary = std::path::Path::new(env!("CARGO_BIN_EXE_lockkeeper"));
    let program = binary.with_file_name(format!("lockkeeper-{}", std::process::id()));
    let update = program.with_extension("new");
    // A copy could not be executed while another thread starts a process, which has the file open.
    fs::hard_link(binary, &program).unwrap();
    let run = arm.run(&["--once-per", "1d"], &path, &["echo", "ran"]);
    let run = Running::start(Command::new(&program).args(run.get_args()));
    arm.until_nodes(&path, 2);
    fs::write(&update, "").unwrap();
    fs::rename(&update, &program).unwrap();
    arm.release(guard);
    let ended = run.end();
    fs::remove_file(&program).unwrap();
    ended.is(0, "ran\n").silently();
}

/// Forty runs with one log had torn lines. A socket of this kind keeps the writes apart.
#[test]
fn a_line_of_the_log_is_one_write() {
    let arm = Arm::embedded();
    let (log, its) = UnixDatagram::pair().unwrap();
    log.set_nonblocking(true).unwrap();
    let mut run = arm.run(&["-v"], &arm.path(), &["no-such-command"]);
    let ended = run.stderr(OwnedFd::from(its)).status().unwrap();
    assert_eq!(ended.code(), Some(127));
    let mut written = [0; 1000];
    let mut lines = 0;
    while let Ok(length) = log.recv(&mut written) {
        let line = str::from_utf8(&written[..length]).unwrap();
        assert!(
            line.starts_with("lockkeeper: ") && line.ends_with('\n'),
            "{line:?}"
        );
        lines += 1;
    }
    assert!(lines > 1, "{lines}");
}

/// systemd sends TERM to all processes of a unit, and KILL later. The watchdog was gone by then.
#[test]
fn a_signal_to_all_processes_does_not_end_the_watchdog() {
    contained(|| {
        let arm = Arm::embedded();
        let script = "trap '' TERM; echo $$; while :; do sleep 0.1; done";
        let mut run = arm.start(&[], &arm.path(), script);
        let (pid, watchdog) = (run.pid_in_line(), watchdog_of(run.pid()));
        for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
            let handles = |set| is_in(&watchdog.to_string(), set, signal);
            wait_for("the watchdog", || handles("SigIgn:") || handles("SigCgt:"));
            kill_process(watchdog, signal).unwrap();
        }
        let name = fs::read_to_string(format!("/proc/{watchdog}/comm")).unwrap();
        assert_eq!(name, "lock-watchdog\n");
        run.signal(Signal::KILL);
        until_dead(pid);
    });
}

/// A pipe that nobody reads: a write to it waits.
fn full_pipe() -> (PipeReader, PipeWriter) {
    let (reader, mut full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while full.write_all(&[b'\n'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
    (reader, full)
}

/// The message came before the signal. The command worked beside the next holder until the former end of the lease.
#[test]
fn a_command_whose_lock_is_lost_gets_term_although_nobody_reads_messages() {
    contained(|| {
        let arm = Arm::embedded();
        let files = Files::new("told");
        let told = files.path("told");
        let script = format!(
            "exec 2> /dev/null; trap 'echo > {told}; exit' TERM; echo $LOCKKEEPER_NODE; while :; do sleep 0.05; done"
        );
        let options = ["--notify", "--session-timeout", "5s"];
        let mut run = arm.run(&options, &arm.path(), &["sh", "-c", &script]);
        let manager = Manager::of(&mut run);
        let (messages, full) = full_pipe();
        let mut run = run.stdout(Stdio::piped()).stderr(full).spawn().unwrap();
        let mut node = String::new();
        let stdout = run.stdout.take().unwrap();
        BufReader::new(stdout).read_line(&mut node).unwrap();
        manager.until_begun();
        arm.delete(node.trim_end());
        wait_for("the signal", || fs::exists(&told).unwrap());
        drop(messages);
        assert_eq!(run.wait().unwrap().code(), Some(74));
    });
}

/// `run` hangs after the grant, here because nobody reads its messages. The command began, and was ended after that.
#[test]
fn a_command_does_not_begin_after_the_lease() {
    let arm = Arm::embedded();
    let path = arm.path();
    let (mut messages, full) = full_pipe();
    let options = [
        "--try",
        "-v",
        "--session-timeout",
        "2s",
        "--on-loss",
        "true",
    ];
    let run = arm.run(&options, &path, &["echo", "ran"]);
    // A command that ignores TERM from its start, as its parent does, has the grace time.
    let mut command = Command::new("sh");
    command
        .args(["-c", "trap '' TERM; exec \"$0\" \"$@\""])
        .arg(run.get_program())
        .args(run.get_args());
    let command = command.stdout(Stdio::piped()).stderr(full);
    let run = command.spawn().unwrap();
    // The only other end of the pipe is that of `run`.
    command.stderr(Stdio::null());
    wait_for("the grant", || !arm.nodes(&path).is_empty());
    wait_for("the end of the session", || arm.nodes(&path).is_empty());
    let mut said = String::new();
    messages.read_to_string(&mut said).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!((output.status.code(), output.stdout), (Some(74), vec![]));
    assert!(
        said.contains("lock lost before the command began"),
        "{said}"
    );
}

/// Whenever `run` is killed, also before its command has begun.
#[test]
fn a_run_that_is_killed_early_leaves_no_process() {
    let arm = Arm::embedded();
    // An argument that no other process has.
    let marker = format!("4242.{}", std::process::id());
    for delay_ms in 0..40 {
        let mut run = arm.run(&[], &arm.path(), &["sleep", &marker]);
        let mut run = run.spawn().unwrap();
        std::thread::sleep(Duration::from_millis(delay_ms));
        run.kill().unwrap();
        run.wait().unwrap();
    }
    let is_left = |process: fs::DirEntry| {
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        command
            .split(|it| *it == 0)
            .any(|it| it == marker.as_bytes())
    };
    wait_for("the end of all processes", || {
        !fs::read_dir("/proc").unwrap().flatten().any(is_left)
    });
}

/// A script that tries a lock must not hang for a whole session timeout.
#[test]
fn a_try_without_an_answering_server_ends_soon() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for wait in [&["--try"][..], &["--wait", "0"]] {
        let start = Instant::now();
        let mut run = lockkeeper(&["run", "--connect", &address, "--session-timeout", "60s"]);
        ended(run.args(wait).args(["/lock", "--", "true"])).ends(69);
        assert!(start.elapsed() < Duration::from_secs(20), "{wait:?}");
    }
}

/// When the server does not answer any more, the command ends before the session can expire on the server.
#[test]
fn a_silent_server_ends_the_command_before_the_session_expires() {
    let arm = Arm::embedded();
    let path = arm.path();
    let script = "echo $$; trap '' TERM; while :; do sleep 0.1; done";
    let mut run = arm.start(&["--session-timeout", "8s"], &path, script);
    let (pid, server) = (run.pid_in_line(), arm.server());
    let session = session_of(server, &path).unwrap();
    server.faults().stall();
    until_dead(pid);
    let why = "the session has expired: another client could have the lock";
    assert_eq!(session_of(server, &path), Some(session), "{why}");
    server.faults().resume();
    let said = run.end().ends(74);
    let address = server.local_addr();
    said.says(&format!(
        "lock lost: no server answers, and the lease runs out: {address}: "
    ));
}

/// The reason was "Connection refused" of another server, from before the session.
#[test]
fn a_lock_lost_on_a_connection_names_the_server_of_it() {
    let arm = Arm::embedded();
    let dead = (1..9).map(|port| format!("127.0.0.1:{port}"));
    let servers: Vec<_> = dead.chain([arm.connect.clone()]).collect();
    let connect = servers.join(",");
    let mut run = lockkeeper(&["run", "--connect", &connect, "--session-timeout", "4s"]);
    run.args([&arm.path(), "--", "sh", "-c", "echo ready; exec sleep 60"]);
    let mut run = Running::start(&mut run);
    assert_eq!(run.line(), "ready");
    // The proof of the lease begins with it.
    let sync = When::op(OpCode::SYNC);
    arm.server()
        .faults()
        .delay_reply(sync, Duration::from_secs(30));
    let why = "lock lost: no server answers, and the lease runs out: ";
    let lost = run.end().ends(74);
    lost.says(&format!(
        "{why}{} is too slow, or hangs; ending",
        arm.server().local_addr()
    ));
}

/// It said that no server answers.
#[test]
fn a_lock_lost_by_throttled_proofs_says_so_and_for_how_long() {
    let arm = Arm::embedded();
    let mut run = arm.start(
        &["--session-timeout", "4s"],
        &arm.path(),
        "echo ready; exec sleep 60",
    );
    assert_eq!(run.line(), "ready");
    for nth in 1..1000 {
        let proof = When::op(OpCode::MULTI).nth(nth);
        let faults = arm.server().faults();
        faults.refuse(proof, ErrorCode::THROTTLED_OP);
    }
    let lost = run.end().ends(74);
    lost.says("lock lost: the lease runs out: servers throttle, for ")
        .says(" now; ending");
}

/// The command ended before the lease did, so the lock was held all the time. Only the reply to the release is missing. With
/// --strict, success says that the lock was released.
#[test]
fn an_unconfirmed_release_keeps_the_status_of_the_command_unless_the_user_is_strict() {
    for (strict, status) in [(&[][..], 5), (&["--strict"], 74)] {
        let arm = Arm::embedded();
        let options = [&["--session-timeout", "3s"], strict].concat();
        let mut run = arm.run(
            &options,
            &arm.path(),
            &["sh", "-c", "echo ready; read x; exit 5"],
        );
        let (mut run, mut stdin) = Running::start_to_write(&mut run);
        assert_eq!(run.line(), "ready");
        arm.server().faults().stall();
        stdin.write_all(b"\n").unwrap();
        run.end().ends(status).says("release not confirmed");
    }
}
