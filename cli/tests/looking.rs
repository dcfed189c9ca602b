//! Looking at nodes and servers: JSON, ACLs, whole trees, narrow terminals, closed pipes, `export` and `import`, `doctor`.
//!
//! Not here: the contents of a queue (`queue`), single nodes (`nodes`).

mod support;

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpListener,
    process::{Command, Stdio},
};

use lockkeeper::{
    CreateMode,
    node::{Acl, Perms},
};
use serde_json::Value;
use support::{Arm, Ended, ended, lockkeeper, wait_for};

on_both_arms!(
    nodes_are_shown_as_json,
    a_whole_tree_is_listed,
    an_acl_is_shown_and_set,
    a_client_learns_who_it_is_and_that_its_writes_have_arrived,
    a_tree_is_exported_and_imported_byte_for_byte,
    an_export_that_would_lose_users_is_refused,
    a_command_that_waits_ends_when_nobody_reads,
    a_node_without_a_session_is_marked,
    the_doctor_finds_nothing_wrong_with_a_healthy_server,
);

/// `lockkeeper COMMAND ARGUMENTS` on this server.
fn on(arm: &Arm, arguments: &[&str]) -> Command {
    let mut lockkeeper = lockkeeper(arguments);
    lockkeeper.args(["--connect", &arm.connect]);
    lockkeeper
}

/// Runs a command that must succeed, and returns its stdout.
fn said(arm: &Arm, arguments: &[&str]) -> String {
    let ended = ended(&mut on(arm, arguments));
    assert_eq!((ended.status, &*ended.stderr), (0, ""), "{arguments:?}");
    ended.stdout
}

/// Runs a command with this stdin.
fn fed(command: &mut Command, input: &[u8]) -> Ended {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = piped.stderr(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input).unwrap();
    let output = child.wait_with_output().unwrap();
    Ended {
        status: output.status.code().unwrap(),
        stdout: String::from_utf8(output.stdout).unwrap(),
        stderr: String::from_utf8(output.stderr).unwrap(),
    }
}

fn objects(lines: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).unwrap();
    lines.lines().map(object).collect()
}

fn nodes_are_shown_as_json(arm: &Arm) {
    let top = arm.path();
    let (one, two) = (format!("{top}/one"), format!("{top}/two"));
    said(arm, &["create", "--parents", &one, "12345"]);
    said(arm, &["set", &one, "123"]);
    arm.create_with_acl(&two, CreateMode::Ephemeral, Acl::OPEN_UNSAFE.to_vec());
    let listed = objects(&said(arm, &["ls", "--json", &top]));
    let [first, second] = listed.as_slice() else {
        panic!("{listed:?}");
    };
    assert_eq!([&first["path"], &second["path"]], [&*one, &*two]);
    assert_eq!((&first["version"], &first["bytes"]), (&1.into(), &3.into()));
    assert_eq!(first["session"], Value::Null);
    assert!(second["session"].as_str().unwrap().starts_with("0x"));
    let stat = objects(&said(arm, &["stat", "--json", &one]));
    assert_eq!(stat, std::slice::from_ref(first));
    assert!(stat[0]["changed_ms"].as_i64() > Some(1_600_000_000_000));

    let mut watch = on(arm, &["watch", "--json", "--count", "1", &one]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    wait_for("an event", || {
        arm.set_data(&one, "x");
        watch.try_wait().unwrap().is_some()
    });
    let mut event = String::new();
    BufReader::new(watch.stdout.take().unwrap())
        .read_line(&mut event)
        .unwrap();
    let event = &objects(&event)[0];
    assert_eq!(event["event"], "changed");
    assert_eq!(event["path"], *one);
}

fn a_whole_tree_is_listed(arm: &Arm) {
    let top = arm.path();
    for below in ["a/b/c", "a-b", "d"] {
        said(arm, &["create", "--parents", &format!("{top}/{below}")]);
    }
    let listed = said(arm, &["ls", "-R", &top]);
    let mut paths = ["a", "a/b", "a/b/c", "a-b", "d"].map(|below| format!("{top}/{below}\n"));
    paths.sort_unstable();
    assert_eq!(listed, paths.concat());
    let long = said(arm, &["ls", "-R", "--long", &top]);
    assert_eq!(long.lines().count(), 1 + 5);
    assert!(long.contains(&format!("{top}/a/b/c\n")), "{long}");
}

fn an_acl_is_shown_and_set(arm: &Arm) {
    let path = arm.path();
    said(arm, &["create", "--parents", &path]);
    assert_eq!(said(arm, &["getacl", &path]), "world:anyone:cdrwa\n");
    let digest = "digest:super:D/InIHSb7yEEbrWz8b9l71RjZJU=:cdrwa";
    said(
        arm,
        &["setacl", "--version", "0", &path, "world:anyone:r", digest],
    );
    let acl = said(arm, &["getacl", &path]);
    // The ids of others are hidden from those who may only read.
    let mut lines: Vec<_> = acl.lines().collect();
    lines.sort_unstable();
    assert!(
        lines[0].starts_with("digest:super:") && lines[0].ends_with(":cdrwa"),
        "{acl}"
    );
    assert_eq!(lines[1..], ["world:anyone:r"]);
    let late = ended(&mut on(arm, &["setacl", &path, "world:anyone:cdrwa"]));
    let text = format!(
        "lockkeeper: {path}: no permission by the ACL; give an identity that has it with --auth-file\n"
    );
    assert_eq!((late.status, late.stderr), (1, text));
    let bad = ended(&mut on(arm, &["setacl", &path, "anyone"]));
    assert_eq!(bad.status, 64);
    assert!(
        bad.stderr.contains("looks like world:anyone:cdrwa"),
        "{}",
        bad.stderr
    );
}

fn a_client_learns_who_it_is_and_that_its_writes_have_arrived(arm: &Arm) {
    assert_eq!(said(arm, &["sync"]), "");
    let config = said(arm, &["config"]);
    assert!(config.is_empty() || config.contains("version="), "{config}");
    // Servers before 3.7 do not know.
    let me = ended(on(arm, &["whoami"]).env("LOCKKEEPER_AUTH", "digest:ann:secret"));
    let lines: Vec<_> = me.stdout.lines().collect();
    assert_eq!(lines, ["digest:ann", "ip:127.0.0.1"], "{}", me.stderr);
}

/// The copy had the user `super` without its digest: nobody could use it.
fn an_export_that_would_lose_users_is_refused(arm: &Arm) {
    let path = arm.path();
    arm.create(&path);
    // From ZooKeeper's documentation: `super:test`.
    let user = Acl::new(Perms::ALL, "digest", "super:D/InIHSb7yEEbrWz8b9l71RjZJU=");
    let anyone = Acl::new(Perms::READ, "world", "anyone");
    let child = format!("{path}/child");
    arm.create_with_acl(&child, CreateMode::Persistent, vec![user, anyone]);
    let refused = ended(&mut on(arm, &["export", &path]));
    assert_eq!((refused.status, &*refused.stdout), (1, ""));
    let (names, says) = (&*child, "--auth-file");
    let is_said = refused.stderr.contains(names) && refused.stderr.contains(says);
    assert!(is_said, "{}", refused.stderr);
    let hers = ended(on(arm, &["export", &path]).env("LOCKKEEPER_AUTH", "digest:super:test"));
    assert_eq!((hers.status, &*hers.stderr), (0, ""));
    assert!(hers.stdout.contains("super:D/In"), "{}", hers.stdout);
}

fn a_tree_is_exported_and_imported_byte_for_byte(arm: &Arm) {
    let (from, to) = (arm.path(), arm.path());
    said(
        arm,
        &[
            "create",
            "--parents",
            &format!("{from}/text"),
            "größe\n\u{1b}[31m",
        ],
    );
    said(arm, &["create", "--parents", &format!("{from}/a/b"), ""]);
    let bytes: Vec<u8> = (0..=255).collect();
    let set = fed(
        &mut on(arm, &["create", &format!("{from}/bytes"), "-"]),
        &bytes,
    );
    assert_eq!(set.status, 0, "{}", set.stderr);
    said(arm, &["setacl", &format!("{from}/a"), "world:anyone:cdrw"]);
    arm.create_with_acl(
        &format!("{from}/ephemeral"),
        CreateMode::Ephemeral,
        Acl::OPEN_UNSAFE.to_vec(),
    );
    let exported = ended(&mut on(arm, &["export", &from]));
    assert_eq!(exported.status, 0);
    assert_eq!(
        exported.stderr,
        "lockkeeper: ephemeral nodes that were left out: 1\n"
    );
    let export = exported.stdout.as_bytes();
    assert_eq!(exported.stdout.lines().count(), 5);

    let top = format!("{to}/below");
    let plan = fed(&mut on(arm, &["import", "--dry-run", &top]), export);
    assert_eq!((plan.status, &*plan.stderr), (0, ""));
    assert!(
        plan.stdout.lines().all(|line| line.starts_with("create  ")),
        "{}",
        plan.stdout
    );
    assert_eq!(
        ended(&mut on(arm, &["stat", &top])).status,
        1,
        "nothing was written"
    );
    let done = fed(&mut on(arm, &["import", &top]), export);
    assert_eq!(
        (done.status, &done.stdout),
        (0, &plan.stdout),
        "{}",
        done.stderr
    );
    assert_eq!(said(arm, &["export", &top]), exported.stdout);
    let got = on(arm, &["get", &format!("{top}/bytes")]).output().unwrap();
    assert_eq!(got.stdout, bytes);

    let again = fed(&mut on(arm, &["import", &top]), export);
    assert!(
        again
            .stdout
            .lines()
            .all(|line| line.starts_with("same    ")),
        "{}",
        again.stdout
    );
    said(arm, &["set", &format!("{top}/text"), "other"]);
    said(arm, &["rm", &format!("{top}/bytes")]);
    let differs = fed(&mut on(arm, &["import", &top]), export);
    assert_eq!((differs.status, &*differs.stdout), (1, ""));
    assert!(
        differs
            .stderr
            .contains(&format!("{top}/text exists with other data")),
        "{}",
        differs.stderr
    );
    assert_eq!(
        ended(&mut on(arm, &["stat", &format!("{top}/bytes")])).status,
        1
    );
    let over = fed(&mut on(arm, &["import", "--overwrite", &top]), export);
    assert_eq!(over.status, 0, "{}", over.stderr);
    assert_eq!(said(arm, &["export", &top]), exported.stdout);
    let bad = fed(&mut on(arm, &["import", &top]), b"{}\n");
    assert_eq!(bad.status, 64);
    assert!(bad.stderr.contains("line 1 of stdin"), "{}", bad.stderr);
}

/// `head -1` ended, and the command waited for an event that never came.
fn a_command_that_waits_ends_when_nobody_reads(arm: &Arm) {
    let path = arm.path();
    said(arm, &["create", "--parents", &path]);
    for arguments in [&["queue", "-f", &path][..], &["watch", &path]] {
        let mut waits = on(arm, arguments).stdout(Stdio::piped()).spawn().unwrap();
        let mut pipe = BufReader::new(waits.stdout.take().unwrap());
        if arguments[0] == "queue" {
            pipe.read_line(&mut String::new()).unwrap();
        }
        assert_eq!(waits.try_wait().unwrap(), None, "{arguments:?}");
        drop(pipe);
        let mut status = None;
        wait_for("the end of the command", || {
            status = waits.try_wait().unwrap();
            status.is_some()
        });
        assert_eq!(status.unwrap().code(), Some(141), "{arguments:?}");
    }
}

fn a_node_without_a_session_is_marked(arm: &Arm) {
    let path = arm.path();
    let forgotten = format!("{path}/_c_218f2acd-8d1a-4422-b7a5-0d459a104948-lock-");
    said(
        arm,
        &["create", "--parents", "--sequential", &forgotten, "me"],
    );
    let shown = said(arm, &["queue", &path]);
    assert!(
        shown.ends_with("mutex  -        (never expires)  me\n"),
        "{shown}"
    );
    let json = objects(&said(arm, &["queue", "--json", &path]));
    assert_eq!(json[0]["contenders"][0]["expires"], false);
}

fn the_doctor_finds_nothing_wrong_with_a_healthy_server(arm: &Arm) {
    let doctor = ended(&mut on(arm, &["doctor"]));
    assert_eq!(
        (doctor.status, &*doctor.stderr),
        (0, ""),
        "{}",
        doctor.stdout
    );
    assert!(
        doctor.stdout.ends_with("no problem found\n"),
        "{}",
        doctor.stdout
    );
    let json = ended(&mut on(arm, &["doctor", "--json"]));
    let report = &objects(&json.stdout)[0];
    let server = &report["servers"][0];
    assert_eq!(server["server"], *arm.connect);
    // Real servers answer the word `conf` only if their whitelist has it.
    assert!(arm.server.is_none() || server["tick_ms"] == 100, "{report}");
    for key in ["round_trip_ms", "longest_session_ms"] {
        assert!(server[key].as_f64() > Some(0.0), "{key}: {report}");
    }
    for key in ["containers", "persistent_watches"] {
        assert_eq!(server[key], true, "{key}: {report}");
    }
    assert!(
        server["clock_ms"].as_i64().unwrap().abs() < 1000,
        "{report}"
    );
    assert!(
        server["version"].as_str().unwrap().starts_with("3."),
        "{report}"
    );
    assert_eq!(report["problems"], Value::Array(Vec::new()));
    assert!(!said(arm, &["ls"]).contains("doctor"), "its nodes are gone");
    let no_write = objects(&ended(&mut on(arm, &["doctor", "--json", "--no-write"])).stdout);
    assert_eq!(no_write[0]["servers"][0]["containers"], Value::Null);
}

#[test]
fn the_doctor_says_what_is_wrong_and_what_to_do() {
    let arm = Arm::embedded();
    let free = TcpListener::bind("127.0.0.1:0").unwrap();
    let closed = free.local_addr().unwrap().to_string();
    drop(free);
    let servers = format!("{},{closed}", arm.connect);
    let sick = ended(&mut lockkeeper(&[
        "doctor",
        "--timeout",
        "1s",
        "--connect",
        &servers,
    ]));
    assert_eq!(sick.status, 1, "{}", sick.stderr);
    let text = format!("problems: 1\n- {closed}: ");
    assert!(sick.stdout.contains(&text), "{}", sick.stdout);
    assert!(
        sick.stdout
            .ends_with("\n  start the server, or correct the port\n"),
        "{}",
        sick.stdout
    );
    let dead = ended(&mut lockkeeper(&[
        "doctor",
        "--timeout",
        "1s",
        "--connect",
        &closed,
    ]));
    assert_eq!(dead.status, 69, "{}", dead.stdout);
    let chroot = format!("{}/missing", arm.connect);
    let lost = ended(&mut lockkeeper(&["doctor", "--connect", &chroot]));
    assert_eq!(lost.status, 1, "{}", lost.stdout);
    assert!(
        lost.stdout.contains("no node was created below /"),
        "{}",
        lost.stdout
    );
}

/// script(1), of util-linux, runs the command in a terminal of this width.
#[test]
#[cfg(target_os = "linux")]
fn a_queue_fits_the_width_of_the_terminal() {
    let arm = Arm::embedded();
    let short = "/q";
    let _guard = arm.hold(short);
    let who = "x".repeat(300);
    let node = format!("{short}/_c_218f2acd-8d1a-4422-b7a5-0d459a104948-lock-");
    said(&arm, &["create", "--sequential", &node, &who]);
    let binary = env!("CARGO_BIN_EXE_lockkeeper");
    let shown = |columns: usize, options: &str| {
        let connect = &arm.connect;
        let command = format!(
            "stty cols {columns}; exec {binary} queue {options} --connect {connect} {short}"
        );
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", &command, "/dev/null"]);
        let ended = ended(&mut script);
        assert_eq!(ended.status, 0, "{}", ended.stdout);
        ended.stdout.replace('\r', "")
    };
    for columns in [50, 80, 200] {
        let text = shown(columns, "");
        assert!(
            text.lines().all(|line| line.chars().count() <= columns),
            "{columns}: {text}"
        );
        assert_eq!(text.contains("SESSION"), columns > 50, "{text}");
        assert!(text.contains("(never expires)"), "{text}");
        assert!(text.lines().last().unwrap().ends_with('…'), "{text}");
    }
    assert!(
        shown(50, "--long").contains(&who),
        "nothing is cut with --long"
    );
}
