//! Who contends in a line, and how much may go wrong.

use lockkeeper_recipes::rank::Kind;

use crate::{CONTENDERS, Faults, Shortcut};

/// A line to explore.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// As what each contends. Those after the first `None` do not take part.
    pub kinds: [Option<Kind>; CONTENDERS],
    /// Who tries, and does not wait.
    pub tries: [bool; CONTENDERS],
    /// Whether a writer that holds may become a reader.
    pub downgrade: bool,
    /// What may go wrong.
    pub faults: Faults,
    /// What the algorithm leaves out.
    pub shortcut: Option<Shortcut>,
}

impl Line {
    /// Three contenders of these kinds, for whom nothing goes wrong.
    #[must_use]
    pub fn new(kinds: [Kind; CONTENDERS]) -> Self {
        Self {
            kinds: kinds.map(Some),
            tries: [false; CONTENDERS],
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

    /// The same in which those try who are named here.
    #[must_use]
    pub fn with_tries(self, tries: [bool; CONTENDERS]) -> Self {
        Self { tries, ..self }
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

    /// Whether two contenders are as good as each other.
    pub(super) fn are_alike(&self, one: usize, other: usize) -> bool {
        self.kinds[one] == self.kinds[other] && self.tries[one] == self.tries[other]
    }
}
