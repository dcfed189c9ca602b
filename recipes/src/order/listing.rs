//! What a client knows of a queue from a listing of it, as a pure value: the contenders that may be
//! ahead of one.
//!
//! A listing that shows our node was made after our create, so it shows everybody who was ahead of
//! us then. Later nodes have higher numbers. So only those may be ahead. One of them that is gone
//! stays gone: it does not matter which task has learned it, and on which connection.
//!
//! A writer may become a reader, which has the same number. So when a writer is gone, a listing
//! proves nothing any more to contenders that wait for readers too.
//!
//! Not here: what a contender does with it (`queue::turn`), who keeps it (`queue::view`).

use std::{cmp::Ordering, collections::VecDeque, sync::Arc};

use lockkeeper_proto::jute::Names;

use super::{
    name::{Kind, parse},
    rank::place,
};

/// So many contenders ahead are few in any queue.
const FEW: usize = 8;
/// One of so many contenders is few, too: fewer looks would mean more bytes (`docs/costs.md`).
const LOOK: usize = 8;

/// The contenders in a listing of a queue by their places, up to the last one that matters, and
/// without those that are known to be gone.
#[derive(Clone, Debug)]
pub struct Listing<N> {
    kind: Kind,
    contenders: VecDeque<(i64, N)>,
    /// How many more are ahead of the first of them.
    left_out: usize,
}

impl<N> Default for Listing<N> {
    /// Shows nobody.
    fn default() -> Self {
        Self {
            kind: Kind::Mutex,
            contenders: VecDeque::new(),
            left_out: 0,
        }
    }
}

impl<N: AsRef<str>> Listing<N> {
    /// All contenders among these children up to this one. For a kind that waits for everybody ahead.
    pub fn all(kind: Kind, last: &str, children: impl IntoIterator<Item = N>) -> Self {
        let last = place_of(last).unwrap_or(i64::MAX);
        let placed = |child: N| {
            let (role, number) = kind.contender(child.as_ref())?;
            let place = place(role, number);
            (place <= last).then_some((place, child))
        };
        let mut contenders: Vec<_> = children.into_iter().filter_map(placed).collect();
        contenders.shrink_to_fit();
        contenders.sort_unstable_by(by_place);
        Self {
            kind,
            contenders: contenders.into(),
            left_out: 0,
        }
    }

    /// One contender, and of those for which it waits only the last ones: the nearest one comes last.
    /// `left_out` more are ahead of these.
    pub fn near(kind: Kind, left_out: usize, contenders: impl IntoIterator<Item = N>) -> Self {
        let placed = |name: N| place_of(name.as_ref()).map(|place| (place, name));
        Self {
            kind,
            contenders: contenders.into_iter().filter_map(placed).collect(),
            left_out,
        }
    }

    /// Whoever is ahead of this contender; `None` if the listing does not show the contender, or
    /// shows another one with its number.
    #[must_use]
    pub fn ahead(&self, own: &str) -> Option<Ahead<'_, N>> {
        let index = self.index(own)?;
        let place = |index| self.contenders.get(index).map(|(place, _)| *place);
        let beside = [index.checked_sub(1), Some(index + 1)]
            .into_iter()
            .flatten();
        let is_unique = beside.into_iter().all(|other| place(other) != place(index));
        is_unique.then_some(Ahead {
            listing: self,
            index,
        })
    }

    /// Whether it shows this contender.
    #[must_use]
    pub fn shows(&self, node: &str) -> bool {
        self.index(node).is_some()
    }

    /// This node is gone.
    pub fn gone(&mut self, node: &str) {
        let Some(index) = self.index(node) else {
            return;
        };
        if self.kind != Kind::Read && matches!(parse(node), Some((Kind::Write, _))) {
            self.contenders.clear();
        } else {
            self.contenders.remove(index);
        }
    }

    fn index(&self, node: &str) -> Option<usize> {
        // Mostly there is no listing.
        self.contenders.front()?;
        search(&self.contenders, place_of(node)?, node).ok()
    }

    /// The same with other names for the same contenders.
    pub(crate) fn map<M>(&self, name: impl Fn(&N) -> M) -> Listing<M> {
        let contenders = self.contenders.iter();
        Listing {
            kind: self.kind,
            contenders: contenders.map(|(place, it)| (*place, name(it))).collect(),
            left_out: self.left_out,
        }
    }

    /// The names that are left, and how many were left out. The model keeps them.
    #[doc(hidden)]
    pub fn parts(&self) -> (usize, impl Iterator<Item = &N>) {
        let names = self.contenders.iter().map(|(_, name)| name);
        (self.left_out, names)
    }
}

/// Those who may be ahead of a contender.
#[derive(Debug)]
pub struct Ahead<'a, N> {
    listing: &'a Listing<N>,
    index: usize,
}

impl<N> Clone for Ahead<'_, N> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<N> Copy for Ahead<'_, N> {}

impl<'a, N> Ahead<'a, N> {
    /// How many they are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.listing.left_out + self.index
    }

    /// Whether the names of all of them are known.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.listing.left_out == 0
    }

    /// Those whose names are known, the nearest one first.
    pub fn names(&self) -> impl Iterator<Item = &'a N> + Clone + use<'a, N> {
        let ahead = self.listing.contenders.range(..self.index);
        ahead.rev().map(|(_, name)| name)
    }

    /// Whether to look at so many of them takes less than to list the queue.
    #[must_use]
    pub fn is_few(&self, count: usize) -> bool {
        count <= FEW.max(self.listing.contenders.len() / LOOK)
    }
}

/// Where this contender is among these, which are in the order of their places; the error says where
/// it would be.
pub(crate) fn search<N: AsRef<str>>(
    contenders: &VecDeque<(i64, N)>,
    place: i64,
    node: &str,
) -> Result<usize, usize> {
    contenders.binary_search_by(|(other, name)| {
        let by_name = || name.as_ref().cmp(node);
        other.cmp(&place).then_with(by_name)
    })
}

/// The place of the contender with this name.
pub(crate) fn place_of(name: &str) -> Option<i64> {
    parse(name).map(|(role, number)| place(role, number))
}

/// The order by place, and by name at one place.
#[inline(never)] // The code of a sort compares at many places.
fn by_place<N: AsRef<str>>(one: &(i64, N), other: &(i64, N)) -> Ordering {
    let by_name = || one.1.as_ref().cmp(other.1.as_ref());
    one.0.cmp(&other.0).then_with(by_name)
}

/// A name in a listing that is kept. All names of a listing are in one piece of memory.
#[derive(Clone, Debug)]
pub(crate) struct ListedName {
    text: Arc<str>,
    start: u32,
    end: u32,
}

impl ListedName {
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
    pub(crate) fn sorted(names: &Names) -> Arc<[(i64, Self)]> {
        // With a number in front, so that a program has the code for this sort once.
        let mut names: Vec<_> = Self::all(names, |_| None).map(|name| (0, name)).collect();
        names.sort_unstable_by(by_place);
        names.into()
    }
}

impl AsRef<str> for ListedName {
    fn as_ref(&self) -> &str {
        let [start, end] = [self.start, self.end].map(|at| at as usize);
        self.text.get(start..end).unwrap_or_default()
    }
}

impl From<&Arc<str>> for ListedName {
    fn from(name: &Arc<str>) -> Self {
        Self {
            text: name.clone(),
            start: 0,
            end: u32::try_from(name.len()).unwrap_or(u32::MAX),
        }
    }
}

impl From<&ListedName> for Arc<str> {
    fn from(name: &ListedName) -> Self {
        if name.start == 0 && name.end as usize == name.text.len() {
            return name.text.clone();
        }
        name.as_ref().into()
    }
}
