//! Who contends, and how much may go wrong.

use lockkeeper_recipes::rank::Kind;

use crate::{shortcut::Shortcut, state::CONTENDERS};

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

/// What to explore.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// As what each contends. Those after the first `None` do not take part.
    pub kinds: [Option<Kind>; CONTENDERS],
    /// Whether a writer that holds may become a reader.
    pub downgrade: bool,
    /// What may go wrong.
    pub faults: Faults,
    /// What the algorithm leaves out.
    pub shortcut: Option<Shortcut>,
}

impl Scenario {
    /// Three contenders of these kinds, for whom nothing goes wrong.
    #[must_use]
    pub fn new(kinds: [Kind; CONTENDERS]) -> Self {
        Self {
            kinds: kinds.map(Some),
            downgrade: false,
            faults: Faults::default(),
            shortcut: None,
        }
    }

    /// The same with these faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// The same with writers that may become readers.
    #[must_use]
    pub fn with_downgrade(self) -> Self {
        Self {
            downgrade: true,
            ..self
        }
    }

    /// The same with something left out.
    #[must_use]
    pub fn with_shortcut(self, shortcut: Shortcut) -> Self {
        Self {
            shortcut: Some(shortcut),
            ..self
        }
    }

    pub(crate) fn takes(&self, shortcut: Shortcut) -> bool {
        self.shortcut == Some(shortcut)
    }
}
