//! What a contender does: `contender`, `claim`, `line` and the downgrade of the recipes, one await after the other. Who is
//! ahead of whom is not told here again: the recipes' own `rank` is asked.

use std::sync::OnceLock;

use lockkeeper_recipes::rank::{Rank, is_contended, rank};

use crate::{
    CONTENDERS, Shortcut, Violation,
    history::{NEVER, Time},
};

use super::{
    action::Action,
    scenario::Line,
    state::{Contender, Marker, NONE, Node, NodeIndex, Phase, State, Watch},
};

/// All that contenders and their users can do next.
pub(crate) fn each_step(state: &State, scenario: &Line, visit: &mut impl FnMut(Action, State)) {
    for (i, contender) in state.contenders.iter().enumerate() {
        let mut next = |action, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            visit(action, after);
        };
        match contender.phase {
            Phase::Idle if looks_first(scenario, i) => next(Action::Try(i), &|after| {
                send(&mut after.contenders[i], Phase::Trying);
            }),
            Phase::Idle => next(Action::Start(i), &|after| enter(after, i)),
            Phase::Trying if contender.listed != NEVER => {
                next(Action::Poll(i), &|after| look_before(after, scenario, i));
            }
            Phase::Unknown => next(Action::Find(i), &|after| {
                send(&mut after.contenders[i], Phase::Finding);
            }),
            Phase::Looking if contender.listed != NEVER => {
                next(Action::Poll(i), &|after| look_at(after, scenario, i));
            }
            Phase::Waiting if contender.has_watch(Watch::is_told) => {
                next(Action::Poll(i), &|after| woken(after, scenario, i));
            }
            Phase::Holding => {
                next(Action::Release(i), &|after| leave(after, i));
                let is_writer = state.node(contender.node).marker == Marker::Write;
                if scenario.downgrade && is_writer {
                    next(Action::Downgrade(i), &|after| {
                        let contender = &mut after.contenders[i];
                        contender.writer = contender.node;
                        contender.node = NONE;
                        contender.replacing = true;
                        send(contender, Phase::Creating);
                    });
                }
            }
            Phase::Done if state.faults.again > 0 && scenario.kinds[i].is_some() => {
                next(Action::Again(i), &|after| {
                    after.faults.again -= 1;
                    forget_nodes(after, i);
                    after.contenders[i] = Contender::IDLE;
                });
            }
            _ => {}
        }
        let may_cancel = !contender.abandoned
            && !matches!(
                contender.phase,
                Phase::Idle | Phase::Holding | Phase::Deleting | Phase::Done
            );
        if may_cancel && state.faults.cancels > 0 {
            next(Action::Cancel(i), &|after| {
                after.faults.cancels -= 1;
                cancel(after, scenario, i);
            });
        }
    }
}

/// Whether it looks before it creates anything.
fn looks_first(scenario: &Line, i: usize) -> bool {
    scenario.tries[i] && !scenario.takes(Shortcut::TryWithoutLook)
}

/// Submits a request, or several in one flush, and waits for them.
fn send(contender: &mut Contender, phase: Phase) {
    contender.phase = phase;
    contender.committed = NEVER;
    contender.listed = NEVER;
    contender.stale = false;
    contender.mute = contender.expired != NEVER;
}

fn enter(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    contender.node = NONE;
    send(contender, Phase::Creating);
}

/// Under a fresh protection: what the former attempt may have created is not looked for any more.
fn start_anew(after: &mut State, i: usize) {
    forget_nodes(after, i);
    enter(after, i);
}

fn forget_nodes(after: &mut State, i: usize) {
    for node in &mut after.nodes {
        node.former |= usize::from(node.owner) == i;
    }
}

/// The caller's future is dropped.
fn cancel(after: &mut State, scenario: &Line, i: usize) {
    let contender = &mut after.contenders[i];
    match contender.phase {
        Phase::Trying => contender.phase = Phase::Done,
        Phase::Looking | Phase::Waiting => leave(after, i),
        _ if scenario.takes(Shortcut::ForgetOnCancel) => contender.phase = Phase::Done,
        Phase::Finding | Phase::Checking => {
            contender.abandoned = true;
            contender.node = NONE;
            contender.phase = Phase::Unknown;
        }
        _ => contender.abandoned = true,
    }
}

/// Sends the delete; nothing is awaited any more but its reply.
fn leave(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    contender.abandoned = true;
    contender.replacing = false;
    contender.writer = NONE;
    send(contender, Phase::Deleting);
}

/// The reply to what was awaited has come, from this point of the history.
pub(crate) fn replied(after: &mut State, scenario: &Line, i: usize, view: Time) {
    let contender = &mut after.contenders[i];
    match contender.phase {
        Phase::Creating => {
            contender.committed = NEVER;
            contender.view = view;
            if contender.succeeded {
                known(after, i);
            } else {
                // The writer's node was gone: there is neither of them.
                contender.phase = Phase::Done;
            }
        }
        Phase::Finding => {
            contender.committed = NEVER;
            let replaces = contender.replacing;
            let found = after
                .nodes()
                .position(|node| is_ours(node, scenario, i, replaces) && node.is_shown(view));
            match found.and_then(|index| NodeIndex::try_from(index).ok()) {
                Some(index) => {
                    after.contenders[i].node = index;
                    after.contenders[i].phase = Phase::Checking;
                }
                None => never_created(after, i),
            }
        }
        Phase::Checking => {
            if after.node(after.contenders[i].node).is_shown(view) {
                known(after, i);
            } else {
                never_created(after, i);
            }
        }
        Phase::Trying | Phase::Looking => contender.listed = view,
        Phase::Deleting => contender.phase = Phase::Done,
        _ => {}
    }
}

/// Whether a node has the protection of the present attempt. A reader's is another than that of the writer before it.
fn is_ours(node: Node, scenario: &Line, i: usize, replacing: bool) -> bool {
    let kind = scenario.kinds[i].expect("it contends");
    let marker = if replacing {
        Marker::Read
    } else {
        Marker::of(kind)
    };
    usize::from(node.owner) == i && !node.former && node.marker == marker
}

/// Our node is there, and we know it. The listing behind the create is under way.
fn known(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    if contender.abandoned {
        leave(after, i);
    } else if contender.replacing {
        contender.replacing = false;
        contender.writer = NONE;
        contender.phase = Phase::Holding;
    } else {
        contender.phase = Phase::Looking;
        contender.listed = NEVER;
        contender.same_connection = true;
        contender.free = false;
    }
}

/// The lost create did not happen, and will not.
fn never_created(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    contender.node = NONE;
    match (contender.replacing, contender.abandoned) {
        (true, true) => {
            contender.node = contender.writer;
            leave(after, i);
        }
        (true, false) => send(contender, Phase::Creating),
        (false, true) => contender.phase = Phase::Done,
        (false, false) => start_anew(after, i),
    }
}

/// The client learns that its session is over.
pub(crate) fn lost_session(after: &mut State, i: usize) {
    let contender = &mut after.contenders[i];
    if contender.phase == Phase::Trying {
        // What has come is still to be looked at; a look that was under way has failed.
        if contender.listed == NEVER {
            contender.phase = Phase::Done;
        }
        return;
    }
    let has_place = !matches!(
        contender.phase,
        Phase::Creating | Phase::Unknown | Phase::Finding
    );
    if has_place || contender.abandoned || contender.replacing {
        contender.phase = Phase::Done;
    } else if contender.phase != Phase::Unknown {
        start_anew(after, i);
    }
}

/// Looks at the listing that a try begins with: it goes no further when somebody is in the way.
fn look_before(after: &mut State, scenario: &Line, i: usize) {
    let listed = after.contenders[i].listed;
    if is_in_the_way(after, scenario, i, listed) {
        after.contenders[i].phase = Phase::Done;
    } else {
        after.contenders[i].free = true;
        enter(after, i);
    }
}

/// Whether somebody, at that point of the history, is in the way of one who comes anew.
pub(crate) fn is_in_the_way(state: &State, scenario: &Line, i: usize, view: Time) -> bool {
    let kind = scenario.kinds[i].expect("it contends");
    let shown = state.nodes().filter(|node| node.is_shown(view));
    is_contended(kind, shown.map(name_of))
}

/// Looks at the listing that has come.
fn look_at(after: &mut State, scenario: &Line, i: usize) {
    let contender = after.contenders[i];
    let mine = name_of(after.node(contender.node));
    let listed = after.nodes().filter(|node| node.is_shown(contender.listed));
    let names = listed.map(name_of);
    let kind = scenario.kinds[i].expect("it contends");
    match rank(kind, names, mine) {
        Rank::First => {
            after.contenders[i].free |= scenario.tries[i];
            may_hold(after, scenario, i);
        }
        Rank::Waiting { .. } if scenario.tries[i] => {
            if scenario.takes(Shortcut::TryTakesItsLook) {
                may_hold(after, scenario, i);
            } else if contender.free {
                after.violation = Some(Violation::TryWaits);
            } else if scenario.takes(Shortcut::TryForgets) {
                after.contenders[i].phase = Phase::Done;
            } else {
                leave(after, i);
            }
        }
        Rank::Waiting {
            ahead,
            nearest,
            second,
            is_last,
        } => {
            let index = |name: &str| {
                let found = after.nodes().position(|node| name_of(node) == name);
                found
                    .and_then(|index| NodeIndex::try_from(index).ok())
                    .unwrap_or(NONE)
            };
            let (nearest, second) = (index(nearest), second.map_or(NONE, index));
            let contender = &mut after.contenders[i];
            contender.phase = Phase::Waiting;
            contender.listed = NEVER;
            contender.is_last = is_last
                || scenario.takes(Shortcut::AlwaysSkip)
                || (scenario.takes(Shortcut::SkipBehindWriter) && ahead == 1);
            watch(contender, scenario, nearest, second);
        }
        Rank::Gone | Rank::Exhausted => after.contenders[i].phase = Phase::Done,
    }
}

/// Leaves the watches that are missing.
fn watch(contender: &mut Contender, scenario: &Line, nearest: NodeIndex, second: NodeIndex) {
    if contender.nearest == Watch::Empty || contender.nearest_node != nearest {
        contender.nearest = Watch::Empty;
        if contender.second != Watch::Empty && contender.second_node == nearest {
            contender.nearest = contender.second;
            contender.second = Watch::Empty;
        }
    }
    if contender.second_node != second {
        contender.second = Watch::Empty;
    }
    contender.nearest_node = nearest;
    contender.second_node = second;
    let request = |watch: &mut Watch| {
        if *watch == Watch::Empty {
            *watch = Watch::Requested;
        }
    };
    contender.stale = false;
    contender.mute = contender.expired != NEVER;
    if !scenario.takes(Shortcut::NoOwnWatch) {
        request(&mut contender.own);
    }
    request(&mut contender.nearest);
    if second != NONE {
        request(&mut contender.second);
    }
}

/// An event has come.
fn woken(after: &mut State, scenario: &Line, i: usize) {
    let contender = &mut after.contenders[i];
    let mut take = |which| {
        let watch = contender.watch(which);
        let told = watch.is_told().then_some(*watch);
        if told.is_some() {
            *watch = Watch::Empty;
        }
        told
    };
    let nearest = take(1);
    if let Some(own) = take(0) {
        if own == Watch::Changed {
            contender.own = if scenario.takes(Shortcut::LateOwnWatch) {
                Watch::Empty
            } else {
                Watch::Requested
            };
            look(contender);
        } else {
            contender.phase = Phase::Done;
        }
        return;
    }
    let Some(nearest) = nearest else {
        take(2);
        look(contender);
        return;
    };
    let is_deletion = nearest != Watch::Changed || scenario.takes(Shortcut::AnyEvent);
    let in_order = contender.same_connection || scenario.takes(Shortcut::AnyConnection);
    if is_deletion && contender.is_last && in_order {
        if nearest == Watch::GoneTooLate {
            after.violation = Some(Violation::GrantedWithoutNode);
        }
        may_hold(after, scenario, i);
    } else {
        look(contender);
    }
}

fn look(contender: &mut Contender) {
    send(contender, Phase::Looking);
    contender.same_connection = true;
}

/// It is our turn, if our lease says that our session lives.
fn may_hold(after: &mut State, scenario: &Line, i: usize) {
    let contender = &mut after.contenders[i];
    if !contender.lease && !scenario.takes(Shortcut::NoLease) {
        after.violation = None;
        look(contender);
        return;
    }
    contender.phase = Phase::Holding;
    contender.listed = NEVER;
    if contender.expired != NEVER {
        after.violation = Some(Violation::GrantedAfterExpiry);
    }
}

/// The node's name as the servers list it.
fn name_of(node: Node) -> &'static str {
    const NUMBERS: usize = 16;
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names = Vec::new();
        for marker in ["lock-", "__WRIT__", "__READ__"] {
            for owner in 0..CONTENDERS {
                for number in 0..NUMBERS {
                    names.push(format!("_c_{owner}-{marker}{number:010}"));
                }
            }
        }
        names
    });
    let marker = match node.marker {
        Marker::Lock => 0,
        Marker::Write => 1,
        Marker::Read => 2,
    };
    let owner = marker * CONTENDERS + usize::from(node.owner);
    &names[owner * NUMBERS + usize::from(node.number)]
}
