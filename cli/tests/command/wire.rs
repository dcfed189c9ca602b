//! `lockkeeper wire`: every recorded message, whatever bytes, and a relay between a client and a server.

use std::{
    fs,
    io::{Read as _, Write as _},
    net::{Shutdown, TcpStream},
    os::{fd::OwnedFd, unix::net::UnixStream},
    path::{Path, PathBuf},
    process::Command,
};

use crate::support::{
    Arm, Ended, Files, Running, authority, ended, is_ignored, lockkeeper, objects, root, wait_for,
    without_variables,
};
use lockkeeper_test_support::gate::server_tls;
use rustix::process::Signal;
use serde_json::Value;

/// The files in a folder of the workspace, in the order of their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(root().join(folder)).unwrap();
    let mut files: Vec<_> = files.map(|file| file.unwrap().path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{folder}");
    files
}

fn decode(options: &[&str], file: &Path) -> Ended {
    ended(lockkeeper(&["wire", "decode"]).args(options).arg(file))
}

/// The bytes of both sides, by the messages. Checks that the messages leave no gap.
fn bytes_of(messages: &[Value]) -> [String; 2] {
    let mut sides = [String::new(), String::new()];
    for message in messages {
        let side = &mut sides[usize::from(message["from"] == "server")];
        let hex = message["hex"].as_str().unwrap();
        assert_eq!(message["bytes"], hex.len() / 2, "{message}");
        *side += hex;
    }
    sides
}

#[test]
fn every_recorded_message_is_decoded_byte_for_byte() {
    let mut errors = 0;
    for file in files("proto/tests/golden") {
        let decoded = decode(&["--json"], &file);
        let messages = objects(&decoded.ends(0).silently().stdout);
        let recording = fs::read_to_string(&file).unwrap();
        let said = |mark: &str| -> String {
            let lines = recording.lines().filter_map(|line| line.strip_prefix(mark));
            lines.map(str::trim).collect()
        };
        let name = file.display();
        assert_eq!(bytes_of(&messages), [said("C>"), said("S>")], "{name}");
        for message in &messages {
            let is_wrong = !message["error"].is_null();
            assert_eq!(is_wrong, message["said"].is_null(), "{name}: {message}");
            // A server's refusal may have a body, which means nothing.
            let is_refusal = message["what"].as_str().unwrap().starts_with("refusal of");
            let is_whole = !message["said"].to_string().contains(" bytes more");
            assert!(is_whole || is_refusal, "{name}: {message}");
            errors += usize::from(is_wrong);
        }
    }
    // The eleven malformed messages of `proto/tests/golden.rs`, which went to both servers.
    assert_eq!(errors, 22);
}

/// Each file is a connection of its own.
#[test]
fn no_bytes_make_it_fail() {
    let temporary = Files::new("wire");
    for folder in ["frames", "records", "machine", "server"] {
        let files = files(&format!("fuzz/corpus/{folder}"));
        let files: Vec<_> = files.iter().map(|file| fs::read(file).unwrap()).collect();
        for side in ["C>", "S>"] {
            let closed = "# server closes the connection (EOF)";
            let lines = |bytes| format!("{side} {}\n{closed}\n", hex::encode(bytes));
            let recording: Vec<_> = files.iter().map(lines).collect();
            let file = temporary.write("recording", &recording.concat());
            let decoded = decode(&["--json"], file.as_ref()).ends(0).silently();
            let sides = bytes_of(&objects(&decoded.stdout));
            assert_eq!(
                sides[usize::from(side == "S>")],
                hex::encode(files.concat()),
                "{folder}"
            );
        }
    }
}

/// It opened the file of stdin again, which is refused where another user has opened it, and for sockets.
#[test]
fn a_recording_is_read_from_whatever_stdin_is() {
    let (mut recording, stdin) = UnixStream::pair().unwrap();
    recording.write_all(b"C> 72756f6b\n").unwrap();
    drop(recording);
    let mut decode = lockkeeper(&["wire", "decode", "-"]);
    let decoded = decode.stdin(OwnedFd::from(stdin)).output().unwrap();
    let said = String::from_utf8(decoded.stdout).unwrap();
    assert!(said.contains("\"ruok\""), "{said}{:?}", decoded.stderr);
}

/// Starts a spy, and returns its address, too.
fn spy(arm: &Arm, options: &[&str]) -> (Running, String) {
    spy_on(&arm.connect, options)
}

fn spy_on(server: &str, options: &[&str]) -> (Running, String) {
    let mut spy = lockkeeper(&["wire", "spy", "--listen", "127.0.0.1:0", "--connect"]);
    started(spy.arg(server).args(options))
}

/// Starts a spy, and reads the address at which it listens.
fn started(spy: &mut Command) -> (Running, String) {
    let mut spy = Running::start(spy);
    let line = spy.error_line();
    let address = line.split([' ', ',']).find(|word| word.starts_with("127."));
    (spy, address.unwrap().to_owned())
}

#[test]
fn a_spy_prints_what_client_and_server_say() {
    let arm = Arm::embedded();
    let (mut visible, address) = spy(&arm, &[]);
    let path = arm.path();
    let mut create = lockkeeper(&["create", "-p", &path, "hello", "--connect", &address]);
    ended(create.env("LOCKKEEPER_AUTH", "digest:ann:hunter2")).ends(0);
    let mut text = String::new();
    visible.line_that(|line| {
        text = format!("{text}\n{line}");
        line.contains("reply to closeSession")
    });
    let create = format!("Create2(CreateRequest {{ path: \"{path}\", data: Some(b\"hello\"), acl");
    for part in [
        "  1  client  handshake, 49 bytes at 0: ConnectRequest { protocol_version: 0",
        "  1  server  handshake, ",
        "AuthPacket { auth_type: 0, scheme: \"digest\", .. }",
        &create,
        "reply to create2",
        "refusal of create2",
        "no node (-101)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    if !is_ignored(Signal::TERM) {
        visible.signal(Signal::TERM);
        visible.end().ends(143);
    }

    let (mut json, address) = spy(&arm, &["--json"]);
    let mut ls = lockkeeper(&["ls", "--connect", &address]);
    ended(ls.env("LOCKKEEPER_AUTH", "digest:ann:hunter2")).ends(0);
    let first = &objects(&json.line())[0];
    assert_eq!(
        (&first["what"], &first["connection"]),
        (&"handshake".into(), &1.into())
    );
    assert!(first["time_ms"].as_u64() > Some(1_600_000_000_000));
    let auth = json.line_that(|line| line.contains("AuthPacket"));
    let auth = &objects(&auth)[0];
    assert!(!auth.to_string().contains("hunter2"), "{auth}");
    assert_eq!(auth["hex"], Value::Null);
}

/// The spy ended the connection with the first of both sides.
#[test]
fn a_client_of_a_spy_that_sends_nothing_more_gets_its_answer() {
    let arm = Arm::embedded();
    let (_spy, address) = spy(&arm, &[]);
    for _ in 0..20 {
        let (mut client, mut answer) = (TcpStream::connect(&address).unwrap(), String::new());
        client.write_all(b"ruok").unwrap();
        client.shutdown(Shutdown::Write).unwrap();
        client.read_to_string(&mut answer).unwrap();
        assert_eq!(answer, "imok");
    }
}

/// The spy ended, and with it all connections that it relayed. With one of both limits there is no descriptor for a connection to it,
/// with the other one none for the connection to the server.
#[test]
fn a_spy_goes_on_when_it_may_open_no_further_connection() {
    let arm = Arm::embedded();
    for limit in ["48", "49"] {
        let mut spy = Command::new("sh");
        let script = "ulimit -n $1; exec \"$0\" wire spy --listen 127.0.0.1:0 --connect $2";
        let lockkeeper_itself = env!("CARGO_BIN_EXE_lockkeeper");
        spy.args(["-c", script, lockkeeper_itself, limit, &arm.connect]);
        let (mut spy, address) = started(without_variables(&mut spy));
        let many: Vec<_> = (0..60).map(|_| TcpStream::connect(&address)).collect();
        let said = spy.error_line();
        assert!(said.contains("Too many open files"), "{said}");
        drop(many);
        wait_for("an answer", || {
            let mut answer = String::new();
            let asked = TcpStream::connect(&address).and_then(|mut client| {
                client.write_all(b"ruok")?;
                client.read_to_string(&mut answer)
            });
            asked.is_ok() && answer == "imok"
        });
    }
}

/// The first bytes were taken for the length of a frame: "frame of 369295616 bytes".
#[test]
fn a_connection_with_tls_is_relayed_and_named() {
    let (arm, (authority, _files, ca)) = (Arm::embedded(), authority());
    let (_gate, server) = arm.behind_tls(server_tls(&authority.issue(&["127.0.0.1"]), None));
    let (mut spy, address) = spy_on(&server, &[]);
    let mut ls = lockkeeper(&["ls", "--connect", &address, "--tls-ca", &ca]);
    ended(&mut ls).is(0, "zookeeper\n");
    let first = spy.line();
    let what = "bytes at 0: TLS, which cannot be shown: use the port of the server without TLS";
    assert!(
        first.contains("  1  client  encrypted, ") && first.ends_with(what),
        "{first}"
    );
    let second = spy.line();
    assert!(
        second.contains("  1  server  encrypted, ") && second.ends_with(": TLS"),
        "{second}"
    );
}

/// Every key of every object is in the operator's runbook.
#[test]
fn the_keys_of_json_are_documented() {
    let arm = Arm::embedded();
    let path = arm.path();
    let guard = arm.hold(&path);
    let runbook = fs::read_to_string(root().join("docs/guide/runbook.md")).unwrap();
    let (_, section) = runbook.split_once("## JSON for programs\n").unwrap();
    let (section, _) = section.split_once("\n## ").unwrap();
    let recording = files("proto/tests/golden").swap_remove(0);
    for lines in [
        arm.said(&["ls", "--json", "/"]),
        arm.said(&["stat", "--json", &path]),
        arm.said(&["queue", "--json", &path]),
        arm.said(&["doctor", "--json"]),
        decode(&["--json"], &recording).ends(0).stdout,
    ] {
        let mut keys = Vec::new();
        for object in objects(&lines) {
            gather(&object, &mut keys);
        }
        assert!(keys.len() > 5, "{lines}");
        for key in keys {
            assert!(section.contains(&format!("`{key}`")), "{key}: {lines}");
        }
    }
    arm.release(guard);
}

/// The keys of an object, and of those in its lists.
fn gather(value: &Value, keys: &mut Vec<String>) {
    match value {
        Value::Array(all) => all.iter().for_each(|one| gather(one, keys)),
        Value::Object(fields) => {
            for (key, value) in fields {
                keys.push(key.clone());
                gather(value, keys);
            }
        }
        _ => {}
    }
}
