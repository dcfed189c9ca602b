//! Who holds what: one pure function of the listing of a lock's directory.
//!
//! [`rank`] sorts the contenders by the numbers that the server gave them, never by their text, and
//! tells one of them where it stands.

pub use super::name::Kind;

/// Higher numbers are refused: 65,536 before the counter of the directory stops at 2^31-1. From
/// there on the server would give the same number several times.
///
/// The directory counts all children that it ever had. When it is empty, the server removes the
/// container, and the next one starts at 0.
pub const SEQUENCE_LIMIT: i32 = i32::MAX - 0xffff;

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::exhaustive_enums, reason = "users match all of it")]
pub enum Rank<'a> {
    /// No contender ahead conflicts with it.
    First,
    /// At least one contender ahead conflicts with it.
    Waiting {
        /// How many contenders ahead conflict with it.
        ahead: usize,
        /// The last one of them. Its deletion is what the contender waits for.
        nearest: &'a str,
        /// The one ahead of `nearest`.
        second: Option<&'a str>,
        /// Whether the deletion of `nearest` is enough: no other is ahead, and none can come there.
        is_last: bool,
    },
    /// The contender is not in the listing: its node was deleted.
    Gone,
    /// The numbers are useless: one is negative, above [`SEQUENCE_LIMIT`], or given twice.
    Exhausted,
}

/// Where `mine` stands among `children`. Children that are not in the queue do not count.
///
/// The order is that of the numbers. A reader that was a writer keeps the writer's number, and
/// stands just behind it.
///
/// ```
/// # mod lockkeeper { pub mod locks { pub use lockkeeper_recipes::rank; } }
/// use lockkeeper::locks::rank::{Kind, Rank, rank};
///
/// let children = ["x-lock-0000000011", "y-lock-0000000009", "z-lock-0000000010", "README"];
/// assert_eq!(rank(Kind::Mutex, children, "y-lock-0000000009"), Rank::First);
/// let (nearest, second) = ("z-lock-0000000010", Some("y-lock-0000000009"));
/// assert_eq!(
///     rank(Kind::Mutex, children, "x-lock-0000000011"),
///     Rank::Waiting { ahead: 2, nearest, second, is_last: false },
/// );
/// ```
pub fn rank<'a>(kind: Kind, children: impl IntoIterator<Item = &'a str>, mine: &str) -> Rank<'a> {
    rank_and_note(kind, children, mine, |_, _| {})
}

/// The rank, as [`rank`] has it. Calls `stranger` with each child that is not in the queue, and the
/// number of `mine`.
pub(crate) fn rank_and_note<'a>(
    kind: Kind,
    children: impl IntoIterator<Item = &'a str>,
    mine: &str,
    mut stranger: impl FnMut(&'a str, i32),
) -> Rank<'a> {
    let Some((role, number)) = kind.contender(mine) else {
        return Rank::Gone;
    };
    let own = place(role, number);
    let (mut present, mut exhausted, mut ahead) = (false, number > SEQUENCE_LIMIT, 0);
    let mut nearest: Option<(i64, &str)> = None;
    let mut second: Option<(i64, &str)> = None;
    for child in children {
        let Some((role, other)) = kind.contender(child) else {
            stranger(child, number);
            continue;
        };
        let other = place(role, other);
        if other == own && child == mine {
            present = true;
            continue;
        }
        exhausted |= other < 0 || other == own;
        if other > own || !conflicts(kind, role == Kind::Read) {
            continue;
        }
        ahead += 1;
        let candidate = Some((other, child));
        // The name decides between equal numbers, so that the order of the listing does not matter.
        if candidate > nearest {
            second = nearest;
            nearest = candidate;
        } else if candidate > second {
            second = candidate;
        }
    }
    match nearest {
        _ if !present => Rank::Gone,
        _ if exhausted || own < 0 => Rank::Exhausted,
        None => Rank::First,
        Some((_, nearest)) => {
            // A writer may become a reader with the same number. For a contender that waits for the
            // reader too, that is a new node ahead.
            let is_writer = matches!(kind.contender(nearest), Some((Kind::Write, _)));
            let may_turn_reader = is_writer && conflicts(kind, true);
            Rank::Waiting {
                ahead,
                nearest,
                second: second.map(|(_, name)| name),
                is_last: ahead == 1 && !may_turn_reader,
            }
        }
    }
}

/// The place of a contender in the queue: at equal numbers, who shares the lock is behind who does
/// not.
pub(crate) fn place(role: Kind, number: i32) -> i64 {
    // One number is compared faster than two values.
    i64::from(number) * 2 + i64::from(role == Kind::Read)
}

/// Whether a contender of this kind waits for one ahead that shares the lock, or does not.
fn conflicts(kind: Kind, shares: bool) -> bool {
    kind != Kind::Read || !shares
}

/// Whether a contender that enters now would have to wait.
pub fn is_contended<'a>(kind: Kind, children: impl IntoIterator<Item = &'a str>) -> bool {
    let mut contenders = children
        .into_iter()
        .filter_map(|child| kind.contender(child));
    contenders.any(|(other, _)| conflicts(kind, other == Kind::Read))
}

/// How many permits are among the children of their directory.
pub(crate) fn permits<'a>(children: impl IntoIterator<Item = &'a str>) -> usize {
    let is_permit = |child: &&str| Kind::Semaphore.contender(child).is_some();
    children.into_iter().filter(is_permit).count()
}

/// The contenders among a directory's children, in the order of their numbers.
pub(crate) fn in_order<'a>(kind: Kind, children: impl IntoIterator<Item = &'a str>) -> Vec<String> {
    let placed = |child| {
        let (role, number) = kind.contender(child)?;
        Some((place(role, number), child))
    };
    let mut contenders: Vec<_> = children.into_iter().filter_map(placed).collect();
    contenders.sort_unstable();
    let names = contenders.into_iter().map(|(_, child)| child.to_owned());
    names.collect()
}

/// For each of these contenders of one queue, in the order of their numbers: how many contenders
/// ahead conflict with it.
pub(crate) fn ahead<'a>(
    kind: Kind,
    ordered: impl IntoIterator<Item = &'a str>,
) -> impl Iterator<Item = usize> {
    let (mut all, mut exclusive) = (0, 0);
    ordered.into_iter().map(move |child| {
        let shared = matches!(kind.contender(child), Some((Kind::Read, _)));
        let ahead = if shared { exclusive } else { all };
        all += 1;
        exclusive += usize::from(!shared);
        ahead
    })
}

/// Not here: any listing, ranked by a second opinion (`fuzz/checks`, `tests/model/tests/contract`).
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

    fn waiting<'a>(
        ahead: usize,
        nearest: &'a str,
        second: Option<&'a str>,
        is_last: bool,
    ) -> Rank<'a> {
        Rank::Waiting {
            ahead,
            nearest,
            second,
            is_last,
        }
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
        fn contenders_are_counted_as_they_are_ranked(
            roles in prop::collection::vec((0..4_usize, 0..3_i32), 0..12),
        ) {
            let kinds = [Kind::Mutex, Kind::Read, Kind::Write, Kind::Latch];
            let mut number = 0;
            let children: Vec<_> = roles
                .iter()
                .map(|(kind, step)| {
                    number += step + 1;
                    format!("x{}{number:010}", kinds[*kind].marker())
                })
                .collect();
            for kind in [Kind::Mutex, Kind::Latch] {
                let ordered = in_order(kind, children.iter().rev().map(String::as_str));
                let seen = ahead(kind, ordered.iter().map(String::as_str));
                for (mine, seen) in ordered.iter().zip(seen) {
                    let itself = if mine.contains("__READ__") { Kind::Read } else { kind };
                    let place = rank(itself, children.iter().map(String::as_str), mine);
                    let is_right = match place {
                        Rank::Waiting { ahead, .. } => seen == ahead,
                        place => seen == 0 && place == Rank::First,
                    };
                    prop_assert!(is_right, "{mine} in {children:?}: {seen}");
                }
            }
        }
    }

    #[test]
    fn readers_wait_for_the_last_writer_before_them_and_writers_for_everybody() {
        let names = [
            "r__READ__0000000001",
            "w__WRIT__0000000002",
            "r__READ__0000000003",
            "w__WRIT__0000000004",
            "r__READ__0000000005",
        ];
        let of = |kind, index: usize| rank(kind, names, names[index]);
        assert_eq!(of(Kind::Read, 0), Rank::First);
        let behind = |ahead, nearest: usize, second: Option<usize>, is_last| {
            waiting(
                ahead,
                names[nearest],
                second.map(|index| names[index]),
                is_last,
            )
        };
        assert_eq!(of(Kind::Write, 1), behind(1, 0, None, true));
        assert_eq!(of(Kind::Read, 2), behind(1, 1, None, true));
        assert_eq!(of(Kind::Write, 3), behind(3, 2, Some(1), false));
        assert_eq!(of(Kind::Read, 4), behind(2, 3, Some(1), false));
        // A mutex on the same path stands in the same line, as a writer that never becomes a
        // reader.
        let mixed = [names[0], "m-lock-0000000002", "w__WRIT__0000000003"];
        assert_eq!(
            rank(Kind::Write, mixed, mixed[2]),
            waiting(2, mixed[1], Some(mixed[0]), false)
        );
        let pair = [mixed[1], mixed[2]];
        assert_eq!(
            rank(Kind::Write, pair, mixed[2]),
            waiting(1, mixed[1], None, true)
        );
        assert_eq!(
            rank(Kind::Mutex, mixed, mixed[1]),
            waiting(1, mixed[0], None, true)
        );
        assert!(!is_contended(Kind::Read, [names[0], names[2]]));
        assert!(is_contended(Kind::Read, names) && is_contended(Kind::Write, [names[0]]));
    }

    /// Curator let a queued writer overtake a writer that had become a reader.
    #[test]
    fn a_writer_that_became_a_reader_keeps_its_place() {
        let (reader, writer) = ("r__READ__0000000001", "w__WRIT__0000000002");
        assert_eq!(
            rank(Kind::Write, [reader, writer], writer),
            waiting(1, reader, None, true)
        );
        // While it is a writer, its end does not prove that nobody is ahead.
        let still = "r__WRIT__0000000001";
        assert_eq!(
            rank(Kind::Write, [still, writer], writer),
            waiting(1, still, None, false)
        );
        // Both of its nodes may be there for an instant; the reader is behind its own writer.
        assert_eq!(rank(Kind::Write, [still, reader], still), Rank::First);
        assert_eq!(
            rank(Kind::Read, [still, reader], reader),
            waiting(1, still, None, true)
        );
    }
}
