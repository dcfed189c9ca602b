//! Which states are one and the same: whatever cannot matter any more is forgotten, and the rest is renamed.

use crate::{
    CONTENDERS,
    history::{NEVER, Time, Times},
};

use super::{
    scenario::Counted,
    state::{Contender, NODES, NONE, Node, NodeIndex, Phase, Session, State, Watch, What},
};

impl Contender {
    /// Forgets what its phase never looks at.
    fn forget(&mut self) {
        if self.is_at_rest() {
            *self = Self {
                phase: self.phase,
                ..Self::IDLE
            };
        }
        let counts = matches!(
            self.phase,
            Phase::Listing | Phase::Limiting | Phase::Counting | Phase::Waiting
        );
        if !counts {
            self.watch = Watch::Empty;
            self.since = NEVER;
            self.limit_since = NEVER;
            self.limit = 0;
        }
        if self.watch != Watch::Armed {
            self.watched = NONE;
        }
        if self.watch == Watch::Told {
            self.since = NEVER;
            self.limit_since = NEVER;
        }
        if matches!(self.phase, Phase::Holding | Phase::Deleting) {
            self.head = NONE;
        }
        self.leaving &= self.floating;
        if self.committed == NEVER {
            self.succeeded = false;
        }
        if self.phase == Phase::Waiting {
            self.listed = NEVER;
            self.limit = 0;
        }
    }

    /// Whether how much its session has seen can matter: otherwise a write comes first, which shows it everything.
    fn reads(&self, scenario: &Counted) -> bool {
        match self.phase {
            Phase::Trying
            | Phase::Checking
            | Phase::Known
            | Phase::Asking
            | Phase::Listing
            | Phase::Limiting
            | Phase::Counting
            | Phase::Waiting => true,
            Phase::Creating | Phase::Unknown | Phase::Finding => {
                scenario.takes(crate::Shortcut::PlainListing)
            }
            Phase::Idle | Phase::Lining | Phase::Holding | Phase::Deleting | Phase::Done => false,
        }
    }
}

impl State {
    /// The one state that stands for all that differ only in what cannot matter.
    pub(super) fn canonical(mut self, scenario: &Counted) -> Self {
        for contender in &mut self.contenders {
            contender.forget();
        }
        for client in 0..CONTENDERS {
            let tasks = || scenario.tasks(client).map(|task| &self.contenders[task]);
            let is_idle = tasks().all(Contender::is_at_rest);
            let reads = tasks().any(|task| task.reads(scenario));
            let committed = tasks().map(|task| task.committed).min().unwrap_or(NEVER);
            let leaves = self.nodes().any(|(_, node)| {
                let owner = scenario.clients[usize::from(node.owner)];
                node.is_live() && node.leaving && owner == client
            });
            if is_idle && !leaves {
                self.sessions[client] = Session::NEW;
            }
            if !reads {
                self.sessions[client].view = committed.min(self.now);
            }
        }
        self.forget_nodes();
        self.forget_limits();
        let earliest = self.earliest();
        self.rename_times(earliest);
        self
    }

    /// Drops the nodes that no look can show any more and that nobody names.
    fn forget_nodes(&mut self) {
        let earliest = self.earliest();
        let mut named = 0_u16;
        for contender in &self.contenders {
            for index in [contender.node, contender.head, contender.watched] {
                if index != NONE {
                    named |= 1 << index;
                }
            }
        }
        let mut places = [NONE; NODES];
        let mut kept = 0;
        for (index, place) in places
            .iter_mut()
            .enumerate()
            .take(usize::from(self.node_count))
        {
            let node = self.nodes[index];
            // Nobody looks back at who stood in the line.
            let is_shown = node.is_live() || (node.died > earliest && node.what != What::Head);
            if is_shown || named & (1 << index) != 0 {
                self.nodes[usize::from(kept)] = node;
                *place = kept;
                kept += 1;
            }
        }
        self.nodes[usize::from(kept)..].fill(Node::NOBODY);
        self.node_count = kept;
        for contender in &mut self.contenders {
            let rename = |index: &mut NodeIndex| {
                if *index != NONE {
                    *index = places[usize::from(*index)];
                }
            };
            rename(&mut contender.node);
            rename(&mut contender.head);
            rename(&mut contender.watched);
        }
        for node in &mut self.nodes {
            if node.what == What::Head {
                node.born = 0;
            }
            // Whose attempt it was is asked only of what may be looked for.
            node.former &= node.what != What::Head;
        }
    }

    /// Drops the limits that no look can show any more.
    fn forget_limits(&mut self) {
        let earliest = self.earliest();
        let before = self.limits().iter().filter(|limit| limit.born <= earliest);
        let dropped = before.count().saturating_sub(1);
        self.limits.rotate_left(dropped);
        self.limit_count -= u8::try_from(dropped).expect("few limits");
        let last = self.limits[usize::from(self.limit_count) - 1];
        self.limits[usize::from(self.limit_count)..].fill(last);
    }

    /// The earliest point of the history that anybody can still be shown, or be told of.
    fn earliest(&self) -> Time {
        let contenders = self.contenders.iter().flat_map(|contender| {
            let times = [contender.listed, contender.committed];
            times
                .into_iter()
                .chain([contender.since, contender.limit_since])
        });
        let views = self.sessions.iter().map(|session| session.view);
        contenders.chain(views).min().unwrap_or(0).min(self.now)
    }

    /// Contenders who are alike are as good as each other: the one state that stands for all orders of them.
    pub(super) fn sorted(mut self, scenario: &Counted) -> Self {
        let mut order: [usize; CONTENDERS] = std::array::from_fn(|index| index);
        // Nodes of former attempts are known to nobody: they tell apart whom nothing else does.
        let nodes_of = |task: usize| {
            let nodes = self
                .nodes()
                .filter(|(_, node)| usize::from(node.owner) == task);
            nodes.fold(0_u16, |all, (index, _)| all | 1 << index)
        };
        let key = |index: usize| {
            let session = self.sessions[scenario.clients[index]];
            (self.contenders[index], session, nodes_of(index))
        };
        for round in 1..CONTENDERS {
            for place in 0..CONTENDERS - round {
                let (one, other) = (order[place], order[place + 1]);
                if scenario.are_alike(place, place + 1) && key(other) < key(one) {
                    order.swap(place, place + 1);
                }
            }
        }
        if order.is_sorted() {
            return self;
        }
        self.contenders = order.map(|index| self.contenders[index]);
        let old = self.sessions;
        for (place, index) in order.into_iter().enumerate() {
            self.sessions[scenario.clients[place]] = old[scenario.clients[index]];
        }
        for node in &mut self.nodes[..usize::from(self.node_count)] {
            let owner = order
                .iter()
                .position(|index| *index == usize::from(node.owner));
            node.owner = u8::try_from(owner.expect("a permutation")).expect("few contenders");
        }
        self
    }
}

impl Times for State {
    fn each_event(&mut self, mut visit: impl FnMut(&mut Time)) {
        for session in &mut self.sessions {
            visit(&mut session.expired);
        }
        for node in &mut self.nodes[..usize::from(self.node_count)] {
            // That somebody has entered the line is not seen by those who read.
            if node.what != What::Head {
                visit(&mut node.born);
            }
            visit(&mut node.died);
        }
        for limit in &mut self.limits {
            visit(&mut limit.born);
        }
    }

    fn each_time(&mut self, mut change: impl FnMut(&mut Time)) {
        change(&mut self.now);
        for contender in &mut self.contenders {
            change(&mut contender.listed);
            change(&mut contender.committed);
            change(&mut contender.since);
            change(&mut contender.limit_since);
        }
        for session in &mut self.sessions {
            change(&mut session.view);
            change(&mut session.expired);
        }
        for node in &mut self.nodes[..usize::from(self.node_count)] {
            change(&mut node.born);
            change(&mut node.died);
        }
        for limit in &mut self.limits {
            change(&mut limit.born);
        }
    }
}
