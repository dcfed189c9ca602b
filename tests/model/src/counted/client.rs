//! What a contender does: `plain`, `semaphore`, `contender` and `claim` of the recipes, one await after the other. Whose turn
//! it is in the line, and whether there is room for a lease, the recipes' own `rank` is asked.

use std::sync::OnceLock;

use lockkeeper_recipes::rank::{Kind, Rank, rank, within_limit};

use crate::{
    CONTENDERS, Shortcut, Violation,
    history::{NEVER, Time},
};

use super::{
    action::Action,
    scenario::Counted,
    state::{Contender, NODES, NONE, Node, NodeIndex, Phase, State, Watch, What},
};

/// All that contenders and their users can do next.
pub(super) fn each_step(state: &State, scenario: &Counted, visit: &mut impl FnMut(Action, State)) {
    for (i, contender) in state.contenders.iter().enumerate() {
        let mut next = |action, change: &dyn Fn(&mut State)| {
            let mut after = *state;
            change(&mut after);
            visit(action, after);
        };
        let may_poll = match contender.phase {
            Phase::Trying => contender.listed != NEVER,
            Phase::Known | Phase::Counting => true,
            Phase::Waiting => contender.watch == Watch::Told,
            _ => false,
        };
        if may_poll {
            next(Action::Poll(i), &|after| poll(after, scenario, i));
        }
        match contender.phase {
            Phase::Idle if may_start(state, scenario, i) => {
                next(Action::Start(i), &|after| start(after, scenario, i));
            }
            Phase::Unknown => next(Action::Find(i), &|after| {
                send(after, scenario, i, Phase::Finding);
            }),
            Phase::Lining => {
                let mut after = *state;
                if turn(&mut after, scenario, i) {
                    visit(Action::Turn(i), after);
                }
            }
            Phase::Holding => next(Action::Release(i), &|after| leave(after, scenario, i)),
            Phase::Done if state.faults.again > 0 => next(Action::Again(i), &|after| {
                after.faults.again -= 1;
                forget_nodes(after, i);
                after.contenders[i] = Contender::IDLE;
            }),
            _ => {}
        }
        let may_cancel = !contender.abandoned
            && !contender.is_at_rest()
            && !matches!(contender.phase, Phase::Holding | Phase::Deleting);
        if may_cancel && state.faults.cancels > 0 {
            let mut after = *state;
            after.faults.cancels -= 1;
            cancel(&mut after, scenario, i);
            visit(Action::Cancel(i), after);
        }
    }
}

/// Entering the line is one step, and takes a session.
fn may_start(state: &State, scenario: &Counted, i: usize) -> bool {
    let session = &state.sessions[scenario.clients[i]];
    scenario.is_plain() || (session.up && session.lives())
}

fn start(after: &mut State, scenario: &Counted, i: usize) {
    if scenario.tries[i] {
        send(after, scenario, i, Phase::Trying);
    } else if scenario.is_plain() || scenario.takes(Shortcut::NoHead) {
        enter(after, scenario, i);
    } else {
        after.contenders[i].head = after.create(i, What::Head);
        after.contenders[i].phase = Phase::Lining;
    }
}

/// Whether its turn has come in the line. Who is the first at some point of the history is so from then on, and the create
/// that follows shows the session everything: so it is the same whether a server lags here, or the turn comes later.
fn turn(after: &mut State, scenario: &Counted, i: usize) -> bool {
    let session = &after.sessions[scenario.clients[i]];
    if !session.up || !session.lives() || !session.lease {
        return false;
    }
    let head = after.contenders[i].head;
    let line = after.shown(What::Head, after.now);
    let names = line.map(|(index, node)| name_of(index, node));
    match rank(Kind::Mutex, names, name_of(head, after.node(head))) {
        Rank::First => enter(after, scenario, i),
        Rank::Gone => after.contenders[i].phase = Phase::Done,
        Rank::Waiting { .. } | Rank::Exhausted => return false,
    }
    true
}

/// Submits a request, and waits for it.
fn send(after: &mut State, scenario: &Counted, i: usize, phase: Phase) {
    let is_over = !after.sessions[scenario.clients[i]].lives();
    let contender = &mut after.contenders[i];
    contender.phase = phase;
    contender.committed = NEVER;
    contender.stale = false;
    contender.mute = is_over;
    if matches!(phase, Phase::Trying | Phase::Listing) {
        contender.listed = NEVER;
    }
}

/// Sends the create of the plain node or the lease, under a fresh protection: what a former attempt may have created is not
/// looked for any more.
fn enter(after: &mut State, scenario: &Counted, i: usize) {
    forget_nodes(after, i);
    let contender = &mut after.contenders[i];
    contender.node = NONE;
    contender.watch = Watch::Empty;
    contender.listed = NEVER;
    send(after, scenario, i, Phase::Creating);
}

fn forget_nodes(after: &mut State, i: usize) {
    for node in &mut after.nodes {
        node.former |= usize::from(node.owner) == i && node.what != What::Head;
    }
}

/// The caller's future is dropped.
fn cancel(after: &mut State, scenario: &Counted, i: usize) {
    leave_line(after, i);
    let contender = &mut after.contenders[i];
    match contender.phase {
        _ if scenario.takes(Shortcut::ForgetOnCancel) => contender.phase = Phase::Done,
        Phase::Trying | Phase::Lining => contender.phase = Phase::Done,
        Phase::Creating if scenario.takes(Shortcut::DeleteUnseen) => leave(after, scenario, i),
        Phase::Creating | Phase::Unknown => contender.abandoned = true,
        Phase::Finding | Phase::Checking => {
            contender.abandoned = true;
            contender.node = NONE;
            contender.phase = Phase::Unknown;
        }
        // There is no node of ours while that of another is waited for.
        Phase::Waiting if scenario.is_plain() => contender.phase = Phase::Done,
        _ => leave(after, scenario, i),
    }
}

/// Sends the delete of the plain node or the lease; nothing is awaited any more but its reply. The place in the line goes too.
fn leave(after: &mut State, scenario: &Counted, i: usize) {
    leave_line(after, i);
    after.contenders[i].abandoned = true;
    send(after, scenario, i, Phase::Deleting);
}

/// Sends the delete of the place in the line, in the background.
fn leave_line(after: &mut State, i: usize) {
    let head = after.contenders[i].head;
    if head != NONE && after.node(head).is_live() {
        after.nodes[usize::from(head)].leaving = true;
    }
    after.contenders[i].head = NONE;
}

/// It ends without a lock, and without a node.
fn give_up(after: &mut State, i: usize) {
    leave_line(after, i);
    after.contenders[i].phase = Phase::Done;
}

/// The reply to what was awaited has come, from this point of the history.
pub(super) fn replied(after: &mut State, scenario: &Counted, i: usize, view: Time) {
    let contender = &mut after.contenders[i];
    match contender.phase {
        Phase::Trying => contender.listed = view,
        Phase::Creating => {
            contender.committed = NEVER;
            if contender.succeeded {
                known(after, scenario, i);
            } else if scenario.tries[i] || contender.abandoned {
                contender.phase = Phase::Done;
            } else {
                // Somebody has it.
                contender.watch = Watch::Requested;
                send(after, scenario, i, Phase::Waiting);
            }
        }
        Phase::Finding => {
            contender.committed = NEVER;
            let what = what(scenario);
            // The plain node has everybody's name; a lease has a name of its own.
            let may_be = |node: Node| scenario.is_plain() || is_ours(node, scenario, i);
            if after.shown(what, view).any(|(_, node)| may_be(node)) {
                after.contenders[i].phase = Phase::Checking;
            } else {
                never_created(after, scenario, i);
            }
        }
        Phase::Checking => {
            let mut shown = after.shown(what(scenario), view);
            let found = shown.find(|(_, node)| is_ours(*node, scenario, i));
            drop(shown);
            if let Some((node, _)) = found {
                after.contenders[i].node = node;
                known(after, scenario, i);
            } else {
                never_created(after, scenario, i);
            }
        }
        Phase::Asking => {
            let is_there = after.nodes[usize::from(contender.node)].is_shown(view);
            contender.phase = if is_there { Phase::Known } else { Phase::Done };
        }
        Phase::Listing => {
            contender.listed = view;
            if contender.watch == Watch::Requested {
                contender.watch = Watch::Armed;
                contender.since = view;
            }
            let is_next = scenario.reads_limit() && contender.limit_since == NEVER;
            let next = if is_next {
                Phase::Limiting
            } else {
                Phase::Counting
            };
            send(after, scenario, i, next);
            after.contenders[i].listed = view;
            if !scenario.reads_limit() {
                after.contenders[i].limit = after.limit_at(view);
            }
        }
        Phase::Limiting => {
            let limit = after.limit_at(view);
            let contender = &mut after.contenders[i];
            contender.limit = limit;
            contender.limit_since = view;
            let is_next = contender.listed == NEVER;
            let next = if is_next {
                Phase::Listing
            } else {
                Phase::Counting
            };
            send(after, scenario, i, next);
        }
        Phase::Deleting => contender.phase = Phase::Done,
        _ => {}
    }
}

fn what(scenario: &Counted) -> What {
    if scenario.is_plain() {
        What::Plain
    } else {
        What::Lease
    }
}

/// Whether a node has the protection of the present attempt, and belongs to its session.
fn is_ours(node: Node, scenario: &Counted, i: usize) -> bool {
    let owner = usize::from(node.owner);
    let is_of_session = scenario.clients[owner] == scenario.clients[i];
    let is_marked = owner == i && !node.former;
    is_of_session && (is_marked || scenario.takes(Shortcut::NoMark))
}

/// Our node is there, and we know it.
fn known(after: &mut State, scenario: &Counted, i: usize) {
    let contender = &mut after.contenders[i];
    if contender.abandoned {
        leave(after, scenario, i);
    } else if scenario.is_plain() {
        contender.phase = Phase::Known;
    } else if !has_head(after, scenario, i) {
        leave(after, scenario, i);
    } else {
        let contender = &mut after.contenders[i];
        // Under way behind the create, or sent now; the first one leaves no watch.
        contender.limit_since = NEVER;
        send(after, scenario, i, Phase::Listing);
    }
}

/// The lost create did not happen, and will not; or the lost delete did.
fn never_created(after: &mut State, scenario: &Counted, i: usize) {
    if after.contenders[i].abandoned {
        give_up(after, i);
    } else {
        enter(after, scenario, i);
    }
}

/// Whether the place in the line is of the present session, as far as the client knows: always, where there is no line.
fn has_head(after: &State, scenario: &Counted, i: usize) -> bool {
    let needs_none = [Shortcut::NoHead, Shortcut::HeadOfFormerSession];
    let needs_none = needs_none.into_iter().any(|it| scenario.takes(it));
    scenario.is_plain() || needs_none || after.contenders[i].head != NONE
}

/// The client learns that its session is over.
pub(super) fn lost_session(after: &mut State, scenario: &Counted, i: usize) {
    after.contenders[i].head = NONE;
    let contender = &after.contenders[i];
    match contender.phase {
        Phase::Idle | Phase::Done => {}
        // What has come is still to be looked at.
        Phase::Trying if contender.listed != NEVER => {}
        Phase::Deleting if scenario.takes(Shortcut::DeleteInAnySession) => {}
        Phase::Unknown if !contender.abandoned => {}
        Phase::Creating | Phase::Finding if !contender.abandoned => {
            never_created(after, scenario, i);
        }
        // Nobody's place is lost: there is none.
        Phase::Waiting if scenario.is_plain() => enter(after, scenario, i),
        _ => give_up(after, i),
    }
}

/// The caller's future is polled, and something has come.
fn poll(after: &mut State, scenario: &Counted, i: usize) {
    let contender = after.contenders[i];
    match contender.phase {
        Phase::Trying => {
            let is_taken = after.shown(What::Plain, contender.listed).next().is_some();
            if is_taken {
                after.contenders[i].phase = Phase::Done;
            } else {
                enter(after, scenario, i);
            }
        }
        Phase::Known => {
            if may_hold(after, scenario, i) {
                hold(after, scenario, i);
            } else {
                send(after, scenario, i, Phase::Asking);
            }
        }
        Phase::Waiting if scenario.is_plain() => enter(after, scenario, i),
        Phase::Waiting if is_head_lost(after, scenario, i) => leave(after, scenario, i),
        Phase::Waiting => look_again(after, scenario, i),
        _ => count(after, scenario, i),
    }
}

/// Whether the lease says that the session lives.
fn may_hold(after: &State, scenario: &Counted, i: usize) -> bool {
    after.sessions[scenario.clients[i]].lease || scenario.takes(Shortcut::NoLease)
}

/// Whether the client was told that its place in the line is gone.
fn is_head_lost(after: &State, scenario: &Counted, i: usize) -> bool {
    let (head, session) = (after.contenders[i].head, scenario.clients[i]);
    head != NONE
        && after.node(head).died <= after.sessions[session].view
        && !scenario.takes(Shortcut::HeadLostUnnoticed)
}

/// Looks at the leases that were listed, and at the limit.
fn count(after: &mut State, scenario: &Counted, i: usize) {
    let contender = after.contenders[i];
    let is_listed = after.node(contender.node).is_shown(contender.listed);
    if !is_listed && !scenario.takes(Shortcut::OwnLeaseUnseen) {
        give_up(after, i);
        return;
    }
    let listed = after.shown(What::Lease, contender.listed);
    let names = listed.map(|(index, node)| name_of(index, node));
    if !within_limit(names, usize::from(contender.limit)) {
        if contender.watch == Watch::Armed {
            after.contenders[i].phase = Phase::Waiting;
        } else {
            look_again(after, scenario, i);
        }
    } else if may_hold(after, scenario, i) {
        if !after.node(contender.node).is_live() && !is_listed {
            after.violation = Some(Violation::GrantedWithoutNode);
        }
        check_grant(after, scenario, i);
        leave_line(after, i);
        hold(after, scenario, i);
    } else {
        look_again(after, scenario, i);
    }
}

/// Lists the leases again, with a watch, and reads the limit.
fn look_again(after: &mut State, scenario: &Counted, i: usize) {
    let contender = &mut after.contenders[i];
    contender.watch = Watch::Requested;
    contender.since = NEVER;
    contender.limit_since = NEVER;
    contender.listed = NEVER;
    let limit_first = scenario.reads_limit() && scenario.takes(Shortcut::LimitFirst);
    let first = if limit_first {
        Phase::Limiting
    } else {
        Phase::Listing
    };
    send(after, scenario, i, first);
}

/// There was room at some point since the look, and nobody who came before has still to wait.
fn check_grant(after: &mut State, scenario: &Counted, i: usize) {
    let contender = after.contenders[i];
    // A lease that is there may be nobody's: it is given up as soon as it is known.
    let is_stray = |node: Node| {
        let owner = &after.contenders[usize::from(node.owner)];
        owner.abandoned || node.former || (owner.head == NONE && owner.phase != Phase::Holding)
    };
    let within_limit = |view: Time| {
        let leases = after.shown(What::Lease, view);
        let count = leases.filter(|(_, node)| !is_stray(*node)).count();
        count <= usize::from(after.limit_at(view))
    };
    if !(contender.listed..=after.now).any(within_limit) {
        after.violation = Some(Violation::TooMany);
    }
    let mut line = after.shown(What::Head, after.now);
    let first = line.find(|(_, node)| !node.leaving);
    drop(line);
    let is_by_hand = scenario.faults.by_hand > 0;
    if first.is_some_and(|(first, _)| first != contender.head) && !is_by_hand {
        after.violation = Some(Violation::Overtaken);
    }
}

fn hold(after: &mut State, scenario: &Counted, i: usize) {
    let is_over = !after.sessions[scenario.clients[i]].lives();
    after.contenders[i].phase = Phase::Holding;
    if is_over {
        after.violation = Some(Violation::GrantedAfterExpiry);
    }
}

/// The node's name as the servers list it. Nodes keep the order of their numbers, so their places do for numbers.
fn name_of(index: NodeIndex, node: Node) -> &'static str {
    static NAMES: OnceLock<Vec<String>> = OnceLock::new();
    let names = NAMES.get_or_init(|| {
        let mut names = Vec::new();
        for marker in ["lock-", "lease-"] {
            for owner in 0..CONTENDERS {
                for number in 0..NODES {
                    names.push(format!("_c_{owner}-{marker}{number:010}"));
                }
            }
        }
        names
    });
    let marker = usize::from(node.what == What::Lease);
    let owner = marker * CONTENDERS + usize::from(node.owner);
    &names[owner * NODES + usize::from(index)]
}
