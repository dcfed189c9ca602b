//! What may go wrong, and how often.

/// How often each thing may go wrong in one run, over all contenders. What is not counted here may happen at any time:
/// servers lag as they like, writes of a lost connection arrive or do not, events wait, whoever holds lets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Faults {
    /// A connection is lost, with all requests and replies on it.
    pub cuts: u8,
    /// A client is paused, or cut off, until its lease has run out; its session may expire from then on.
    pub pauses: u8,
    /// A caller drops its attempt.
    pub cancels: u8,
    /// An operator deletes a node by hand, or changes the data of one that is watched.
    pub by_hand: u8,
    /// Somebody who is done starts again.
    pub again: u8,
}
