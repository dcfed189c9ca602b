//! `lockkeeper serve`: start, options, messages.
//!
//! Not here: users and passwords (`security`), the server itself (`lockkeeper-server`).

mod support;

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Mutex};
use rustix::process::Signal;
use support::{Running, ended, is_ignored, lockkeeper};
use tokio::runtime::Runtime;

#[test]
fn serve_says_when_it_is_ready_and_ends_on_a_signal() {
    for signal in [Signal::TERM, Signal::INT] {
        if is_ignored(signal) {
            continue;
        }
        let mut serve = Running::start(&mut lockkeeper(&[
            "serve",
            "--fresh",
            "--listen",
            "localhost:0",
        ]));
        let line = serve.line();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        Runtime::new().unwrap().block_on(async {
            let client = Client::connect(&address).await.unwrap();
            assert!(client.exists("/zookeeper").await.unwrap().is_some());
            client.close().await;
        });
        serve.signal(signal);
        let ended = serve.end();
        assert_eq!(ended.status, 0);
        let kept = "lockkeeper: nothing is kept on disk: nodes and sessions are gone when the server ends\n";
        assert_eq!(ended.stderr, kept);
    }
}

/// Otherwise the tokens of a former life would be higher than those of the present one, and clients that have seen them would be
/// refused again and again.
#[test]
fn tokens_grow_across_a_restart_and_a_former_session_ends_at_once() {
    let start = |address: &str| {
        let mut serve = Running::start(&mut lockkeeper(&["serve", "--fresh", "--listen", address]));
        let line = serve.line();
        (
            serve,
            line.strip_prefix("listening on ").unwrap().to_owned(),
        )
    };
    let (serve, address) = start("127.0.0.1:0");
    let runtime = Runtime::new().unwrap();
    let (client, token) = runtime.block_on(async {
        let client = Client::connect(&address).await.unwrap();
        for _ in 0..100 {
            client
                .create("/n-", "", CreateMode::PersistentSequential)
                .await
                .unwrap();
        }
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        let token = guard.fencing_token();
        std::mem::forget(guard);
        (client, token)
    });
    let former = client.snapshot().session_id;
    serve.signal(Signal::TERM);
    serve.end();
    let (serve, _) = start(&address);
    runtime.block_on(async {
        let learned = async {
            while client.snapshot().session_id == former || !client.snapshot().state.is_connected()
            {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        // Sooner than its session timeout of ten seconds.
        tokio::time::timeout(Duration::from_secs(5), learned)
            .await
            .expect("the session is over");
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        let next = guard.fencing_token();
        assert!(next > token);
        assert!(
            next.get() < 1 << 53,
            "JSON readers take {next} for another number"
        );
        guard.release().await.unwrap();
    });
    serve.signal(Signal::TERM);
    serve.end();
}

/// A server that is killed knows nothing of its former life. But a holder that is cut off from it, as one that is paused here, goes
/// on relying on its lease. The next contender got the lock at once.
#[test]
fn no_lock_is_granted_while_a_holder_of_a_former_life_may_rely_on_its_lease() {
    no_lock_is_granted_before_3_seconds(&["--max-session-timeout", "3s"]);
}

/// No session is shorter than two ticks. The wait was.
#[test]
fn no_lock_is_granted_before_two_ticks_have_passed() {
    no_lock_is_granted_before_3_seconds(&["--tick-time", "1500ms", "--max-session-timeout", "1s"]);
}

fn no_lock_is_granted_before_3_seconds(always: &[&str]) {
    let start = |address: &str, options: &[&str]| {
        let mut serve = lockkeeper(&["serve", "--listen", address]);
        let mut serve = Running::start(serve.args(always).args(options));
        let line = serve.line();
        let address = line.strip_prefix("listening on ").unwrap().to_owned();
        (serve, address)
    };
    let (serve, address) = start("127.0.0.1:0", &["--fresh"]);
    let paused = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let former = paused.block_on(async {
        let client = Client::connect(&address).await.unwrap();
        Mutex::new(&client, "/m").unwrap().lock().await.unwrap()
    });
    serve.signal(Signal::KILL);
    drop(serve);
    let (serve, _) = start(&address, &[]);
    Runtime::new().unwrap().block_on(async {
        let client = Client::connect(&address).await.unwrap();
        let mode = CreateMode::Persistent;
        client.create("/at-once", "", mode).await.unwrap();
        let guard = Mutex::new(&client, "/m").unwrap().lock().await.unwrap();
        assert!(!former.is_valid());
        guard.release().await.unwrap();
    });
    serve.signal(Signal::TERM);
    let said = serve.end().stderr;
    assert!(said.contains("no lock is granted before 3.00 s"), "{said}");
}

/// It said "no server has answered", or nothing at all.
#[test]
fn a_run_says_that_a_server_grants_no_lock_after_a_restart() {
    let mut serve = Running::start(&mut lockkeeper(&["serve", "--listen", "127.0.0.1:0"]));
    let line = serve.line();
    let connect = line.strip_prefix("listening on ").unwrap();
    let run = |options: &[&str]| {
        let mut run = lockkeeper(&["run", "--connect", connect]);
        ended(run.args(options).args(["/a/b", "--", "echo", "locked"]))
    };
    let why = "the server grants no lock yet: after a restart, lockkeeper serve waits for the clients of the \
        former server (a ZooKeeper that answers so is overloaded)";
    // A busy machine may not answer within the second that a try has.
    let mut tried = run(&["--try"]);
    for _ in 0..20 {
        if tried.status == 69 {
            tried = run(&["--try"]);
        }
    }
    let said = format!("lockkeeper: /a/b: {why}\n");
    assert_eq!((tried.status, &*tried.stdout, tried.stderr), (75, "", said));
    let waited = run(&["--wait", "5s"]);
    let said = format!(
        "lockkeeper: /a/b: waiting for the lock; {why}\nlockkeeper: /a/b: lock not acquired in 5.00 s\n"
    );
    assert_eq!(
        (waited.status, &*waited.stdout, waited.stderr),
        (75, "", said)
    );
    serve.signal(Signal::TERM);
    serve.end();
}

#[test]
fn session_timeouts_follow_the_options() {
    let options = [
        "--listen",
        "127.0.0.1:0",
        "--tick-time",
        "50ms",
        "--max-session-timeout",
        "3s",
    ];
    let mut serve = Running::start(lockkeeper(&["serve"]).args(options));
    let line = serve.line();
    let address = line.strip_prefix("listening on ").unwrap();
    Runtime::new().unwrap().block_on(async {
        for (asked, granted) in [(10, 100), (60_000, 3_000)] {
            let asked = std::time::Duration::from_millis(asked);
            let builder = Client::builder(address).unwrap().session_timeout(asked);
            let client = builder
                .connect_timeout(support::CONNECT_TIMEOUT)
                .connect()
                .await
                .unwrap();
            assert_eq!(client.snapshot().session_timeout.as_millis(), granted);
        }
    });
}

#[test]
fn the_error_names_an_address_in_use() {
    let mut serve = Running::start(&mut lockkeeper(&["serve", "--listen", "127.0.0.1:0"]));
    let line = serve.line();
    let address = line.strip_prefix("listening on ").unwrap();
    let second = ended(&mut lockkeeper(&["serve", "--listen", address]));
    assert_eq!((second.status, second.stdout.as_str()), (71, ""));
    let message = format!("lockkeeper: cannot listen on {address}: Address already in use");
    assert!(second.stderr.starts_with(&message), "{}", second.stderr);
}

#[test]
fn serve_warns_when_other_hosts_can_connect() {
    let mut serve = Running::start(&mut lockkeeper(&["serve", "--listen", "0.0.0.0:0"]));
    assert!(serve.line().starts_with("listening on 0.0.0.0:"));
    serve.signal(Signal::TERM);
    assert!(serve.end().stderr.contains("no encryption"));
}

/// For tests of programs: a server that is gone when they end.
#[test]
fn a_command_beside_the_server_decides_the_status() {
    let me = env!("CARGO_BIN_EXE_lockkeeper");
    let script = format!(
        "{me} create /a x > /dev/null && {me} get /a && {me} run /lock -- echo \" locked\"; exit 7"
    );
    let ran = ended(&mut lockkeeper(&["serve", "--", "sh", "-c", &script]));
    assert_eq!(
        (ran.status, &*ran.stdout, &*ran.stderr),
        (7, "x locked\n", "")
    );
    let missing = ended(&mut lockkeeper(&[
        "serve",
        "--",
        "lockkeeper-no-such-command",
    ]));
    assert_eq!((missing.status, &*missing.stdout), (127, ""));

    if !is_ignored(Signal::TERM) {
        let script =
            "trap 'echo told; exit 3' TERM; echo $LOCKKEEPER_CONNECT; while :; do sleep 0.05; done";
        let mut serve = Running::start(&mut lockkeeper(&["serve", "--", "sh", "-c", script]));
        let address: std::net::SocketAddr = serve.line().parse().unwrap();
        serve.signal(Signal::TERM);
        let ended = serve.end();
        assert_eq!(
            (ended.status, &*ended.stdout),
            (3, "told\n"),
            "{}",
            ended.stderr
        );
        assert!(std::net::TcpStream::connect(address).is_err());
    }
}

/// The log until a client has come and gone, as one text.
fn log(options: &[&str]) -> String {
    let always = [
        "serve",
        "--listen",
        "127.0.0.1:0",
        "--max-session-timeout",
        "1s",
    ];
    let mut serve = Running::start(lockkeeper(&always).args(options));
    let line = serve.line();
    let address = line.strip_prefix("listening on ").unwrap();
    let listed = ended(&mut lockkeeper(&["ls", "--connect", address]));
    assert_eq!((listed.status, &*listed.stderr), (0, ""));
    serve.signal(Signal::TERM);
    let ended = serve.end();
    assert_eq!((ended.status, &*ended.stdout), (0, ""));
    ended.stderr
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
        assert!(
            log.lines().all(|line| line.starts_with("lockkeeper: ")),
            "{log}"
        );
    }
    let debug = log(&["--log", "debug"]);
    let line = debug.lines().find(|line| line.contains(session)).unwrap();
    let words: Vec<_> = line.split(' ').collect();
    assert!(words[1].ends_with('Z') && words[2] == "debug", "{line}");
    assert!(words[5].starts_with("session=0x"), "{line}");
}

#[test]
fn the_log_is_json_on_request_to_the_last_line() {
    let objects = |log: &str| -> Vec<serde_json::Value> {
        let lines = log.lines();
        lines
            .map(|line| serde_json::from_str(line).expect(line))
            .collect()
    };
    let log = objects(&log(&["--log", "debug", "--log-format", "json"]));
    let find = |text: &str| {
        let is =
            |object: &&serde_json::Value| object["message"].as_str().unwrap().starts_with(text);
        log.iter()
            .find(is)
            .unwrap_or_else(|| panic!("{text}: {log:?}"))
    };
    let disk = find("nothing is kept");
    assert_eq!(
        (&disk["level"], &disk["target"]),
        (&"info".into(), &"lockkeeper".into())
    );
    let session = find("session started");
    assert_eq!(session["level"], "debug");
    assert_eq!(session["target"], "lockkeeper_server::engine::handshake");
    assert!(
        session["session"].as_str().unwrap().starts_with("0x"),
        "{session}"
    );
    assert!(
        session["time"].as_str().unwrap().ends_with('Z'),
        "{session}"
    );

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let options = ["serve", "--log-format", "json", "--listen", &address];
    let refused = ended(&mut lockkeeper(&options));
    assert_eq!(refused.status, 71);
    let last = objects(&refused.stderr).pop().unwrap();
    let message = last["message"].as_str().unwrap();
    assert!(
        message.starts_with(&format!("cannot listen on {address}: ")),
        "{last}"
    );
    assert_eq!(last["level"], "error");
}

#[test]
fn the_error_says_which_levels_and_formats_there_are() {
    for (option, value, right) in [
        (
            "--log",
            "trace",
            "[possible values: off, error, warn, info, debug]",
        ),
        ("--log-format", "yaml", "[possible values: text, json]"),
    ] {
        let refused = ended(&mut lockkeeper(&["serve", option, value]));
        assert_eq!((refused.status, &*refused.stdout), (64, ""));
        let said = refused.stderr;
        assert!(
            said.contains(&format!("'{value}'")) && said.contains(right),
            "{said}"
        );
    }
}
