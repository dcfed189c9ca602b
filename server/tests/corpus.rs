//! The corpus of the fuzz target of this crate: each file is run through the function that the target calls, on stable, and the
//! memory that it takes is measured.
//!
//! Part of it is made from the recorded exchanges; `simulation-` is what clients of the simulation have sent; the rest is
//! what fuzzing found, with names that are hashes, or that say what it was. After a change of the recordings or of
//! [`seeds`], write the first part anew:
//!
//! ```text
//! UPDATE_CORPUS=1 cargo test -p lockkeeper-server --test corpus
//! ```
//!
//! A program of its own, because counting memory replaces the allocator of the whole program.

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

/// The corpus stays small enough for a repository: bytes at most.
const SMALL: usize = 1 << 20;

/// Bytes of memory at most that a story takes at once besides [`PER_BYTE`]: what is sent to a client ahead of its reading,
/// with the reply that goes beyond the limit for that.
const FIXED: u64 = 4 << 20;

/// Bytes of memory at most for each byte that clients send, also of what the story itself keeps to send it.
const PER_BYTE: u64 = 64;

#[test]
fn the_server_corpus_breaks_no_promise_and_takes_memory_in_proportion() {
    for (name, input) in corpus() {
        let mut sent = 0;
        let taken = allocation_counter::measure(|| sent = fuzzing::server(&input));
        let most = FIXED + PER_BYTE * sent;
        let peak = taken.bytes_max;
        assert!(peak <= most, "{name}: {peak} bytes for {sent} sent");
        // What the server had is given back with it.
        assert_eq!(taken.bytes_current, 0, "{name}");
    }
}

#[test]
fn the_corpus_holds_what_the_recordings_give_and_is_small() {
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

/// What the recordings give, by file name: each exchange as a story. One server's will do.
fn seeds() -> BTreeMap<String, Vec<u8>> {
    recording::all()
        .iter()
        .enumerate()
        .filter(|(_, recording)| recording.version == "3.9.3")
        .map(|(index, recording)| (recording.exchange.clone(), story(index, recording)))
        .collect()
}

/// Steps as `fuzzing::story` reads them.
const CONNECT: u8 = 0;
const BYTES: u8 = 4;
const SESSION: u8 = 11;

fn story(index: usize, recording: &Recording) -> Vec<u8> {
    // Into what pieces everything is cut, too.
    let mut story = vec![u8::try_from(index % 16).unwrap() << 4, SESSION];
    for (xid, path) in ["/g", "/g/x"].into_iter().enumerate() {
        let xid = Xid(i32::try_from(xid).unwrap());
        let request = create(path, b"data", CreateMode::Persistent);
        send(&mut story, 0, &request_frame(xid, &request));
    }
    // Somebody else is told of everything that happens.
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
            // The story's own is before them.
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
