//! The life of one lock node, as a pure state machine: created once and for certain, deleted for
//! certain.
//!
//! It says which request comes next ([`NodeLife::next`]), and takes the replies
//! ([`NodeLife::answered`]). It reads no clock and sends nothing, so that `tests/model` explores
//! exactly this code. Names are an `N`, and what else the client knows of a node is a `T`: the
//! model has small ones.
//!
//! ```text
//!   Create ── reply lost ──► Find ── found ──► Check ── ours ──► Live ── release ──► Delete ──► Settled
//!     │ ▲                     │ ▲               │                ▲                   │   ▲
//!     │ └── never created ────┘ └── reply lost ─┘                │                   └───┘
//!     └──────────────────────── created ─────────────────────────┘                not sent, or reply lost
//! ```
//!
//! A create whose reply is lost is looked for behind a *barrier*: a delete of a name that never
//! exists. It fails, but like every write of a session it is ordered behind all earlier writes of
//! the session, also those of former connections. A listing behind it shows what they left. A plain
//! listing from a server that lags could miss the node, and the node would block everybody until
//! the session ends.
//!
//! A caller may go away at any point ([`NodeLife::abandon`]): the life goes on until nothing is
//! left behind.
//!
//! Not here: the requests themselves (`identity`), sending them (`requests`), whose turn it is
//! (`queue`).

#![allow(
    clippy::exhaustive_enums,
    clippy::exhaustive_structs,
    reason = "`tests/model` makes and matches all of it"
)]

use crate::error::Loss;

/// How often a directory that vanishes between two requests is made again. The servers may remove
/// an empty container at any time.
const DIRECTORY_ATTEMPTS: u8 = 8;

/// A lock node that exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Node<N, T> {
    /// Its name in the directory.
    pub name: N,
    /// What else the client knows of it.
    pub tag: T,
}

/// Why a request failed, as far as decisions depend on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Failure {
    /// The node, or its parent, does not exist.
    NoNode,
    /// The node exists already.
    NodeExists,
    /// No server has applied the request, and the same request may succeed later.
    NotApplied,
    /// A server that has too much to do has not applied the request. The same request may succeed
    /// after a pause.
    Throttled,
    /// The reply was lost. The request may have been applied, or may still be.
    Unknown,
    /// The session is over: it has expired, and the client goes on with another one, or the client
    /// was closed.
    SessionOver(Loss),
    /// A server refused the request for another reason, or no server was reached in time.
    Refused,
}

impl Failure {
    /// Whether to send the same request again when the client is connected.
    pub(crate) fn is_transient(self) -> bool {
        matches!(self, Self::NotApplied | Self::Throttled | Self::Unknown)
    }
}

/// What comes next in the life of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next<N, T> {
    /// Send this request, then call [`NodeLife::sent`].
    Send(Ask<N, T>),
    /// Wait for the reply to the request that was sent last.
    Await,
    /// Nothing: the node is there, or nothing is left of it.
    Rest,
}

/// A request about a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ask<N, T> {
    /// Create the node.
    Create {
        /// Under a new name: no late request of the former attempt may touch the new node.
        renamed: bool,
        /// Make the directory first, in the same write.
        directory: bool,
    },
    /// Put a reader's node in the place of this writer's, in one transaction.
    Replace(Node<N, T>),
    /// Send the barrier, and a listing behind it.
    Find,
    /// Name the next node in that listing that may be ours. The one before it was not. Nothing is
    /// sent.
    FindNext,
    /// Read this node, which may be ours.
    Check(N),
    /// Delete the node.
    Delete(Node<N, T>),
}

/// The reply to a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<N, T> {
    /// To [`Ask::Create`] and [`Ask::Replace`].
    Created(Result<Node<N, T>, Failure>),
    /// To [`Ask::Find`] and [`Ask::FindNext`]: the node in the listing that may be ours.
    Found(Result<Option<N>, Failure>),
    /// To [`Ask::Check`].
    Checked(Result<Seen<T>, Failure>),
    /// To [`Ask::Delete`].
    Deleted(Result<(), Failure>),
}

/// A node as a read shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen<T> {
    /// Whether it belongs to the present session of the client.
    pub is_of_session: bool,
    /// Whether its data carry the mark of this attempt. If the node is known: whether it is still
    /// the same one.
    pub is_marked: bool,
    /// What else the client knows of it.
    pub tag: T,
}

/// What a contender knows of the session of its node, beside listings and events, when it decides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Facts {
    /// How the session of our node was lost, if it was.
    pub session_loss: Option<Loss>,
    /// Whether the lease of that session is good for a grant: enough of it is left.
    pub is_lease_good: bool,
}

impl Facts {
    /// Nothing is known yet.
    pub const NONE: Self = Self {
        session_loss: None,
        is_lease_good: false,
    };

    /// Whether a contender whose turn has come may take the lock.
    ///
    /// `Ok(false)` says that the lease must be renewed first. What it heard may be long over: the
    /// process may have slept, and the listing or event may have been there since before. And a
    /// holder with little lease left would lose the lock at once.
    ///
    /// # Errors
    /// The session is over.
    pub fn may_hold(&self) -> Result<bool, Loss> {
        self.session_loss.map_or(Ok(self.is_lease_good), Err)
    }
}

/// How the life of a node ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// It was never created.
    NeverCreated,
    /// Another contender has the node with this fixed name.
    Taken,
    /// This client has deleted it.
    Deleted,
    /// It is gone, and nobody knows who has deleted it. The reply to the delete of this client was
    /// lost, and a later scan did not find the node.
    DeletedOrGone,
    /// Another client has deleted it.
    Gone,
    /// Its session is over.
    SessionOver(Loss),
}

/// What a lost request was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Goal<N, T> {
    Create,
    /// Put a reader's node in the place of this writer's.
    Replace(Node<N, T>),
    /// Delete this node.
    Delete(Node<N, T>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage<N, T> {
    /// This request, or its reply, comes next.
    Ask(Ask<N, T>),
    /// The node is there.
    Live(Node<N, T>),
    /// Nothing is left to do.
    Settled(End),
}

/// The life of one lock node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeLife<N, T> {
    stage: Stage<N, T>,
    goal: Goal<N, T>,
    /// Whether the request of this stage was sent.
    is_sent: bool,
    /// Whether the caller has gone. The node is deleted as soon as it is known.
    is_abandoned: bool,
    /// Whether the node has a fixed name, which others use too.
    is_fixed: bool,
    directory_attempts: u8,
}

impl<N: Clone, T: Clone> NodeLife<N, T> {
    /// A node that is to be created.
    #[must_use]
    pub fn new(is_fixed: bool) -> Self {
        Self {
            stage: Stage::Ask(Ask::Create {
                renamed: false,
                directory: false,
            }),
            goal: Goal::Create,
            is_sent: false,
            is_abandoned: false,
            is_fixed,
            directory_attempts: 0,
        }
    }

    /// A node that exists.
    pub fn live(node: Node<N, T>, is_fixed: bool) -> Self {
        Self {
            stage: Stage::Live(node),
            ..Self::new(is_fixed)
        }
    }

    /// What to do next.
    pub fn next(&self) -> Next<N, T> {
        match self.asked() {
            Some(_) if self.is_sent => Next::Await,
            Some(ask) => Next::Send(ask.clone()),
            None => Next::Rest,
        }
    }

    /// The request that comes next, or whose reply does.
    pub(crate) fn asked(&self) -> Option<&Ask<N, T>> {
        match &self.stage {
            Stage::Ask(ask) => Some(ask),
            Stage::Live(_) | Stage::Settled(_) => None,
        }
    }

    /// The request that [`next`](Self::next) named was sent.
    pub fn sent(&mut self) {
        self.is_sent = true;
    }

    /// The node, while it is there or being deleted.
    pub fn node(&self) -> Option<&Node<N, T>> {
        match &self.stage {
            Stage::Live(node) | Stage::Ask(Ask::Delete(node)) => Some(node),
            _ => None,
        }
    }

    /// The known node that a scan is about: the reply to its delete, or to its replacement, was
    /// lost. The scan must be made within the session of this node: in a later one it says nothing.
    pub fn bound(&self) -> Option<&Node<N, T>> {
        match &self.goal {
            Goal::Create => None,
            Goal::Replace(node) | Goal::Delete(node) => Some(node),
        }
    }

    /// Changes the names of the nodes. The model counts states that differ only in names once.
    #[doc(hidden)]
    pub fn rename(&mut self, mut change: impl FnMut(&mut N)) {
        match &mut self.stage {
            Stage::Ask(Ask::Check(name)) => change(name),
            Stage::Live(node) | Stage::Ask(Ask::Delete(node) | Ask::Replace(node)) => {
                change(&mut node.name);
            }
            Stage::Ask(_) | Stage::Settled(_) => {}
        }
        match &mut self.goal {
            Goal::Create => {}
            Goal::Replace(node) | Goal::Delete(node) => change(&mut node.name),
        }
    }

    /// Whether the node is there, and nobody has begun to delete it.
    pub fn is_live(&self) -> bool {
        matches!(self.stage, Stage::Live(_))
    }

    /// How it ended; `None` while there may be something left to delete.
    pub fn end(&self) -> Option<End> {
        match self.stage {
            Stage::Settled(end) => Some(end),
            _ => None,
        }
    }

    /// Deletes the node.
    pub fn release(&mut self) {
        if let Stage::Live(node) = &self.stage {
            self.ask(Ask::Delete(node.clone()));
        }
    }

    /// Puts a reader's node in the place of this writer's.
    pub fn replace(&mut self) {
        if let Stage::Live(writer) = &self.stage {
            self.goal = Goal::Replace(writer.clone());
            self.create_again();
        }
    }

    /// The caller has gone: deletes what there is, and what may yet be created.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        if let Stage::Ask(Ask::Create { .. } | Ask::Replace(_)) = self.stage {
            if !self.is_sent {
                self.never_created();
            }
        }
        self.release();
    }

    /// There is nothing left to delete.
    pub fn settle(&mut self, end: End) {
        self.enter(Stage::Settled(end));
    }

    /// The reply to the request that was sent last.
    ///
    /// # Errors
    /// A failure that the caller must hear of. What may be left of the node is still known, and
    /// deleted when the caller goes.
    pub fn answered(&mut self, answer: Answer<N, T>) -> Result<(), Failure> {
        self.is_sent = false;
        match answer {
            Answer::Created(result) => return self.created(result),
            Answer::Deleted(result) => return self.deleted(result),
            Answer::Found(Ok(Some(name))) => self.ask(Ask::Check(name)),
            Answer::Found(Ok(None) | Err(Failure::NoNode))
            | Answer::Checked(Err(Failure::NoNode)) => self.not_found(),
            Answer::Checked(Ok(seen)) => self.checked(seen),
            Answer::Found(Err(failure)) | Answer::Checked(Err(failure)) => {
                return self.not_seen(failure);
            }
        }
        Ok(())
    }

    fn enter(&mut self, stage: Stage<N, T>) {
        self.stage = stage;
        self.is_sent = false;
    }

    fn ask(&mut self, ask: Ask<N, T>) {
        self.enter(Stage::Ask(ask));
    }

    /// Creates the node under another name.
    fn create_again(&mut self) {
        self.ask(match &self.goal {
            Goal::Replace(writer) => Ask::Replace(writer.clone()),
            _ => Ask::Create {
                renamed: true,
                directory: false,
            },
        });
    }

    /// The node is known to be there.
    fn enter_live(&mut self, node: Node<N, T>) {
        self.goal = Goal::Create;
        self.enter(Stage::Live(node));
        if self.is_abandoned {
            self.release();
        }
    }

    fn created(&mut self, result: Result<Node<N, T>, Failure>) -> Result<(), Failure> {
        let replaces = matches!(self.goal, Goal::Replace(_));
        match result {
            Ok(node) => self.enter_live(node),
            Err(Failure::Unknown) => self.ask(Ask::Find),
            Err(Failure::Throttled) if !self.is_abandoned => {}
            Err(Failure::NoNode) if replaces => self.settle(End::Gone),
            Err(Failure::NoNode)
                if !self.is_abandoned && self.directory_attempts < DIRECTORY_ATTEMPTS =>
            {
                self.directory_attempts += 1;
                self.ask(Ask::Create {
                    renamed: false,
                    directory: true,
                });
            }
            Err(Failure::NodeExists) => self.settle(End::Taken),
            Err(Failure::SessionOver(loss)) => return self.session_over(loss),
            Err(_) if self.is_abandoned => self.never_created(),
            Err(failure) => {
                self.never_created();
                return Err(failure);
            }
        }
        Ok(())
    }

    /// A node that may be ours was read.
    fn checked(&mut self, seen: Seen<T>) {
        // A node of another session is not ours. A node of a former session of this client goes
        // with that session.
        let is_ours = seen.is_of_session && (seen.is_marked || !self.is_fixed);
        let Stage::Ask(Ask::Check(name)) = &self.stage else {
            return;
        };
        let (name, tag) = (name.clone(), seen.tag);
        match self.goal {
            Goal::Delete(_) if is_ours => self.ask(Ask::Delete(Node { name, tag })),
            _ if is_ours => self.enter_live(Node { name, tag }),
            _ if self.is_fixed => self.not_found(),
            _ => self.ask(Ask::FindNext),
        }
    }

    /// The lost create was not applied, and never will be; or the lost delete was.
    fn not_found(&mut self) {
        match self.goal {
            Goal::Delete(_) => self.settle(End::DeletedOrGone),
            _ if self.is_abandoned => self.never_created(),
            _ => self.create_again(),
        }
    }

    /// The scan failed.
    fn not_seen(&mut self, failure: Failure) -> Result<(), Failure> {
        self.ask(Ask::Find);
        match failure {
            failure if failure.is_transient() => Ok(()),
            Failure::SessionOver(loss) => self.session_over(loss),
            failure => Err(failure),
        }
    }

    fn deleted(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => self.settle(End::Deleted),
            // After a lost reply, this client has deleted a missing node, or another one has
            // before.
            Err(Failure::NoNode) => self.settle(match self.goal {
                Goal::Delete(_) => End::DeletedOrGone,
                _ => End::Gone,
            }),
            Err(Failure::NotApplied | Failure::Throttled) => {}
            Err(Failure::Unknown) => {
                let Stage::Ask(Ask::Delete(node)) = &self.stage else {
                    return Ok(());
                };
                self.goal = Goal::Delete(node.clone());
                // The next holder may have created a node with the same fixed name.
                if self.is_fixed {
                    self.ask(Ask::Find);
                }
            }
            Err(Failure::SessionOver(loss)) => self.settle(End::SessionOver(loss)),
            // To be repeated: the session may live for long, and the node blocks others.
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    /// Nothing was created. The writer's node, if one was to be replaced, is still there.
    fn never_created(&mut self) {
        if let Goal::Replace(writer) = &self.goal {
            let writer = writer.clone();
            self.enter_live(writer);
        } else {
            self.settle(End::NeverCreated);
        }
    }

    /// The session is over. An attempt whose node was not known yet starts again in the next
    /// session.
    fn session_over(&mut self, loss: Loss) -> Result<(), Failure> {
        let is_unknown = matches!(self.goal, Goal::Create) && !self.is_abandoned;
        if is_unknown && loss != Loss::Closed {
            self.create_again();
        } else {
            self.settle(End::SessionOver(loss));
            if !self.is_abandoned {
                return Err(Failure::SessionOver(loss));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An attempt whose create was sent.
    fn creating(is_fixed: bool) -> NodeLife<&'static str, ()> {
        let mut life = NodeLife::new(is_fixed);
        life.sent();
        life
    }

    /// A node that nobody wants would block others until it is deleted again.
    #[test]
    fn an_abandoned_attempt_creates_nothing_after_its_look() {
        for is_fixed in [false, true] {
            let mut life = creating(is_fixed);
            life.answered(Answer::Created(Err(Failure::Unknown)))
                .unwrap();
            life.abandon();
            life.sent();
            life.answered(Answer::Found(Ok(None))).unwrap();
            assert_eq!(life.end(), Some(End::NeverCreated));
        }
    }

    /// CURATOR-180, kazoo #563: the servers may reap an empty directory between two requests.
    #[test]
    fn a_directory_that_vanishes_is_made_again_and_not_for_ever() {
        let vanished = || Answer::Created(Err(Failure::NoNode));
        let (renamed, directory) = (false, true);
        let mut life = creating(false);
        for _ in 0..5 {
            life.answered(vanished()).unwrap();
            let again = Ask::Create { renamed, directory };
            assert_eq!(life.next(), Next::Send(again));
        }
        assert!((0..100).any(|_| life.answered(vanished()) == Err(Failure::NoNode)));
    }

    /// There is no next session. Each further create would fail at once.
    #[test]
    fn an_attempt_of_a_closed_client_ends() {
        for loss in [Loss::Expired, Loss::Closed] {
            let (over, closed) = (Failure::SessionOver(loss), loss == Loss::Closed);
            let mut looking = creating(false);
            looking
                .answered(Answer::Created(Err(Failure::Unknown)))
                .unwrap();
            for (mut life, answer) in [
                (creating(false), Answer::Created(Err(over))),
                (looking, Answer::Found(Err(over))),
            ] {
                life.sent();
                let expected = if closed { Err(over) } else { Ok(()) };
                assert_eq!(life.answered(answer), expected);
                assert_eq!(life.end().is_some(), closed);
            }
        }
    }
}
