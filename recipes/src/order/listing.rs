//! What a listing proves to other contenders of the same client, as a pure value.
//!
//! A listing that shows our node was made after our create, so it shows everybody who was ahead of
//! us then. Later nodes have higher numbers. So only those may be ahead, and if the deletion of each
//! of them was reported since, nobody is.
//!
//! Only for contenders that wait for everybody ahead. A listing that shows a writer proves nothing:
//! the writer may become a reader, which has the same number. Neither does a listing that shows
//! another kind of lock.
//!
//! Not here: who keeps the listing (`crowd`), when it may be used (`queue::turn`).

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use lockkeeper_proto::jute::Names;

use super::{
    name::{self, Kind, may_be_ahead},
    rank::SEQUENCE_LIMIT,
};

/// So many contenders ahead are few in any queue.
const FEW: usize = 8;
/// One of so many contenders is few, too: fewer looks would mean more bytes (`docs/costs.md`).
const LOOK: usize = 8;

/// The contenders in a listing of the queue, by their numbers, without those whose deletion was
/// reported.
#[derive(Debug)]
pub struct Listing<N> {
    contenders: VecDeque<(i32, N)>,
    /// The connection on which it was asked for.
    connection: u64,
}

impl<N> Default for Listing<N> {
    /// Proves nothing.
    fn default() -> Self {
        Self {
            contenders: VecDeque::new(),
            connection: 0,
        }
    }
}

impl<N: AsRef<str>> Listing<N> {
    /// The queue of a contender of this kind was listed. The listing was asked for on this
    /// connection.
    pub fn new(kind: Kind, connection: u64, children: impl IntoIterator<Item = N>) -> Self {
        in_order(kind, children).map_or_else(Self::default, |contenders| Self {
            contenders: contenders.into(),
            connection,
        })
    }

    /// The connection on which it was asked for.
    #[must_use]
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// A watch on this node has fired: the node was deleted, or its data were changed.
    pub fn event(&mut self, node: &str, is_deleted: bool) {
        let Some(number) = name::number(node).filter(|_| is_deleted) else {
            return;
        };
        let index = self.ahead(number);
        let listed = self.contenders.get(index);
        if listed.is_some_and(|(_, name)| name.as_ref() == node) {
            self.contenders.remove(index);
        }
    }

    /// How many contenders have lower numbers than this one.
    pub(crate) fn ahead(&self, number: i32) -> usize {
        self.contenders
            .partition_point(|(other, _)| *other < number)
    }

    /// Whether it proves that nobody is ahead of this contender.
    #[must_use]
    pub fn is_first(&self, own: &str) -> bool {
        let first = self.contenders.front();
        first.is_some_and(|(_, name)| name.as_ref() == own)
    }

    /// The contenders that may be ahead of this one, by their numbers. `None` if they are many, or if
    /// it proves nothing to this one.
    #[must_use]
    pub fn few_ahead(&self, own: &str) -> Option<Vec<N>>
    where
        N: Clone,
    {
        let index = self.ahead(name::number(own)?);
        let (_, shown) = self.contenders.get(index)?;
        let is_few = index <= FEW.max(self.contenders.len() / LOOK);
        let ahead = self.contenders.iter().take(index);
        (is_few && shown.as_ref() == own).then(|| ahead.map(|(_, name)| name.clone()).collect())
    }

    /// The nodes that are left. The model keeps them.
    #[doc(hidden)]
    pub fn nodes(&self) -> impl Iterator<Item = &N> {
        self.contenders.iter().map(|(_, name)| name)
    }
}

/// The contenders among these children, by their numbers; `None` if the listing proves nothing.
fn in_order<N: AsRef<str>>(
    kind: Kind,
    children: impl IntoIterator<Item = N>,
) -> Option<Vec<(i32, N)>> {
    let mut contenders = Vec::new();
    for child in children {
        let name = child.as_ref();
        if let Some((other, number)) = kind.contender(name) {
            if other == Kind::Write || !(0..=SEQUENCE_LIMIT).contains(&number) {
                return None;
            }
            contenders.push((number, child));
        } else if may_be_ahead(name, i32::MAX) {
            return None;
        }
    }
    contenders.shrink_to_fit();
    contenders.sort_unstable_by(by_number);
    let is_unique = contenders.is_sorted_by(|(one, _), (next, _)| one < next);
    is_unique.then_some(contenders)
}

/// The order by number, and by name at one number.
#[inline(never)] // The code of a sort compares at many places.
fn by_number<N: AsRef<str>>(one: &(i32, N), other: &(i32, N)) -> Ordering {
    let by_name = || one.1.as_ref().cmp(other.1.as_ref());
    one.0.cmp(&other.0).then_with(by_name)
}

/// A name in a listing that is kept. All names of a listing are in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    text: Arc<str>,
    start: u32,
    end: u32,
}

impl Listed {
    /// The names of a listing. One that is in memory already, as `shared` tells, is not copied.
    pub(crate) fn all(
        names: &Names,
        shared: impl Fn(&str) -> Option<Arc<str>>,
    ) -> impl Iterator<Item = Self> {
        let end = |text: &str| u32::try_from(text.len()).unwrap_or(u32::MAX);
        let (mut text, mut found) = (String::new(), Vec::with_capacity(names.len()));
        for name in names.iter() {
            let shared = shared(name);
            if shared.is_none() {
                text.push_str(name);
            }
            found.push((shared, end(&text)));
        }
        let (text, mut start): (Arc<str>, _) = (text.into(), 0);
        found.into_iter().map(move |(shared, next)| match shared {
            Some(text) => Self {
                start: 0,
                end: end(&text),
                text,
            },
            None => Self {
                text: text.clone(),
                start: std::mem::replace(&mut start, next),
                end: next,
            },
        })
    }

    /// All of them, in the order of their text.
    pub(crate) fn sorted(names: &Names) -> Arc<[(i32, Self)]> {
        // With a number in front, so that a program has the code for this sort once.
        let mut names: Vec<_> = Self::all(names, |_| None).map(|name| (0, name)).collect();
        names.sort_unstable_by(by_number);
        names.into()
    }
}

impl AsRef<str> for Listed {
    fn as_ref(&self) -> &str {
        let [start, end] = [self.start, self.end].map(|at| at as usize);
        self.text.get(start..end).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(count: usize) -> Listing<String> {
        Listing::new(Kind::Mutex, 1, (0..count).map(node))
    }

    fn node(number: usize) -> String {
        format!("_c_2ba87a01-6d8f-4a5c-9e7e-9f6f0c1d2e3f-lock-{number:010}")
    }

    #[test]
    fn the_few_ahead_are_those_whose_deletion_was_not_reported() {
        let mut listed = listed(6);
        listed.event(&node(1), true);
        listed.event(&node(2), false);
        let ahead = listed.few_ahead(&node(4));
        assert_eq!(ahead.unwrap(), [node(0), node(2), node(3)]);
        assert_eq!(listed.few_ahead(&node(0)).unwrap(), [""; 0]);
    }

    #[test]
    fn what_is_few_grows_with_the_queue() {
        assert!(listed(20).few_ahead(&node(FEW)).is_some());
        assert!(listed(20).few_ahead(&node(FEW + 1)).is_none());
        assert!(listed(20 * LOOK).few_ahead(&node(20)).is_some());
        assert!(listed(20 * LOOK).few_ahead(&node(21)).is_none());
    }

    /// It was made before that contender came, or after it had lost its node.
    #[test]
    fn a_listing_without_a_contender_does_not_show_who_is_ahead_of_it() {
        let mut listed = listed(6);
        assert!(listed.few_ahead(&node(6)).is_none());
        listed.event(&node(3), true);
        assert!(listed.few_ahead(&node(3)).is_none());
    }
}
