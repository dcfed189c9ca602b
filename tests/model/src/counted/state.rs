//! One state of the world: the history of the nodes, and what each contender and its session know of it.
//!
//! As in `line`, the servers' history is one sequence of transactions, and a server that lags shows an earlier point of it.
//! Here a session may have several tasks, so it stands apart from its contenders.

use crate::{
    CONTENDERS, Faults, Violation,
    history::{NEVER, Time},
};

use super::scenario::{Counted, Recipe};

/// More nodes than a run has at a time: a lease and a place for each attempt that is under way, and those left of former ones.
pub(super) const NODES: usize = 12;

/// More limits than a run has at a time.
pub(super) const LIMITS: usize = 4;

/// A node's place in [`State::nodes`].
pub(super) type NodeIndex = u8;

/// No node.
pub(super) const NONE: NodeIndex = NodeIndex::MAX;

/// What a node is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum What {
    /// The one node of a plain lock.
    Plain,
    /// A lease of a semaphore.
    Lease,
    /// A place in the line of those who want leases.
    Head,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) what: What,
    pub(super) owner: u8,
    /// Of an attempt that its owner has given up.
    pub(super) former: bool,
    /// Of a place in the line: its delete was sent, and is repeated until it is done.
    pub(super) leaving: bool,
    pub(super) born: Time,
    pub(super) died: Time,
}

impl Node {
    pub(super) const NOBODY: Self = Self {
        what: What::Plain,
        owner: 0,
        former: false,
        leaving: false,
        born: 0,
        died: 0,
    };

    pub(super) fn is_live(self) -> bool {
        self.died == NEVER
    }

    pub(super) fn is_shown(self, view: Time) -> bool {
        self.born <= view && view < self.died
    }
}

/// What wakes who waits: the watch on somebody's plain node; or those on the leases, on the limit and on one's own place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Watch {
    Empty,
    /// Under way to the server.
    Requested,
    Armed,
    /// The client has been told.
    Told,
}

/// How far a contender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Phase {
    /// Nothing has been sent.
    Idle,
    /// Of a try: the look before anything is created is under way, or has come and not been looked at.
    Trying,
    /// In the line of those who want leases.
    Lining,
    /// The create is under way.
    Creating,
    /// The reply to the create is lost.
    Unknown,
    /// The barrier and the listing behind it are under way.
    Finding,
    /// A node that may be ours has been found; the look at it is under way.
    Checking,
    /// The plain node is ours, as a reply has told.
    Known,
    /// The lease has run out since: the question whether the plain node is still there is under way.
    Asking,
    /// The leases are being listed.
    Listing,
    /// The limit is being read.
    Limiting,
    /// The leases and the limit are known.
    Counting,
    /// For the end of somebody's plain node, or for a change of the leases or the limit.
    Waiting,
    /// Granted.
    Holding,
    /// The delete is under way.
    Deleting,
    /// Nothing is left to do.
    Done,
}

/// A contender.
#[expect(
    clippy::struct_excessive_bools,
    reason = "independent of each other: what depends is in `Phase`"
)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Contender {
    pub(super) phase: Phase,
    /// The caller has gone; only the clean-up goes on.
    pub(super) abandoned: bool,
    /// What is looked for is to be deleted, not to be held.
    pub(super) leaving: bool,
    /// Our plain node or lease, as far as we know it.
    pub(super) node: NodeIndex,
    /// Our place in the line of those who want leases.
    pub(super) head: NodeIndex,
    /// When the write under way was committed.
    pub(super) committed: Time,
    /// Whether the committed write did what it was to do.
    pub(super) succeeded: bool,
    /// A write of the connection before, which may yet be committed until the next connection is made.
    pub(super) floating: bool,
    /// The point of the look or listing that has come.
    pub(super) listed: Time,
    /// The limit as it was read.
    pub(super) limit: u8,
    pub(super) watch: Watch,
    /// The node that is watched, of a plain lock.
    pub(super) watched: NodeIndex,
    /// From which point of the history on the leases are watched.
    pub(super) since: Time,
    /// From which point of the history on the limit is watched.
    pub(super) limit_since: Time,
    /// What is under way was sent before the lease ran out: its reply does not renew it.
    pub(super) stale: bool,
    /// What is under way was sent in a session that was over by then: nobody will answer.
    pub(super) mute: bool,
}

impl Contender {
    pub(super) const IDLE: Self = Self {
        phase: Phase::Idle,
        abandoned: false,
        leaving: false,
        node: NONE,
        head: NONE,
        committed: NEVER,
        succeeded: false,
        floating: false,
        listed: NEVER,
        limit: 0,
        watch: Watch::Empty,
        watched: NONE,
        since: NEVER,
        limit_since: NEVER,
        stale: false,
        mute: false,
    };

    pub(super) fn is_at_rest(&self) -> bool {
        matches!(self.phase, Phase::Idle | Phase::Done)
    }

    /// Whether its user takes the lock for held, as long as its lease runs.
    pub(super) fn claims(&self) -> bool {
        self.phase == Phase::Holding && !self.abandoned
    }
}

/// A session, and its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Session {
    /// A connection is there.
    pub(super) up: bool,
    /// How much of the history it has seen.
    pub(super) view: Time,
    /// The lease runs, by the client's clock.
    pub(super) lease: bool,
    /// When the servers ended it, unknown to the client.
    pub(super) expired: Time,
}

impl Session {
    pub(super) const NEW: Self = Self {
        up: true,
        view: 0,
        lease: true,
        expired: NEVER,
    };

    pub(super) fn lives(self) -> bool {
        self.expired == NEVER
    }
}

/// What the limit is from some point of the history on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Limit {
    pub(super) value: u8,
    pub(super) born: Time,
}

/// The world.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct State {
    pub(super) contenders: [Contender; CONTENDERS],
    pub(super) sessions: [Session; CONTENDERS],
    pub(super) nodes: [Node; NODES],
    pub(super) node_count: u8,
    pub(super) limits: [Limit; LIMITS],
    pub(super) limit_count: u8,
    /// How many transactions there were.
    pub(super) now: Time,
    /// What may still go wrong.
    pub(super) faults: Faults,
    /// How often the limit may still be changed.
    pub(super) changes: u8,
    /// What was seen to be wrong in the last step.
    pub(super) violation: Option<Violation>,
}

impl State {
    pub(super) fn initial(scenario: &Counted) -> Self {
        let (value, changes) = match scenario.recipe {
            Recipe::Plain => (1, 0),
            Recipe::Semaphore { limit, changes } => (limit, changes.unwrap_or(0)),
        };
        Self {
            contenders: [Contender::IDLE; CONTENDERS],
            sessions: [Session::NEW; CONTENDERS],
            nodes: [Node::NOBODY; NODES],
            node_count: 0,
            limits: [Limit { value, born: 0 }; LIMITS],
            limit_count: 1,
            now: 0,
            faults: scenario.faults,
            changes,
            violation: None,
        }
    }

    pub(super) fn nodes(&self) -> impl Iterator<Item = (NodeIndex, Node)> {
        (0..).zip(self.nodes[..usize::from(self.node_count)].iter().copied())
    }

    /// The nodes of this sort at that point of the history.
    pub(super) fn shown(&self, what: What, view: Time) -> impl Iterator<Item = (NodeIndex, Node)> {
        let nodes = self.nodes();
        nodes.filter(move |(_, node)| node.what == what && node.is_shown(view))
    }

    pub(super) fn node(&self, index: NodeIndex) -> Node {
        self.nodes[usize::from(index)]
    }

    pub(super) fn limits(&self) -> &[Limit] {
        &self.limits[..usize::from(self.limit_count)]
    }

    /// The limit at that point of the history.
    pub(super) fn limit_at(&self, view: Time) -> u8 {
        let mut before = self.limits().iter().filter(|limit| limit.born <= view);
        before.next_back().map_or(0, |limit| limit.value)
    }

    pub(super) fn is_over(&self) -> bool {
        let mut contenders = self.contenders.iter();
        contenders.all(|contender| contender.phase == Phase::Done)
            && !self.nodes().any(|(_, node)| node.is_live() && node.leaving)
    }

    /// Another node, created by the transaction that comes next.
    pub(super) fn create(&mut self, owner: usize, what: What) -> NodeIndex {
        self.now += 1;
        let index = self.node_count;
        self.nodes[usize::from(index)] = Node {
            what,
            owner: u8::try_from(owner).expect("few contenders"),
            born: self.now,
            died: NEVER,
            ..Node::NOBODY
        };
        self.node_count += 1;
        index
    }

    /// Whether the node was there.
    pub(super) fn delete(&mut self, index: NodeIndex) -> bool {
        let is_live = self.node(index).is_live();
        if is_live {
            self.now += 1;
            self.nodes[usize::from(index)].died = self.now;
        }
        is_live
    }
}
