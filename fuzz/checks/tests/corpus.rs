//! Gives each file of the corpora to the function that its target calls, on stable Rust.
//!
//! A program of its own, because counting memory replaces the allocator of the whole program.

use std::{fs, path::Path};

use lockkeeper_fuzz_checks::{frames, hosts, machine, paths, ranks, records, server};

/// The most bytes of a corpus: it must stay small enough for a repository.
const SMALL: usize = 1 << 19;

/// The most memory of a story of the server in bytes, apart from [`PER_BYTE`]: the output that a
/// client has not read yet, and one reply beyond the limit for it.
const FIXED: u64 = 4 << 20;

/// The most memory for each byte that clients send, including what the story itself keeps to send
/// it.
const PER_BYTE: u64 = 64;

fn replay(target: &str, check: impl Fn(&str, &[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../corpus")
        .join(target);
    let mut size = 0;
    for file in fs::read_dir(&folder).unwrap() {
        let file = file.unwrap().path();
        let input = fs::read(&file).unwrap();
        check(&file.to_string_lossy(), &input);
        size += input.len();
    }
    assert!((1..SMALL).contains(&size), "{size} bytes");
}

macro_rules! no_file_breaks_a_promise {
    ($($target:ident)*) => {$(
        #[test]
        fn $target() {
            replay(stringify!($target), |_, input| super::$target(input));
        }
    )*};
}

mod no_file_breaks_a_promise_of {
    use super::replay;

    no_file_breaks_a_promise!(frames hosts machine paths ranks records);
}

#[test]
fn no_file_breaks_a_promise_of_the_server_or_takes_memory_out_of_proportion() {
    replay("server", |name, input| {
        let mut sent = 0;
        let taken = allocation_counter::measure(|| sent = server(input));
        let most = FIXED + PER_BYTE * sent;
        let peak = taken.bytes_max;
        assert!(peak <= most, "{name}: {peak} bytes for {sent} sent");
        // The server returns all its memory.
        assert_eq!(taken.bytes_current, 0, "{name}");
    });
}
