//! Error messages about servers and nodes: in words for people, and with the details for `-v`.
//!
//! Not here: refusals (`transcripts/errors.txt`), bad usage (`transcripts/alone.txt`), encryption and identities (`security`).

use std::{
    io::{Read as _, Write as _},
    net::TcpListener,
    thread,
    time::{Duration, Instant},
};

use crate::support::{Arm, Running, ended, is_ignored, lockkeeper, wait_for};
use lockkeeper::proto::{ErrorCode, OpCode};
use lockkeeper_server::When;
use lockkeeper_test_support::real_server::free_ports;
use rustix::process::Signal;

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

/// Longer than the time that a command is given.
const LONG: Duration = Duration::from_secs(6);

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

/// Each command tried again and again for its whole time.
#[test]
fn a_command_fails_at_once_when_no_server_listens() {
    let ports = free_ports(8).into_iter();
    let addresses: Vec<_> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    for servers in [1, 8] {
        let servers = addresses[..servers].join(",");
        for command in ["ls", "get", "queue"] {
            let options = [command, "--timeout", "50s", "--connect", &servers, "/a"];
            let begin = Instant::now();
            ended(&mut lockkeeper(&options))
                .is(69, "")
                .says("Connection refused");
            assert!(begin.elapsed() < Duration::from_secs(25));
        }
        let begin = Instant::now();
        let doctor = ["doctor", "--timeout", "50s", "--connect", &servers];
        ended(&mut lockkeeper(&doctor))
            .ends(69)
            .shows("Connection refused");
        assert!(begin.elapsed() < Duration::from_secs(25));
        // A second is the whole time of an attempt that does not wait. A busy machine may delay some of them.
        let run = ["run", "--try", "--connect", &servers, "/a", "--", "true"];
        let is_soon = |_| {
            let begin = Instant::now();
            ended(&mut lockkeeper(&run))
                .is(69, "")
                .says("Connection refused");
            begin.elapsed() < Duration::from_millis(500)
        };
        assert!((0..20).any(is_soon));
        let demo = ended(&mut lockkeeper(&["demo", "--connect", &servers]));
        // Ten seconds would be its whole time.
        assert!(!demo.stderr.contains("reached in 10 s"), "{demo:?}");
        assert!(!demo.stderr.contains("reached in 10."), "{demo:?}");
        demo.is(69, "").says("Connection refused");
    }
    // A server that is silent may answer yet. The client tries the servers in random order.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let servers = format!("{},{}", addresses.join(","), silent.local_addr().unwrap());
    for _ in 0..3 {
        let begin = Instant::now();
        let options = ["ls", "--timeout", "700ms", "--connect", &servers];
        ended(&mut lockkeeper(&options))
            .is(69, "")
            .says("no server reached in ")
            .says("ms (is it ZooKeeper?)");
        assert!(begin.elapsed() >= Duration::from_millis(700));
    }
}

/// It waited for twice the session timeout, and not for the time that was given.
#[test]
fn a_queue_whose_server_is_silent_is_not_waited_for_longer_than_its_time() {
    let arm = Arm::embedded();
    let path = arm.path();
    arm.create(&path);
    let listing = When::op(OpCode::GET_CHILDREN).within(&path);
    arm.server().faults().delay_reply(listing, LONG);
    let begin = Instant::now();
    let shown = ended(&mut arm.on(&["queue", "--timeout", "700ms", &path]));
    assert!(begin.elapsed() < LONG, "{shown:?}");
    shown.is(69, "").says("not answered within 700 ms");
}

/// The error was "unsupported".
#[test]
fn a_time_to_live_that_a_server_does_not_keep_is_named() {
    let arm = Arm::embedded();
    let ttl = When::op(OpCode::CREATE_TTL);
    arm.server().faults().refuse(ttl, ErrorCode::UNIMPLEMENTED);
    let refused = arm.refused(&["create", "--ttl", "5s", "/ttl"]);
    assert!(refused.contains("extendedTypesEnabled=true"), "{refused}");
}

/// It waited for the answer about the chroot, for up to its whole time.
#[test]
fn a_signal_ends_a_command_whose_refusal_is_being_explained() {
    let arm = Arm::embedded();
    let chroot = arm.path();
    let look = When::op(OpCode::EXISTS).within(&chroot);
    let faults = arm.server().faults();
    faults.delay_reply(look, Duration::from_secs(600));
    let servers = format!("{}{chroot}", arm.connect);
    let options = ["rm", "/a", "--timeout", "500s", "--connect", &servers];
    if !is_ignored(Signal::TERM) {
        let rm = Running::start(&mut lockkeeper(&options));
        wait_for("the look", || faults.pending() == 0);
        rm.signal(Signal::TERM);
        rm.end().is(143, "").silently();
    }
}

/// They had the status for servers that cannot be reached.
#[test]
fn a_refusal_has_the_same_status_in_a_demo() {
    for nth in [1, 2] {
        let arm = Arm::embedded();
        let create = When::create().nth(nth);
        let faults = arm.server().faults();
        faults.refuse(create, ErrorCode::QUOTA_EXCEEDED);
        let refused = ended(&mut arm.on(&["demo"])).ends(1);
        refused
            .says("/lockkeeper-demo-")
            .says(": a quota does not allow it");
    }
}
