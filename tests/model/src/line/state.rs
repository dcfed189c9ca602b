//! One state of the world: the history of the line, and what each contender and its session know of it.
//!
//! The servers' history is one sequence of transactions; a server that lags shows an earlier point of it. So a node has
//! two times, of its creation and of its deletion, and a session has a time up to which it has seen the history. Nothing
//! else of the servers is kept: a reply or event under way is one that a server which lags has yet to give, so only
//! writes are told apart from their replies.
//!
//! Equal states must look equal: [`State::canonical`] forgets what cannot matter any more and renames the rest.

use lockkeeper_recipes::rank::Kind;

use crate::{
    CONTENDERS, Faults, Shortcut, Violation,
    history::{NEVER, Time},
};

use super::scenario::Line;

/// More nodes than a run of any scenario has at a time: two for each attempt that is under way, and those left of former ones.
pub(super) const NODES: usize = 10;

/// A node's place in [`State::nodes`].
pub(crate) type NodeIndex = u8;

/// No node.
pub(crate) const NONE: NodeIndex = NodeIndex::MAX;

/// What a node's name says of its owner.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Marker {
    Lock,
    Write,
    Read,
}

impl Marker {
    pub(crate) fn of(kind: Kind) -> Self {
        match kind {
            Kind::Read => Self::Read,
            Kind::Write => Self::Write,
            _ => Self::Lock,
        }
    }

    pub(crate) fn kind(self) -> Kind {
        match self {
            Self::Lock => Kind::Mutex,
            Self::Write => Kind::Write,
            Self::Read => Kind::Read,
        }
    }
}

/// A node of the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Node {
    pub(crate) number: u8,
    pub(crate) marker: Marker,
    pub(crate) owner: u8,
    /// Of an attempt that its owner has given up.
    pub(crate) former: bool,
    pub(crate) born: Time,
    pub(crate) died: Time,
}

impl Node {
    pub(super) const NOBODY: Self = Self {
        number: 0,
        marker: Marker::Lock,
        owner: 0,
        former: false,
        born: 0,
        died: 0,
    };

    pub(crate) fn is_live(self) -> bool {
        self.died == NEVER
    }

    pub(crate) fn is_shown(self, view: Time) -> bool {
        self.born <= view && view < self.died
    }
}

/// A watch of a waiter, on the client's side and on the server's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Watch {
    /// There is none.
    Empty,
    /// To be left on the server, or under way to it.
    Requested,
    /// Left on the server.
    Armed,
    /// The server found the node gone when it took over the watches of an earlier connection. Those come in any order.
    Due,
    /// The same, as [`GoneTooLate`](Self::GoneTooLate).
    DueTooLate,
    /// The client has been told that the node is gone.
    Gone,
    /// The same, while its owner's own node was gone before: a grant by this event would be a false one.
    GoneTooLate,
    /// The client has been told that the node's data changed.
    Changed,
}

impl Watch {
    pub(crate) fn is_due(self) -> bool {
        matches!(self, Self::Due | Self::DueTooLate)
    }

    pub(crate) fn is_told(self) -> bool {
        matches!(self, Self::Gone | Self::GoneTooLate | Self::Changed)
    }
}

/// How far a contender is: `contender::Stage` and the await of `line` in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Phase {
    /// Nothing has been sent.
    Idle,
    /// Of a try: the listing before anything is created is under way, or has come and not been looked at.
    Trying,
    /// The create and the listing behind it are under way; or the transaction that makes a writer a reader.
    Creating,
    /// The reply to the create is lost.
    Unknown,
    /// The barrier and the listing behind it are under way.
    Finding,
    /// The node has been found; the look at its owner is under way.
    Checking,
    /// A listing is under way, or has come and not been looked at.
    Looking,
    /// In the line, behind somebody.
    Waiting,
    /// Granted.
    Holding,
    /// The delete is under way.
    Deleting,
    /// Nothing is left to do.
    Done,
}

/// A contender, its client and its session.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent of each other: what depends is in `Phase`"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Contender {
    pub(crate) phase: Phase,
    /// The caller has gone; only the clean-up goes on.
    pub(crate) abandoned: bool,
    /// The phase is about becoming a reader, not about entering the line.
    pub(crate) replacing: bool,
    /// With [`Shortcut::TwoSteps`](Shortcut::TwoSteps): the first of them is done.
    pub(crate) half: bool,
    /// Our node, as far as we know it.
    pub(crate) node: NodeIndex,
    /// Of a try: the last listing showed nobody in the way.
    pub(crate) free: bool,
    /// The writer's node that is to be replaced.
    pub(crate) writer: NodeIndex,
    /// When the write under way was committed.
    pub(crate) committed: Time,
    /// Whether the committed write did what it was to do.
    pub(crate) succeeded: bool,
    /// A write of the connection before, which may yet be committed until the next connection is made.
    pub(crate) floating: bool,
    /// A connection is there.
    pub(crate) up: bool,
    /// How much of the history the session has seen.
    pub(crate) view: Time,
    /// The point of the listing that has come and not been looked at.
    pub(crate) listed: Time,
    /// The listing was asked for on the present connection.
    pub(crate) same_connection: bool,
    /// Only one was ahead, and nobody can come there.
    pub(crate) is_last: bool,
    pub(crate) own: Watch,
    pub(crate) nearest: Watch,
    pub(crate) nearest_node: NodeIndex,
    pub(crate) second: Watch,
    pub(crate) second_node: NodeIndex,
    /// The lease runs, by the client's clock.
    pub(crate) lease: bool,
    /// What is under way was sent before the lease ran out: its reply does not renew it.
    pub(crate) stale: bool,
    /// What is under way was sent in a session that was over by then: nobody will answer.
    pub(crate) mute: bool,
    /// When the servers ended the session, unknown to the client.
    pub(crate) expired: Time,
}

impl Contender {
    pub(crate) const IDLE: Self = Self {
        phase: Phase::Idle,
        abandoned: false,
        replacing: false,
        half: false,
        free: false,
        node: NONE,
        writer: NONE,
        committed: NEVER,
        succeeded: false,
        floating: false,
        up: true,
        view: 0,
        listed: NEVER,
        same_connection: true,
        is_last: false,
        own: Watch::Empty,
        nearest: Watch::Empty,
        nearest_node: NONE,
        second: Watch::Empty,
        second_node: NONE,
        lease: true,
        stale: false,
        mute: false,
        expired: NEVER,
    };

    pub(crate) const DONE: Self = Self {
        phase: Phase::Done,
        ..Self::IDLE
    };

    pub(crate) fn watches(&self) -> [(Watch, NodeIndex); 3] {
        [
            (self.own, self.node),
            (self.nearest, self.nearest_node),
            (self.second, self.second_node),
        ]
    }

    pub(crate) fn has_watch(&self, which: impl Fn(Watch) -> bool) -> bool {
        [self.own, self.nearest, self.second].into_iter().any(which)
    }

    /// Forgets what its phase never looks at.
    pub(super) fn forget(&mut self) {
        if !matches!(self.phase, Phase::Looking | Phase::Waiting) {
            self.own = Watch::Empty;
            self.nearest = Watch::Empty;
            self.second = Watch::Empty;
            self.same_connection = true;
        }
        if self.phase != Phase::Waiting {
            self.is_last = false;
        }
        if matches!(self.phase, Phase::Holding | Phase::Deleting) {
            self.free = false;
        }
        if self.nearest == Watch::Empty {
            self.nearest_node = NONE;
        }
        if self.second == Watch::Empty {
            self.second_node = NONE;
        }
        self.stale &= !self.lease;
    }

    /// Whether its user takes the lock for held.
    pub(crate) fn claims(&self) -> bool {
        self.lease && !self.abandoned && (self.phase == Phase::Holding || self.replacing)
    }

    /// Whether how much it has seen can matter: otherwise a write comes first, which shows it everything.
    pub(super) fn reads(&self, scenario: &Line) -> bool {
        match self.phase {
            Phase::Trying | Phase::Looking | Phase::Waiting | Phase::Checking => true,
            Phase::Creating | Phase::Unknown | Phase::Finding => {
                scenario.takes(Shortcut::PlainListing)
            }
            _ => false,
        }
    }

    /// One of its watches: on its own node, on the nearest one ahead, on the one ahead of that.
    pub(crate) fn watch(&mut self, which: usize) -> &mut Watch {
        match which {
            0 => &mut self.own,
            1 => &mut self.nearest,
            _ => &mut self.second,
        }
    }
}

/// The world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(crate) contenders: [Contender; CONTENDERS],
    pub(crate) nodes: [Node; NODES],
    pub(crate) node_count: u8,
    /// How many transactions there were.
    pub(crate) now: Time,
    /// What may still go wrong.
    pub(crate) faults: Faults,
    /// What was seen to be wrong in the last step.
    pub(crate) violation: Option<Violation>,
}

impl State {
    pub(crate) fn initial(scenario: &Line) -> Self {
        Self {
            contenders: scenario
                .kinds
                .map(|kind| kind.map_or(Contender::DONE, |_| Contender::IDLE)),
            nodes: [Node::NOBODY; NODES],
            node_count: 0,
            now: 0,
            faults: scenario.faults,
            violation: None,
        }
    }

    pub(crate) fn nodes(&self) -> impl Iterator<Item = Node> {
        self.nodes[..usize::from(self.node_count)].iter().copied()
    }

    pub(crate) fn node(&self, index: NodeIndex) -> Node {
        self.nodes[usize::from(index)]
    }

    pub(crate) fn is_over(&self) -> bool {
        let mut phases = self.contenders.iter().map(|contender| contender.phase);
        phases.all(|phase| phase == Phase::Done)
    }

    /// Another node, created by the transaction that comes next.
    pub(crate) fn create(&mut self, owner: usize, marker: Marker, number: u8) -> NodeIndex {
        let index = self.node_count;
        self.nodes[usize::from(index)] = Node {
            number,
            marker,
            owner: u8::try_from(owner).expect("few contenders"),
            former: false,
            born: self.now,
            died: NEVER,
        };
        self.node_count += 1;
        index
    }

    /// The number that the directory would give to its next child.
    pub(crate) fn next_number(&self) -> u8 {
        let numbers = self.nodes().map(|node| node.number);
        numbers.max().map_or(0, |highest| highest + 1)
    }

    pub(crate) fn delete(&mut self, index: NodeIndex) {
        self.nodes[usize::from(index)].died = self.now;
    }
}
