//! Circles: runs without an end, in which a contender never ends.
//!
//! Such a run is a livelock only if it is fair to everybody. So the graph of all states is kept, and
//! its components are looked for. A component is a largest set of states in which a contender has
//! not ended, and in which each state can be reached from each other. A run that never ends stays in
//! one. For each party, below, a fair component has a step of this party, or a state in which this
//! party has nothing to do. A walk through all of them, for ever, passes nobody over ("weak
//! fairness"): the component is a livelock.
//!
//! Nobody is obliged to do what is not a step of a party: to fail, to come back, to become a reader.
//!
//! Not here: making the graph (`explore`).

use std::collections::VecDeque;

use crate::{
    action::Action,
    scenario::{CONTENDERS, Scenario},
    state::{Phase, State},
};

/// Those to whom a run is fair, a bit each. There is one of each kind for each contender or client.
type Parties = u32;

/// Starts, goes on when its future may be polled, and releases.
const TASK: usize = 0;
/// Commits and answers the requests of a contender.
const ANSWER: usize = 1;
/// Tells a contender of an event.
const EVENT: usize = 2;
/// A long wait, after which a contender asks.
const QUESTION: usize = 3;
/// Connects a client again, and ends connections that are of no use.
const CONNECTION: usize = 4;
/// Renews the lease of a client.
const PING: usize = 5;
/// Deletes the place of a contender in the queue of a semaphore.
const PLACE: usize = 6;
/// Raises the limit that is 0.
const OPERATOR: usize = 7;
/// Catches up: the server of a client.
const SERVER: usize = 8;

fn party(kind: usize, of: usize) -> Parties {
    1 << (kind * CONTENDERS + of)
}

/// The states that were reached, in their order, with all steps between them.
#[derive(Default)]
pub(crate) struct Graph {
    /// Which contenders have not ended, a bit each; and who has something to do.
    states: Vec<(u8, Parties)>,
    /// Where the steps of each state begin in `steps`.
    begins: Vec<usize>,
    /// Where each leads, and whose it is.
    steps: Vec<(u32, Parties)>,
}

/// A livelock: the state in which it begins, and the states after it, up to the same one.
pub(crate) struct Circle {
    pub(crate) start: u32,
    pub(crate) states: Vec<u32>,
}

impl Graph {
    /// The next state. Its steps are to be added.
    pub(crate) fn enter(&mut self, state: &State, scenario: &Scenario) {
        let has_place = |i: usize| {
            let mut nodes = state.nodes().iter();
            nodes.any(|node| node.is_live() && node.is_leaving && usize::from(node.owner) == i)
        };
        let ends = |i: &usize| state.contenders[*i].phase == Phase::Done && !has_place(*i);
        let waiting = (0..CONTENDERS).filter(|i| !ends(i));
        let lagging = (0..CONTENDERS).filter(|client| state.lags(scenario, *client));
        self.states.push((
            waiting.fold(0, |all, i| all | 1 << i),
            lagging.fold(0, |all, client| all | party(SERVER, client)),
        ));
        self.begins.push(self.steps.len());
    }

    /// A step of the state that was entered last.
    pub(crate) fn step(&mut self, [before, after]: [&State; 2], action: Action, to: u32) {
        let by = obliged(action, before);
        let view = |state: &State, client: usize| state.sessions[client].view;
        let shown = (0..CONTENDERS).filter(|it| view(before, *it) < view(after, *it));
        let shown = shown.fold(0, |all, client| all | party(SERVER, client));
        self.steps.push((to, by | shown));
        self.states.last_mut().expect("it was entered").1 |= by;
    }

    fn steps_of(&self, at: u32) -> &[(u32, Parties)] {
        let at = at as usize;
        let end = self.begins.get(at + 1).copied();
        &self.steps[self.begins[at]..end.unwrap_or(self.steps.len())]
    }

    /// How many components there are that a run need not leave, fair or not, over all contenders;
    /// and the first livelock.
    pub(crate) fn circles(&self) -> (usize, Option<Circle>) {
        let (mut count, mut found) = (0, None);
        for i in 0..CONTENDERS {
            self.components(1 << i, &mut |component, start| {
                let is_in = |at: u32| component[at as usize] == start;
                count += 1;
                if found.is_none() {
                    found = self.fair_walk(start, is_in);
                }
            });
        }
        (count, found)
    }

    /// Visits each component of states in which this contender has not ended, if a run can stay
    /// there: with a mark for each state in it, which is the number of one of them. (R. Tarjan,
    /// "Depth-first search and linear graph algorithms", 1972, without recursion.)
    fn components(&self, contender: u8, visit: &mut impl FnMut(&[u32], u32)) {
        const NEW: u32 = u32::MAX;
        let waits = |at: u32| self.states[at as usize].0 & contender != 0;
        let count = u32::try_from(self.states.len()).expect("few states");
        // When each was found, the earliest one that it leads back to, and its component.
        let (mut found, mut low) = (vec![NEW; count as usize], vec![NEW; count as usize]);
        let mut component = vec![NEW; count as usize];
        let (mut open, mut path, mut time) = (Vec::new(), Vec::new(), 0);
        for root in (0..count).filter(|at| waits(*at)) {
            if found[root as usize] == NEW {
                path.push((root, 0));
            }
            while let Some((at, next)) = path.pop() {
                let here = at as usize;
                if next == 0 {
                    (found[here], low[here]) = (time, time);
                    time += 1;
                    open.push(at);
                } else {
                    low[here] = low[here].min(low[self.steps_of(at)[next - 1].0 as usize]);
                }
                let steps = self.steps_of(at).iter().enumerate().skip(next);
                let mut down = None;
                for (number, (to, _)) in steps.filter(|(_, (to, _))| waits(*to)) {
                    if found[*to as usize] == NEW {
                        down = Some((number, *to));
                        break;
                    } else if component[*to as usize] == NEW {
                        low[here] = low[here].min(found[*to as usize]);
                    }
                }
                if let Some((number, to)) = down {
                    path.extend([(at, number + 1), (to, 0)]);
                } else if low[here] == found[here] {
                    let from = open.iter().rposition(|it| *it == at).expect("it is open");
                    let is_alone = from + 1 == open.len();
                    open.drain(from..)
                        .for_each(|it| component[it as usize] = at);
                    let is_loop = self.steps_of(at).iter().any(|(to, _)| *to == at);
                    if !is_alone || is_loop {
                        visit(&component, at);
                    }
                }
            }
        }
    }

    /// A way around a component that is fair to everybody: it visits, for each party, a state in which
    /// the party has nothing to do, or a step of the party.
    fn fair_walk(&self, start: u32, is_in: impl Fn(u32) -> bool) -> Option<Circle> {
        let (mut owed, mut states, mut at): (Parties, _, _) = (!0, Vec::new(), start);
        while owed != 0 {
            owed &= self.states[at as usize].1;
            let pays = |by: Parties, to: u32| owed & (by | !self.states[to as usize].1) != 0;
            if owed == 0 {
                break;
            }
            for (by, to) in self.walk(at, &is_in, pays)? {
                owed &= self.states[to as usize].1 & !by;
                states.push(to);
                at = to;
            }
        }
        if at != start || states.is_empty() {
            let back = self.walk(at, &is_in, |_, to| to == start);
            states.extend(back.into_iter().flatten().map(|(_, to)| to));
        }
        Some(Circle { start, states })
    }

    /// A shortest way from a state whose last step is like this: whose the steps are, and where they
    /// lead.
    fn walk(
        &self,
        start: u32,
        is_in: impl Fn(u32) -> bool,
        is_wanted: impl Fn(Parties, u32) -> bool,
    ) -> Option<Vec<(Parties, u32)>> {
        let mut from = std::collections::HashMap::new();
        let mut frontier = VecDeque::from([start]);
        while let Some(at) = frontier.pop_front() {
            for (to, by) in self.steps_of(at).iter().filter(|(to, _)| is_in(*to)) {
                if is_wanted(*by, *to) {
                    let mut way = vec![(*by, *to)];
                    let mut here = at;
                    while here != start {
                        let (before, by) = from[&here];
                        way.push((by, here));
                        here = before;
                    }
                    way.reverse();
                    return Some(way);
                }
                if *to != start && !from.contains_key(to) {
                    from.insert(*to, (at, *by));
                    frontier.push_back(*to);
                }
            }
        }
        None
    }
}

/// Whose step it is, if one has to take it sooner or later. The others are faults, or what users may do
/// or not.
pub(crate) fn obliged(action: Action, state: &State) -> Parties {
    match action {
        Action::Start(i) | Action::Poll(i) | Action::Release(i) => party(TASK, i),
        Action::Commit(i) | Action::Reply(i, _) => party(ANSWER, i),
        Action::Tell(i, _) | Action::TellChange(i) => party(EVENT, i),
        Action::Ask(i) => party(QUESTION, i),
        Action::Connect(client) | Action::Close(client) | Action::Leave(client) => {
            party(CONNECTION, client)
        }
        Action::Ping(client) => party(PING, client),
        Action::LeaveQueue(at) => party(PLACE, usize::from(state.nodes()[at].owner)),
        Action::RaiseLimit(_) => party(OPERATOR, 0),
        _ => 0,
    }
}
