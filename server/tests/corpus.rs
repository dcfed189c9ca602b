//! Replays the corpus of this crate's fuzz target on stable Rust, and measures the memory of each file.
//!
//! The corpus has three parts:
//!
//! - Files made from the recorded exchanges ([`seeds`]).
//! - Files named `simulation-..`: what clients of the simulation have sent.
//! - Files that fuzzing found. Their names are hashes, or describe the case.
//!
//! After a change of the recordings or of [`seeds`], write the first part again:
//!
//! ```text
//! UPDATE_CORPUS=1 cargo test -p lockkeeper-server --test corpus
//! ```
//!
//! This is a program of its own, because counting memory replaces the allocator of the whole program.

mod common;
#[path = "../../proto/tests/recording/mod.rs"]
mod recording;

use std::{
    collections::BTreeMap,
    env, fs,
    path::{Path, PathBuf},
};

use common::{create, request_frame};
use lockkeeper_proto::{AddWatchMode, CreateMode, Request, Xid, records::AddWatchRequest};
use lockkeeper_server::fuzzing;

use recording::{Recording, Side};

/// The maximum size of the corpus in bytes: it must stay small enough for a repository.
const SMALL: usize = 1 << 20;

/// The maximum memory of a story in bytes, apart from [`PER_BYTE`]: the output that a client has not read yet, and one
/// reply beyond the limit for it.
const FIXED: u64 = 4 << 20;

/// The maximum memory for each byte that clients send, including what the story itself keeps to send it.
const PER_BYTE: u64 = 64;

#[test]
fn the_server_corpus_keeps_every_promise_and_takes_memory_in_proportion() {
    for (name, input) in corpus() {
        let mut sent = 0;
        let taken = allocation_counter::measure(|| sent = fuzzing::server(&input));
        let most = FIXED + PER_BYTE * sent;
        let peak = taken.bytes_max;
        assert!(peak <= most, "{name}: {peak} bytes for {sent} sent");
        // The server returns all its memory.
        assert_eq!(taken.bytes_current, 0, "{name}");
    }
}

#[test]
fn the_corpus_contains_the_seeds_of_the_recordings_and_is_small() {
    let seeds = seeds();
    if env::var_os("UPDATE_CORPUS").is_some() {
        fs::create_dir_all(folder()).unwrap();
        for (name, content) in &seeds {
            fs::write(folder().join(name), content).unwrap();
        }
    }
    let corpus = corpus();
    for (name, seed) in seeds {
        assert_eq!(corpus.get(&name), Some(&seed), "{name}");
    }
    let size = corpus.values().map(Vec::len).sum::<usize>();
    assert!(size < SMALL, "{size} bytes");
}

fn folder() -> PathBuf {
    Path::new(concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../fuzz/corpus/server"
    ))
    .to_owned()
}

/// All files, by name.
fn corpus() -> BTreeMap<String, Vec<u8>> {
    let folder = folder();
    let entries = fs::read_dir(&folder);
    let entries = entries.unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let files: BTreeMap<_, _> = entries
        .map(|entry| {
            let path = entry.unwrap().path();
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, fs::read(&path).unwrap())
        })
        .collect();
    assert!(!files.is_empty(), "{} is empty", folder.display());
    files
}

/// The seeds by file name: each recorded exchange of the 3.9.3 server as a story.
fn seeds() -> BTreeMap<String, Vec<u8>> {
    recording::all()
        .iter()
        .enumerate()
        .filter(|(_, recording)| recording.version == "3.9.3")
        .map(|(index, recording)| (recording.exchange.clone(), story(index, recording)))
        .collect()
}

/// Step numbers as `fuzzing::story` reads them.
const CONNECT: u8 = 0;
const BYTES: u8 = 4;
const SESSION: u8 = 11;

fn story(index: usize, recording: &Recording) -> Vec<u8> {
    // The upper half of the first byte also decides the size of the pieces.
    let mut story = vec![u8::try_from(index % 16).unwrap() << 4, SESSION];
    for (xid, path) in ["/g", "/g/x"].into_iter().enumerate() {
        let xid = Xid(i32::try_from(xid).unwrap());
        let request = create(path, b"data", CreateMode::Persistent);
        send(&mut story, 0, &request_frame(xid, &request));
    }
    // The first session watches everything.
    let watch = Request::AddWatch(AddWatchRequest {
        path: "/".to_owned(),
        mode: AddWatchMode::PERSISTENT_RECURSIVE,
    });
    send(&mut story, 0, &request_frame(Xid(3), &watch));
    let mut connections = 0;
    for sent in &recording.sent {
        while connections <= sent.connection {
            story.push(CONNECT);
            connections += 1;
        }
        if sent.side == Side::Client {
            // The first connection is the story's own, so the recorded ones start at 1.
            send(&mut story, sent.connection + 1, &sent.bytes);
        }
    }
    story
}

fn send(story: &mut Vec<u8>, connection: usize, bytes: &[u8]) {
    for piece in bytes.chunks(255) {
        story.extend([BYTES, u8::try_from(piece.len()).unwrap()]);
        story.extend_from_slice(piece);
        story.push(u8::try_from(connection).unwrap());
    }
}
