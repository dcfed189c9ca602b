//! The contenders of one client in one queue: a crowd from two of them on. What a listing proves is
//! the shipped [`Listing`]. The code around it is that of `crowd` and `waiter` in the recipes.
//!
//! Not modelled: how a client chooses who lists the queue, and how large a crowd must be. Each
//! contender may list, or follow any task of its client ahead: when it has entered, and when the
//! one that it waited for has left. Nor the look of one that waits behind a few: of three contenders,
//! nobody is ahead of the nearest one then.

use lockkeeper_recipes::{decisions::listing::Listing, rank::Kind};

use crate::{
    decide,
    history::{NEVER, Time},
    name::Name,
    scenario::{Role, Scenario},
    state::{Contender, Decider, Event, Phase, Request, State},
};

/// What a contender may do where it would list the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    List,
    /// It waits for this one of its client.
    Follow(Name),
    /// It waits behind the few that may be ahead.
    Narrow,
}

/// All that it may do.
pub(crate) fn choices(
    state: &State,
    scenario: &Scenario,
    i: usize,
) -> impl Iterator<Item = Choice> {
    let own = state.contenders[i].node();
    let few = kind(scenario, i).and(own).map(|_| Choice::Narrow);
    let ahead = ahead(state, scenario, i, own).map(Choice::Follow);
    [Choice::List].into_iter().chain(ahead).chain(few)
}

/// Its kind, if its client has other contenders in the queue.
fn kind(scenario: &Scenario, i: usize) -> Option<Kind> {
    let is_crowd = scenario.tasks(scenario.clients[i]).count() > 1;
    match scenario.roles[i] {
        Role::Queue(kind @ Kind::Mutex) if is_crowd => Some(kind),
        _ => None,
    }
}

/// The nodes of its client ahead of the one that the present reply tells it of.
pub(crate) fn ahead_of_created(
    state: &State,
    scenario: &Scenario,
    i: usize,
) -> impl Iterator<Item = Name> {
    let contender = &state.contenders[i];
    let own = match contender.request {
        Request::Create if contender.committed != NEVER => Some(contender.created),
        Request::Check(name) => Some(name),
        _ => None,
    };
    ahead(state, scenario, i, own)
}

/// The nodes of its client ahead of this one.
pub(crate) fn ahead(
    state: &State,
    scenario: &Scenario,
    i: usize,
    own: Option<Name>,
) -> impl Iterator<Item = Name> {
    let own = kind(scenario, i).and(own);
    let tasks = scenario.tasks(scenario.clients[i]);
    let nodes = tasks.filter_map(|task| state.contenders[task].node());
    nodes.filter(move |node| own.is_some_and(|own| node.number < own.number))
}

/// Its node is there. It waits for this one ahead, and lists nothing.
pub(crate) fn follow(after: &mut State, scenario: &Scenario, i: usize, nearest: Name) {
    let contender = &mut after.contenders[i];
    let (Phase::Deciding, Some(own)) = (contender.phase, contender.node()) else {
        return;
    };
    let Decider::Queue(mut turn) = contender.turn else {
        return;
    };
    let missing = turn.follow(&own, nearest);
    contender.turn = Decider::Queue(turn);
    contender.read = None;
    decide::watch(contender, &turn, own, &missing);
    contender.is_stale = false;
    contender.is_mute = !after.sessions[scenario.clients[i]].lives();
}

/// It has listed the queue, as it was at this point of the history. It had asked on this
/// connection.
pub(crate) fn listed(
    after: &mut State,
    scenario: &Scenario,
    i: usize,
    connection: u64,
    view: Time,
) {
    if let Some(kind) = kind(scenario, i) {
        let shown = after.shown_to(scenario.clients[i], view);
        let children = shown.map(|node| node.name);
        let listing = Listing::new(kind, connection, children);
        keep(after, scenario, i, &listing);
    }
}

/// One of its watches has fired.
pub(crate) fn told(after: &mut State, scenario: &Scenario, i: usize, event: Event) {
    if let Some(mut listing) = listing(after, scenario, i) {
        listing.event(event.name.as_ref(), event.is_deleted);
        keep(after, scenario, i, &listing);
    }
}

/// Whether the newest listing of its client proves that nobody is ahead, if it may use a listing of
/// that connection.
pub(crate) fn is_first(
    state: &State,
    scenario: &Scenario,
    i: usize,
    own: Name,
    may_use: impl Fn(u64) -> bool,
) -> bool {
    listing(state, scenario, i)
        .is_some_and(|listing| may_use(listing.connection()) && listing.is_first(own.as_ref()))
}

/// The few that may be ahead, if the newest listing of its client tells.
pub(crate) fn few_ahead(
    state: &State,
    scenario: &Scenario,
    i: usize,
    own: Name,
) -> Option<Vec<Name>> {
    listing(state, scenario, i)?.few_ahead(own.as_ref())
}

/// The newest listing.
fn listing(state: &State, scenario: &Scenario, i: usize) -> Option<Listing<Name>> {
    let session = &state.sessions[scenario.clients[i]];
    let nodes = session.listed.into_iter().flatten();
    kind(scenario, i).map(|kind| Listing::new(kind, session.listed_on, nodes))
}

fn keep(after: &mut State, scenario: &Scenario, i: usize, listing: &Listing<Name>) {
    let mut nodes = listing.nodes().copied();
    let session = &mut after.sessions[scenario.clients[i]];
    session.listed = std::array::from_fn(|_| nodes.next());
    session.listed_on = listing.connection();
    assert_eq!(nodes.next(), None, "each contender has one node");
}

impl State {
    /// Drops the end of the newest listing, which proves nothing to anybody: it shows no waiter of
    /// this client.
    pub(crate) fn forget_listing(&mut self, scenario: &Scenario, client: usize) {
        let waits = |contender: &Contender| {
            let is_waiting = matches!(contender.phase, Phase::Entering | Phase::Deciding);
            is_waiting && !contender.is_abandoned && !contender.is_lost
        };
        let is_of_waiter = |name: &Option<Name>| {
            let mut nodes = self.nodes().iter();
            let node = nodes.find(|node| Some(node.name) == *name && !node.is_place);
            node.is_some_and(|node| {
                let owner = usize::from(node.owner);
                scenario.clients[owner] == client && waits(&self.contenders[owner])
            })
        };
        let mut listed = self.sessions[client].listed;
        let last = listed.iter().rposition(is_of_waiter);
        listed[last.map_or(0, |last| last + 1)..].fill(None);
        self.sessions[client].listed = listed;
    }
}
