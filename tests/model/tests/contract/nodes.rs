//! The nodes of a queue, as the proofs know them: a kind and a number.
//!
//! Not here: any decision.

use lockkeeper_recipes::rank::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Node {
    Lock,
    Write,
    Read,
    KazooLock,
    KazooRead,
    /// Of a leader latch, which is another queue.
    Latch,
    /// Of nothing.
    Other,
}

impl Node {
    pub(crate) const ALL: [Self; 7] = [
        Self::Lock,
        Self::Write,
        Self::Read,
        Self::KazooLock,
        Self::KazooRead,
        Self::Latch,
        Self::Other,
    ];

    /// The kind of the contender with this node, if it is one of ours in this queue.
    pub(crate) fn contender(self) -> Option<Kind> {
        match self {
            Self::Lock => Some(Kind::Mutex),
            Self::Write => Some(Kind::Write),
            Self::Read => Some(Kind::Read),
            _ => None,
        }
    }

    pub(crate) fn is_queued(self) -> bool {
        !matches!(self, Self::Latch | Self::Other)
    }

    pub(crate) fn is_reader(self) -> bool {
        matches!(self, Self::Read | Self::KazooRead)
    }

    fn marker(self) -> &'static str {
        match self {
            Self::Lock => "-lock-",
            Self::Write => "-__WRIT__",
            Self::Read => "-__READ__",
            Self::KazooLock => "__lock__",
            Self::KazooRead => "__rlock__",
            Self::Latch => "-latch-",
            Self::Other => "-other-",
        }
    }
}

/// A node with its number.
pub(crate) type Numbered = (Node, u16);

/// Its name. The text before the number has the order against the numbers.
pub(crate) fn name((node, number): Numbered) -> String {
    let text = char::from_u32(u32::from('z') - u32::from(number) % 26).expect("a letter");
    format!("{text}{}{number:010}", node.marker())
}

/// The names of other nodes with this number: of another attempt, or of each other kind. A
/// directory that is made anew gives the same numbers again, and a writer and the reader that it
/// becomes share one.
pub(crate) fn twins((node, number): Numbered) -> impl Iterator<Item = String> {
    let others = Node::ALL.into_iter().filter(move |other| *other != node);
    let of_kind = others.map(move |other| name((other, number)));
    of_kind.chain([format!("twin-of-{}", name((node, number)))])
}

/// Whether `other` is ahead of `own`, and they may not share the lock. A reader stands just behind
/// the writer whose number it has.
pub(crate) fn blocks(other: Numbered, own: Numbered) -> bool {
    let is_behind_writer = other.1 == own.1 && !other.0.is_reader() && own.0.is_reader();
    let is_ahead = other.1 < own.1 || is_behind_writer;
    is_ahead && other.0.is_queued() && !(other.0.is_reader() && own.0.is_reader())
}

/// All listings of so many nodes of these kinds, in the order of their numbers. A reader may have
/// the number of the writer before it.
pub(crate) fn listings(kinds: &[Node], count: usize) -> Vec<Vec<Numbered>> {
    let mut all = vec![Vec::new()];
    for _ in 0..count {
        let longer = all.iter().flat_map(|listing: &Vec<Numbered>| {
            let last = listing.last().copied();
            let next = last.map_or(0, |(_, number)| number + 1);
            let mut nodes: Vec<_> = kinds.iter().map(|kind| (*kind, next)).collect();
            if let Some((Node::Write, number)) = last {
                nodes.push((Node::Read, number));
            }
            let append = move |node| [listing.as_slice(), &[node]].concat();
            nodes.into_iter().map(append)
        });
        all = longer.collect();
    }
    all
}
