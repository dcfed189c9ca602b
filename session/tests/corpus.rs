//! Runs each corpus file of this crate's fuzz targets through the function that the target calls, on stable Rust.

use std::{fs, path::Path};

use lockkeeper_session::fuzzing;

#[test]
fn the_hosts_corpus_breaks_no_promise() {
    replay("hosts", fuzzing::hosts);
}

#[test]
fn the_machine_corpus_breaks_no_promise() {
    replay("machine", fuzzing::machine);
}

fn replay(target: &str, function: fn(&[u8])) {
    let corpora = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus"));
    let folder = corpora.join(target);
    let files =
        fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        function(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert_ne!(count, 0, "{} is empty", folder.display());
}
