//! The one pure function that decides who holds what.
//!
//! It looks at a listing of the lock's directory and at nothing else: [`rank`] sorts the contenders by the numbers that
//! the server gave them, never by text, and tells one of them where it stands.

use crate::name;

/// Numbers from here on are refused: 65,536 before the counter of the directory sticks at 2^31-1, from where on the
/// server hands out one number several times.
///
/// The directory counts all children that it ever had. Letting it drain, so that the server reaps the empty container,
/// starts it at 0 again.
pub const SEQUENCE_LIMIT: i32 = i32::MAX - 0xffff;

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Rank<'a> {
    /// Nobody is ahead.
    First,
    /// Somebody is ahead.
    Waiting {
        /// How many contenders are ahead.
        ahead: usize,
        /// The one just ahead.
        nearest: &'a str,
        /// The one ahead of that one.
        second: Option<&'a str>,
    },
    /// The contender is not in the listing: its node was deleted.
    Gone,
    /// The numbers say nothing any more: one is negative, above [`SEQUENCE_LIMIT`], or there twice.
    Exhausted,
}

/// Which nodes of a directory contend with each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A mutex: everybody with everybody.
    Mutex,
}

impl Kind {
    /// The marker in the names of our own nodes.
    pub(crate) fn marker(self) -> &'static str {
        match self {
            Self::Mutex => name::LOCK,
        }
    }

    /// All markers in the names of contenders.
    fn markers(self) -> &'static [&'static str] {
        match self {
            Self::Mutex => name::MUTEX_MARKERS,
        }
    }
}

/// Where `mine` stands among `children`. Children that are no contenders of this kind do not count.
///
/// ```
/// use lockkeeper_recipes::rank::{Kind, Rank, rank};
///
/// let children = ["x-lock-0000000011", "y-lock-0000000009", "z-lock-0000000010", "README"];
/// assert_eq!(rank(Kind::Mutex, children, "y-lock-0000000009"), Rank::First);
/// assert_eq!(
///     rank(Kind::Mutex, children, "x-lock-0000000011"),
///     Rank::Waiting { ahead: 2, nearest: "z-lock-0000000010", second: Some("y-lock-0000000009") },
/// );
/// ```
pub fn rank<'a>(kind: Kind, children: impl IntoIterator<Item = &'a str>, mine: &str) -> Rank<'a> {
    let Some(own) = name::sequence(mine, kind.markers()) else {
        return Rank::Gone;
    };
    let (mut present, mut exhausted, mut ahead) = (false, own > SEQUENCE_LIMIT, 0);
    let mut nearest: Option<(i32, &str)> = None;
    let mut second = None;
    for child in children {
        if child == mine {
            present = true;
            continue;
        }
        let Some(number) = name::sequence(child, kind.markers()) else {
            continue;
        };
        exhausted |= number < 0 || number == own;
        if number >= own {
            continue;
        }
        ahead += 1;
        let candidate = Some((number, child));
        if nearest.is_none_or(|(highest, _)| number > highest) {
            second = nearest;
            nearest = candidate;
        } else if second.is_none_or(|(highest, _): (i32, &str)| number > highest) {
            second = candidate;
        }
    }
    match nearest {
        _ if !present => Rank::Gone,
        _ if exhausted || own < 0 => Rank::Exhausted,
        None => Rank::First,
        Some((_, nearest)) => Rank::Waiting {
            ahead,
            nearest,
            second: second.map(|(_, name)| name),
        },
    }
}

/// Whether anybody contends in a directory with these children.
pub fn is_contended<'a>(kind: Kind, children: impl IntoIterator<Item = &'a str>) -> bool {
    children
        .into_iter()
        .any(|child| name::sequence(child, kind.markers()).is_some())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn node(number: i32) -> String {
        format!("_c_x-lock-{number:010}")
    }

    fn rank_of<'a>(children: &'a [String], mine: &str) -> Rank<'a> {
        rank(Kind::Mutex, children.iter().map(String::as_str), mine)
    }

    #[test]
    fn numbers_order_and_not_the_text_before_them() {
        let children = [
            "b-lock-0000000002".to_owned(),
            "z-lock-0000000001".to_owned(),
            "a-lock-0000000010".to_owned(),
        ];
        assert_eq!(rank_of(&children, "z-lock-0000000001"), Rank::First);
        let expected = Rank::Waiting {
            ahead: 2,
            nearest: "b-lock-0000000002",
            second: Some("z-lock-0000000001"),
        };
        assert_eq!(rank_of(&children, "a-lock-0000000010"), expected);
    }

    #[test]
    fn kazoo_is_ahead_of_us_and_strangers_are_nobody() {
        let children = [
            "aa__lock__0000000001".to_owned(),
            node(2),
            "000".to_owned(),
            "notalock".to_owned(),
        ];
        let expected = Rank::Waiting {
            ahead: 1,
            nearest: "aa__lock__0000000001",
            second: None,
        };
        assert_eq!(rank_of(&children, &node(2)), expected);
    }

    #[test]
    fn who_is_not_listed_is_gone() {
        assert_eq!(rank_of(&[node(1), node(3)], &node(2)), Rank::Gone);
        assert_eq!(rank_of(&[], &node(2)), Rank::Gone);
    }

    #[test]
    fn exhausted_numbers_are_refused_and_never_ordered() {
        let exhausted = |others: &[i32], own: i32| {
            let mut children: Vec<_> = others.iter().map(|number| node(*number)).collect();
            children.push(node(own));
            rank_of(&children, &node(own)) == Rank::Exhausted
        };
        assert!(!exhausted(&[5], SEQUENCE_LIMIT));
        assert!(exhausted(&[], SEQUENCE_LIMIT + 1));
        assert!(exhausted(&[], i32::MIN));
        assert!(exhausted(&[-5], 7));
        let twins = [
            "a-lock-0000000007".to_owned(),
            "b-lock-0000000007".to_owned(),
        ];
        assert_eq!(rank_of(&twins, "a-lock-0000000007"), Rank::Exhausted);
    }

    proptest! {
        #[test]
        fn exactly_one_is_first_and_everybody_else_waits_for_the_one_before(
            numbers in prop::collection::btree_set(0..SEQUENCE_LIMIT, 1..20), seed: u64,
        ) {
            let sorted: Vec<_> = numbers.into_iter().map(node).collect();
            let mut children = sorted.clone();
            let by = usize::try_from(seed % children.len() as u64).unwrap();
            children.rotate_left(by);
            for (index, mine) in sorted.iter().enumerate() {
                let expected = match index {
                    0 => Rank::First,
                    _ => Rank::Waiting {
                        ahead: index,
                        nearest: &sorted[index - 1],
                        second: (index > 1).then(|| &*sorted[index - 2]),
                    },
                };
                prop_assert_eq!(rank_of(&children, mine), expected);
            }
        }
    }
}
