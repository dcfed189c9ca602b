//! Encryption and identities of the command: where they come from, and the error messages, which must not contain secrets.
//!
//! Not here: TLS and SASL on real servers (`tests/secure/` of the workspace).

mod support;

use lockkeeper_test_support::{certificates, gate};
use std::{
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    path::PathBuf,
    sync::Arc,
    time::Instant,
};

use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
};
use lockkeeper_server::Server;
use support::{Arm, CONNECT_TIMEOUT, Ended, Running, ended, lockkeeper};
use tokio::runtime::Runtime;

use certificates::Authority;
use gate::{Demands, Gate, server_tls};

const SECRET: &str = "hunter2";

/// A directory with files for one test. Dropping this value deletes the directory.
struct Files(PathBuf);

impl Files {
    fn new(test: &str) -> Self {
        let dir = std::env::temp_dir().join(format!("lockkeeper-{test}-{}", std::process::id()));
        fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn write(&self, name: &str, text: &str) -> String {
        let path = self.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
        path.to_str().unwrap().to_owned()
    }
}

impl Drop for Files {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn run(options: &[&str], auth: Option<&str>) -> Ended {
    let mut command = lockkeeper(&["run", "--connect", "127.0.0.1:1"]);
    command.args(options).args(["--wait", "1", "/a", "--", "x"]);
    command.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
    ended(&mut command)
}

#[test]
fn bad_security_options_give_status_64_and_an_error_without_the_secret() {
    let files = Files::new("useless");
    let no_scheme = files.write("no-scheme", &format!("# comment\n\n{SECRET}\n"));
    let two = files.write("two", &format!("sasl:a:{SECRET}\nsasl:b:{SECRET}\n"));
    let no_password = files.write("no-password", &format!("sasl:{SECRET}\n"));
    let empty = files.write("empty.pem", "");
    let nobody = files.write("nobody", " # nobody\n\n");
    let missing = files.0.join("missing").to_str().unwrap().to_owned();
    for (options, text) in [
        (
            ["--auth-file", &no_scheme],
            "no-scheme, line 3: an identity looks like",
        ),
        (
            ["--auth-file", &two],
            "two, line 2: only one SASL identity is allowed",
        ),
        (
            ["--auth-file", &no_password],
            "no-password, line 1: a SASL identity looks like",
        ),
        (["--auth-file", &missing], "missing: No such file"),
        (
            ["--auth-file", &nobody],
            "nobody: there is no identity in it",
        ),
        (["--tls-ca", &missing], "missing: No such file"),
        (["--tls-ca", &empty], "empty.pem: no certificate found"),
        (["--tls-cert", &empty], "--tls-ca"),
        (["--tls-key", &empty], "--tls-cert"),
    ] {
        let ended = run(&options, None);
        assert_eq!(ended.status, 64, "{options:?}: {}", ended.stderr);
        assert!(ended.stderr.contains(text), "{options:?}: {}", ended.stderr);
        assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    }
    let ended = run(&[], Some(SECRET));
    assert_eq!(ended.status, 64, "{}", ended.stderr);
    assert!(
        ended.stderr.contains("LOCKKEEPER_AUTH, line 1: "),
        "{}",
        ended.stderr
    );
    assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
}

/// Every user of the machine could read the passwords. Their group is the choice of the owner.
#[test]
fn a_file_of_identities_that_every_user_may_read_is_refused() {
    let arm = Arm::embedded();
    let files = Files::new("open");
    let auth = files.write("auth", &format!("sasl:ann:{SECRET}\n"));
    for mode in [0o644, 0o604, 0o602] {
        fs::set_permissions(&auth, Permissions::from_mode(mode)).unwrap();
        for command in [
            &["serve", "--listen", "127.0.0.1:0"][..],
            &["ls", "--connect", &arm.connect],
        ] {
            let ended = ended(lockkeeper(command).args(["--auth-file", &auth]));
            assert_eq!(ended.status, 64, "{command:?}: {}", ended.stderr);
            let text = format!("{auth}: every user may read or change it; run chmod o= {auth}");
            assert!(ended.stderr.contains(&text), "{}", ended.stderr);
        }
    }
}

/// Only the user `super` has permissions on the lock's directory.
#[test]
fn identities_come_from_a_file_or_from_the_environment() {
    let arm = Arm::embedded();
    let files = Files::new("identities");
    // From ZooKeeper's documentation: `super:test`.
    let acl = vec![Acl::new(
        Perms::ALL,
        "digest",
        "super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
    )];
    arm.create_with_acl("/hers", CreateMode::Persistent, acl);

    let stranger = ended(&mut arm.run(&["--try"], "/hers", &["true"]));
    assert_eq!(stranger.status, 69, "{}", stranger.stderr);
    assert!(stranger.stderr.contains("/hers: "), "{}", stranger.stderr);

    let file = files.write("auth", "  digest:super:test \t\r\n # the admin\n");
    let opened = ended(&mut arm.run(&["--try", "--auth-file", &file], "/hers", &["true"]));
    assert_eq!((opened.status, &*opened.stderr), (0, ""));

    let mut command = arm.run(&["--try"], "/hers", &["true"]);
    let opened = ended(command.env("LOCKKEEPER_AUTH", "digest:super:test"));
    assert_eq!((opened.status, &*opened.stderr), (0, ""));
}

#[test]
fn a_server_that_cannot_be_trusted_is_refused_immediately() {
    let arm = Arm::embedded();
    let files = Files::new("untrusted");
    let auth = files.write("auth", &format!("sasl:alice:{SECRET}\n"));
    let begin = Instant::now();
    // With retries, the attempt would take the whole session timeout.
    let options = ["--auth-file", &*auth, "--session-timeout", "60s"];
    let sasl = ended(&mut arm.run(&options, "/a", &["true"]));
    assert_eq!(sasl.status, 69, "{}", sasl.stderr);
    assert!(
        sasl.stderr.contains("the server does not support SASL"),
        "{}",
        sasl.stderr
    );
    assert!(!sasl.stderr.contains(SECRET), "{}", sasl.stderr);
    assert!(begin.elapsed() < CONNECT_TIMEOUT);

    let ca = files.write("ca.pem", &Authority::new("ours").certificate);
    let options = ["--tls-ca", &ca, "--wait", "3s"];
    let plain = ended(&mut arm.run(&options, "/a", &["true"]));
    assert_eq!(plain.status, 69, "{}", plain.stderr);
    assert!(
        plain
            .stderr
            .contains("the port may expect plain connections"),
        "{}",
        plain.stderr
    );
}

#[test]
fn a_command_runs_under_a_lock_over_tls_and_sasl() {
    let files = Files::new("secure");
    let authority = Authority::new("ours");
    let (server_side, client_side) = (authority.issue(&["zk.example"]), authority.issue(&["me"]));
    let demands = Demands {
        tls: Some(Arc::new(server_tls(&server_side, Some(&authority)))),
        ..Demands::default()
    };
    let runtime = Runtime::new().unwrap();
    let server = Server::builder().user("alice", SECRET).require_sasl();
    let server = runtime.block_on(server.start()).unwrap();
    let gate = runtime.block_on(Gate::new(&server, demands));

    let ca = files.write("ca.pem", &authority.certificate);
    let certificate = files.write("me.pem", &client_side.certificate);
    let key = files.write("me.key", &client_side.key);
    let servers = gate.address.to_string();
    let run = |name: &str, password: &str| {
        let mut run = lockkeeper(&["run", "--connect", &servers, "--try", "--tls-ca", &ca]);
        run.args(["--tls-cert", &certificate, "--tls-key", &key]);
        run.args(["--tls-server-name", name]);
        run.env("LOCKKEEPER_AUTH", format!("sasl:alice:{password}"));
        ended(run.args(["/a", "--", "echo", "done"]))
    };
    let right = run("zk.example", SECRET);
    assert_eq!(
        (right.status, &*right.stdout, &*right.stderr),
        (0, "done\n", "")
    );

    let mut demo = lockkeeper(&["demo", "--connect", &servers, "--seconds", "1"]);
    demo.args(["--tls-ca", &ca, "--tls-server-name", "zk.example"]);
    demo.args(["--tls-cert", &certificate, "--tls-key", &key]);
    let demo = ended(demo.env("LOCKKEEPER_AUTH", format!("sasl:alice:{SECRET}")));
    assert_eq!((demo.status, &*demo.stderr), (0, ""), "{}", demo.stdout);

    let wrong_name = run("zk2.example", SECRET);
    assert_eq!(wrong_name.status, 69, "{}", wrong_name.stderr);
    let text = "the server's certificate is not for zk2.example (but for ";
    assert!(wrong_name.stderr.contains(text), "{}", wrong_name.stderr);

    let wrong_password = run("zk.example", "open sesame");
    assert_eq!(wrong_password.status, 69, "{}", wrong_password.stderr);
    let text = "user alice was refused: wrong password, or no such user";
    assert!(
        wrong_password.stderr.contains(text),
        "{}",
        wrong_password.stderr
    );
}

#[test]
fn a_server_with_users_refuses_other_clients() {
    let files = Files::new("users");
    let users = format!("# The allowed users.\nsasl:alice:{SECRET}\nsasl:bob:x:y\n");
    let users = files.write("users", &users);
    let options = [
        "serve",
        "--fresh",
        "--listen",
        "127.0.0.1:0",
        "--auth-file",
        &users,
    ];
    let mut serve = Running::start(&mut lockkeeper(&options));
    let line = serve.line();
    let address = line.strip_prefix("listening on ").unwrap();
    let run = |auth: Option<&str>| {
        let mut run = lockkeeper(&["run", "--connect", address, "--try", "/a", "--", "true"]);
        run.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
        ended(&mut run)
    };
    for auth in [&format!("sasl:alice:{SECRET}"), "sasl:bob:x:y"] {
        let right = run(Some(auth));
        assert_eq!((right.status, &*right.stderr), (0, ""));
    }
    let refused = "was refused: wrong password, or no such user";
    // The error may be about the request or about the connection: the order is not fixed.
    let nobody = "authenticat";
    for (auth, why) in [
        (Some("sasl:alice:open sesame"), refused),
        (Some("sasl:carol:x"), refused),
        (Some("digest:alice:x"), nobody),
        (None, nobody),
    ] {
        let wrong = run(auth);
        assert_eq!(wrong.status, 69, "{}", wrong.stderr);
        assert!(wrong.stderr.contains(why), "{auth:?}: {}", wrong.stderr);
    }
}

/// Everybody who reached the port could ask for all sessions, and for the paths of all locks.
#[test]
fn a_server_with_users_tells_strangers_nothing() {
    let files = Files::new("strangers");
    let users = files.write("users", &format!("sasl:alice:{SECRET}\n"));
    let start = |options: &[&str]| {
        let mut serve = lockkeeper(&["serve", "--fresh", "--listen", "127.0.0.1:0"]);
        let mut serve = Running::start(serve.args(["--auth-file", &users]).args(options));
        let line = serve.line();
        (
            serve,
            line.strip_prefix("listening on ").unwrap().to_owned(),
        )
    };
    let ask = |address: &str, word: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (_closed, address) = start(&[]);
    for word in ["cons", "dump", "stat", "wchp"] {
        let answer = ask(&address, word);
        assert!(answer.contains("not in the whitelist"), "{word}: {answer}");
    }
    assert_eq!(ask(&address, "ruok"), "imok");
    let (_open, address) = start(&["--show-sessions"]);
    assert!(ask(&address, "dump").contains("SessionTracker"));
}

/// As the usual default of other servers: who gives no name is nobody, and ACLs may keep nobody out.
#[test]
fn a_server_with_users_may_serve_anonymous_clients_too() {
    let files = Files::new("anonymous");
    let users = files.write("users", &format!("sasl:alice:{SECRET}\n"));
    let mut serve = lockkeeper(&["serve", "--fresh", "--listen", "127.0.0.1:0"]);
    let options = ["--auth-file", &users, "--allow-anonymous"];
    let mut serve = Running::start(serve.args(options));
    let line = serve.line();
    let address = line.strip_prefix("listening on ").unwrap();
    let lockkeeper = |arguments: &[&str], auth: Option<&str>| {
        let mut command = lockkeeper(arguments);
        command.args(["--connect", address]);
        command.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
        ended(&mut command)
    };
    let alice = format!("sasl:alice:{SECRET}");
    assert_eq!(lockkeeper(&["create", "/hers"], Some(&alice)).status, 0);
    let acl = ["setacl", "/hers", "sasl:alice:cdrwa"];
    assert_eq!(lockkeeper(&acl, Some(&alice)).status, 0);
    assert_eq!(lockkeeper(&["create", "/everyones"], None).status, 0);
    assert_eq!(lockkeeper(&["get", "/hers"], None).status, 1);
    assert_eq!(lockkeeper(&["get", "/hers"], Some(&alice)).status, 0);
    assert_eq!(lockkeeper(&["ls"], Some("sasl:alice:wrong")).status, 69);
}

#[test]
fn a_bad_file_of_users_gives_status_64_and_an_error_without_the_secret() {
    let files = Files::new("no-users");
    for (name, text, why) in [
        ("empty", "# nobody\n", "empty: there is no identity in it"),
        (
            "digest",
            &*format!("sasl:a:b\ndigest:alice:{SECRET}\n"),
            "digest, line 2: a SASL identity looks like",
        ),
        (
            "no-password",
            &format!("sasl:{SECRET}\n"),
            "no-password, line 1: a SASL identity looks like",
        ),
    ] {
        let file = files.write(name, text);
        let options = ["serve", "--listen", "127.0.0.1:0", "--auth-file", &file];
        let ended = ended(&mut lockkeeper(&options));
        assert_eq!((ended.status, &*ended.stdout), (64, ""), "{name}");
        assert!(ended.stderr.contains(why), "{name}: {}", ended.stderr);
        assert!(!ended.stderr.contains(SECRET), "{}", ended.stderr);
    }
}
