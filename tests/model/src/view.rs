//! What one client knows of one queue, and who of its contenders asks the servers. What a listing
//! shows is the shipped [`Listing`], and what a contender does is the shipped [`Turn`]. The code
//! around them is that of `view` in the recipes.
//!
//! The contenders of a client share what it knows. Those that share nothing have a client each.
//!
//! Not modelled: how a client chooses who lists the queue. Each contender may list it behind its
//! create. If its client has others, it may also enter without a listing.

use lockkeeper_recipes::{
    Loss,
    decisions::{
        listing::Listing,
        turn::{Listed, Next, Turn},
    },
    rank::Kind,
};

use crate::{
    decide,
    history::Time,
    name::Name,
    scenario::{CONTENDERS, Role, Scenario},
    state::{Contender, Phase, Read, State},
};

/// How many nodes a listing shows: a node of each contender, and a ghost.
const LISTED: usize = CONTENDERS + 1;

/// The newest listing of a client, without the nodes that are known to be gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Known {
    left_out: u8,
    pub(crate) names: [Option<Name>; LISTED],
}

impl Known {
    pub(crate) const NONE: Self = Self {
        left_out: 0,
        names: [None; LISTED],
    };
}

/// Where a contender stands among those of its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Standing {
    /// It is not known to wait.
    Apart,
    Waiting,
    /// It waited, until its client learned that its node is gone.
    Removed,
}

/// Whether its client has other contenders.
pub(crate) fn is_shared(scenario: &Scenario, i: usize) -> bool {
    scenario.tasks(scenario.clients[i]).count() > 1
}

/// It waits.
pub(crate) fn enter(after: &mut State, i: usize) {
    let standing = &mut after.contenders[i].standing;
    if *standing == Standing::Apart {
        *standing = Standing::Waiting;
    }
}

/// It has listed the queue, as it was at this point of the history.
pub(crate) fn listed(
    after: &mut State,
    scenario: &Scenario,
    i: usize,
    view: Time,
    listed: &Listed<Name>,
) {
    if listed.ahead > 0 {
        enter(after, i);
    }
    let Some(own) = waiting(after, i) else {
        if after.contenders[i].standing == Standing::Removed {
            keep(after, scenario, i, &listed.near);
        }
        return;
    };
    let ours: Vec<_> = all_waiting(after, scenario, i).collect();
    if ours.len() == 1 {
        return keep(after, scenario, i, &listed.near);
    }
    let last = ours.iter().map(|(_, name)| *name).max();
    let last = last.filter(|_| !listed.is_mixed).unwrap_or(own);
    let shown = after.shown_to(scenario.clients[i], view);
    let shown = shown.map(|node| node.name);
    let listing = Listing::all(kind(scenario, i), last.as_ref(), shown);
    for (task, name) in ours {
        if name < own && !listing.shows(name.as_ref()) {
            after.contenders[task].standing = Standing::Removed;
        }
    }
    keep(after, scenario, i, &listing);
}

/// It was told that this node is gone.
pub(crate) fn gone(after: &mut State, scenario: &Scenario, i: usize, node: Name) {
    let mut listing = listing(after, scenario, i);
    listing.gone(node.as_ref());
    keep(after, scenario, i, &listing);
    let ours = all_waiting(after, scenario, i).find(|(_, name)| *name == node);
    if let Some((task, _)) = ours {
        after.contenders[task].standing = Standing::Removed;
    }
}

/// What it does next.
pub(crate) fn next(
    after: &mut State,
    scenario: &Scenario,
    i: usize,
    turn: &mut Turn<Name>,
) -> Result<Next<Name>, Loss> {
    let own = after.contenders[i].node().expect("its node");
    let facts = decide::facts(after, scenario, i);
    let rests = !turn.is_unknown() && !is_active(after, scenario, i);
    after.contenders[i].rests = rests;
    if rests {
        return facts.may_hold().map(|_| Next::Wait);
    }
    let session = &after.sessions[scenario.clients[i]];
    let connection = session.is_up.then_some(u64::from(session.connection));
    let is_ours =
        |node: &str| all_waiting(after, scenario, i).any(|(_, name)| name.as_ref() == node);
    let listing = listing(after, scenario, i);
    let ahead = listing.ahead(own.as_ref());
    turn.next(&facts, &own, ahead, connection, is_ours)
}

/// Whether it asks the servers.
pub(crate) fn is_active(state: &State, scenario: &Scenario, i: usize) -> bool {
    waiting(state, i).is_none_or(|_| ahead(state, scenario, i).count() < scenario.active)
}

/// The one of its client just ahead, while it waits for that one and for nothing else.
pub(crate) fn rests_behind(state: &State, scenario: &Scenario, i: usize) -> Option<Name> {
    let rests = state.contenders[i].rests;
    ahead(state, scenario, i).filter(|_| rests).max()
}

/// The nodes of its client that wait ahead of it.
fn ahead(state: &State, scenario: &Scenario, i: usize) -> impl Iterator<Item = Name> {
    let own = waiting(state, i);
    let names = all_waiting(state, scenario, i).map(|(_, name)| name);
    names.filter(move |name| own.is_some_and(|own| *name < own))
}

/// The contenders of its client that wait, with their nodes.
fn all_waiting(
    state: &State,
    scenario: &Scenario,
    i: usize,
) -> impl Iterator<Item = (usize, Name)> {
    let tasks = scenario.tasks(scenario.clients[i]);
    tasks.filter_map(|task| Some((task, waiting(state, task)?)))
}

/// Its node, if it waits.
fn waiting(state: &State, i: usize) -> Option<Name> {
    let contender = &state.contenders[i];
    let waits = contender.standing == Standing::Waiting;
    contender.node().filter(|_| waits)
}

fn kind(scenario: &Scenario, i: usize) -> Kind {
    match scenario.roles[i] {
        Role::Queue(kind) => kind,
        Role::Plain | Role::Permit => unreachable!("it is in no queue"),
    }
}

fn listing(state: &State, scenario: &Scenario, i: usize) -> Listing<Name> {
    let known = state.sessions[scenario.clients[i]].known;
    let names = known.names.into_iter().flatten();
    Listing::near(kind(scenario, i), usize::from(known.left_out), names)
}

fn keep(after: &mut State, scenario: &Scenario, i: usize, listing: &Listing<Name>) {
    let (left_out, mut names) = listing.parts();
    after.sessions[scenario.clients[i]].known = Known {
        left_out: u8::try_from(left_out).expect("few nodes"),
        names: std::array::from_fn(|_| names.next().copied()),
    };
    assert_eq!(names.next(), None, "each contender has one node");
}

impl State {
    /// Drops the end of the newest listing, which proves nothing to anybody: it shows nobody who will
    /// look at this listing. When nobody waits, the recipes drop all of it.
    pub(crate) fn forget_listing(&mut self, scenario: &Scenario, client: usize) {
        let looks = |contender: &Contender| {
            let is_waiting = matches!(contender.phase, Phase::Entering | Phase::Deciding);
            let lists = matches!(contender.read, Some((Read::Look, _)));
            is_waiting && !lists && !contender.is_abandoned && !contender.is_lost
        };
        let is_looked_at = |name: &Option<Name>| {
            let mut nodes = self.nodes().iter();
            let node = nodes.find(|node| Some(node.name) == *name && !node.is_place);
            node.is_some_and(|node| {
                let owner = usize::from(node.owner);
                scenario.clients[owner] == client && looks(&self.contenders[owner])
            })
        };
        let mut known = self.sessions[client].known;
        let last = known.names.iter().rposition(is_looked_at);
        let waits = scenario
            .tasks(client)
            .any(|task| waiting(self, task).is_some());
        match last.filter(|_| waits) {
            Some(last) => known.names[last + 1..].fill(None),
            None => known = Known::NONE,
        }
        self.sessions[client].known = known;
    }
}
