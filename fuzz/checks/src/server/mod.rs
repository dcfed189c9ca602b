//! The target `server`: any bytes as the story of the embedded server and its clients.

mod client;
mod script;
mod story;

/// Runs the engine under clients that send anything, in any pieces, and connect, pause and leave at
/// any time. In an eighth of the stories, the engine plays an ensemble of three: members lag, stop,
/// lose each other and elect another leader. It checks that
///
/// - all output of the engine can be decoded, and replies come in the order of the requests; only
///   a member's answers to `auth`, `sasl` and operations that it does not know may overtake others;
/// - the transactions that a connection hears of never go back;
/// - the output is the same, however the input was split;
/// - the tables of the engine agree with each other;
/// - everything that clients leave behind is deleted when their timeout is over, and then all
///   members have nodes of the same number and size.
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
