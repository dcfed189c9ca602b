//! What the servers and the network do. What they tell is told at once: a reply under way is one that a server which lags
//! has yet to give.

use crate::{
    Shortcut, Violation,
    history::{NEVER, Time},
};

use super::{
    action::Action,
    client,
    scenario::Line,
    state::{Contender, Marker, NONE, Phase, State, Watch},
};

/// All that the servers and the network can do next.
pub(crate) fn each_step(state: &State, scenario: &Line, visit: &mut impl FnMut(Action, State)) {
    for (i, contender) in state.contenders.iter().enumerate() {
        let mut next = |action, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            visit(action, after);
        };
        if contender.up {
            connected_steps(state, scenario, i, &mut next);
        } else {
            next(Action::Connect(i), &|after| connect(after, i));
            if contender.floating {
                next(Action::CommitLate(i), &|after| {
                    after.contenders[i].floating = false;
                    write(after, scenario, i);
                });
            }
        }
        let is_at_rest = matches!(contender.phase, Phase::Idle | Phase::Done);
        if contender.lease && state.faults.pauses > 0 && !is_at_rest {
            next(Action::Pause(i), &|after| {
                after.faults.pauses -= 1;
                let contender = &mut after.contenders[i];
                contender.lease = false;
                contender.stale = contender.up;
            });
        }
        if !contender.lease && contender.expired == NEVER {
            next(Action::Expire(i), &|after| expire(after, i));
        }
    }
    by_hand(state, visit);
}

type Next<'a> = dyn FnMut(Action, &dyn Fn(&mut State)) + 'a;

fn connected_steps(state: &State, scenario: &Line, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let lives = contender.expired == NEVER;
    let awaits_write = contender.committed == NEVER;
    match contender.phase {
        Phase::Idle | Phase::Done => return,
        Phase::Creating | Phase::Deleting | Phase::Finding if awaits_write && lives => {
            if contender.phase == Phase::Finding && scenario.takes(Shortcut::PlainListing) {
                answer(state, scenario, i, next);
            } else {
                next(Action::Commit(i), &|after| write(after, scenario, i));
            }
        }
        Phase::Creating | Phase::Deleting if !awaits_write => {
            let view = contender.committed;
            next(Action::Reply(i, view), &|after| {
                renew(&mut after.contenders[i]);
                client::replied(after, scenario, i, view);
            });
        }
        Phase::Finding if !awaits_write => answer(state, scenario, i, next),
        Phase::Trying | Phase::Checking | Phase::Looking | Phase::Waiting => {
            answer(state, scenario, i, next);
            tell(state, i, next);
        }
        _ => {}
    }
    let is_quiet = match contender.phase {
        Phase::Holding | Phase::Waiting => true,
        Phase::Trying | Phase::Looking => contender.listed != NEVER,
        _ => false,
    };
    let pending = |watch: Watch| watch == Watch::Requested || watch.is_due();
    if is_quiet && !contender.lease && lives && !contender.has_watch(pending) {
        next(Action::Ping(i), &|after| after.contenders[i].lease = true);
    }
    if !lives {
        next(Action::Close(i), &|after| cut(after, scenario, i));
    } else if state.faults.cuts > 0 {
        next(Action::Cut(i), &|after| {
            after.faults.cuts -= 1;
            cut(after, scenario, i);
        });
    }
}

/// The reply to the first read under way, from every point of the history from which it may come.
fn answer(state: &State, scenario: &Line, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let watches = contender.has_watch(|watch| watch == Watch::Requested);
    let expected = match contender.phase {
        Phase::Trying => contender.listed == NEVER,
        Phase::Looking => watches || contender.listed == NEVER,
        Phase::Waiting => watches,
        _ => true,
    };
    if !expected || contender.mute || contender.has_watch(Watch::is_due) {
        return;
    }
    // A barrier that is committed shows all before it. Events that are older come first.
    let barrier = if contender.committed == NEVER {
        0
    } else {
        contender.committed
    };
    let from = contender.view.max(barrier);
    let events = armed(state, i).map(|(_, died)| died);
    let Some(to) = events
        .chain([last_shown(state, i) + 1])
        .min()
        .and_then(|end| end.checked_sub(1))
    else {
        return;
    };
    for view in (from..=to).rev() {
        next(Action::Reply(i, view), &|after| {
            let contender = &mut after.contenders[i];
            contender.view = view;
            renew(contender);
            if watches {
                leave_watches(after, scenario, i);
            } else {
                client::replied(after, scenario, i, view);
            }
        });
    }
}

/// The last point of the history that the session can be shown: nothing any more once it is over.
fn last_shown(state: &State, i: usize) -> Time {
    let expired = state.contenders[i].expired;
    if expired == NEVER {
        state.now
    } else {
        expired - 1
    }
}

/// The watches that are left on the server: which, and when their nodes die.
fn armed(state: &State, i: usize) -> impl Iterator<Item = (usize, Time)> {
    let watches = state.contenders[i].watches();
    let armed = watches.into_iter().enumerate();
    armed
        .filter(|(_, (watch, _))| *watch == Watch::Armed)
        .map(|(which, (_, node))| (which, state.node(node).died))
}

/// The events that can come next. The earliest transaction comes first, but for those that make up for an outage.
fn tell(state: &State, i: usize, next: &mut Next<'_>) {
    let contender = &state.contenders[i];
    let watches = contender.watches();
    let mut is_due = false;
    for (which, (watch, _)) in watches.into_iter().enumerate() {
        if watch.is_due() {
            is_due = true;
            next(Action::Tell(i, which), &|after| {
                let told = if watch == Watch::Due {
                    Watch::Gone
                } else {
                    Watch::GoneTooLate
                };
                *after.contenders[i].watch(which) = told;
            });
        }
    }
    let earliest = armed(state, i).map(|(_, died)| died).min();
    let Some(earliest) = earliest.filter(|died| !is_due && *died <= last_shown(state, i)) else {
        return;
    };
    for (which, died) in armed(state, i) {
        if died == earliest {
            next(Action::Tell(i, which), &|after| {
                let told = gone(after, i, which);
                let contender = &mut after.contenders[i];
                contender.view = contender.view.max(died);
                *contender.watch(which) = told;
            });
        }
    }
}

/// What the client is told when the watched node is gone.
fn gone(state: &State, i: usize, which: usize) -> Watch {
    let contender = &state.contenders[i];
    let (_, watched) = contender.watches()[which];
    if state.node(contender.node).died < state.node(watched).died {
        Watch::GoneTooLate
    } else {
        Watch::Gone
    }
}

/// The server leaves the watches, and tells of the nodes that are gone: in the order asked for, our own first, or, when
/// they are those of an earlier connection, in any order.
fn leave_watches(after: &mut State, scenario: &Line, i: usize) {
    for which in 0..3 {
        let contender = &after.contenders[i];
        let (watch, node) = contender.watches()[which];
        if watch != Watch::Requested {
            continue;
        }
        let left = if after.node(node).is_shown(contender.view) {
            Watch::Armed
        } else if scenario.takes(Shortcut::MissingIsNoEvent) {
            Watch::Empty
        } else {
            let told = gone(after, i, which);
            match (contender.same_connection, told) {
                (true, told) => told,
                (false, Watch::Gone) => Watch::Due,
                (false, _) => Watch::DueTooLate,
            }
        };
        *after.contenders[i].watch(which) = left;
    }
}

/// A reply to what was sent after the lease ran out says that the session lives.
fn renew(contender: &mut Contender) {
    contender.lease |= !contender.stale && contender.expired == NEVER;
}

/// The write under way, or one that was, happens.
fn write(after: &mut State, scenario: &Line, i: usize) {
    let contender = after.contenders[i];
    let late = !contender.up;
    if contender.phase == Phase::Finding && !late {
        after.contenders[i].committed = after.now;
        return;
    }
    let succeeded = match contender.phase {
        Phase::Deleting => delete(after, contender.node),
        _ if contender.replacing => replace(after, scenario, i),
        _ => {
            if scenario.tries[i]
                && !contender.free
                && client::is_in_the_way(after, scenario, i, after.now)
            {
                after.violation = Some(Violation::WroteInVain);
            }
            after.now += 1;
            let marker = Marker::of(scenario.kinds[i].expect("it contends"));
            let number = after.next_number();
            let node = after.create(i, marker, number);
            if !late {
                after.contenders[i].node = node;
            }
            true
        }
    };
    let contender = &mut after.contenders[i];
    if !late && !contender.half {
        contender.committed = after.now;
        contender.succeeded = succeeded;
    }
}

fn delete(after: &mut State, node: u8) -> bool {
    let is_live = after.node(node).is_live();
    if is_live {
        after.now += 1;
        after.delete(node);
    }
    is_live
}

/// A writer's node makes way for a reader's, of the same number.
fn replace(after: &mut State, scenario: &Line, i: usize) -> bool {
    let Contender {
        writer, half, up, ..
    } = after.contenders[i];
    if scenario.takes(Shortcut::TwoSteps) && !half {
        let succeeded = delete(after, writer);
        after.contenders[i].half = succeeded;
        return succeeded;
    }
    if !half && !after.node(writer).is_live() {
        return false;
    }
    after.now += 1;
    if !half {
        after.delete(writer);
    }
    let number = if scenario.takes(Shortcut::FreshNumber) {
        after.next_number()
    } else {
        after.node(writer).number
    };
    let reader = after.create(i, Marker::Read, number);
    after.contenders[i].half = false;
    if up {
        after.contenders[i].node = reader;
    }
    true
}

/// The connection is lost, with what was under way on it. A write may still happen until the next connection is made.
fn cut(after: &mut State, scenario: &Line, i: usize) {
    let lives = after.contenders[i].expired == NEVER;
    let contender = &mut after.contenders[i];
    contender.up = false;
    contender.stale = false;
    let lost_write = contender.committed == NEVER && lives;
    match contender.phase {
        Phase::Creating => {
            contender.floating = lost_write;
            contender.phase = Phase::Unknown;
            contender.node = NONE;
        }
        Phase::Deleting => {
            contender.floating = lost_write;
            if scenario.takes(Shortcut::DeleteOnce) {
                contender.phase = Phase::Done;
            }
        }
        Phase::Checking => {
            contender.phase = Phase::Finding;
            contender.node = NONE;
        }
        // A try does not wait for another connection: it fails.
        Phase::Trying if contender.listed == NEVER => contender.phase = Phase::Done,
        _ => {}
    }
    contender.committed = NEVER;
    // Asked for again; its reply will come on another connection.
    let rewatched = if scenario.takes(Shortcut::NoRewatch) {
        Watch::Empty
    } else {
        Watch::Requested
    };
    for which in 0..3 {
        let watch = contender.watch(which);
        if *watch == Watch::Armed || watch.is_due() {
            *watch = rewatched;
        }
    }
}

/// The next connection. The session goes on, or the client learns that it is over.
fn connect(after: &mut State, i: usize) {
    let is_over = after.contenders[i].expired != NEVER;
    let contender = &mut after.contenders[i];
    contender.up = true;
    contender.floating = false;
    contender.lease = true;
    contender.stale = false;
    contender.expired = NEVER;
    contender.mute = false;
    contender.same_connection = false;
    if is_over {
        client::lost_session(after, i);
    }
}

/// The session ends, with all its nodes.
fn expire(after: &mut State, i: usize) {
    after.now += 1;
    let now = after.now;
    let contender = &mut after.contenders[i];
    contender.expired = now;
    contender.floating = false;
    let count = usize::from(after.node_count);
    for node in &mut after.nodes[..count] {
        if usize::from(node.owner) == i && node.is_live() {
            node.died = now;
        }
    }
}

/// What an operator can do to the line.
fn by_hand(state: &State, visit: &mut impl FnMut(Action, State)) {
    if state.faults.by_hand == 0 {
        return;
    }
    let mut after = *state;
    after.faults.by_hand -= 1;
    for index in 0..state.node_count {
        let mut after = after;
        if delete(&mut after, index) {
            visit(Action::DeleteByHand(index), after);
        }
    }
    for (i, contender) in state.contenders.iter().enumerate() {
        // What the second one's data are told as is the same as its end: another listing.
        for which in 0..2 {
            let (watch, _) = contender.watches()[which];
            if contender.up && watch == Watch::Armed {
                let mut after = after;
                *after.contenders[i].watch(which) = Watch::Changed;
                visit(Action::Touch(i, which), after);
            }
        }
    }
}
