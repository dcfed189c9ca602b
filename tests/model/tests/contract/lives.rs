//! The life of a node, and who takes the plain lock: all orders of replies, lost replies, and wishes
//! of the caller, at a server that applies each write once, late, or never.
//!
//! A write whose reply was lost is applied before the barrier of the next look, or never.

use std::collections::HashSet;

use lockkeeper_recipes::{
    Loss,
    decisions::{
        life::{Answer, Ask, End, Facts, Failure, Next, Node, NodeLife, Seen},
        plain_turn::{self, PlainTurn},
    },
};

use crate::permits::facts;

/// An attempt creates nodes with so many names.
const NAMES: u8 = 3;
/// The name of another one's node that a look takes for ours.
const STRANGER: u8 = 9;

/// What became of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    Applied,
    Late,
    Never,
}

#[expect(clippy::struct_excessive_bools, reason = "they are independent")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct World {
    life: NodeLife<u8, u8>,
    /// The request that was sent last.
    sent: Option<Ask<u8, u8>>,
    is_fixed: bool,
    /// The name of the last create.
    name: u8,
    /// The node of the attempt that is there. Others delete it at most once.
    ours: Option<u8>,
    is_deleted_by_others: bool,
    /// A writer's node, which is to be replaced.
    writer: Option<u8>,
    /// Whether another one has a node that a look takes for ours.
    has_stranger: bool,
    /// A write with a lost reply that may be applied yet.
    late: Option<Ask<u8, u8>>,
    /// Whether a reply was lost since the last look: to a create, or to a delete.
    is_create_unknown: bool,
    is_delete_unknown: bool,
    /// Whether a look was answered, and no reply was lost since. Else a server may lag.
    has_looked: bool,
    is_abandoned: bool,
    is_released: bool,
    is_session_over: bool,
    /// How often the directory was not there.
    missing: u8,
}

impl World {
    fn new(is_fixed: bool, has_stranger: bool) -> Self {
        Self {
            life: NodeLife::new(is_fixed),
            sent: None,
            is_fixed,
            name: 0,
            ours: None,
            is_deleted_by_others: false,
            writer: None,
            has_stranger,
            late: None,
            is_create_unknown: false,
            is_delete_unknown: false,
            has_looked: false,
            is_abandoned: false,
            is_released: false,
            is_session_over: false,
            missing: 0,
        }
    }

    /// The request is applied, if it can be.
    fn apply(&mut self, ask: Ask<u8, u8>) -> Result<(), Failure> {
        match ask {
            Ask::Create { .. } if self.is_fixed && (self.has_stranger || self.ours.is_some()) => {
                Err(Failure::NodeExists)
            }
            Ask::Create { .. } => {
                self.ours = Some(self.name);
                Ok(())
            }
            Ask::Replace(writer) if self.writer == Some(writer.name) => {
                self.writer = None;
                self.ours = Some(self.name);
                Ok(())
            }
            Ask::Delete(node) => {
                for there in [&mut self.ours, &mut self.writer] {
                    if there.take_if(|name| *name == node.name).is_some() {
                        return Ok(());
                    }
                }
                // Another one's node with the same fixed name would be deleted.
                assert!(!self.is_fixed || !self.has_stranger, "{ask:?}: {self:?}");
                Err(Failure::NoNode)
            }
            _ => Err(Failure::NoNode),
        }
    }

    /// What must hold, whatever happened.
    fn check(&self) {
        let next = self.life.next();
        assert!(self.missing < 10, "it has no end: {self:?}");
        let is_there = self.ours.is_some() || self.writer.is_some();
        if let Next::Send(ask) = &next {
            match ask {
                Ask::Create { renamed, .. } => {
                    assert!(!self.is_abandoned, "nobody wants it: {self:?}");
                    assert!(!is_there && self.late.is_none(), "a second node: {self:?}");
                    let is_known = !self.is_create_unknown || *renamed;
                    assert!(is_known, "a name is used again: {self:?}");
                }
                Ask::Replace(node) => {
                    assert!(!self.is_abandoned, "nobody wants it: {self:?}");
                    let is_free = self.ours.is_none() && self.late.is_none();
                    assert!(is_free && self.name != node.name, "a second node: {self:?}");
                }
                Ask::Delete(node) => {
                    let is_wanted = self.is_abandoned || self.is_released;
                    assert!(is_wanted, "a node that is wanted: {self:?}");
                    assert_eq!(node.tag, node.name, "{self:?}");
                    let is_safe = !self.is_fixed || self.late.is_none();
                    assert!(is_safe, "a look is missing: {self:?}");
                }
                Ask::Find | Ask::FindNext | Ask::Check(_) => {
                    let is_behind = self.has_looked || *ask == Ask::Find;
                    assert!(is_behind, "a server may lag: {self:?}");
                    let is_unknown = self.is_create_unknown || self.is_delete_unknown;
                    assert!(is_unknown, "a look without need: {self:?}");
                    let known = self.life.bound().map(|node| node.name);
                    if self.is_delete_unknown || self.writer.is_some() {
                        assert!(known.is_some(), "a look in any session: {self:?}");
                    }
                }
            }
        }
        if self.life.is_live() {
            assert!(!self.is_abandoned, "it stays: {self:?}");
            let node = self.life.node().expect("a live node");
            let is_ours = [self.ours, self.writer].contains(&Some(node.name));
            let is_gone = self.is_deleted_by_others || self.is_session_over;
            assert!((is_ours && node.tag == node.name) || is_gone, "{self:?}");
        }
        if let Some(end) = self.life.end() {
            let may_come = matches!(self.late, Some(Ask::Create { .. } | Ask::Replace(_)));
            let is_left = is_there || may_come;
            assert!(!is_left || self.is_session_over, "left behind: {self:?}");
            match end {
                End::Gone => assert!(self.is_deleted_by_others, "{self:?}"),
                End::Taken => assert!(self.is_fixed && self.has_stranger, "{self:?}"),
                End::SessionOver(_) => assert!(self.is_session_over, "{self:?}"),
                End::NeverCreated => assert!(!self.is_released, "{self:?}"),
                End::Deleted => assert!(self.is_abandoned || self.is_released, "{self:?}"),
                End::DeletedOrGone => {
                    let is_unclear = self.is_delete_unknown || self.is_deleted_by_others;
                    assert!(is_unclear, "{self:?}");
                }
            }
        }
        let is_at_rest = self.life.is_live() || self.life.end().is_some();
        assert_eq!(next == Next::Rest, is_at_rest, "{self:?}");
    }

    fn each_step(&self, visit: &mut impl FnMut(Self)) {
        let mut step = |change: &dyn Fn(&mut Self)| {
            let mut after = self.clone();
            change(&mut after);
            visit(after);
        };
        if !self.is_abandoned {
            step(&|it| {
                it.life.abandon();
                it.is_abandoned = true;
            });
        }
        if self.life.is_live() && !self.is_released {
            step(&|it| {
                it.life.release();
                it.is_released = true;
            });
            let is_new = self.writer.is_none() && self.name + 1 < NAMES;
            if !self.is_fixed && is_new && !self.is_deleted_by_others {
                step(&|it| {
                    it.life.replace();
                    it.writer = it.ours.take();
                    it.name += 1;
                });
            }
        }
        if !self.is_deleted_by_others && (self.ours.is_some() || self.writer.is_some()) {
            step(&|it| {
                (it.ours, it.writer) = (None, None);
                it.is_deleted_by_others = true;
            });
        }
        let is_free = self.ours.is_none() && !self.is_deleted_by_others;
        if self.is_fixed && is_free && !self.has_stranger {
            step(&|it| it.has_stranger = true);
        }
        match self.life.next() {
            Next::Send(Ask::Create { renamed: true, .. }) if self.name + 1 == NAMES => {}
            Next::Send(ask) => step(&|it| {
                it.life.sent();
                it.sent = Some(ask);
                if let Ask::Create { renamed: true, .. } = ask {
                    it.name += u8::from(!it.is_fixed);
                    it.is_create_unknown = false;
                }
            }),
            Next::Await => self.each_reply(self.sent.expect("a request"), visit),
            Next::Rest => {}
        }
    }

    fn each_reply(&self, ask: Ask<u8, u8>, visit: &mut impl FnMut(Self)) {
        let mut answer = |change: &dyn Fn(&mut Self) -> Answer<u8, u8>| {
            let mut after = self.clone();
            let answer = change(&mut after);
            after.has_looked = match answer {
                Answer::Found(found) => found.is_ok(),
                Answer::Checked(seen) => after.has_looked && seen.is_ok(),
                Answer::Created(_) | Answer::Deleted(_) => false,
            };
            let result = after.life.answered(answer);
            after.check_result(answer, result);
            // Else it starts again in the next session.
            after.is_session_over &= after.life.end().is_some();
            visit(after);
        };
        let failed = |failure| match ask {
            Ask::Create { .. } | Ask::Replace(_) => Answer::Created(Err(failure)),
            Ask::Delete(_) => Answer::Deleted(Err(failure)),
            Ask::Check(_) => Answer::Checked(Err(failure)),
            Ask::Find | Ask::FindNext => Answer::Found(Err(failure)),
        };
        for failure in [Failure::NotApplied, Failure::Throttled, Failure::Refused] {
            answer(&|_| failed(failure));
        }
        for loss in [Loss::Expired, Loss::Closed] {
            answer(&|it| {
                (it.ours, it.writer, it.late) = (None, None, None);
                it.is_session_over = true;
                failed(Failure::SessionOver(loss))
            });
        }
        match ask {
            Ask::Create { .. } | Ask::Replace(_) | Ask::Delete(_) => {
                if matches!(ask, Ask::Create { .. }) {
                    // The directory is not there.
                    answer(&|it| {
                        it.missing += 1;
                        failed(Failure::NoNode)
                    });
                }
                answer(&|it| match (it.apply(ask), ask) {
                    (result, Ask::Delete(_)) => Answer::Deleted(result),
                    (result, _) => Answer::Created(result.map(|()| node(it.name))),
                });
                for fate in [Fate::Applied, Fate::Late, Fate::Never] {
                    answer(&|it| {
                        match ask {
                            Ask::Delete(_) => it.is_delete_unknown = true,
                            _ => it.is_create_unknown = true,
                        }
                        match fate {
                            Fate::Applied => _ = it.apply(ask),
                            Fate::Late => it.late = Some(ask),
                            Fate::Never => {}
                        }
                        failed(Failure::Unknown)
                    });
                }
            }
            Ask::Find | Ask::FindNext => {
                answer(&|_| failed(Failure::Unknown));
                for is_late in [false, true] {
                    for shows_stranger in [false, true] {
                        if shows_stranger && (!self.has_stranger || ask == Ask::FindNext) {
                            continue;
                        }
                        answer(&|it| {
                            if let Some(late) = it.late.take()
                                && is_late
                            {
                                _ = it.apply(late);
                            }
                            let stranger = (it.has_stranger && (shows_stranger || it.is_fixed))
                                .then_some(if it.is_fixed { 0 } else { STRANGER });
                            Answer::Found(Ok(stranger.or(it.ours)))
                        });
                    }
                }
            }
            Ask::Check(name) => {
                answer(&|_| failed(Failure::Unknown));
                let is_stranger = self.ours != Some(name) && self.has_stranger;
                // The stranger's node is of a former session, or, with a fixed name, of another task.
                for is_of_session in [false, self.is_fixed && is_stranger] {
                    answer(&|it| {
                        let seen = Seen {
                            is_of_session: !is_stranger || is_of_session,
                            is_marked: !is_stranger || !it.is_fixed || !is_of_session,
                            tag: name,
                        };
                        let is_there = is_stranger || it.ours == Some(name);
                        Answer::Checked(is_there.then_some(seen).ok_or(Failure::NoNode))
                    });
                }
            }
        }
    }

    /// What the caller hears.
    fn check_result(&self, answer: Answer<u8, u8>, result: Result<(), Failure>) {
        let failure = match answer {
            Answer::Created(result) => result.err(),
            Answer::Found(result) => result.err(),
            Answer::Checked(result) => result.err(),
            Answer::Deleted(result) => result.err(),
        };
        match failure {
            None | Some(Failure::Unknown) => assert_eq!(result, Ok(()), "{answer:?}: {self:?}"),
            Some(Failure::Refused) if !self.is_abandoned => {
                assert_eq!(result, Err(Failure::Refused), "{answer:?}: {self:?}");
            }
            Some(Failure::SessionOver(loss)) if self.is_abandoned || loss == Loss::Closed => {
                assert!(self.life.end().is_some(), "nobody wants it: {self:?}");
            }
            _ => {}
        }
    }
}

fn node(name: u8) -> Node<u8, u8> {
    Node { name, tag: name }
}

#[test]
fn an_attempt_leaves_nothing_behind_and_touches_nothing_of_others() {
    let mut reached = HashSet::new();
    let mut frontier = Vec::new();
    for is_fixed in [false, true] {
        for has_stranger in [false, true] {
            frontier.push(World::new(is_fixed, has_stranger));
        }
    }
    let mut ends = HashSet::new();
    while let Some(world) = frontier.pop() {
        world.check();
        ends.extend(world.life.end());
        world.each_step(&mut |after| {
            if reached.insert(after.clone()) {
                frontier.push(after);
            }
        });
    }
    assert_eq!(ends.len(), 7, "{ends:?}");
    println!("{} states of an attempt", reached.len());
}

#[test]
fn the_plain_lock_is_taken_only_by_the_newest_create() {
    let over = Facts {
        session_loss: Some(Loss::Expired),
        ..facts(true)
    };
    // What was told last is all that counts, and nothing was told at the beginning.
    let mut told = vec![(PlainTurn::default(), None)];
    for _ in 0..4 {
        for (turn, last) in std::mem::take(&mut told) {
            let (good, bad, over) = (
                turn.next(&facts(true)),
                turn.next(&facts(false)),
                turn.next(&over),
            );
            match last {
                None => assert_eq!([good, bad, over], [Ok(plain_turn::Next::Create); 3]),
                Some(false) => assert_eq!([good, bad, over], [Ok(plain_turn::Next::Wait); 3]),
                Some(true) => {
                    assert_eq!(good, Ok(plain_turn::Next::Grant));
                    assert_eq!(bad, Ok(plain_turn::Next::Renew));
                    assert_eq!(over, Err(Loss::Expired));
                }
            }
            for now in [None, Some(false), Some(true)] {
                let mut after = turn;
                match now {
                    None => after.event(),
                    Some(is_ours) => after.created(is_ours),
                }
                told.push((after, now));
            }
        }
    }
}
