//! Encryption and identities of the command: where they come from, and the error messages, which must not contain secrets.
//!
//! Not here: TLS and SASL on real servers (`tests/secure/` of the workspace).

mod support;

use std::{
    fs::{self, Permissions},
    io::{Read as _, Write as _},
    net::TcpStream,
    os::unix::fs::PermissionsExt as _,
    sync::Arc,
    time::Instant,
};

use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
};
use lockkeeper_server::Server;
use lockkeeper_test_support::{
    certificates::Authority,
    gate::{Demands, Gate, server_tls},
};
use support::{Arm, Ended, Files, LIMIT, Running, ended, lockkeeper};
use tokio::runtime::Runtime;

const SECRET: &str = "hunter2";
const ALICE: &str = "sasl:alice:hunter2\n";

/// Every user of the machine could read the passwords. Their group is the choice of the owner.
#[test]
fn a_file_of_identities_that_every_user_may_read_is_refused() {
    let (arm, files) = (Arm::embedded(), Files::new("open"));
    let auth = files.write("auth", ALICE);
    for mode in [0o644, 0o604, 0o602] {
        fs::set_permissions(&auth, Permissions::from_mode(mode)).unwrap();
        let text = format!("{auth}: every user may read or change it; run chmod o= {auth}");
        let options = ["--auth-file", &*auth];
        let serve = ["serve", "--listen", "127.0.0.1:0"];
        ended(lockkeeper(&serve).args(options)).ends(64).says(&text);
        ended(arm.on(&["ls"]).args(options)).ends(64).says(&text);
    }
}

/// Only the user `super` has permissions on the lock's directory.
#[test]
fn identities_come_from_a_file_or_from_the_environment() {
    let (arm, files) = (Arm::embedded(), Files::new("identities"));
    // From ZooKeeper's documentation: `super:test`.
    let id = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";
    let acl = vec![Acl::new(Perms::ALL, "digest", id)];
    arm.create_with_acl("/hers", CreateMode::Persistent, acl);
    arm.ran(&["--try"], "/hers", &["true"])
        .ends(69)
        .says("/hers: ");
    let file = files.write("auth", "\u{feff}  digest:super:test \t\r\n # the admin\n");
    let options = ["--try", "--auth-file", &*file];
    arm.ran(&options, "/hers", &["true"]).ends(0).silently();
    let mut run = arm.run(&["--try"], "/hers", &["true"]);
    let opened = ended(run.env("LOCKKEEPER_AUTH", "digest:super:test"));
    opened.ends(0).silently();
}

#[test]
fn a_server_that_cannot_be_trusted_is_refused_immediately() {
    let (arm, files) = (Arm::embedded(), Files::new("untrusted"));
    let auth = files.write("auth", ALICE);
    let begin = Instant::now();
    // With retries, the attempt would take the whole session timeout.
    let options = ["--auth-file", &*auth, "--session-timeout", "60s"];
    let sasl = arm.ran(&options, "/a", &["true"]).ends(69);
    assert!(begin.elapsed() < LIMIT);
    assert!(!sasl.stderr.contains(SECRET), "{}", sasl.stderr);
    sasl.says("the server does not support SASL");
    let ca = files.write("ca.pem", &Authority::new("ours").certificate);
    let options = ["--tls-ca", &*ca, "--wait", "3s"];
    let plain = arm.ran(&options, "/a", &["true"]).ends(75);
    plain.says("the port may expect plain connections");
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
    let on = |command: &[&str], name: &str, password: &str| {
        let mut command = lockkeeper(command);
        command.args(["--connect", &servers, "--tls-ca", &ca]);
        command.args(["--tls-cert", &certificate, "--tls-key", &key]);
        command.args(["--tls-server-name", name]);
        ended(command.env("LOCKKEEPER_AUTH", format!("sasl:alice:{password}")))
    };
    let demo = on(&["demo", "--seconds", "1"], "zk.example", SECRET);
    demo.ends(0).silently();
    let list = |name, password| on(&["ls"], name, password);
    list("zk.example", SECRET).is(0, "zookeeper\n").silently();
    let wrong_name = list("zk2.example", SECRET).ends(69);
    wrong_name.says("the server's certificate is not for zk2.example (but for ");
    let wrong_password = list("zk.example", "open sesame").ends(69);
    wrong_password.says("user alice was refused: wrong password, or no such user");
}

/// Starts `serve` with these users.
fn serve(files: &Files, users: &str, options: &[&str]) -> (Running, String) {
    let users = files.write("users", users);
    Running::serve(&[&["--fresh", "--auth-file", &users], options].concat())
}

/// A command on that server, with this identity.
fn on(address: &str, arguments: &[&str], auth: Option<&str>) -> Ended {
    let mut command = lockkeeper(arguments);
    command.args(["--connect", address]);
    command.envs(auth.map(|auth| ("LOCKKEEPER_AUTH", auth)));
    ended(&mut command)
}

#[test]
fn a_server_with_users_refuses_other_clients() {
    let files = Files::new("users");
    let users = format!("# The allowed users.\n{ALICE}sasl:bob:x:y\n");
    let (_serve, address) = serve(&files, &users, &[]);
    for auth in [ALICE, "sasl:bob:x:y"] {
        on(&address, &["ls"], Some(auth)).ends(0).silently();
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
        let wrong = on(&address, &["ls"], auth).says(why);
        assert!([1, 69].contains(&wrong.status), "{wrong:?}");
    }
}

/// Everybody who reached the port could ask for all sessions, and for the paths of all locks.
#[test]
fn a_server_with_users_tells_strangers_nothing() {
    let files = Files::new("strangers");
    let ask = |address: &str, word: &str| {
        let mut stream = TcpStream::connect(address).unwrap();
        stream.write_all(word.as_bytes()).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        answer
    };
    let (_closed, address) = serve(&files, ALICE, &[]);
    for word in ["cons", "stat", "wchp"] {
        let answer = ask(&address, word);
        assert!(answer.contains("not in the whitelist"), "{word}: {answer}");
    }
    assert_eq!(ask(&address, "ruok"), "imok");
}

/// As the usual default of other servers: who gives no name is nobody, and ACLs may keep nobody out.
#[test]
fn a_server_with_users_may_serve_anonymous_clients_too() {
    let files = Files::new("anonymous");
    let (_serve, address) = serve(&files, ALICE, &["--allow-anonymous"]);
    let on = |arguments: &[&str], auth| on(&address, arguments, auth);
    let mut run = lockkeeper(&["run", "--acl", "creator", "/hers", "--", "true"]);
    run.envs([
        ("LOCKKEEPER_CONNECT", &*address),
        ("LOCKKEEPER_AUTH", ALICE),
    ]);
    ended(&mut run).ends(0);
    on(&["create", "/everyones"], None).ends(0);
    on(&["get", "/hers"], None).ends(1);
    on(&["get", "/hers"], Some(ALICE)).ends(0);
    on(&["get", "/hers"], Some("digest:super:hunter2")).ends(1);
    on(&["ls"], Some("sasl:alice:wrong")).ends(69);
}

/// As `superDigest` of other servers: somebody must be able to remove a node whose owner is gone.
#[test]
fn no_acl_keeps_the_user_super_out() {
    let files = Files::new("super");
    let only_super = "digest:super:x:y\n";
    let (_serve, address) = serve(&files, only_super, &["--allow-anonymous"]);
    let on = |arguments: &[&str], auth| on(&address, arguments, Some(auth));
    let mut run = lockkeeper(&["run", "--acl", "creator", "/hers", "--", "true"]);
    run.envs([
        ("LOCKKEEPER_CONNECT", &*address),
        ("LOCKKEEPER_AUTH", "digest:alice:hunter2"),
    ]);
    ended(&mut run).ends(0);
    for wrong in ["digest:super:x", "digest:alice:x:y"] {
        on(&["get", "/hers"], wrong).ends(1);
    }
    on(&["get", "/hers"], "digest:super:x:y").ends(0);
}
