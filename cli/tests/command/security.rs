//! Encryption and identities of the command: where they come from, and the error messages, which must not contain secrets.
//!
//! Not here: TLS on real servers (`tests/real/secure/` of the workspace), `--acl` and files of identities (`transcripts/identities.txt`).

use crate::support::{Arm, Files, authority, ended, lockkeeper};
use lockkeeper::{
    CreateMode,
    client::tls::TlsConfig,
    node::{Acl, Perms},
};
use lockkeeper_test_support::{
    gate::server_tls,
    secure_server::{self, Demands},
};
use tokio::runtime::Runtime;

const SECRET: &str = "hunter2";
const ALICE: &str = "digest:alice:hunter2\n";

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

#[cfg(not(feature = "kerberos"))]
#[test]
fn a_build_without_kerberos_says_how_to_get_it() {
    let mut run = lockkeeper(&["run", "/a", "--connect", "zk:1", "--kerberos", "--", "true"]);
    let refused = ended(&mut run).ends(64);
    refused.says("cargo install lockkeeper-cli --features kerberos");
}

mod needs_java {
    use super::*;

    #[test]
    #[ignore = "needs Java and a ZooKeeper: tests/run.sh"]
    fn a_login_by_sasl_opens_a_server_that_requires_one() {
        let runtime = Runtime::new().unwrap();
        let server = runtime.block_on(secure_server::Server::start(&Demands {
            users: &[("alice", SECRET)],
            ..Demands::default()
        }));
        let (servers, files) = (server.connect_string(), Files::new("sasl"));
        let run = |auth: Option<&str>| {
            let mut run = lockkeeper(&["run", "/a", "--connect", &*servers, "--wait", "60s"]);
            if let Some(line) = auth {
                run.args(["--auth-file", &*files.write("auth", line)]);
            }
            ended(run.args(["--", "true"]))
        };
        // On a busy machine it may say that it waits for the server.
        run(Some("sasl:alice:hunter2")).ends(0);
        let wrong = run(Some("sasl:alice:hunter3")).ends(69);
        wrong.says("user alice was refused: wrong password, no such user");
        run(None).ends(69).says("authenticat");
    }

    /// Each run has a certificate of its own.
    #[test]
    #[ignore = "needs Java and a ZooKeeper with netty: tests/run.sh"]
    fn a_lock_for_the_subject_of_a_certificate_refuses_other_subjects() {
        let ((authority, files, ca), runtime) = (authority(), Runtime::new().unwrap());
        let server_side = authority.issue(&["localhost"]);
        let server = runtime.block_on(secure_server::Server::start(&Demands {
            tls: Some((&server_side, &authority)),
            ..Demands::default()
        }));
        let run = |subject: &str, path: &str, options: &[&str]| {
            let client_side = authority.issue(&[subject]);
            let certificate = files.write("me.pem", &client_side.certificate);
            let key = files.write("me.key", &client_side.key);
            let mut run = lockkeeper(&["run", path, "--wait", "60s", "--tls-ca", &*ca]);
            run.args(["--connect", &*server.secure_connect_string()]);
            run.args(["--tls-cert", &*certificate, "--tls-key", &*key]);
            ended(run.args(options).args(["--", "true"]))
        };
        let (ann, bob) = (["--acl", "x509:CN=ann"], ["--acl", "x509:CN=bob"]);
        run("ann", "/a", &ann).ends(0);
        run("ann", "/a", &ann).ends(0);
        let refused = "/a: no permission by the ACL";
        run("bob", "/a", &[]).ends(69).says(refused);
        run("bob", "/a", &bob).ends(69).says(refused);
        let other = run("bob", "/b", &ann).ends(64);
        let why = "--acl x509:CN=ann: this run could not use the lock: the servers know it as ";
        other.says(why).says("x509:CN=bob");

        let (ca, ann) = (authority.certificate.as_bytes(), authority.issue(&["ann"]));
        let tls = TlsConfig::from_ca_pem(ca).unwrap();
        let tls = tls.identity_pem(ann.certificate.as_bytes(), ann.key.as_bytes());
        let builder = server.secure().connector(tls.unwrap().connector());
        let acl = async { builder.connect().await?.get_acl("/a").await };
        let acl = runtime.block_on(acl).unwrap().acl;
        assert_eq!(acl, [Acl::new(Perms::ALL, "x509", "CN=ann")]);
    }
}

#[test]
fn a_server_without_tls_is_named() {
    let (arm, (_, _files, ca)) = (Arm::embedded(), authority());
    let options = ["--tls-ca", &*ca, "--wait", "3s"];
    let plain = arm.ran(&options, "/a", &["true"]).ends(75);
    plain.says("the port may expect plain connections");
}

#[test]
fn a_command_runs_under_a_lock_over_tls() {
    let (arm, (authority, files, ca)) = (Arm::embedded(), authority());
    let (server_side, client_side) = (authority.issue(&["zk.example"]), authority.issue(&["me"]));
    let (_gate, servers) = arm.behind_tls(server_tls(&server_side, Some(&authority)));
    let certificate = files.write("me.pem", &client_side.certificate);
    let key = files.write("me.key", &client_side.key);
    let on = |command: &[&str], name: &str| {
        let mut command = lockkeeper(command);
        command.args(["--connect", &servers, "--tls-ca", &ca]);
        command.args(["--tls-cert", &certificate, "--tls-key", &key]);
        command.args(["--tls-server-name", name]);
        ended(command.env("LOCKKEEPER_AUTH", ALICE))
    };
    let demo = on(&["demo", "--seconds", "1"], "zk.example");
    demo.ends(0).silently();
    let list = |name| on(&["ls"], name);
    list("zk.example").is(0, "zookeeper\n").silently();
    let wrong_name = list("zk2.example").ends(69);
    wrong_name.says("the server's certificate is not for zk2.example (but for ");
}
