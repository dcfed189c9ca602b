//! `lockkeeper wire`: every recorded message, whatever bytes, and a relay between a client and a server.

mod support;

use std::{
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use rustix::process::Signal;
use serde_json::Value;
use support::{Arm, Running, ended, is_ignored, lockkeeper};

/// The files in a folder of the workspace, in the order of their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("..")
        .join(folder);
    let mut files: Vec<_> = (fs::read_dir(&folder).unwrap())
        .map(|file| file.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{}", folder.display());
    files
}

fn decode(options: &[&str], files: &[PathBuf]) -> Command {
    let mut decode = lockkeeper(&["wire", "decode"]);
    decode.args(options).args(files);
    decode
}

fn objects(lines: &str) -> Vec<Value> {
    let object = |line| serde_json::from_str(line).unwrap();
    lines.lines().map(object).collect()
}

/// The bytes of both sides, by the fields of the messages. Checks that the fields leave no gap.
fn bytes_of(messages: &[Value]) -> [String; 2] {
    let mut sides = [String::new(), String::new()];
    for message in messages {
        let side = &mut sides[usize::from(message["from"] == "server")];
        let mut end = 0;
        for field in message["fields"].as_array().unwrap() {
            assert_eq!(field["offset"], end, "{message}");
            end += field["bytes"].as_u64().unwrap();
            *side += field["hex"].as_str().unwrap();
        }
        assert_eq!(message["bytes"], end, "{message}");
    }
    sides
}

#[test]
fn every_recorded_message_is_decoded_byte_for_byte() {
    let mut errors = 0;
    for file in files("proto/tests/golden") {
        let decoded = ended(&mut decode(&["--json"], std::slice::from_ref(&file)));
        let name = file.display();
        assert_eq!((decoded.status, &*decoded.stderr), (0, ""), "{name}");
        let messages = objects(&decoded.stdout);
        let recording = fs::read_to_string(&file).unwrap();
        let said = |mark: &str| -> String {
            let lines = recording.lines().filter_map(|line| line.strip_prefix(mark));
            lines.map(str::trim).collect()
        };
        assert_eq!(bytes_of(&messages), [said("C>"), said("S>")], "{name}");
        for message in &messages {
            let fields = message["fields"].as_array().unwrap();
            let opaque = fields.iter().any(|field| field["name"] == "bytes");
            // Words and their answers are text. A server's refusal may have a body, which means nothing.
            let what = message["what"].as_str().unwrap();
            let may_be = what == "word" || what == "answer" || what.starts_with("refusal of");
            assert!(
                !opaque || may_be || !message["error"].is_null(),
                "{name}: {message}"
            );
            errors += usize::from(!message["error"].is_null());
        }
    }
    // The eleven malformed messages of `proto/tests/golden.rs`, which went to both servers.
    assert_eq!(errors, 22);
}

#[test]
fn each_field_has_a_line_with_its_offset() {
    let all = files("proto/tests/golden");
    let file = all
        .iter()
        .find(|file| file.ends_with("getData_watch.3.8.0.hex"));
    let decoded = ended(&mut decode(&[], std::slice::from_ref(file.unwrap())));
    for text in [
        "client  handshake, 49 bytes at 0\n     0     4  frame length                  45\n",
        "    48     1  ConnectRequest.read_only      false\n",
        "client  getData, 21 bytes at 49\n",
        "    12     8  GetDataRequest.path   \"/g/x\"\n    20     1  GetDataRequest.watch  true\n",
        "     8     4  RequestHeader.op      4 (getData)\n",
        "server  reply to getData, 95 bytes at 41\n",
        "GetDataResponse.data  \"old\"\n",
        "Stat.czxid            0x9c7\n",
        "server  event, 36 bytes at 136\n",
    ] {
        assert!(decoded.stdout.contains(text), "{text}\n{}", decoded.stdout);
    }
    let bad = ended(&mut decode(
        &[],
        &[PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("Cargo.toml")],
    ));
    assert_eq!(bad.status, 64);
    assert!(
        bad.stderr.contains("Cargo.toml, line 1: "),
        "{}",
        bad.stderr
    );
}

#[test]
fn no_bytes_make_it_fail() {
    for folder in ["frames", "records", "machine", "server"] {
        let files = files(&format!("fuzz/corpus/{folder}"));
        for side in ["client", "server"] {
            let decoded = ended(&mut decode(&["--json", "--from", side], &files));
            assert_eq!((decoded.status, &*decoded.stderr), (0, ""), "{folder}");
            let sides = bytes_of(&objects(&decoded.stdout));
            let whole: usize = files.iter().map(|file| fs::read(file).unwrap().len()).sum();
            assert_eq!(sides.concat().len(), 2 * whole, "{folder}");
        }
    }
}

/// A running spy. Dropping this value kills it.
struct Spy {
    spy: Running,
    address: String,
}

impl Spy {
    fn start(arm: &Arm, options: &[&str]) -> Self {
        let mut spy = lockkeeper(&["wire", "spy", "--listen", "127.0.0.1:0", "--connect"]);
        let mut spy = Running::start(spy.arg(&arm.connect).args(options));
        let line = spy.error_line();
        let address = line.split([' ', ',']).find(|word| word.starts_with("127."));
        let address = address.unwrap().to_owned();
        Self { spy, address }
    }
}

#[test]
fn a_spy_prints_what_client_and_server_say() {
    let arm = Arm::embedded();
    let mut spy = Spy::start(&arm, &[]);
    let path = arm.path();
    let mut create = lockkeeper(&["create", "-p", &path, "hello", "--connect", &spy.address]);
    let created = ended(create.env("LOCKKEEPER_AUTH", "digest:ann:hunter2"));
    assert_eq!(created.status, 0, "{}", created.stderr);
    let mut lines = Vec::new();
    spy.spy.line_that(|line| {
        lines.push(line.to_owned());
        line.contains("reply to closeSession")
    });
    let text = lines.join("\n");
    let create = format!(
        "path=\"{path}\" data=\"hello\" acl=1 element perms=31 scheme=\"world\" id=\"anyone\""
    );
    for part in [
        "  1  client  handshake, 49 bytes at 0 protocol_version=0",
        "  1  server  handshake, ",
        "auth_type=0 scheme=\"digest\" auth=(not shown)",
        &create,
        "reply to create2",
        "refusal of create2",
        "err=no node (-101)",
        "password=(not shown)",
    ] {
        assert!(text.contains(part), "{part}\n{text}");
    }
    assert!(!text.contains("hunter2"), "{text}");
    if !is_ignored(Signal::TERM) {
        spy.spy.signal(Signal::TERM);
        assert_eq!(spy.spy.end().status, 143);
    }

    let mut spy = Spy::start(&arm, &["--json", "--secrets"]);
    let mut ls = lockkeeper(&["ls", "--connect", &spy.address]);
    assert_eq!(
        ended(ls.env("LOCKKEEPER_AUTH", "digest:ann:hunter2")).status,
        0
    );
    let first = objects(&spy.spy.line());
    assert_eq!(
        (&first[0]["what"], &first[0]["connection"]),
        (&"handshake".into(), &1.into())
    );
    assert!(first[0]["time_ms"].as_u64() > Some(1_600_000_000_000));
    let hers = std::iter::from_fn(|| Some(spy.spy.line())).find(|line| line.contains("hunter2"));
    assert!(hers.unwrap().contains("AuthPacket.auth"));
}

#[test]
fn a_spy_delays_drops_and_cuts_on_request() {
    let arm = Arm::embedded();
    let ls = |options: &[&str], timeout: &str| {
        let spy = Spy::start(&arm, options);
        let begin = std::time::Instant::now();
        let ended = ended(&mut lockkeeper(&[
            "ls",
            "--connect",
            &spy.address,
            "--timeout",
            timeout,
        ]));
        (ended.status, ended.stderr, begin.elapsed())
    };
    // The handshake, and the listing: two pieces for each side.
    let (status, error, took) = ls(&["--delay", "100ms"], "20s");
    assert_eq!((status, &*error), (0, ""));
    assert!(took.as_millis() >= 400, "{took:?}");
    let (status, error, _) = ls(&["--drop-after", "0"], "500ms");
    assert_eq!(status, 69);
    assert!(error.contains("not answered"), "{error}");
    // Nothing has passed yet when the connection is cut.
    let (status, error, _) = ls(&["--delay", "10s", "--cut-after", "10ms"], "3s");
    assert_eq!(status, 69);
    let is_cut = |text| error.contains(text);
    assert!(
        is_cut("closed by the server") || is_cut("reset by peer"),
        "{error}"
    );
}
