//! Runs each corpus file of this crate's fuzz target through the function that the target calls, on stable Rust.
//!
//! Files with readable names are listings of other implementations' directories, written by hand. The fuzzer found the
//! others.

use std::{fs, path::Path};

use lockkeeper_recipes::fuzzing;
use proptest::{collection::vec, prelude::*};

#[test]
fn the_ranks_corpus_breaks_no_promise() {
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/corpus/ranks"));
    let files =
        fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut count = 0;
    for file in files {
        fuzzing::ranks(&fs::read(file.unwrap().path()).unwrap());
        count += 1;
    }
    assert_ne!(count, 0, "{} is empty", folder.display());
}

proptest! {
    #[test]
    fn generated_listings_of_contenders_break_no_promise(
        names in vec((0..7_u8, any::<u8>(), "[a-c]?"), 0..12),
    ) {
        let mut listing = Vec::new();
        for (marker, number, who) in names {
            listing.extend([b'!', marker, number]);
            listing.extend(who.as_bytes());
            listing.push(b'\n');
        }
        fuzzing::ranks(&listing);
    }
}
