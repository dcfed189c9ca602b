//! Commands end although a name server is silent or a file hangs, and say so when servers take no request that is so
//! long.
//!
//! Not here: servers that are silent (`errors`, `run`).

use std::{
    borrow::Cow,
    fs::{self, OpenOptions},
    net::TcpListener,
    os::unix::fs::OpenOptionsExt as _,
    process::Command,
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use crate::support::{
    Arm, Files, Running, ended, fed, free_address, is_ignored, is_in, lockkeeper, wait_for,
};
use lockkeeper_test_support::{
    certificates::Authority,
    proxy::{Direction, Proxy, Tap},
};
use rustix::process::Signal;
use tokio::runtime::Runtime;

/// All commands of a test, on a busy machine. A look-up whose end is waited for takes longer, and that of a test has none.
const SOON: Duration = Duration::from_secs(20);

/// A command whose look-ups of names never end: before it asks a name server, the C library reads a file, see gethostbyname(3).
fn unanswered(arguments: &[&str], files: &Files) -> Command {
    let mut command = lockkeeper(arguments);
    command.env("HOSTALIASES", files.path("aliases"));
    command
}

fn until_caught(command: &Running, signal: Signal) {
    let pid = command.pid().as_raw_nonzero().to_string();
    wait_for("a handler", || is_in(&pid, "SigCgt:", signal));
}

/// The end of the command waited for that of the look-up, also after a signal.
#[test]
fn commands_end_in_time_while_no_name_server_answers() {
    let files = Files::new("names");
    files.fifo("aliases");
    let began = Instant::now();
    let doctor = ["doctor", "--timeout", "1s", "--connect", "zookeeper:2181"];
    // Not for ever, as `ended` would wait if it waited for the look-up.
    let doctor = Running::start(&mut unanswered(&doctor, &files)).end();
    doctor.ends(69).shows("the look-up of the name");
    let serve = ["serve", "--fresh", "--listen", "zookeeper:0"];
    let refused = Running::start(&mut unanswered(&serve, &files)).end();
    refused.is(71, "").says("no name server has answered");
    if !is_ignored(Signal::TERM) {
        let serve = Running::start(&mut unanswered(&serve, &files));
        until_caught(&serve, Signal::TERM);
        serve.signal(Signal::TERM);
        serve.end().is(143, "").silently();
    }
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
}

#[test]
fn commands_end_in_time_while_a_file_with_certificates_hangs() {
    let files = Files::new("hanging");
    let ca = files.fifo("ca.pem");
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = silent.local_addr().unwrap().to_string();
    let began = Instant::now();
    for name in ["ls", "doctor"] {
        let options = [name, "--connect", &server, "--timeout", "1s", "--tls-ca"];
        let command = || {
            let mut command = lockkeeper(&options);
            command.arg(&ca);
            command
        };
        // At the first connection it is read again.
        let running = Running::start(&mut command());
        fs::write(&ca, Authority::new("ours").certificate).unwrap();
        running.end().ends(69);
        if !is_ignored(Signal::TERM) {
            let mut hanging = Running::start(&mut command());
            thread::sleep(Duration::from_millis(200));
            hanging.signal(Signal::TERM);
            wait_for("the end", || !hanging.is_running());
        }
    }
    let took = began.elapsed();
    assert!(took < SOON, "{took:?}");
}

/// The doctor read them for each examination, so the second one found the pipe empty. A read that waited was behind the catch of
/// signals, so no signal ended it.
#[test]
fn the_doctor_reads_identities_once_and_before_it_catches_signals() {
    let (files, nobody) = (Files::new("identities-once"), free_address());
    let doctor = |file: &str| {
        let options = ["doctor", "--wait", "2s", "--connect", &nobody];
        let mut doctor = lockkeeper(&options);
        doctor.args(["--auth-file", file]);
        doctor
    };
    let piped = fed(&mut doctor("/dev/stdin"), b"digest:alice:hunter2\n");
    piped.ends(69).shows("Connection refused");
    if !is_ignored(Signal::TERM) {
        let file = files.fifo("auth");
        let mut hanging = Running::start(&mut doctor(&file));
        // Without O_NONBLOCK of Linux the open would wait, and with it fails until there is a reader.
        let mut open = OpenOptions::new();
        open.write(true).custom_flags(0o4000);
        let mut writer = None;
        wait_for("the reader", || {
            writer = open.open(&file).ok();
            writer.is_some()
        });
        hanging.signal(Signal::TERM);
        wait_for("the end", || !hanging.is_running());
    }
}

/// A server that takes no request of more than 2,000 bytes, as with `jute.maxbuffer=2000`: it ends the connection.
struct Narrow;

impl Tap for Narrow {
    fn pass<'a>(&mut self, direction: Direction, bytes: &'a [u8]) -> Cow<'a, [u8]> {
        if direction == Direction::ToServer && bytes.len() > 2000 {
            // No length of a frame.
            return [0xff; 4].to_vec().into();
        }
        bytes.into()
    }
}

/// It came back for ever, and said nothing.
#[test]
fn a_run_says_that_servers_take_no_request_that_is_so_long() {
    let arm = Arm::embedded();
    let server = [arm.connect.parse().unwrap()];
    let proxy = Proxy::tapped(&server, Arc::new(|_| Box::new(Narrow)));
    let runtime = Runtime::new().unwrap();
    let proxy = runtime.block_on(proxy);
    let path = format!("/{}", "x".repeat(2500));
    let run = [
        "run",
        "--connect",
        &proxy.connect_string(),
        &path,
        "--",
        "true",
    ];
    let refused = ended(&mut lockkeeper(&run));
    refused.is(69, "").says("is its jute.maxbuffer smaller?");
}
