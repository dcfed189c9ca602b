//! The events of each attempt put together.
//!
//! Not here: rules about them.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
    time::Duration,
};

use super::{Bounds, Rule, Violation};
use crate::history::{Attempt, End, Event, Mode, What};

/// All attempts of a history, and what third parties did.
#[derive(Debug, Default)]
pub(super) struct Holds<'a> {
    /// In order of their numbers.
    pub(super) all: BTreeMap<Attempt, Hold<'a>>,
    /// Nodes that were deleted by hand, and when.
    pub(super) deleted: HashMap<&'a str, Duration>,
    /// The same, by their places among all events.
    deleted_as: HashMap<&'a str, usize>,
    /// Sessions that the servers have ended, and when.
    pub(super) over: HashMap<i64, Duration>,
    /// Sessions that were ended by force, and when.
    killed: HashMap<i64, Duration>,
    /// Nodes whose owners somebody was about to ask to let go, and since when.
    pub(super) asking: HashMap<&'a str, Duration>,
    /// Nodes whose owners were asked, and since when.
    pub(super) asked: HashMap<&'a str, Duration>,
    /// The last event.
    pub(super) end: Duration,
}

/// One attempt, and the hold that came of it.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    pub(super) attempt: Attempt,
    pub(super) client: u32,
    pub(super) lock: &'a Arc<str>,
    pub(super) mode: Mode,
    pub(super) asked: Duration,
    /// Its place in the line: since when, which node, whose.
    pub(super) placed: Option<(Duration, &'a str, i64)>,
    pub(super) granted: Option<Granted<'a>>,
    /// Until when it was said to be valid.
    pub(super) until: Duration,
    /// When it gives itself up.
    pub(super) limit: Option<Duration>,
    /// Since when it listens to who asks it to let go.
    pub(super) listens: Option<Duration>,
    /// When it heard of that.
    pub(super) heard: Option<Duration>,
    /// Since when it is a reader, and as which node.
    pub(super) downgraded: Option<(Duration, &'a str)>,
    pub(super) stored: Vec<Stored<'a>>,
    pub(super) let_go: Option<Duration>,
    /// Its place among all events.
    let_go_as: Option<usize>,
    pub(super) ended: Option<(Duration, &'a End)>,
}

/// A write to a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) at: Duration,
    /// Its place among all events.
    pub(super) index: usize,
    pub(super) store: &'a str,
    pub(super) token: u64,
    pub(super) accepted: bool,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted<'a> {
    pub(super) at: Duration,
    /// Its place among all events: grants of one instant have an order, too.
    pub(super) index: usize,
    pub(super) token: u64,
    pub(super) node: &'a str,
    pub(super) session: i64,
}

impl<'a> Holds<'a> {
    /// Puts a history together. What makes no sense in it is found.
    pub(super) fn of(history: &'a [Event], found: &mut Vec<Violation>) -> Self {
        let mut holds = Self::default();
        for (index, event) in history.iter().enumerate() {
            if event.at < holds.end {
                let text = format!("{event} comes after a later event");
                found.push(Violation::new(event.at, Rule::Record, text));
            }
            holds.end = event.at;
            if let Err(why) = holds.take(index, event) {
                found.push(Violation::new(
                    event.at,
                    Rule::Record,
                    format!("{event}: {why}"),
                ));
            }
        }
        holds
    }

    fn take(&mut self, index: usize, event: &'a Event) -> Result<(), &'static str> {
        let at = event.at;
        match &event.what {
            What::Asked {
                attempt,
                lock,
                mode,
            } => {
                let hold = Hold {
                    attempt: *attempt,
                    client: event.client,
                    lock,
                    mode: *mode,
                    asked: at,
                    placed: None,
                    granted: None,
                    until: Duration::ZERO,
                    limit: None,
                    listens: None,
                    heard: None,
                    downgraded: None,
                    stored: Vec::new(),
                    let_go: None,
                    let_go_as: None,
                    ended: None,
                };
                if self.all.insert(*attempt, hold).is_some() {
                    return Err("asked for twice");
                }
            }
            What::Placed {
                attempt,
                node,
                session,
            } => self.open(*attempt)?.placed = Some((at, node, *session)),
            What::Granted {
                attempt,
                token,
                node,
                session,
            } => {
                let hold = self.open(*attempt)?;
                if hold.granted.is_some() {
                    return Err("granted twice");
                }
                hold.until = at;
                hold.granted = Some(Granted {
                    at,
                    index,
                    token: *token,
                    node,
                    session: *session,
                });
            }
            What::Valid { attempt, until } => {
                let hold = self.held(*attempt)?;
                hold.until = hold.until.max(*until);
            }
            What::Downgrading { attempt } => {
                let hold = self.held(*attempt)?;
                let node = hold.granted.map_or("", |granted| granted.node);
                hold.downgraded = Some((at, node));
            }
            What::Downgraded { attempt, node } => {
                let (_, reader) = self
                    .held(*attempt)?
                    .downgraded
                    .as_mut()
                    .ok_or("never began")?;
                *reader = node;
            }
            What::Stored {
                attempt,
                store,
                token,
                accepted,
            } => {
                // A write may come late, when its hold is over.
                let hold = self.all.get_mut(attempt).ok_or("never asked for")?;
                hold.stored.push(Stored {
                    at,
                    index,
                    store,
                    token: *token,
                    accepted: *accepted,
                });
            }
            What::LetGo { attempt } => self.held(*attempt)?.lets_go(at, index),
            What::Ended { attempt, end } => self.open(*attempt)?.ended = Some((at, end)),
            What::Deleted { node } => {
                self.deleted.entry(node).or_insert(at);
                self.deleted_as.entry(node).or_insert(index);
            }
            What::Killed { session } => {
                self.killed.entry(*session).or_insert(at);
            }
            What::SessionOver { session } => {
                self.over.entry(*session).or_insert(at);
            }
            _ => return self.take_end(event),
        }
        Ok(())
    }

    /// What is about the end of holds that somebody wants to end.
    fn take_end(&mut self, event: &'a Event) -> Result<(), &'static str> {
        let at = event.at;
        match &event.what {
            What::Limited { attempt, until } => self.held(*attempt)?.limit = Some(*until),
            What::Listening { attempt } => self.held(*attempt)?.listens = Some(at),
            What::Heard { attempt } => self.held(*attempt)?.heard = Some(at),
            What::Asking { node } => {
                self.asking.entry(node).or_insert(at);
            }
            What::AskedToLetGo { node } => {
                self.asked.entry(node).or_insert(at);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, attempt: Attempt) -> Result<&mut Hold<'a>, &'static str> {
        let hold = self.all.get_mut(&attempt).ok_or("never asked for")?;
        match hold.ended {
            None => Ok(hold),
            Some(_) => Err("ended already"),
        }
    }

    fn held(&mut self, attempt: Attempt) -> Result<&mut Hold<'a>, &'static str> {
        let hold = self.open(attempt)?;
        match hold.granted {
            Some(_) => Ok(hold),
            None => Err("not granted"),
        }
    }

    /// The attempts that were granted, by lock, in order of the grants; without those of which third parties had taken the
    /// ground away so shortly before that nobody could know.
    pub(super) fn grants(&self, bounds: &Bounds) -> BTreeMap<&str, Vec<(&Hold<'a>, Granted<'a>)>> {
        let mut grants: BTreeMap<&str, Vec<_>> = BTreeMap::new();
        for hold in self.all.values() {
            if let Some(granted) = hold.granted {
                let broken = self.broken(granted.node, granted.session);
                let void = broken.is_some_and(|broken| {
                    broken <= granted.at && granted.at <= broken.saturating_add(bounds.news)
                });
                if void {
                    continue;
                }
                grants.entry(hold.lock).or_default().push((hold, granted));
            }
        }
        for line in grants.values_mut() {
            line.sort_by_key(|(_, granted)| granted.index);
        }
        grants
    }

    /// When third parties broke what the owner of this node was promised; `None` for never.
    pub(super) fn broken(&self, node: &str, session: i64) -> Option<Duration> {
        let deleted = self.deleted.get(node);
        let killed = self.killed.get(&session);
        deleted.into_iter().chain(killed).min().copied()
    }

    /// Whom this one had to wait for until after its own node was deleted by hand, so that it heard of that first. `None`
    /// when there is nobody.
    pub(super) fn heard_too_late(
        &self,
        hold: &Hold<'_>,
        granted: Granted<'_>,
    ) -> Option<&Hold<'a>> {
        let deleted = *self.deleted_as.get(granted.node)?;
        let moment = *self.deleted.get(granted.node)?;
        if granted.index < deleted {
            return None;
        }
        self.all.values().find(|other| {
            let waited_for = other.granted.filter(|theirs| {
                // Its node was there before ours and beyond the end of ours.
                theirs.token < granted.token
                    && theirs.index < deleted
                    && self.broken(theirs.node, theirs.session).is_none()
                    && self
                        .over
                        .get(&theirs.session)
                        .is_none_or(|over| *over > moment)
            });
            waited_for.is_some()
                && other.lock == hold.lock
                && other.mode.conflicts(hold.mode)
                && other.downgraded.is_none()
                // One that has set itself a limit has no node beyond it, however long it goes on.
                && other.limit.is_none_or(|limit| limit > moment)
                && other.let_go_as.is_some_and(|let_go| let_go > deleted)
        })
    }

    /// Until when a hold excludes others: as long as it was said to be valid, is not let go, and nobody meddled.
    pub(super) fn reach(&self, hold: &Hold<'_>, granted: Granted<'_>) -> Duration {
        let mut ends = vec![hold.until];
        ends.extend(hold.let_go);
        ends.extend(hold.ended.map(|(at, _)| at));
        ends.extend(self.broken(granted.node, granted.session));
        if let Some((_, node)) = hold.downgraded {
            ends.extend(self.deleted.get(node));
        }
        ends.into_iter().min().unwrap_or(hold.until)
    }
}

impl Hold<'_> {
    fn lets_go(&mut self, at: Duration, index: usize) {
        self.let_go.get_or_insert(at);
        self.let_go_as.get_or_insert(index);
    }

    /// Whether a hold in this mode tolerates another one, at this moment.
    pub(super) fn mode_at(&self, at: Duration) -> Mode {
        match self.downgraded {
            Some((since, _)) if since <= at => Mode::Shared,
            _ => self.mode,
        }
    }
}
