//! Who contends for a lock whose nodes are counted, and how much may go wrong.

use crate::{CONTENDERS, Faults, Shortcut};

/// What the contenders want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Recipe {
    /// The plain lock.
    Plain,
    /// A lease of a semaphore with this limit.
    Semaphore {
        /// How many leases there are, at first.
        limit: u8,
        /// How often an operator changes the limit, which is kept in a node. When there is none, the limit is fixed.
        /// One that is 0 is raised sooner or later, though.
        changes: Option<u8>,
    },
}

/// A lock to explore whose nodes are counted.
#[derive(Clone, Copy, Debug)]
pub struct Counted {
    /// What is contended for.
    pub recipe: Recipe,
    /// Of which client each contender is a task.
    pub clients: [usize; CONTENDERS],
    /// Who tries, and does not wait: of the plain lock only.
    pub tries: [bool; CONTENDERS],
    /// What may go wrong.
    pub faults: Faults,
    /// What the algorithm leaves out.
    pub shortcut: Option<Shortcut>,
}

impl Counted {
    /// Three contenders with a client each, for whom nothing goes wrong.
    #[must_use]
    pub fn new(recipe: Recipe) -> Self {
        Self {
            recipe,
            clients: std::array::from_fn(|index| index),
            tries: [false; CONTENDERS],
            faults: Faults::default(),
            shortcut: None,
        }
    }

    /// The same, in which the first two are tasks of one client.
    #[must_use]
    pub fn with_shared_client(self) -> Self {
        let mut clients = [1; CONTENDERS];
        clients[..2].fill(0);
        Self { clients, ..self }
    }

    /// The same in which those try who are named here.
    #[must_use]
    pub fn with_tries(self, tries: [bool; CONTENDERS]) -> Self {
        Self { tries, ..self }
    }

    /// The same with these faults.
    #[must_use]
    pub fn with_faults(self, faults: Faults) -> Self {
        Self { faults, ..self }
    }

    /// The same with something left out.
    #[must_use]
    pub fn with_shortcut(self, shortcut: Shortcut) -> Self {
        Self {
            shortcut: Some(shortcut),
            ..self
        }
    }

    pub(super) fn takes(&self, shortcut: Shortcut) -> bool {
        self.shortcut == Some(shortcut)
    }

    pub(super) fn is_plain(&self) -> bool {
        self.recipe == Recipe::Plain
    }

    /// Whether the limit is read from a node.
    pub(super) fn reads_limit(&self) -> bool {
        matches!(self.recipe, Recipe::Semaphore { changes, .. } if changes.is_some())
    }

    /// Whether two contenders are as good as each other.
    pub(super) fn are_alike(&self, one: usize, other: usize) -> bool {
        let clients = self.clients;
        let all_differ = clients.iter().enumerate().all(|(i, client)| i == *client);
        self.tries[one] == self.tries[other] && (all_differ || clients[one] == clients[other])
    }

    /// The tasks of a client.
    pub(super) fn tasks(&self, client: usize) -> impl Iterator<Item = usize> + use<> {
        let clients = self.clients;
        (0..CONTENDERS).filter(move |task| clients[*task] == client)
    }
}
