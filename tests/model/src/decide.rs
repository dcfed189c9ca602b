//! How a contender waits for its turn. What to do next is decided by [`Turn`], [`PlainTurn`] and
//! [`PermitTurn`]. The code around them is that of `waiter`, `plain`, `semaphore` and the tries of
//! `lock_queue` in the recipes, await by await.
//!
//! Not here: the life of the node (`client`).

use lockkeeper_recipes::{
    Loss,
    decisions::{
        life::Facts,
        permit_turn::{self, PermitTurn},
        plain_turn::{self, PlainTurn},
        turn::{self, Out, Turn},
    },
    rank::{Kind, Rank, is_contended, rank},
};

use crate::{
    client::{done, enter, give_up, gone, leave_queue},
    doubt,
    history::{NEVER, Time},
    name::Name,
    scenario::{Planted, Role, Scenario},
    state::{Decider, Node, Phase, Read, Reply, State, Watch},
    view,
    violation::Violation,
};

/// The watch on the own node, and the first of those ahead.
const OWN: usize = 0;
const AHEAD: usize = 1;

/// Whether its future does something when it is polled.
pub(crate) fn may_poll(state: &State, scenario: &Scenario, i: usize) -> bool {
    let contender = &state.contenders[i];
    match contender.read {
        Some((_, Reply::Pending)) => contender.is_lost,
        Some(_) => true,
        None => {
            let is_plain_ours = contender.turn == Decider::Plain(PlainTurn::Ours);
            let has_event = contender.events[0].is_some() || contender.is_change_told;
            let rests = contender.rests && !view::is_active(state, scenario, i);
            let is_woken = contender.rests && !rests;
            is_woken || (contender.is_lost && !rests) || has_event || is_plain_ours
        }
    }
}

/// Submits a read.
pub(crate) fn ask(after: &mut State, scenario: &Scenario, i: usize, read: Read) {
    let is_mute = !after.sessions[scenario.clients[i]].lives();
    let contender = &mut after.contenders[i];
    contender.read = Some((read, Reply::Pending));
    contender.is_stale = false;
    contender.is_mute = is_mute;
}

/// Whether its place in the queue of the semaphore is the first one, or gone. Who is first at some
/// point of the history is so from then on, and the create that follows shows the session
/// everything. So it is the same whether a server lags here, or the turn comes later.
pub(crate) fn has_turn(state: &State, scenario: &Scenario, i: usize) -> bool {
    let session = &state.sessions[scenario.clients[i]];
    let has_session = session.is_up && session.lives() && session.has_lease;
    has_session && matches!(rank_of_place(state, i), Rank::First | Rank::Gone)
}

fn rank_of_place(state: &State, i: usize) -> Rank<'_> {
    let places = state
        .nodes()
        .iter()
        .filter(|node| node.is_place && node.is_live());
    let place = state.contenders[i].place.as_ref().expect("its place");
    let names = places.map(|node| node.name.as_ref());
    rank(Kind::Mutex, names, place.as_ref())
}

/// Polls its future.
pub(crate) fn poll(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &after.contenders[i];
    match (contender.phase, contender.turn) {
        (Phase::Queueing, _) if rank_of_place(after, i) == Rank::Gone => done(after, i),
        (Phase::Queueing, _) => enter(after, scenario, i),
        (Phase::Trying, _) => look_before(after, scenario, i),
        (_, Decider::Queue(turn)) => queue(after, scenario, i, turn),
        (_, Decider::Plain(_)) => plain(after, scenario, i),
        (_, Decider::Permit(turn)) => permit(after, scenario, i, turn),
        (_, Decider::Nothing) => {}
    }
}

/// What it knows of its session.
pub(crate) fn facts(after: &State, scenario: &Scenario, i: usize) -> Facts {
    let is_lost = after.contenders[i].is_lost;
    Facts {
        session_loss: is_lost.then_some(Loss::Expired),
        is_lease_good: after.sessions[scenario.clients[i]].has_lease && !is_lost,
    }
}

/// The read that a try begins with. It creates nothing when somebody is in the way.
fn look_before(after: &mut State, scenario: &Scenario, i: usize) {
    let Some((_, Reply::At(view))) = after.contenders[i].read.take() else {
        return;
    };
    if is_in_the_way(after, scenario, i, view) {
        done(after, i);
    } else {
        after.contenders[i].saw_free = true;
        enter(after, scenario, i);
    }
}

/// Whether somebody, at this point of the history, is in the way of one who comes now.
pub(crate) fn is_in_the_way(state: &State, scenario: &Scenario, i: usize, view: Time) -> bool {
    let mut shown = state.shown_to(scenario.clients[i], view);
    match scenario.roles[i] {
        Role::Queue(kind) => is_contended(kind, shown.map(|node| node.name.as_ref())),
        Role::Plain | Role::Permit => shown.next().is_some(),
    }
}

/// It has entered the queue, and its client chooses that it makes no listing behind its create.
pub(crate) fn enter_unlisted(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    if let (Phase::Deciding, Decider::Queue(turn)) = (contender.phase, contender.turn) {
        contender.read = None;
        view::enter(after, i);
        let since = after.sessions[scenario.clients[i]].view;
        settle(after, scenario, i, turn, since);
    }
}

/// A waiter in a queue.
fn queue(after: &mut State, scenario: &Scenario, i: usize, mut turn: Turn<Name>) {
    let own = after.contenders[i].node().expect("its node");
    let client = scenario.clients[i];
    doubt::listed(after, scenario, i);
    // The point of the history at which its turn has come.
    let mut since = after.sessions[client].view;
    let mut gives_way = false;
    let handled = match after.contenders[i].read.take() {
        _ if after.contenders[i].is_lost => Ok(false),
        Some((Read::Each(_), Reply::Lost)) => {
            turn.forget();
            Ok(false)
        }
        Some((read, Reply::Lost)) => return ask(after, scenario, i, read),
        Some((Read::Each(nodes), Reply::At(view))) => {
            for node in nodes.into_iter().flatten() {
                if after.node_shown(client, node, view).is_none() {
                    view::gone(after, scenario, i, node);
                }
            }
            turn.looked();
            Ok(false)
        }
        Some((Read::Renew, Reply::At(view))) => {
            since = view;
            turn.confirmed();
            let shown = after.node_shown(client, own, view);
            shown.map(|_| false).ok_or(Out::Lost(Loss::Deleted))
        }
        Some((_, Reply::At(view))) => {
            since = view;
            let shown = after.shown_to(client, view);
            let shown = shown.map(|node| node.name.as_ref());
            gives_way = scenario.is_planted(after, Planted::GivesWay) && shown.clone().count() > 1;
            turn.listed(shown, &own).map(|listed| {
                let is_placed = std::mem::replace(&mut after.contenders[i].is_placed, true);
                let is_refused = scenario.tries[i] && !is_placed && listed.ahead > 0;
                view::listed(after, scenario, i, view, &listed);
                is_refused
            })
        }
        _ => Ok(false),
    };
    match handled {
        Ok(false) => {}
        Ok(true) => return give_up(after, scenario, i),
        Err(Out::Lost(_)) => return gone(after, i),
        Err(Out::Exhausted) => unreachable!("the numbers are small"),
    }
    while let Some(event) = after.contenders[i].take_event() {
        gives_way |= scenario.is_planted(after, Planted::EntersAgain);
        if event.is_deleted {
            view::gone(after, scenario, i, event.name);
        }
        match turn.event(event.name.as_ref(), event.is_deleted, own.as_ref()) {
            Ok(true) => after.contenders[i].watches[OWN] = Watch::Requested(own),
            Ok(false) => {}
            Err(_) => return gone(after, i),
        }
    }
    if gives_way {
        return give_up(after, scenario, i);
    }
    settle(after, scenario, i, turn, since);
}

/// Does what is to be done, until it waits for something. If its turn has come, then at this point of
/// the history.
fn settle(after: &mut State, scenario: &Scenario, i: usize, mut turn: Turn<Name>, since: Time) {
    let own = after.contenders[i].node().expect("its node");
    let next = loop {
        match view::next(after, scenario, i, &mut turn) {
            Ok(turn::Next::Watch(missing)) => watch(after, scenario, i, &turn, &missing),
            next => break next,
        }
    };
    after.contenders[i].turn = Decider::Queue(turn);
    match next {
        Err(_) => gone(after, i),
        Ok(turn::Next::Grant) => {
            if after.died(own) <= since {
                after.violation = Some(Violation::GrantedWithoutNode);
            }
            hold(after, scenario, i);
        }
        Ok(turn::Next::List) => ask(after, scenario, i, Read::Look),
        Ok(turn::Next::Look(nodes)) => {
            let mut nodes = nodes.into_iter();
            let each = Read::Each(std::array::from_fn(|_| nodes.next()));
            assert_eq!(nodes.next(), None, "few are ahead");
            ask(after, scenario, i, each);
        }
        Ok(turn::Next::Renew) => ask(after, scenario, i, Read::Renew),
        Ok(turn::Next::Watch(_)) => unreachable!("it was done"),
        Ok(turn::Next::Wait) if scenario.tries[i] => after.violation = Some(Violation::TryWaits),
        Ok(turn::Next::Wait) if scenario.is_planted(after, Planted::NeverWaits) => {
            ask(after, scenario, i, Read::Look);
        }
        Ok(turn::Next::Wait) => {}
    }
}

/// Gives up the watches that are of no use any more, and requests those that are missing.
fn watch(after: &mut State, scenario: &Scenario, i: usize, turn: &Turn<Name>, missing: &[Name]) {
    let is_mute = !after.sessions[scenario.clients[i]].lives();
    let contender = &mut after.contenders[i];
    let own = contender.node().expect("its node");
    for watch in &mut contender.watches {
        let name = watch.name();
        if name.is_some_and(|name| !turn.watches(name.as_ref(), own.as_ref())) {
            *watch = Watch::Empty;
        }
    }
    for name in missing {
        let at = if *name == own { OWN } else { AHEAD };
        let mut free = contender.watches.iter_mut().skip(at);
        let free = free.find(|watch| **watch == Watch::Empty);
        *free.expect("three nodes are watched") = Watch::Requested(*name);
    }
    if !missing.is_empty() {
        contender.is_stale = false;
        contender.is_mute = is_mute;
    }
}

/// A contender for the plain lock.
pub(crate) fn plain(after: &mut State, scenario: &Scenario, i: usize) {
    let contender = &mut after.contenders[i];
    let Decider::Plain(mut turn) = contender.turn else {
        return;
    };
    if contender.take_event().is_some() {
        turn.event();
    }
    match contender.read.take() {
        Some((read, Reply::Lost)) if !contender.is_lost => return ask(after, scenario, i, read),
        Some((_, Reply::At(view))) => {
            let shown = after.node_shown(scenario.clients[i], Name::PLAIN, view);
            let is_ours = |node: &Node| usize::from(node.owner) == i && !node.is_former;
            if !shown.is_some_and(is_ours) {
                return gone(after, i);
            }
        }
        _ => {}
    }
    match turn.next(&facts(after, scenario, i)) {
        Err(_) => gone(after, i),
        Ok(plain_turn::Next::Grant) => hold(after, scenario, i),
        Ok(plain_turn::Next::Create) => enter(after, scenario, i),
        Ok(plain_turn::Next::Renew) => ask(after, scenario, i, Read::Renew),
        Ok(plain_turn::Next::Wait) => {
            let is_mute = !after.sessions[scenario.clients[i]].lives();
            let contender = &mut after.contenders[i];
            contender.watches[AHEAD] = Watch::Requested(Name::PLAIN);
            contender.is_stale = false;
            contender.is_mute = is_mute;
        }
    }
}

/// The first waiter of a semaphore, whose permit exists.
fn permit(after: &mut State, scenario: &Scenario, i: usize, mut turn: PermitTurn) {
    let own = after.contenders[i].node().expect("its permit");
    doubt::listed(after, scenario, i);
    let read = after.contenders[i].read.take();
    if let Some((Read::Renew, Reply::At(view))) = read
        && after.node_at(own, view).is_none()
    {
        return gone(after, i);
    }
    let contender = &mut after.contenders[i];
    match read {
        _ if contender.is_lost => {}
        Some((read @ (Read::Limit | Read::Renew), Reply::Lost)) => {
            return ask(after, scenario, i, read);
        }
        Some((read @ (Read::Look | Read::WatchedPermits), Reply::At(view))) => {
            let is_watched = read == Read::WatchedPermits;
            turn.listed(is_watched);
            contender.permits_at = view;
            contender.permits_since = if is_watched { view } else { NEVER };
        }
        Some((Read::Limit, Reply::At(view))) => {
            contender.limit_since = view;
            match count(after, scenario, &mut turn, i, own, view) {
                Ok(()) => {}
                Err(permit_turn::Out::Lost(_)) => return gone(after, i),
                Err(permit_turn::Out::OverLimit) => return give_up(after, scenario, i),
            }
        }
        _ => {}
    }
    if std::mem::take(&mut after.contenders[i].is_change_told) {
        let view = after.sessions[scenario.clients[i]].view;
        let place = after.contenders[i].place;
        if place.is_some_and(|place| after.place_died(place) <= view) {
            return give_up(after, scenario, i);
        }
        turn.changed();
        after.contenders[i].permits_since = NEVER;
        after.contenders[i].limit_since = NEVER;
    }
    let mut next = turn.next(&facts(after, scenario, i));
    if next == Ok(permit_turn::Next::ReadLimit) && scenario.limit_changes.is_none() {
        if count(after, scenario, &mut turn, i, own, 0).is_err() {
            return gone(after, i);
        }
        next = turn.next(&facts(after, scenario, i));
    }
    after.contenders[i].turn = Decider::Permit(turn);
    match next {
        Err(_) => gone(after, i),
        Ok(permit_turn::Next::Grant) => {
            check_grant(after, scenario, i, own);
            hold(after, scenario, i);
        }
        Ok(permit_turn::Next::List) => ask(after, scenario, i, Read::WatchedPermits),
        Ok(permit_turn::Next::ReadLimit) => ask(after, scenario, i, Read::Limit),
        Ok(permit_turn::Next::Renew) => ask(after, scenario, i, Read::Renew),
        Ok(permit_turn::Next::Wait) => {}
    }
}

/// Counts the permits as they were listed, with the limit at this point of the history.
fn count(
    after: &State,
    scenario: &Scenario,
    turn: &mut PermitTurn,
    i: usize,
    own: Name,
    limit_at: Time,
) -> Result<(), permit_turn::Out> {
    let listed = after.shown_to(scenario.clients[i], after.contenders[i].permits_at);
    let names = listed.map(|node| node.name.as_ref());
    let limit = usize::from(after.limit_at(limit_at));
    turn.counted(names, [own.as_ref()], limit)
}

/// The permit was listed, there was room at some point since, and nobody who came before still
/// waits.
fn check_grant(after: &mut State, scenario: &Scenario, i: usize, own: Name) {
    let contender = after.contenders[i];
    if after.node_at(own, contender.permits_at).is_none() {
        after.violation = Some(Violation::GrantedWithoutNode);
    }
    // A permit may be in nobody's hands: it is deleted as soon as it is known.
    let is_in_use = |node: &&Node| {
        let owner = &after.contenders[usize::from(node.owner)];
        let is_wanted = owner.place.is_some() || owner.phase == Phase::Holding;
        !owner.is_abandoned && !node.is_former && is_wanted
    };
    let is_within_limit = |view: Time| {
        let count = after.shown(view).filter(is_in_use).count();
        count <= usize::from(after.limit_at(view))
    };
    if !(contender.permits_at..=after.now).any(is_within_limit) {
        after.violation = Some(Violation::TooMany);
    }
    let places = after
        .nodes()
        .iter()
        .filter(|node| node.is_place && node.is_live());
    let first = places
        .filter(|node| !node.is_leaving)
        .min_by_key(|node| node.name);
    let is_first = first.is_none_or(|first| Some(first.name) == contender.place);
    if !is_first && scenario.faults.by_hand == 0 {
        after.violation = Some(Violation::Overtaken);
    }
}

fn hold(after: &mut State, scenario: &Scenario, i: usize) {
    leave_queue(after, i);
    let is_over = !after.sessions[scenario.clients[i]].lives();
    let contender = &mut after.contenders[i];
    if is_over || contender.is_lost {
        after.violation = Some(Violation::GrantedAfterExpiry);
    }
    contender.end_turn();
    contender.phase = Phase::Holding;
}
