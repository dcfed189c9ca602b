//! What the fuzz target calls: any bytes in, a panic only when a promise is broken.
//!
//! The target itself is in `fuzz/`; `tests/corpus.rs` replays what it found, and measures memory.

mod client;
mod script;
mod story;

/// The engine under clients that send anything, in any pieces, and come, go and pause as they like: everything that it
/// sends can be read, answers what was asked in the order in which it was asked, and comes out the same however the
/// bytes were cut; its tables agree with each other, and what clients leave is gone when their time is over.
///
/// Returns how many bytes the clients sent.
#[allow(clippy::must_use_candidate, reason = "for a test that measures")]
pub fn server(input: &[u8]) -> u64 {
    let whole = story::told(input, usize::MAX);
    let size = input.first().map_or(1, |byte| usize::from(byte >> 4));
    let pieces = story::told(input, size.max(1));
    assert_eq!(whole, pieces, "in pieces of {size} bytes");
    whole.sent
}
