//! Which states are one and the same: whatever cannot matter any more is forgotten, and the rest is renamed.

use crate::{
    CONTENDERS,
    history::{Time, Times},
};

use super::{
    scenario::Line,
    state::{Contender, NODES, NONE, Node, NodeIndex, Phase, State},
};

impl State {
    /// The one state that stands for all that differ only in what cannot matter.
    pub(crate) fn canonical(mut self, scenario: &Line) -> Self {
        let now = self.now;
        for contender in &mut self.contenders {
            if contender.phase == Phase::Done || contender.phase == Phase::Idle {
                let phase = contender.phase;
                *contender = Contender {
                    phase,
                    ..Contender::IDLE
                };
            }
            if !contender.reads(scenario) {
                contender.view = now;
            }
            contender.forget();
        }
        self.forget_nodes();
        let earliest = self.earliest();
        self.rename_times(earliest);
        self.sort_nodes();
        self
    }

    /// Drops the nodes that no look can show any more and that nobody names.
    fn forget_nodes(&mut self) {
        let earliest = self.earliest();
        let mut named = 0_u16;
        let mut name = |index: NodeIndex| {
            if index != NONE {
                named |= 1 << index;
            }
        };
        for contender in &self.contenders {
            name(contender.node);
            name(contender.writer);
            name(contender.nearest_node);
            name(contender.second_node);
        }
        let mut places = [NONE; NODES];
        let mut kept = 0;
        for (index, place) in places
            .iter_mut()
            .enumerate()
            .take(usize::from(self.node_count))
        {
            if self.nodes[index].died > earliest || named & (1 << index) != 0 {
                self.nodes[usize::from(kept)] = self.nodes[index];
                *place = kept;
                kept += 1;
            }
        }
        self.nodes[usize::from(kept)..].fill(Node::NOBODY);
        self.node_count = kept;
        self.rename_nodes(&places);
    }

    fn rename_nodes(&mut self, places: &[NodeIndex; NODES]) {
        let rename = |index: &mut NodeIndex| {
            if *index != NONE {
                *index = places[usize::from(*index)];
            }
        };
        for contender in &mut self.contenders {
            rename(&mut contender.node);
            rename(&mut contender.writer);
            rename(&mut contender.nearest_node);
            rename(&mut contender.second_node);
        }
    }

    /// The earliest point of the history that anybody can still be shown.
    fn earliest(&self) -> Time {
        let times = self.contenders.iter().flat_map(|contender| {
            let listed = contender.listed;
            [contender.view, listed, contender.committed]
        });
        times.min().unwrap_or(self.now).min(self.now)
    }

    /// Contenders of one kind are as good as each other: the one state that stands for all orders of them.
    pub(crate) fn sorted(mut self, scenario: &Line) -> Self {
        let mut order: [usize; CONTENDERS] = std::array::from_fn(|index| index);
        for round in 1..CONTENDERS {
            for place in 0..CONTENDERS - round {
                let (one, other) = (order[place], order[place + 1]);
                let alike = scenario.are_alike(place, place + 1);
                if alike && self.contenders[other] < self.contenders[one] {
                    order.swap(place, place + 1);
                }
            }
        }
        if order.is_sorted() {
            return self;
        }
        self.contenders = order.map(|index| self.contenders[index]);
        for node in &mut self.nodes[..usize::from(self.node_count)] {
            let owner = order
                .iter()
                .position(|index| *index == usize::from(node.owner));
            node.owner = u8::try_from(owner.expect("a permutation")).expect("few contenders");
        }
        self
    }

    /// In the order of the line, numbered without gaps: only the order counts.
    fn sort_nodes(&mut self) {
        let count = usize::from(self.node_count);
        let mut order: [usize; NODES] = std::array::from_fn(|index| index);
        order[..count].sort_by_key(|index| {
            let node = &self.nodes[*index];
            (node.number, node.marker)
        });
        let old = self.nodes;
        let mut places = [NONE; NODES];
        let (mut number, mut last) = (0, NONE);
        for (place, index) in order[..count].iter().copied().enumerate() {
            if last != NONE && old[index].number != last {
                number += 1;
            }
            last = old[index].number;
            places[index] = NodeIndex::try_from(place).expect("few nodes");
            self.nodes[place] = Node {
                number,
                ..old[index]
            };
        }
        self.rename_nodes(&places);
    }
}

impl Times for State {
    fn each_time(&mut self, mut change: impl FnMut(&mut Time)) {
        change(&mut self.now);
        for contender in &mut self.contenders {
            change(&mut contender.view);
            change(&mut contender.listed);
            change(&mut contender.committed);
            change(&mut contender.expired);
        }
        for node in &mut self.nodes[..usize::from(self.node_count)] {
            change(&mut node.born);
            change(&mut node.died);
        }
    }
}
