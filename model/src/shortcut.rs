//! What the algorithm could leave out to be simpler or faster, and must not. Each is a switch of the model, and the tests
//! show that the model finds what goes wrong with it.

use lockkeeper_recipes::rank::Kind;

use crate::{Faults, Line, Scenario, Violation};

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
}

impl Shortcut {
    /// All of them.
    pub const ALL: [Self; 17] = [
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
    ];
}

impl Shortcut {
    /// The smallest scenario known in which it goes wrong, and how.
    #[must_use]
    pub fn undoing(self) -> (Scenario, Violation) {
        let [none, cut, pause, cancel, by_hand] = [
            Faults::default(),
            Faults {
                cuts: 1,
                ..Faults::default()
            },
            Faults {
                pauses: 1,
                ..Faults::default()
            },
            Faults {
                cancels: 1,
                ..Faults::default()
            },
            Faults {
                by_hand: 1,
                ..Faults::default()
            },
        ];
        let mutexes = Line::new([Kind::Mutex; 3]);
        let tries = mutexes.with_tries([false, true, true]);
        let writers = Line::new([Kind::Write; 3]).with_downgrade();
        let (scenario, faults, violation) = match self {
            Self::AlwaysSkip => (mutexes, cancel, Violation::NotAlone),
            Self::SkipBehindWriter | Self::FreshNumber | Self::TwoSteps => {
                (writers, none, Violation::NotAlone)
            }
            Self::NoOwnWatch => (mutexes, by_hand, Violation::GrantedWithoutNode),
            Self::LateOwnWatch => (
                mutexes,
                Faults { by_hand: 2, ..none },
                Violation::GrantedWithoutNode,
            ),
            Self::AnyConnection => (
                mutexes,
                Faults { cuts: 1, ..by_hand },
                Violation::GrantedWithoutNode,
            ),
            Self::AnyEvent => (mutexes, by_hand, Violation::NotAlone),
            Self::NoLease => (mutexes, pause, Violation::GrantedAfterExpiry),
            Self::PlainListing | Self::DeleteOnce => (mutexes, cut, Violation::Orphan),
            Self::ForgetOnCancel => (mutexes, cancel, Violation::Orphan),
            Self::NoRewatch => (mutexes, cut, Violation::Stuck),
            Self::MissingIsNoEvent => (mutexes, none, Violation::Stuck),
            Self::TryWithoutLook => (tries, none, Violation::WroteInVain),
            Self::TryTakesItsLook => (tries, none, Violation::NotAlone),
            Self::TryForgets => (tries, none, Violation::Orphan),
        };
        let line = scenario.with_faults(faults).with_shortcut(self);
        (Scenario::Line(line), violation)
    }
}
