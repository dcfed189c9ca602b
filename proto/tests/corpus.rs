//! Replays the corpora of the fuzz targets on stable: gives each file to the function that its target calls.
//!
//! One part of the corpora is made from the recorded exchanges. Fuzzing found the rest; these files have hashes as names.
//! After a change of the recordings or of [`seeds`], write the first part again:
//!
//! ```text
//! UPDATE_CORPUS=1 cargo test -p lockkeeper-proto --test corpus
//! ```

mod recording;

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::PathBuf,
};

use lockkeeper_proto::{fuzzing, header::ReplyHeader, header::RequestHeader, jute::Decode};

use recording::{Recording, Sent, Side};

/// The most bytes for all corpora together, because they are kept in the repository.
const SMALL: usize = 1 << 20;

/// The tests use every `STEP`th file. Under miri all files would take hours.
const STEP: usize = if cfg!(miri) { 20 } else { 1 };

/// Paths in addition to the paths in the recordings.
const PATHS: &[&str] = &[
    "",
    "a",
    "//",
    "/a//b",
    "/a/",
    "/.",
    "/a/..",
    "/a/../b",
    "/...",
    "/a b/é/\u{2028}",
    "/\0",
    "/\u{1f}",
    "/\u{9f}",
    "/\u{e000}",
    "/\u{f900}",
    "/\u{fff0}",
    "/\u{10000}",
    "/locks/_c_00000000-0000-0000-0000-000000000000-lock-0000000001",
];

#[test]
fn the_records_corpus_breaks_no_promise() {
    for input in corpus("records").values().step_by(STEP) {
        fuzzing::records(input);
    }
}

#[test]
fn the_frames_corpus_breaks_no_promise() {
    for input in corpus("frames").values().step_by(STEP) {
        fuzzing::frames(input);
    }
}

#[test]
fn the_paths_corpus_breaks_no_promise() {
    for input in corpus("paths").values().step_by(STEP) {
        fuzzing::paths(input);
    }
}

#[test]
#[cfg_attr(miri, ignore = "compares files; the crate's code only makes them")]
fn the_corpora_contain_the_seeds_of_the_recordings_and_are_small() {
    let mut size = 0;
    for (target, seeds) in seeds() {
        if env::var_os("UPDATE_CORPUS").is_some() {
            write(target, &seeds);
        }
        let corpus = corpus(target);
        for (name, seed) in seeds {
            assert_eq!(corpus.get(&name), Some(&seed), "{target}/{name}");
        }
        size += corpus.values().map(Vec::len).sum::<usize>();
    }
    assert!(size < SMALL, "{size} bytes");
}

fn write(target: &str, files: &BTreeMap<String, Vec<u8>>) {
    let folder = folder(target);
    fs::create_dir_all(&folder).unwrap();
    for (name, content) in files {
        fs::write(folder.join(name), content).unwrap();
    }
}

fn folder(target: &str) -> PathBuf {
    let fuzz = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus");
    PathBuf::from(fuzz).join(target)
}

/// All files of a corpus, by name. Panics when there is none.
///
/// Miri cannot read files. Under miri this returns the seeds of the recordings that are compiled into the program.
fn corpus(target: &str) -> BTreeMap<String, Vec<u8>> {
    if cfg!(miri) {
        return seeds().remove(target).unwrap();
    }
    let folder = folder(target);
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

/// The seeds made from the recordings, by target and file name.
///
/// The recordings of one server are enough: those of the other server have only different times and ids.
fn seeds() -> BTreeMap<&'static str, BTreeMap<String, Vec<u8>>> {
    let mut records = BTreeMap::new();
    let mut frames = BTreeMap::new();
    let mut paths: Vec<String> = PATHS.iter().map(|&it| it.to_owned()).collect();
    for (index, recording) in recording::all().iter().enumerate() {
        if recording.version == "3.9.3" && !recording.exchange.starts_with("4lw_") {
            records_of(recording, &mut records);
            frames_of(recording, index, &mut frames);
            paths.extend(recording.sent.iter().flat_map(paths_of));
        }
    }
    paths.sort();
    paths.dedup();
    let paths = paths.into_iter().enumerate();
    BTreeMap::from([
        ("records", by_name(records)),
        ("frames", by_name(frames)),
        (
            "paths",
            paths
                .map(|(index, path)| (format!("path-{index:02}"), path.into_bytes()))
                .collect(),
        ),
    ])
}

/// Adds the body of each message, without length and header.
fn records_of(recording: &Recording, seeds: &mut BTreeMap<Vec<u8>, String>) {
    let mut seen = BTreeSet::new();
    for (index, sent) in recording.sent.iter().enumerate() {
        let first = seen.insert((sent.connection, sent.side));
        let header = match sent.side {
            _ if first => 0,
            Side::Client => RequestHeader::SMALLEST,
            Side::Server => ReplyHeader::SMALLEST,
        };
        if let Some(body) = sent.bytes.get(4 + header..) {
            let name = format!("{}-{index:02}", recording.exchange);
            seeds.entry(body.to_vec()).or_insert(name);
        }
    }
}

/// Adds the bytes that each side sent. The first byte is the size of the pieces; it varies with the recording.
fn frames_of(recording: &Recording, index: usize, seeds: &mut BTreeMap<Vec<u8>, String>) {
    const SIZES: [u8; 7] = [1, 2, 3, 5, 16, 40, 255];
    for (side, name) in [(Side::Client, "client"), (Side::Server, "server")] {
        let mut seed = vec![SIZES[index % SIZES.len()]];
        let sent = recording.sent.iter().filter(|sent| sent.side == side);
        seed.extend(sent.flat_map(|sent| &sent.bytes));
        seeds
            .entry(seed)
            .or_insert(format!("{}-{name}", recording.exchange));
    }
}

/// The paths of a message, taken from the recorder's comment: `path=(4)"/g/x"`.
fn paths_of(sent: &Sent) -> Vec<String> {
    let fields = sent.said().split("path=(").skip(1);
    fields
        .filter_map(|field| {
            let (length, text) = field.split_once(")\"")?;
            text.get(..length.parse().ok()?).map(str::to_owned)
        })
        .collect()
}

/// Maps names to contents. A content keeps the first name that it got.
fn by_name(seeds: BTreeMap<Vec<u8>, String>) -> BTreeMap<String, Vec<u8>> {
    seeds.into_iter().map(|(seed, name)| (name, seed)).collect()
}
