//! Collects the events of each attempt.
//!
//! Not here: the rules (the other modules).

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use super::{Bounds, Rule, Violation};
use crate::history::{Attempt, End, Event, Mode, What};

const NEVER_ASKED: &str = "this attempt was never asked for";

/// All attempts of a history, and the actions of third parties.
#[derive(Debug, Default)]
pub(super) struct Holds<'a> {
    /// All attempts, in order of their numbers.
    pub(super) all: BTreeMap<Attempt, Hold<'a>>,
    /// Nodes that were deleted by hand: when, and the index of that event in the history.
    pub(super) deleted: HashMap<&'a str, (Duration, usize)>,
    /// Sessions that the servers have ended, and when.
    pub(super) over: HashMap<i64, Duration>,
    /// Sessions that were ended by force, and when.
    killed: HashMap<i64, Duration>,
    /// Nodes whose owners a client was about to ask to release, and since when.
    pub(super) asking: HashMap<&'a str, Duration>,
    /// Nodes whose owners have been asked to release, and since when.
    pub(super) asked: HashMap<&'a str, Duration>,
    /// The time of the last event.
    pub(super) end: Duration,
}

/// One attempt, and the hold that followed, if any.
#[derive(Debug)]
pub(super) struct Hold<'a> {
    pub(super) attempt: Attempt,
    pub(super) client: u32,
    pub(super) lock: &'a Arc<str>,
    pub(super) mode: Mode,
    pub(super) asked: Duration,
    /// Its place in the queue: since when, the node, and the session that owns the node.
    pub(super) placed: Option<(Duration, &'a str, i64)>,
    /// Since when its caller waits for its turn, and for nothing else.
    pub(super) waiting: Option<Duration>,
    pub(super) granted: Option<Granted<'a>>,
    /// How much of the lease was left at the grant, and the session timeout, if that was little.
    pub(super) scant: Option<(Duration, Duration)>,
    /// The latest time until which the guard said that it is valid.
    pub(super) until: Duration,
    /// When the guard releases the lock by force.
    pub(super) limit: Option<Duration>,
    /// Since when the holder listens for requests to release.
    pub(super) listens: Option<Duration>,
    /// When the holder heard such a request.
    pub(super) heard: Option<Duration>,
    /// Since when it counts as a reader, and the reader's node.
    pub(super) downgraded: Option<(Duration, &'a str)>,
    pub(super) stored: Vec<Stored<'a>>,
    /// Whether the next holder may have its node and its token.
    pub(super) is_handed_over: bool,
    /// When the holder began to release, and the index of that event in the history.
    pub(super) let_go: Option<(Duration, usize)>,
    pub(super) ended: Option<(Duration, &'a End)>,
}

/// A write to a store.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stored<'a> {
    pub(super) at: Duration,
    /// The index of the event in the history.
    pub(super) index: usize,
    pub(super) store: &'a str,
    pub(super) token: u64,
    pub(super) accepted: bool,
}

/// A grant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Granted<'a> {
    pub(super) at: Duration,
    /// The index of the event in the history. It orders grants of one instant.
    pub(super) index: usize,
    pub(super) token: u64,
    pub(super) node: &'a str,
    pub(super) session: i64,
}

impl<'a> Holds<'a> {
    /// Collects a history. Events that contradict each other are violations of [`Rule::Record`].
    pub(super) fn of(history: &'a [Event], found: &mut Vec<Violation>) -> Self {
        let mut holds = Self::default();
        for (index, event) in history.iter().enumerate() {
            let mut wrong = |why: &str| {
                let text = format!("{event}: {why}");
                found.push(Violation::new(event.at, Rule::Record, text));
            };
            if event.at < holds.end {
                wrong("this comes after a later event");
            }
            holds.end = event.at;
            if let Err(why) = holds.take(index, event) {
                wrong(why);
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
                let hold = Hold::asked(*attempt, event.client, lock, *mode, at);
                if self.all.insert(*attempt, hold).is_some() {
                    return Err("this attempt was asked for twice");
                }
            }
            What::Placed {
                attempt,
                node,
                session,
            } => self.open(*attempt)?.placed = Some((at, node, *session)),
            What::Waiting(attempt) => self.open(*attempt)?.waiting = Some(at),
            What::Granted {
                attempt,
                token,
                node,
                session,
            } => {
                let hold = self.open(*attempt)?;
                let granted = Granted {
                    at,
                    index,
                    token: *token,
                    node,
                    session: *session,
                };
                hold.until = at;
                if hold.granted.replace(granted).is_some() {
                    return Err("this attempt was granted twice");
                }
            }
            What::Scant {
                attempt,
                left,
                timeout,
            } => self.held(*attempt)?.scant = Some((*left, *timeout)),
            What::Valid { attempt, until } => {
                let hold = self.held(*attempt)?;
                hold.until = hold.until.max(*until);
            }
            What::Limited { attempt, until } => self.held(*attempt)?.limit = Some(*until),
            What::Listening(attempt) => self.held(*attempt)?.listens = Some(at),
            What::Heard(attempt) => self.held(*attempt)?.heard = Some(at),
            What::Downgrading(attempt) => {
                let hold = self.held(*attempt)?;
                let node = hold.granted.map_or("", |granted| granted.node);
                hold.downgraded = Some((at, node));
            }
            What::Downgraded { attempt, node } => {
                let hold = self.held(*attempt)?;
                let (_, reader) = hold
                    .downgraded
                    .as_mut()
                    .ok_or("the downgrade never began")?;
                *reader = node;
            }
            What::Stored {
                attempt,
                store,
                token,
                accepted,
            } => {
                // A write may arrive after its hold has ended.
                let hold = self.all.get_mut(attempt).ok_or(NEVER_ASKED)?;
                hold.stored.push(Stored {
                    at,
                    index,
                    store,
                    token: *token,
                    accepted: *accepted,
                });
            }
            What::HandedOver(attempt) => self.held(*attempt)?.is_handed_over = true,
            What::LetGo(attempt) => {
                self.held(*attempt)?.let_go.get_or_insert((at, index));
            }
            What::Ended { attempt, end } => self.open(*attempt)?.ended = Some((at, end)),
            What::Deleted(node) => {
                self.deleted.entry(node).or_insert((at, index));
            }
            What::Killed(session) => {
                self.killed.entry(*session).or_insert(at);
            }
            What::SessionOver(session) => {
                self.over.entry(*session).or_insert(at);
            }
            What::Asking(node) => {
                self.asking.entry(node).or_insert(at);
            }
            What::AskedToLetGo(node) => {
                self.asked.entry(node).or_insert(at);
            }
            _ => {}
        }
        Ok(())
    }

    fn open(&mut self, attempt: Attempt) -> Result<&mut Hold<'a>, &'static str> {
        let hold = self.all.get_mut(&attempt).ok_or(NEVER_ASKED)?;
        match hold.ended {
            None => Ok(hold),
            Some(_) => Err("this attempt has already ended"),
        }
    }

    fn held(&mut self, attempt: Attempt) -> Result<&mut Hold<'a>, &'static str> {
        let hold = self.open(attempt)?;
        match hold.granted {
            Some(_) => Ok(hold),
            None => Err("this attempt was not granted"),
        }
    }

    /// The granted attempts by lock, in order of the grants.
    ///
    /// Leaves out a grant shortly after a third party deleted its node or ended its session: the
    /// client could not know yet.
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
        for of_lock in grants.values_mut() {
            of_lock.sort_by_key(|(_, granted)| granted.index);
        }
        grants
    }

    /// When a third party first deleted this node or ended this session; `None` for never.
    pub(super) fn broken(&self, node: &str, session: i64) -> Option<Duration> {
        let deleted = self.deleted.get(node).map(|(at, _)| at);
        let killed = self.killed.get(&session);
        deleted.into_iter().chain(killed).min().copied()
    }

    /// The holder that this attempt still had to wait for when its own node was deleted by hand;
    /// `None` if there is none.
    ///
    /// With such a holder ahead, the attempt heard of its deletion before it could be granted.
    pub(super) fn heard_too_late(
        &self,
        hold: &Hold<'_>,
        granted: Granted<'_>,
    ) -> Option<&Hold<'a>> {
        let (moment, deleted) = *self.deleted.get(granted.node)?;
        if granted.index < deleted {
            return None;
        }
        self.all.values().find(|other| {
            let waited_for = other.granted.filter(|theirs| {
                // The other node existed before ours, and still existed when ours was deleted.
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
                // A hold with a limit has no node after that limit, even if the holder goes on.
                && other.limit.is_none_or(|limit| limit > moment)
                && other.let_go.is_some_and(|(_, let_go)| let_go > deleted)
        })
    }

    /// When a third party deleted the node of a writer that became a reader.
    ///
    /// The reply that names the reader's node may be lost. That node has the number of the writer's
    /// node.
    pub(super) fn reader_deleted(&self, hold: &Hold<'_>) -> Option<Duration> {
        let (since, known) = hold.downgraded?;
        let number = |node: &str| node.get(node.len().saturating_sub(10)..).map(str::to_owned);
        let deleted = self.deleted.iter().filter(|(node, (at, _))| {
            node.starts_with(&**hold.lock) && number(node) == number(known) && *at >= since
        });
        deleted.map(|(_, (at, _))| *at).min()
    }

    /// Until when a hold excludes others: the end of its validity, its release, its end, or the
    /// action of a third party, whichever comes first.
    pub(super) fn reach(&self, hold: &Hold<'_>, granted: Granted<'_>) -> Duration {
        let mut ends = vec![hold.until];
        ends.extend(hold.let_go.map(|(at, _)| at));
        ends.extend(hold.ended.map(|(at, _)| at));
        ends.extend(self.broken(granted.node, granted.session));
        ends.extend(self.reader_deleted(hold));
        ends.into_iter().min().unwrap_or(hold.until)
    }
}

impl<'a> Hold<'a> {
    /// An attempt that begins.
    fn asked(
        attempt: Attempt,
        client: u32,
        lock: &'a Arc<str>,
        mode: Mode,
        asked: Duration,
    ) -> Self {
        Self {
            attempt,
            client,
            lock,
            mode,
            asked,
            placed: None,
            waiting: None,
            granted: None,
            scant: None,
            until: Duration::ZERO,
            limit: None,
            listens: None,
            heard: None,
            downgraded: None,
            stored: Vec::new(),
            is_handed_over: false,
            let_go: None,
            ended: None,
        }
    }

    /// The mode of the hold at this moment: a downgraded writer is a reader.
    pub(super) fn mode_at(&self, at: Duration) -> Mode {
        match self.downgraded {
            Some((since, _)) if since <= at => Mode::Shared,
            _ => self.mode,
        }
    }
}

impl fmt::Display for Hold<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of client {}", self.attempt, self.client)
    }
}
