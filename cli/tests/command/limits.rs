//! Commands end although a name server is silent or a file hangs, and say so when servers take no request that is so
//! long.
//!
//! Not here: servers that are silent (`errors`, `run`).

use std::{
    fs,
    io::{self, Read as _, Write as _},
    net::{Shutdown, TcpListener, TcpStream},
    process::Command,
    thread,
    time::{Duration, Instant},
};

use crate::support::{Arm, Files, Running, ended, is_ignored, is_in, lockkeeper, wait_for};
use lockkeeper_test_support::certificates::Authority;
use rustix::process::Signal;

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

/// A way to a server that takes no request of more than 2,000 bytes, as with `jute.maxbuffer=2000`. Returns its address.
fn narrow(server: &str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let server = server.to_owned();
    thread::spawn(move || {
        for client in listener.incoming() {
            let (client, server) = (client.unwrap(), TcpStream::connect(&server).unwrap());
            let back = (server.try_clone().unwrap(), client.try_clone().unwrap());
            thread::spawn(move || io::copy(&mut &back.0, &mut &back.1));
            thread::spawn(move || {
                let _ = pass_on(&client, &server);
                let _ = (
                    client.shutdown(Shutdown::Both),
                    server.shutdown(Shutdown::Both),
                );
            });
        }
    });
    address
}

fn pass_on(mut client: &TcpStream, mut server: &TcpStream) -> io::Result<()> {
    loop {
        let mut length = [0; 4];
        client.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length).try_into().unwrap()];
        if frame.len() > 2000 {
            return Ok(());
        }
        client.read_exact(&mut frame)?;
        server.write_all(&[&length[..], &frame].concat())?;
    }
}

/// It came back for ever, and said nothing.
#[test]
fn a_run_says_that_servers_take_no_request_that_is_so_long() {
    let arm = Arm::embedded();
    let address = narrow(&arm.connect);
    let path = format!("/{}", "x".repeat(2500));
    let run = ["run", "--connect", &address, &path, "--", "true"];
    let refused = ended(&mut lockkeeper(&run));
    refused.is(69, "").says("is its jute.maxbuffer smaller?");
}
