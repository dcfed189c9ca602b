//! What the algorithm could leave out to be simpler or faster, and must not. Each is a switch of the model, and the tests
//! show that the model finds what goes wrong with it.

use lockkeeper_recipes::rank::Kind;

use crate::{Counted, Faults, Line, Recipe, Scenario, Violation};

/// Something left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Shortcut {
    /// The deletion of the node just ahead is the grant, however many were ahead.
    AlwaysSkip,
    /// The deletion of the only node ahead is the grant also when it was a writer, which may have become a reader.
    SkipBehindWriter,
    /// No watch on one's own node: the deletion of the one ahead is the grant, whether one is in the line or not.
    NoOwnWatch,
    /// The watch on one's own node, once it has told of other data, is left again after the listing only.
    LateOwnWatch,
    /// Events that make up for an outage, which come in any order, are taken for events in the order of the transactions.
    AnyConnection,
    /// Any event of the node just ahead is taken for its deletion.
    AnyEvent,
    /// What was heard before a pause counts after it, without a look at the lease.
    NoLease,
    /// A create whose reply is lost is looked for with a listing, without a write before it.
    PlainListing,
    /// A caller that goes away during the create leaves the rest to the session's end.
    ForgetOnCancel,
    /// A delete whose reply is lost is not repeated.
    DeleteOnce,
    /// Watches are not left again on the next connection.
    NoRewatch,
    /// That a node is gone already when it is to be watched is not taken for an event.
    MissingIsNoEvent,
    /// A writer becomes a reader with a number of its own.
    FreshNumber,
    /// A writer becomes a reader in two requests: delete, then create.
    TwoSteps,
    /// A try creates its node before it looks.
    TryWithoutLook,
    /// A try that saw nobody in the way does not look again behind its create.
    TryTakesItsLook,
    /// A try that is refused after its create leaves the rest to the session's end.
    TryForgets,
    /// Of the plain lock: a delete whose reply is lost is repeated without a look at whose node is there.
    RepeatDelete,
    /// Of the plain lock: a delete goes out in whatever session there is by then.
    DeleteInAnySession,
    /// Of the plain lock: a caller that goes away during the create has the node deleted, whatever came of the create.
    DeleteUnseen,
    /// Of the plain lock: any node of the session is taken for that of the lost create, without a look at its mark.
    NoMark,
    /// Of the semaphore: who wants a lease does not stand in line for it.
    NoHead,
    /// Of the semaphore: who has lost its place in the line with its session goes on for its lease in the next one.
    HeadOfFormerSession,
    /// Of the semaphore: who waits for a lease does not notice that its place in the line is deleted.
    HeadLostUnnoticed,
    /// Of the semaphore: leases are counted without a look whether one's own is among them.
    OwnLeaseUnseen,
    /// Of the semaphore: the limit is read before the leases are listed.
    LimitFirst,
    /// Of the semaphore: who waits does not watch the limit.
    NoLimitWatch,
}

impl Shortcut {
    /// All of them.
    pub const ALL: [Self; 27] = [
        Self::AlwaysSkip,
        Self::SkipBehindWriter,
        Self::NoOwnWatch,
        Self::LateOwnWatch,
        Self::AnyConnection,
        Self::AnyEvent,
        Self::NoLease,
        Self::PlainListing,
        Self::ForgetOnCancel,
        Self::DeleteOnce,
        Self::NoRewatch,
        Self::MissingIsNoEvent,
        Self::FreshNumber,
        Self::TwoSteps,
        Self::TryWithoutLook,
        Self::TryTakesItsLook,
        Self::TryForgets,
        Self::RepeatDelete,
        Self::DeleteInAnySession,
        Self::DeleteUnseen,
        Self::NoMark,
        Self::NoHead,
        Self::HeadOfFormerSession,
        Self::HeadLostUnnoticed,
        Self::OwnLeaseUnseen,
        Self::LimitFirst,
        Self::NoLimitWatch,
    ];
}

const NONE: Faults = Faults {
    cuts: 0,
    pauses: 0,
    cancels: 0,
    by_hand: 0,
    again: 0,
};
const CUT: Faults = Faults { cuts: 1, ..NONE };
const PAUSE: Faults = Faults { pauses: 1, ..NONE };
const CANCEL: Faults = Faults { cancels: 1, ..NONE };
const BY_HAND: Faults = Faults { by_hand: 1, ..NONE };

impl Shortcut {
    /// The smallest scenarios known in which it goes wrong, and how: one for each lock that could take it.
    #[must_use]
    pub fn undoing(self) -> Vec<(Scenario, Violation)> {
        let mut undoing = Vec::new();
        if let Some((line, faults, violation)) = self.in_line() {
            let line = line.with_faults(faults).with_shortcut(self);
            undoing.push((Scenario::Line(line), violation));
        }
        for (lock, faults, violation) in self.in_counted() {
            let lock = lock.with_faults(faults).with_shortcut(self);
            undoing.push((Scenario::Counted(lock), violation));
        }
        undoing
    }

    fn in_line(self) -> Option<(Line, Faults, Violation)> {
        let mutexes = Line::new([Kind::Mutex; 3]);
        let tries = mutexes.with_tries([false, true, true]);
        let writers = Line::new([Kind::Write; 3]).with_downgrade();
        let twice_by_hand = Faults { by_hand: 2, ..NONE };
        let cut_and_by_hand = Faults { cuts: 1, ..BY_HAND };
        Some(match self {
            Self::AlwaysSkip => (mutexes, CANCEL, Violation::NotAlone),
            Self::SkipBehindWriter | Self::FreshNumber | Self::TwoSteps => {
                (writers, NONE, Violation::NotAlone)
            }
            Self::NoOwnWatch => (mutexes, BY_HAND, Violation::GrantedWithoutNode),
            Self::LateOwnWatch => (mutexes, twice_by_hand, Violation::GrantedWithoutNode),
            Self::AnyConnection => (mutexes, cut_and_by_hand, Violation::GrantedWithoutNode),
            Self::AnyEvent => (mutexes, BY_HAND, Violation::NotAlone),
            Self::NoLease => (mutexes, PAUSE, Violation::GrantedAfterExpiry),
            Self::PlainListing | Self::DeleteOnce => (mutexes, CUT, Violation::Orphan),
            Self::ForgetOnCancel => (mutexes, CANCEL, Violation::Orphan),
            Self::NoRewatch => (mutexes, CUT, Violation::Stuck),
            Self::MissingIsNoEvent => (mutexes, NONE, Violation::Stuck),
            Self::TryWithoutLook => (tries, NONE, Violation::WroteInVain),
            Self::TryTakesItsLook => (tries, NONE, Violation::NotAlone),
            Self::TryForgets => (tries, NONE, Violation::Orphan),
            _ => return None,
        })
    }

    fn in_counted(self) -> Vec<(Counted, Faults, Violation)> {
        let plain = Counted::new(Recipe::Plain);
        let tasks = plain.with_shared_client();
        let semaphore = |limit, changes| Counted::new(Recipe::Semaphore { limit, changes });
        let (one, two) = (semaphore(1, None), semaphore(2, None));
        match self {
            Self::NoLease => vec![
                (plain, PAUSE, Violation::GrantedAfterExpiry),
                (two, PAUSE, Violation::GrantedAfterExpiry),
            ],
            Self::PlainListing | Self::DeleteOnce => vec![
                (plain, CUT, Violation::Orphan),
                (two, CUT, Violation::Orphan),
            ],
            Self::ForgetOnCancel => vec![
                (plain, CANCEL, Violation::Orphan),
                (two, CANCEL, Violation::Orphan),
            ],
            Self::NoRewatch => vec![(plain, CUT, Violation::Stuck), (one, CUT, Violation::Stuck)],
            Self::MissingIsNoEvent => vec![(plain, NONE, Violation::Stuck)],
            Self::RepeatDelete => vec![(plain, CUT, Violation::DeletedAnothers)],
            Self::DeleteInAnySession => vec![(plain, PAUSE, Violation::DeletedAnothers)],
            Self::DeleteUnseen => vec![(plain, CANCEL, Violation::DeletedAnothers)],
            Self::NoMark => vec![(tasks, CUT, Violation::NotAlone)],
            Self::NoHead => vec![(two, NONE, Violation::Stuck)],
            Self::HeadOfFormerSession => vec![(one, PAUSE, Violation::Overtaken)],
            Self::HeadLostUnnoticed => vec![(one, BY_HAND, Violation::Stuck)],
            Self::OwnLeaseUnseen => vec![(two, BY_HAND, Violation::GrantedWithoutNode)],
            Self::LimitFirst => vec![(semaphore(2, Some(1)), NONE, Violation::TooMany)],
            Self::NoLimitWatch => vec![(semaphore(1, Some(1)), NONE, Violation::Stuck)],
            _ => Vec::new(),
        }
    }
}
