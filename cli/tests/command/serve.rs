//! `lockkeeper serve`: start, options, messages.
//!
//! Not here: users and passwords (`security`), the server itself (`lockkeeper-server`).

use std::time::Duration;

use crate::support::{
    LIMIT, Running, contained, ended, is_ignored, lockkeeper, objects, until_dead, watchdog_of,
};
use lockkeeper::{Client, CreateMode, Mutex};
use rustix::process::{Signal, kill_process};
use tokio::runtime::Runtime;

#[test]
fn serve_says_when_it_is_ready_and_ends_on_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        if is_ignored(signal) {
            continue;
        }
        let (serve, address) = Running::serve_at("localhost:0", &["--fresh"]);
        let mut ls = lockkeeper(&["ls", "--connect", &address]);
        ended(&mut ls).is(0, "zookeeper\n");
        serve.signal(signal);
        serve.end().is(0, "").says("nothing is kept on disk");
    }
}

/// Otherwise the tokens of a former life would be higher than those of the present one, and clients that have seen them would be
/// refused again and again.
#[test]
fn tokens_grow_across_a_restart_and_a_former_session_ends_at_once() {
    let (serve, address) = Running::serve(&["--fresh"]);
    let runtime = Runtime::new().unwrap();
    let (client, token) = runtime.block_on(async {
        let client = Client::connect(&address).await.unwrap();
        for _ in 0..100 {
            let mode = CreateMode::PersistentSequential;
            client.create("/n-", "", mode).await.unwrap();
        }
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        let token = guard.fencing_token();
        std::mem::forget(guard);
        (client, token)
    });
    let former = client.snapshot().session_id;
    drop(serve);
    let (_serve, _) = Running::serve_at(&address, &["--fresh"]);
    runtime.block_on(async {
        let learned = async {
            while client.snapshot().session_id == former || !client.snapshot().state.is_connected()
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Sooner than its session timeout of ten seconds.
        let learned = tokio::time::timeout(Duration::from_secs(5), learned).await;
        learned.expect("the session is over");
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        let next = guard.fencing_token();
        assert!(next > token);
        let why = "JSON readers take it for another number";
        assert!(next.get() < 1 << 53, "{next}: {why}");
        guard.release().await.unwrap();
    });
}

/// A server in the place of a former one.
fn serve_again(options: &[&str]) -> (Running, String) {
    let (former, address) = Running::serve(&[]);
    drop(former);
    Running::serve_at(&address, options)
}

/// It said "no server has answered", or nothing at all; and then not for how long.
#[test]
fn a_run_says_that_a_server_grants_no_lock_after_a_restart() {
    let (_serve, connect) = serve_again(&[]);
    let run = |options: &[&str]| {
        let mut run = lockkeeper(&["run", "--connect", &connect]);
        ended(run.args(options).args(["/a/b", "--", "echo", "locked"]))
    };
    let why = "the server grants no lock yet: after a restart, lockkeeper serve waits for the clients of the \
        former server (a ZooKeeper that answers so is overloaded)";
    let tried = run(&["--try"]).is(75, "");
    tried.says(&format!("lockkeeper: /a/b: {connect} has throttled for "));
    let waited = run(&["--wait", "5s"]).is(75, "");
    let said = format!("lockkeeper: /a/b: waiting for the lock; {why}\n");
    assert!(waited.stderr.starts_with(&said), "{}", waited.stderr);
    let waited = waited.says("lock not acquired in 5.");
    waited.says(&format!(" s; {why}\n"));
}

#[test]
fn session_timeouts_follow_the_options() {
    let options = ["--tick-time", "50ms", "--max-session-timeout", "3s"];
    let (_serve, address) = Running::serve(&options);
    Runtime::new().unwrap().block_on(async {
        for (asked, granted) in [(10, 100), (60_000, 3_000)] {
            let builder = Client::builder(&address).unwrap();
            let builder = builder.session_timeout(Duration::from_millis(asked));
            let client = builder.connect_timeout(LIMIT).connect().await.unwrap();
            assert_eq!(client.snapshot().session_timeout.as_millis(), granted);
        }
    });
}

#[test]
fn serve_warns_when_other_hosts_can_connect() {
    let (serve, _) = Running::serve_at("0.0.0.0:0", &[]);
    serve.signal(Signal::TERM);
    serve.end().ends(0).says("no encryption");
}

/// For tests of programs: a server that is gone when they end.
#[test]
fn a_command_beside_the_server_gets_its_signals() {
    let beside = |script: &str| lockkeeper(&["serve", "--", "sh", "-c", script]);
    if !is_ignored(Signal::TERM) {
        let script =
            "trap 'echo told; exit 3' TERM; echo $LOCKKEEPER_CONNECT; while :; do sleep 0.05; done";
        let mut serve = Running::start(&mut beside(script));
        let address: std::net::SocketAddr = serve.line().parse().unwrap();
        serve.signal(Signal::TERM);
        serve.end().is(3, "told\n");
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}

/// Where the variables for TLS are those of other servers, each command beside the server failed.
#[test]
fn a_command_beside_the_server_needs_no_encryption() {
    let lockkeeper_itself = env!("CARGO_BIN_EXE_lockkeeper");
    let mut serve = lockkeeper(&["serve", "--", lockkeeper_itself, "ls"]);
    for name in ["CA", "CERT", "KEY", "SERVER_NAME"] {
        serve.env(format!("LOCKKEEPER_TLS_{name}"), "/nowhere");
    }
    ended(&mut serve).is(0, "zookeeper\n");
}

/// It never ended, and was busy with the news that nothing of the command was left.
#[test]
fn a_server_whose_watchdog_was_killed_ends_all_of_its_command_and_itself() {
    contained(|| {
        let script = "sleep 600 & echo $!; wait";
        let mut serve = Running::start(&mut lockkeeper(&["serve", "--", "sh", "-c", script]));
        let other = serve.pid_in_line();
        kill_process(watchdog_of(serve.pid()), Signal::KILL).unwrap();
        until_dead(other);
        serve.end().is(71, "").says("watchdog was killed");
    });
}

/// The log until a client has come and gone, as one text.
fn log(options: &[&str]) -> String {
    let always = ["--max-session-timeout", "1s"];
    let (serve, address) = serve_again(&[&always[..], options].concat());
    let mut ls = lockkeeper(&["ls", "--connect", &address]);
    ended(&mut ls).ends(0).silently();
    serve.signal(Signal::TERM);
    serve.end().is(0, "").stderr
}

#[test]
fn the_level_of_the_log_decides_what_is_said() {
    let (wait, disk, session) = ("no lock is granted", "nothing is kept", "session started");
    for (options, has) in [
        (&["--log", "off"][..], [false; 3]),
        (&["--log", "error"], [false; 3]),
        (&["--log", "warn"], [true, false, false]),
        (&[], [true, true, false]),
        (&["--log", "debug"], [true, true, true]),
    ] {
        let log = log(options);
        let said = [wait, disk, session].map(|text| log.contains(text));
        assert_eq!(said, has, "{options:?}: {log}");
    }
}

#[test]
fn the_log_is_json_on_request_to_the_last_line() {
    let log = objects(&log(&["--log", "debug", "--log-format", "json"]));
    let find = |text: &str| {
        let mut log = log.iter();
        let line = log.find(|it| it["message"].as_str().unwrap().starts_with(text));
        line.unwrap_or_else(|| panic!("{text}"))
    };
    assert_eq!(find("nothing is kept")["level"], "INFO");
    let session = find("session started");
    let target = "lockkeeper_server::engine::handshake";
    assert_eq!([&session["level"], &session["target"]], ["DEBUG", target]);
    assert!(session["session"].as_str().unwrap().starts_with("0x"));
    assert!(session["timestamp"].as_str().unwrap().ends_with('Z'));
}
