//! Which states are one and the same: what cannot matter any more is forgotten, and the rest is
//! renamed.

use std::cmp::Reverse;

use crate::{
    history::{NEVER, Time, Times},
    late,
    name::{Marker, Name},
    scenario::{CONTENDERS, Scenario},
    server::last_shown,
    state::{Contender, Decider, NODES, Node, Phase, Read, Reply, Request, Session, State, Watch},
};

impl Contender {
    /// Forgets what is not looked at any more.
    fn forget(&mut self, scenario: &Scenario, i: usize, has_lease: bool) {
        if self.is_at_rest() {
            let (phase, floating) = (self.phase, self.floating);
            *self = Self::idle(scenario.roles[i]);
            self.phase = phase;
            if scenario.late.is_some() {
                self.floating = floating;
            }
            return;
        }
        if self.committed == NEVER {
            self.succeeded = false;
        }
        if !matches!(self.request, Request::Create | Request::Replace(_)) {
            self.created = Name::PLAIN;
        }
        let is_requested = self.watches.iter().any(|watch| watch.is_requested());
        let is_reading = matches!(self.read, Some((_, Reply::Pending)));
        let is_waiting = self.request != Request::Nothing || is_reading || is_requested;
        self.is_stale &= is_waiting && !has_lease;
        self.is_mute &= is_waiting;
        self.saw_free &= self.life.node().is_none();
        self.is_placed &= scenario.tries[i];
        match self.read {
            Some((Read::Look | Read::WatchedPermits, _)) => {
                self.permits_at = NEVER;
                self.permits_since = NEVER;
                self.limit_since = NEVER;
            }
            Some((Read::Limit, _)) => self.limit_since = NEVER,
            // The room that was found is still to be granted.
            Some((Read::Each(_) | Read::Renew, _)) => {}
            // A long wait ends with a look at each permit of the listing.
            None if scenario.has_doubts() => {}
            None => self.permits_at = NEVER,
        }
        if self.is_change_told {
            self.permits_since = NEVER;
            self.limit_since = NEVER;
        }
        // The order of the watches ahead matters in one request only, and is this one there.
        self.watches[1..].sort_by_key(|watch| Reverse((watch.name(), *watch)));
    }

    /// Whether it matters how much its session has seen. Otherwise a write comes first, which shows
    /// it everything.
    fn reads(&self, is_try: bool) -> bool {
        match self.phase {
            Phase::Trying | Phase::Deciding => true,
            Phase::Idle => is_try,
            Phase::Entering | Phase::Leaving => matches!(self.request, Request::Check(_)),
            Phase::Queueing | Phase::Holding | Phase::Done => false,
        }
    }
}

impl State {
    /// The one state that stands for all that differ only in what cannot matter.
    pub(crate) fn canonical(mut self, scenario: &Scenario) -> Self {
        for i in 0..CONTENDERS {
            let has_lease = self.sessions[scenario.clients[i]].has_lease;
            self.contenders[i].forget(scenario, i, has_lease);
        }
        for client in 0..CONTENDERS {
            late::forget(&mut self, scenario, client);
            self.forget_listing(scenario, client);
            self.forget_session(scenario, client);
            let mut tasks = scenario.tasks(client);
            let is_over = |task: usize| self.contenders[task].phase == Phase::Done;
            if self.faults.again == 0 && tasks.all(is_over) {
                self.lay_ghosts(client);
            }
        }
        self.forget_nodes();
        self.forget_limits();
        let earliest = self.earliest();
        self.rename_times(earliest);
        self.sort_nodes();
        self
    }

    fn forget_session(&mut self, scenario: &Scenario, client: usize) {
        let Session {
            connection, is_up, ..
        } = self.sessions[client];
        let connection = u64::from(connection);
        for task in scenario.tasks(client) {
            if let Decider::Queue(turn) = &mut self.contenders[task].turn {
                turn.renumber(|on| u64::from(is_up && on == connection));
            }
        }
        let tasks = || {
            scenario
                .tasks(client)
                .map(|task| (task, &self.contenders[task]))
        };
        let reads = tasks().any(|(task, contender)| contender.reads(scenario.tries[task]));
        let committed = tasks().map(|(_, contender)| contender.committed).min();
        let mut session = self.sessions[client];
        session.connection = 1;
        if self.is_idle(scenario, client) {
            let Session {
                view, at, servers, ..
            } = session;
            session = Session {
                view,
                at,
                servers,
                ..Session::NEW
            };
        }
        if !reads {
            session.view = committed.unwrap_or(NEVER).min(self.now);
        }
        self.sessions[client] = session;
    }

    /// Whether the server of this client has yet to show it something that may matter to it.
    pub(crate) fn lags(&self, scenario: &Scenario, client: usize) -> bool {
        let session = self.sessions[client];
        let mut tasks = scenario.tasks(client);
        let reads = tasks.any(|task| self.contenders[task].reads(scenario.tries[task]));
        session.is_up && reads && session.view < last_shown(self, session)
    }

    /// Drops the nodes that no reply can show any more and that no contender names.
    fn forget_nodes(&mut self) {
        let earliest = self.earliest();
        let mut named = Vec::with_capacity(NODES);
        for contender in &mut self.contenders {
            contender.each_name(|name| named.push(*name));
        }
        let (old, count) = (self.nodes, usize::from(self.node_count));
        self.nodes = [Node::NOBODY; NODES];
        self.node_count = 0;
        for mut node in old.into_iter().take(count) {
            let is_named = node.name != Name::PLAIN && named.contains(&node.name);
            // Nobody looks back at former places in the queue of a semaphore.
            let is_shown =
                node.is_live() || node.ghost != 0 || (node.died > earliest && !node.is_place);
            if is_named || is_shown {
                if node.is_place {
                    node.born = 0;
                }
                self.nodes[usize::from(self.node_count)] = node;
                self.node_count += 1;
            }
        }
    }

    /// Drops the limits that no reply can show any more.
    fn forget_limits(&mut self) {
        let earliest = self.earliest();
        let before = self.limits().iter().filter(|limit| limit.born <= earliest);
        let dropped = before.count().saturating_sub(1);
        self.limits.rotate_left(dropped);
        self.limit_count -= u8::try_from(dropped).expect("few limits");
        let last = self.limits[usize::from(self.limit_count) - 1];
        self.limits[usize::from(self.limit_count)..].fill(last);
    }

    /// The earliest point of the history that a reply or an event can still show.
    fn earliest(&self) -> Time {
        let contenders = self.contenders.iter().flat_map(|contender| {
            let shown = match contender.read {
                Some((_, Reply::At(view))) => view,
                _ => NEVER,
            };
            let permits = [contender.permits_at, contender.permits_since];
            let others = [shown, contender.committed, contender.limit_since];
            permits.into_iter().chain(others)
        });
        let views = self.sessions.iter().map(|session| session.view);
        contenders.chain(views).min().unwrap_or(0).min(self.now)
    }

    /// Sorts the nodes by number, and numbers them without gaps: only the order counts.
    fn sort_nodes(&mut self) {
        let count = usize::from(self.node_count);
        self.nodes[..count].sort_by_key(|node| (node.name, node.born));
        let mut numbers = 0_u64;
        let mut all_names = |visit: &mut dyn FnMut(&mut Name)| {
            for contender in &mut self.contenders {
                contender.each_name(&mut *visit);
            }
            let nodes = self.nodes[..count].iter_mut();
            nodes.for_each(|node| visit(&mut node.name));
            let known = self.sessions.iter_mut().flat_map(|it| &mut it.known.names);
            known.flatten().for_each(&mut *visit);
        };
        let is_numbered = |name: &Name| name.marker != Marker::Plain;
        all_names(&mut |name| {
            if is_numbered(name) {
                numbers |= 1 << name.number;
            }
        });
        all_names(&mut |name| {
            if is_numbered(name) {
                let lower = numbers & ((1 << name.number) - 1);
                name.number = u8::try_from(lower.count_ones()).expect("few numbers");
            }
        });
    }

    /// Contenders who are alike may change places: the one state that stands for all their orders.
    pub(crate) fn sorted(mut self, scenario: &Scenario) -> Self {
        let mut order: [usize; CONTENDERS] = std::array::from_fn(|i| i);
        let nodes_of = |i: usize| {
            let nodes = self.nodes().iter();
            nodes.fold(0, |mask, node| {
                mask << 1 | u16::from(usize::from(node.owner) == i)
            })
        };
        let key = |i: usize| {
            let session = self.sessions[scenario.clients[i]];
            (&self.contenders[i], session, nodes_of(i))
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
        self.contenders = order.map(|i| self.contenders[i]);
        if scenario.has_own_clients() {
            self.sessions = order.map(|i| self.sessions[i]);
        }
        for node in self.nodes_mut() {
            let owner = order.iter().position(|i| *i == usize::from(node.owner));
            node.owner = u8::try_from(owner.expect("a permutation")).expect("few contenders");
            if scenario.has_own_clients() {
                let clients = order.iter().rev();
                node.ghost = clients.fold(0, |mask, i| mask << 1 | node.ghost >> i & 1);
            }
        }
        self
    }
}

impl Times for State {
    fn each_event(&mut self, mut visit: impl FnMut(&mut Time)) {
        for session in &mut self.sessions {
            visit(&mut session.expired);
        }
        for node in self.nodes_mut() {
            // No reply shows that somebody has entered the queue of a semaphore.
            if !node.is_place {
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
            change(&mut contender.committed);
            change(&mut contender.permits_at);
            change(&mut contender.permits_since);
            change(&mut contender.limit_since);
            if let Some((_, Reply::At(view))) = &mut contender.read {
                change(view);
            }
            for watch in &mut contender.watches {
                if let Watch::Armed(_, born) = watch {
                    change(born);
                }
            }
        }
        for session in &mut self.sessions {
            change(&mut session.view);
            change(&mut session.expired);
        }
        for node in self.nodes_mut() {
            change(&mut node.born);
            change(&mut node.died);
        }
        for limit in &mut self.limits {
            change(&mut limit.born);
        }
    }
}
