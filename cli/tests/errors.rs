//! Error messages about servers and nodes: in words for people, and with the details for `-v`.
//!
//! Not here: bad usage (`usage`), encryption and identities (`security`).

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    process::Command,
    thread,
    time::{Duration, Instant},
};

use lockkeeper::proto::{ErrorCode, OpCode};
use lockkeeper_server::When;
use support::{Arm, contained, ended, lockkeeper};

on_both_arms!(
    a_refusal_is_told_in_words_for_people,
    a_change_for_another_version_is_refused,
    the_details_of_a_refusal_come_with_verbose,
);

fn a_refusal_is_told_in_words_for_people(arm: &Arm) {
    let top = arm.path();
    arm.create(&format!("{top}/child"));
    let missing = format!("{top}/missing");
    let below = format!("{missing}/x");
    let none = format!("lockkeeper: {missing}: there is no such node\n");
    for arguments in [
        &["ls"][..],
        &["ls", "--long"],
        &["tree"],
        &["get"],
        &["stat"],
        &["rm"],
        &["rm", "-r"],
    ] {
        let refused = arm.refused(&[arguments, &[&missing]].concat());
        assert_eq!(refused, none, "{arguments:?}");
    }
    assert_eq!(arm.refused(&["set", &missing, "x"]), none);
    for (arguments, text) in [
        (
            &["create", &below],
            format!("{below}: its parent does not exist; --parents creates it"),
        ),
        (&["create", &top], format!("{top}: the node exists already")),
        (
            &["rm", &top],
            format!("{top}: the node has children; --recursive deletes them, too"),
        ),
    ] {
        assert_eq!(arm.refused(arguments), format!("lockkeeper: {text}\n"));
    }
}

fn a_change_for_another_version_is_refused(arm: &Arm) {
    let path = arm.path();
    arm.said(&["create", "--parents", &path, "zero"]);
    arm.said(&["set", "--version", "0", &path, "one"]);
    for (command, data) in [("set", &["two"][..]), ("rm", &[])] {
        let refused = arm.refused(&[&[command, "--version", "5", &path], data].concat());
        let text = "the data have version 1, not 5; nothing was changed";
        assert_eq!(refused, format!("lockkeeper: {path}: {text}\n"));
    }
    assert_eq!(arm.data(&path), "one");
    arm.said(&["rm", "--version", "1", &path]);
}

fn the_details_of_a_refusal_come_with_verbose(arm: &Arm) {
    let path = arm.path();
    let text = arm.refused(&["get", "-v", &path]);
    let (words, details) = text.split_once('\n').unwrap();
    assert_eq!(words, format!("lockkeeper: {path}: there is no such node"));
    let detail = format!("getData {path} refused: no node (-101)");
    assert!(details.contains(&detail), "{details}");
}

/// A port that answers each connection with this text.
fn other_service(text: &'static [u8]) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.write_all(text);
            let _ = stream.read(&mut [0; 100]);
        }
    });
    address
}

/// The whole time for a connect went by, and the message was about a frame of 759,518,802 bytes.
#[test]
fn a_port_of_another_service_is_named_at_once() {
    let redis = other_service(b"-ERR unknown command\r\n");
    let web = other_service(b"HTTP/1.1 400 Bad Request\r\n\r\n");
    let both = format!("{redis},{web}");
    let begin = Instant::now();
    ended(&mut lockkeeper(&[
        "ls",
        "--connect",
        &both,
        "--timeout",
        "50s",
    ]))
    .ends(69)
    .says(&format!(
        "{redis}: not ZooKeeper: it said -ERR unknown command"
    ))
    .says(&format!(
        "{web}: not ZooKeeper: it said HTTP/1.1 400 Bad Request"
    ));
    assert!(begin.elapsed() < Duration::from_secs(25));
}

/// The command tried again and again for 10 s.
#[test]
fn a_command_fails_at_once_when_no_server_listens() {
    // Ports that are free now. No other process takes them during the moment that this test lasts.
    let listeners: Vec<_> = (0..8)
        .map(|_| TcpListener::bind("127.0.0.1:0").unwrap())
        .collect();
    let addresses = listeners.iter().map(|it| it.local_addr().unwrap());
    let addresses: Vec<_> = addresses.map(|it| it.to_string()).collect();
    drop(listeners);
    for servers in [1, 8] {
        let servers = addresses[..servers].join(",");
        for command in ["ls", "tree", "queue"] {
            let options = [command, "--timeout", "50s", "--connect", &servers, "/a"];
            let begin = Instant::now();
            ended(&mut lockkeeper(&options))
                .is(69, "")
                .says("Connection refused");
            assert!(begin.elapsed() < Duration::from_secs(25));
        }
    }
    // A server that is silent may answer yet. The client tries the servers in random order.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!("{},{}", addresses.join(","), silent.local_addr().unwrap());
    for _ in 0..3 {
        let begin = Instant::now();
        let options = ["ls", "--timeout", "700ms", "--connect", &servers];
        ended(&mut lockkeeper(&options))
            .is(69, "")
            .says("no server reached in 7");
        assert!(begin.elapsed() >= Duration::from_millis(700));
    }
}

/// The errors were "No such file or directory", "Too many open files", "unsupported" and "/: there is no such node".
#[test]
fn each_error_names_what_failed() {
    contained(|| {
        let arm = Arm::embedded();
        let socket = "/nonexistent/socket";
        let mut run = arm.run(&["--notify"], "/lock", &["true"]);
        ended(run.env("NOTIFY_SOCKET", socket))
            .is(71, "")
            .says(&format!(
                "cannot reach NOTIFY_SOCKET={socket}: No such file"
            ));
        let arm = Arm::embedded();
        let (binary, connect) = (env!("CARGO_BIN_EXE_lockkeeper"), &arm.connect);
        let ls = format!("ulimit -n 5; exec {binary} ls --connect {connect}");
        ended(Command::new("sh").args(["-c", &ls]))
            .is(71, "")
            .says("lockkeeper: cannot watch files and timers: Too many open files");
        let chroot = format!("{connect}/missing/root");
        let below: [&[&str]; 5] = [
            &["ls"],
            &["tree"],
            &["get", "/a"],
            &["create", "/a"],
            &["rm", "/a"],
        ];
        for arguments in below {
            let mut below = lockkeeper(arguments);
            let none = ended(below.args(["--connect", &chroot])).is(1, "");
            let text = "lockkeeper: the chroot /missing/root does not exist\n";
            assert_eq!(none.stderr, text, "{arguments:?}");
        }
        let mut parents = lockkeeper(&["create", "--parents", "/a"]);
        ended(parents.args(["--connect", &chroot]))
            .is(0, "/a\n")
            .says("the chroot of --connect does not exist; creating it");
        let ttl = When::op(OpCode::CREATE_TTL);
        arm.server().faults().refuse(ttl, ErrorCode::UNIMPLEMENTED);
        let refused = arm.refused(&["create", "--ttl", "5s", "/ttl"]);
        assert!(refused.contains("extendedTypesEnabled=true"), "{refused}");
    });
}

#[test]
fn a_list_of_servers_may_end_with_a_slash_but_has_no_scheme() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&format!("{path}/child"));
    let ls = |servers: &str| ended(&mut lockkeeper(&["ls", "--connect", servers]));
    for chroot in [format!("{path}/"), path] {
        ls(&format!("{}{chroot}", arm.connect)).is(0, "child\n");
    }
    for scheme in ["http", "zk"] {
        let refused = ls(&format!("{scheme}://{}", arm.connect));
        refused.ends(64).says(&format!("leave out {scheme}://"));
    }
}
