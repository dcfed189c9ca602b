//! Error messages about servers and nodes: in words for people, and with the details for `-v`.
//!
//! Not here: bad usage (`usage`), encryption and identities (`security`).

mod support;

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use support::{Arm, ended, lockkeeper};

on_both_arms!(
    a_refusal_is_told_in_words_for_people,
    a_version_conflict_names_the_present_version,
    the_details_of_a_refusal_come_with_verbose,
);

/// Runs `lockkeeper COMMAND ARGUMENTS` on this server, which must refuse it. Returns stderr.
fn refused(arm: &Arm, arguments: &[&str]) -> String {
    let ended = ended(lockkeeper(arguments).args(["--connect", &arm.connect]));
    assert_eq!((ended.status, &*ended.stdout), (1, ""), "{arguments:?}");
    ended.stderr
}

fn create(arm: &Arm, path: &str) {
    let mut create = lockkeeper(&["create", "--parents", path, "--connect", &arm.connect]);
    assert_eq!(ended(&mut create).status, 0);
}

fn a_refusal_is_told_in_words_for_people(arm: &Arm) {
    let top = arm.path();
    create(arm, &format!("{top}/child"));
    let missing = format!("{top}/missing");
    let below = format!("{missing}/x");
    let none = format!("lockkeeper: {missing}: there is no such node\n");
    for command in ["ls", "tree", "get", "stat", "rm", "getacl"] {
        assert_eq!(refused(arm, &[command, &missing]), none, "{command}");
    }
    assert_eq!(refused(arm, &["set", &missing, "x"]), none);
    for (arguments, text) in [
        (
            &["create", &below][..],
            format!("{below}: its parent does not exist; --parents creates it"),
        ),
        (&["create", &top], format!("{top}: the node exists already")),
        (
            &["rm", &top],
            format!("{top}: the node has children; --recursive deletes them, too"),
        ),
    ] {
        assert_eq!(refused(arm, arguments), format!("lockkeeper: {text}\n"));
    }
}

fn a_version_conflict_names_the_present_version(arm: &Arm) {
    let path = arm.path();
    create(arm, &path);
    arm.set_data(&path, "x");
    arm.set_data(&path, "y");
    for arguments in [
        &["set", "--version", "5", &path, "z"][..],
        &["rm", "--version", "5", &path],
    ] {
        let text =
            format!("lockkeeper: {path}: the data have version 2, not 5; nothing was changed\n");
        assert_eq!(refused(arm, arguments), text);
    }
    assert_eq!(arm.data(&path), "y");
}

fn the_details_of_a_refusal_come_with_verbose(arm: &Arm) {
    let path = arm.path();
    let text = refused(arm, &["get", "-v", &path]);
    let (words, details) = text.split_once('\n').unwrap();
    assert_eq!(words, format!("lockkeeper: {path}: there is no such node"));
    assert!(
        details.contains(&format!("getData {path} refused: no node (-101)")),
        "{details}"
    );
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
    let ended = ended(&mut lockkeeper(&[
        "ls",
        "--connect",
        &both,
        "--timeout",
        "50s",
    ]));
    assert!(begin.elapsed() < Duration::from_secs(25));
    assert_eq!(ended.status, 69, "{}", ended.stderr);
    for part in [
        format!("{redis}: not ZooKeeper: it said -ERR unknown command"),
        format!("{web}: not ZooKeeper: it said HTTP/1.1 400 Bad Request"),
    ] {
        assert!(ended.stderr.contains(&part), "{}", ended.stderr);
    }
}

#[test]
fn a_list_of_servers_may_end_with_a_slash_but_has_no_scheme() {
    let arm = Arm::embedded();
    let path = arm.path();
    create(&arm, &format!("{path}/child"));
    for chroot in [format!("{path}/"), path] {
        let servers = format!("{}{chroot}", arm.connect);
        let ls = ended(&mut lockkeeper(&["ls", "--connect", &servers]));
        assert_eq!((ls.status, &*ls.stdout), (0, "child\n"), "{}", ls.stderr);
    }
    for scheme in ["http", "zk"] {
        let servers = format!("{scheme}://{}", arm.connect);
        let ls = ended(&mut lockkeeper(&["ls", "--connect", &servers]));
        assert_eq!(ls.status, 64);
        assert!(
            ls.stderr.contains(&format!("leave out {scheme}://")),
            "{}",
            ls.stderr
        );
    }
}
