//! `lockkeeper run`: exit statuses, the environment of the command, exclusion, time limits, lost locks.
//!
//! Not here: signals (`signals`), `--shared` and `--holders` (`sharing`).

mod support;

use std::{
    fs,
    io::Write as _,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use lockkeeper::proto::OpCode;
use lockkeeper_server::Server;
use rustix::process::{Signal, kill_process};
use support::{
    Arm, Manager, Running, ended, handles, is_alive, lockkeeper, pid_of, session_of, wait_for,
    watchdog_of,
};

on_both_arms!(
    run_exits_with_the_status_of_the_command,
    a_command_that_cannot_start_gives_status_126_or_127,
    the_command_gets_the_token_the_path_and_the_node,
    the_command_gets_stdin_stdout_and_stderr,
    runs_on_one_path_exclude_each_other,
    a_try_on_a_lock_that_is_taken_writes_nothing,
    a_try_on_a_free_lock_takes_it,
    a_wait_ends_at_its_limit_and_leaves_no_node,
    deleting_the_lock_node_ends_the_command,
    a_lost_lock_ends_a_script_and_its_children,
    a_command_that_ignores_term_is_killed,
    a_command_that_ends_without_the_lock_gives_status_74,
);

fn run_exits_with_the_status_of_the_command(arm: &Arm) {
    let path = arm.path();
    for (script, status) in [
        ("exit 0", 0),
        ("exit 7", 7),
        ("exit 255", 255),
        ("kill -TERM $$", 143),
        ("kill -KILL $$", 137),
    ] {
        let ended = ended(&mut arm.run(&[], &path, &["sh", "-c", script]));
        assert_eq!(
            (ended.status, ended.stderr.as_str()),
            (status, ""),
            "{script}"
        );
        assert_eq!(arm.nodes(&path), Vec::<String>::new(), "{script}");
    }
}

fn a_command_that_cannot_start_gives_status_126_or_127(arm: &Arm) {
    let path = arm.path();
    for (command, status, text) in [
        ("lockkeeper-no-such-command", 127, "command not found"),
        ("/no/such/command", 127, "command not found"),
        ("/etc/passwd", 126, "cannot be executed"),
        ("/", 126, "cannot be executed"),
    ] {
        let told = ended(&mut arm.run(&[], &path, &[command]));
        assert_eq!(told.status, status, "{command}");
        assert!(told.stderr.contains(command) && told.stderr.contains(text));
        let quiet = ended(&mut arm.run(&["-q"], &path, &[command]));
        assert_eq!((quiet.status, &*quiet.stderr), (status, ""), "{command}");
        assert_eq!(arm.nodes(&path), Vec::<String>::new(), "{command}");
    }
}

fn the_command_gets_the_token_the_path_and_the_node(arm: &Arm) {
    let path = arm.path();
    let script = "echo $LOCKKEEPER_TOKEN; echo $LOCKKEEPER_PATH; echo $LOCKKEEPER_NODE; read x";
    let mut tokens = Vec::new();
    for _ in 0..2 {
        let mut run = arm.run(&[], &path, &["sh", "-c", script, "secret argument"]);
        let mut run = Running::start(run.env("IGNORED", "1"));
        tokens.push(run.line().parse::<u64>().unwrap());
        assert_eq!(run.line(), path);
        let node = run.line();
        // The script may have ended by now, because stdin is empty. It printed the node that held the lock.
        assert!(node.starts_with(&format!("{path}/_c_")), "{node}");
        assert_eq!(run.end().status, 1, "read at the end of a file");
    }
    assert!(tokens[0] < tokens[1], "{tokens:?}");

    let run = Running::start(&mut arm.run(&[], &path, &["sleep", "60"]));
    wait_for("the lock node", || !arm.nodes(&path).is_empty());
    let node = format!("{path}/{}", arm.nodes(&path)[0]);
    let (data, pid) = (arm.data(&node), run.pid());
    assert!(data.starts_with("host="), "{data}");
    assert!(
        data.ends_with(&format!(" pid={pid} command=sleep")),
        "{data}"
    );
    // The command starts after the node exists. A signal before that ends the wait for the lock.
    run.signal(Signal::TERM);
    assert_eq!(run.end().status, 143);
}

fn the_command_gets_stdin_stdout_and_stderr(arm: &Arm) {
    let mut run = arm.run(&[], &arm.path(), &["sh", "-c", "cat; echo error >&2"]);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    run.stdin.take().unwrap().write_all(b"one\ntwo").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(output.stdout, b"one\ntwo");
    assert_eq!(output.stderr, b"error\n");
}

fn runs_on_one_path_exclude_each_other(arm: &Arm) {
    let path = arm.path();
    let log = std::env::temp_dir().join(path.replace('/', "_"));
    let script =
        r#"echo "in $LOCKKEEPER_TOKEN" >> "$0"; sleep 0.1; echo "out $LOCKKEEPER_TOKEN" >> "$0""#;
    let runs: Vec<_> = (0..4)
        .map(|_| {
            let log = log.to_str().unwrap();
            Running::start(&mut arm.run(&[], &path, &["sh", "-c", script, log]))
        })
        .collect();
    for run in runs {
        assert_eq!(run.end().status, 0);
    }
    let text = fs::read_to_string(&log).unwrap();
    fs::remove_file(&log).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert_eq!(lines.len(), 8, "{text}");
    let mut last = 0;
    for pair in lines.chunks(2) {
        let token = pair[0].strip_prefix("in ").unwrap();
        assert_eq!(pair[1].strip_prefix("out "), Some(token), "{text}");
        let token: u64 = token.parse().unwrap();
        assert!(last < token, "{text}");
        last = token;
    }
}

fn a_try_on_a_lock_that_is_taken_writes_nothing(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let creates = || {
        let counters = arm.server.as_ref().map(Server::counters);
        counters.map(|counters| counters.requests_of(OpCode::CREATE2))
    };
    let (nodes, before) = (arm.nodes(&path), creates());
    for options in [&["--try"][..], &["--wait", "0"]] {
        let ended = ended(&mut arm.run(options, &path, &["echo", "ran"]));
        assert_eq!(
            (ended.status, ended.stdout.as_str()),
            (75, ""),
            "{options:?}"
        );
        assert_eq!(
            ended.stderr,
            format!("lockkeeper: {path}: the lock is taken\n")
        );
    }
    assert_eq!((arm.nodes(&path), creates()), (nodes, before));
    arm.release(guard);
}

fn a_try_on_a_free_lock_takes_it(arm: &Arm) {
    let path = arm.path();
    let ended = ended(&mut arm.run(&["--try"], &path, &["echo", "ran"]));
    assert_eq!((ended.status, ended.stdout.as_str()), (0, "ran\n"));
}

fn a_wait_ends_at_its_limit_and_leaves_no_node(arm: &Arm) {
    let path = arm.path();
    let guard = arm.hold(&path);
    let start = Instant::now();
    let ended = ended(&mut arm.run(&["--wait", "3s"], &path, &["echo", "ran"]));
    assert!(start.elapsed() >= Duration::from_secs(3));
    assert_eq!((ended.status, ended.stdout.as_str()), (75, ""));
    assert!(
        ended.stderr.contains("not acquired in 3.00 s, 1 ahead"),
        "{}",
        ended.stderr
    );
    assert_eq!(arm.nodes(&path).len(), 1, "only the holder's");
    arm.release(guard);
}

fn deleting_the_lock_node_ends_the_command(arm: &Arm) {
    let path = arm.path();
    let script = "echo $$ $LOCKKEEPER_NODE; exec sleep 60";
    let mut run = Running::start(&mut arm.run(&[], &path, &["sh", "-c", script]));
    let line = run.line();
    let (pid, node) = line.split_once(' ').unwrap();
    arm.delete(node);
    let ended = run.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("lock lost: the lock node was deleted"),
        "{}",
        ended.stderr
    );
    assert!(!is_alive(pid_of(pid)));
}

fn a_lost_lock_ends_a_script_and_its_children(arm: &Arm) {
    let path = arm.path();
    let script = "sleep 61 & echo $! $LOCKKEEPER_NODE; sleep 62; echo never";
    let mut run = Running::start(&mut arm.run(&[], &path, &["sh", "-c", script]));
    let line = run.line();
    let (pid, node) = line.split_once(' ').unwrap();
    arm.delete(node);
    let ended = run.end();
    assert_eq!((ended.status, ended.stdout.as_str()), (74, ""));
    assert!(!is_alive(pid_of(pid)), "its child in the background");
}

fn a_command_that_ignores_term_is_killed(arm: &Arm) {
    let path = arm.path();
    let script = "trap '' TERM; echo $$ $LOCKKEEPER_NODE; while :; do sleep 0.1; done";
    let mut run = arm.run(&["--grace", "200ms"], &path, &["sh", "-c", script]);
    let mut run = Running::start(&mut run);
    let line = run.line();
    let (pid, node) = line.split_once(' ').unwrap();
    arm.delete(node);
    let ended = run.end();
    assert_eq!(ended.status, 74);
    assert!(
        ended.stderr.contains("did not end in the grace time"),
        "{}",
        ended.stderr
    );
    assert!(!is_alive(pid_of(pid)));
}

/// `run` is stopped, its lock is lost, its command ends with 0, and then `run` goes on. It must not pass on that 0. The watchdog,
/// which would have ended the command, was killed before.
fn a_command_that_ends_without_the_lock_gives_status_74(arm: &Arm) {
    let path = arm.path();
    let script = "read x; echo $$ $LOCKKEEPER_NODE; read x; exit 0";
    let options = ["--session-timeout", "4s", "--notify"];
    let mut run = arm.run(&options, &path, &["sh", "-c", script]);
    let manager = Manager::of(arm, &mut run);
    let mut run = run
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdin = run.stdin.take().unwrap();
    stdin.write_all(b"\n").unwrap();
    let mut stdout = std::io::BufReader::new(run.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
    let (pid, _) = line.split_once(' ').unwrap();
    let me = pid_of(&run.id().to_string());

    manager.until_begun();
    // The other order would give `run` the time to start another watchdog.
    kill_process(me, Signal::STOP).unwrap();
    kill_process(watchdog_of(me), Signal::KILL).unwrap();
    wait_for("the end of the session", || arm.nodes(&path).is_empty());
    stdin.write_all(b"\n").unwrap();
    wait_for("the end of the command", || !is_alive(pid_of(pid)));
    kill_process(me, Signal::CONT).unwrap();
    assert_eq!(run.wait().unwrap().code(), Some(74));
}

#[test]
fn an_expired_session_ends_the_command() {
    let arm = Arm::embedded();
    let path = arm.path();
    let script = "echo $$; exec sleep 60";
    let mut run = Running::start(&mut arm.run(&[], &path, &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    let server = arm.server.as_ref().unwrap();
    let session = session_of(server, &path).unwrap();
    assert!(server.faults().expire(session));
    let ended = run.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    // The server decides whether the client hears first of the deleted node or of the expired session.
    assert!(ended.stderr.contains("lock lost"), "{}", ended.stderr);
    assert!(!is_alive(pid));
}

/// Otherwise the command would go on without the lock.
#[test]
fn a_killed_run_takes_its_command_with_it() {
    for signal in ["KILL", "ALRM", "XCPU"] {
        let arm = Arm::embedded();
        let script = "echo $$; trap '' TERM HUP; sleep 1000 & wait; sleep 1000";
        let mut run = arm.run(&[], &arm.path(), &["sh", "-c", script]);
        let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        let mut stdout = std::io::BufReader::new(run.stdout.take().unwrap());
        std::io::BufRead::read_line(&mut stdout, &mut line).unwrap();
        let pid = pid_of(line.trim());
        let kill = Command::new("kill")
            .args(["-s", signal, &run.id().to_string()])
            .status();
        assert!(kill.unwrap().success());
        run.wait().unwrap();
        wait_for("the end of the command", || !is_alive(pid));
        // Nothing of its group holds the pipe open.
        let mut rest = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut rest).unwrap();
    }
}

/// As by an update of the package. The command never started, and with `--once-per` its period was over.
#[test]
#[cfg(target_os = "linux")]
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
    assert_eq!(
        (ended.status, &*ended.stdout, &*ended.stderr),
        (0, "ran\n", "")
    );
}

/// systemd sends TERM to all processes of a unit, and KILL later. The watchdog was gone by then.
#[test]
fn a_signal_to_all_processes_does_not_end_the_watchdog() {
    let arm = Arm::embedded();
    let script = "trap '' TERM; echo $$; while :; do sleep 0.1; done";
    let mut run = Running::start(&mut arm.run(&[], &arm.path(), &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    let watchdog = watchdog_of(run.pid());
    for signal in [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT] {
        wait_for("the watchdog", || handles(watchdog, signal));
        kill_process(watchdog, signal).unwrap();
    }
    let name = fs::read_to_string(format!("/proc/{watchdog}/comm")).unwrap();
    assert_eq!(name, "lockkeeper\n");
    run.signal(Signal::KILL);
    wait_for("the end of the command", || !is_alive(pid));
}

/// `run` hangs after the grant, here because nobody reads its messages. The command began, and was ended after that.
#[test]
fn a_command_does_not_begin_after_the_lease() {
    let arm = Arm::embedded();
    let path = arm.path();
    let (mut messages, mut full) = std::io::pipe().unwrap();
    rustix::io::ioctl_fionbio(&full, true).unwrap();
    while full.write_all(&[b'\n'; 4096]).is_ok() {}
    rustix::io::ioctl_fionbio(&full, false).unwrap();
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
    std::io::Read::read_to_string(&mut messages, &mut said).unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(
        (output.status.code(), &*output.stdout),
        (Some(74), &b""[..])
    );
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
    wait_for("the end of all processes", || {
        let mut processes = std::fs::read_dir("/proc").unwrap();
        !processes.any(|process| {
            let command = process.map(|process| std::fs::read(process.path().join("cmdline")));
            command.is_ok_and(|command| {
                command.is_ok_and(|it| {
                    it.windows(marker.len())
                        .any(|part| part == marker.as_bytes())
                })
            })
        })
    });
}

/// A script that tries a lock must not hang for a whole session timeout.
#[test]
fn a_try_without_an_answering_server_ends_soon() {
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    for wait in [&["--try"][..], &["--wait", "0"]] {
        let start = Instant::now();
        let mut run = lockkeeper(&["run", "--connect", &address, "--session-timeout", "60s"]);
        let ended = ended(run.args(wait).args(["/lock", "--", "true"]));
        assert_eq!(ended.status, 69, "{}", ended.stderr);
        assert!(start.elapsed() < Duration::from_secs(20), "{wait:?}");
    }
}

/// When the server does not answer any more, the command ends before the session can expire on the server.
#[test]
fn a_silent_server_ends_the_command_before_the_session_expires() {
    let arm = Arm::embedded();
    let path = arm.path();
    let options = ["--session-timeout", "8s"];
    let script = "echo $$; trap '' TERM; while :; do sleep 0.1; done";
    let mut run = Running::start(&mut arm.run(&options, &path, &["sh", "-c", script]));
    let pid = pid_of(&run.line());
    let server = arm.server.as_ref().unwrap();
    let session = session_of(server, &path).unwrap();
    server.faults().stall();
    wait_for("the end of the command", || !is_alive(pid));
    assert_eq!(
        session_of(server, &path),
        Some(session),
        "the session has expired: another client could have the lock"
    );
    server.faults().resume();
    let ended = run.end();
    assert_eq!(ended.status, 74, "{}", ended.stderr);
    assert!(
        ended
            .stderr
            .contains("lock lost: no server answers, and the lease runs out"),
        "{}",
        ended.stderr
    );
}

/// The command ended before the lease did, so the lock was held all the time. Only the reply to the release is missing.
#[test]
fn an_unconfirmed_release_keeps_the_status_of_the_command() {
    let arm = Arm::embedded();
    let options = ["--session-timeout", "3s"];
    let script = "echo ready; read x; exit 5";
    let mut run = arm.run(&options, &arm.path(), &["sh", "-c", script]);
    let run = run.stdin(Stdio::piped()).stderr(Stdio::piped());
    let mut run = run.stdout(Stdio::piped()).spawn().unwrap();
    let mut ready = [0; 6];
    let stdout = run.stdout.as_mut().unwrap();
    std::io::Read::read_exact(stdout, &mut ready).unwrap();
    arm.server.as_ref().unwrap().faults().stall();
    run.stdin.take().unwrap().write_all(b"\n").unwrap();
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(5), "{stderr}");
    assert!(stderr.contains("release not confirmed"), "{stderr}");
}
