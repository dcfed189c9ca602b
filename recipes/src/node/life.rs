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
//! Not here: the requests themselves (`identity`), sending them (`task`), whose turn it is
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
    /// The session is over.
    SessionOver {
        /// Whether the client was closed. Otherwise it goes on with another session.
        closed: bool,
    },
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    /// Whether the lease of that session is valid now.
    pub is_lease_valid: bool,
    /// The number of the present connection.
    pub connection: u64,
}

impl Facts {
    /// Nothing is known yet.
    pub const NONE: Self = Self {
        session_loss: None,
        is_lease_valid: false,
        connection: 0,
    };

    /// Whether a contender whose turn has come may take the lock.
    ///
    /// `Ok(false)` says that the lease must be renewed first. What it heard may be long over: the
    /// process may have slept, and the listing or event may have been there since before.
    ///
    /// # Errors
    /// The session is over.
    pub fn may_hold(&self) -> Result<bool, Loss> {
        self.session_loss.map_or(Ok(self.is_lease_valid), Err)
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
    /// lost, and a later look did not find the node.
    DeletedOrGone,
    /// Another client has deleted it.
    Gone,
    /// Its session is over.
    SessionOver {
        /// Whether the client was closed.
        closed: bool,
    },
}

/// What a lost request was to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Goal<N, T> {
    /// Create the node.
    Create,
    /// Put a reader's node in the place of this writer's.
    Replace(Node<N, T>),
    /// Delete this node, whose name others use too.
    Delete(Node<N, T>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
enum Stage<N, T> {
    /// The create, or the replacement of a writer's node.
    Create { renamed: bool, directory: bool },
    /// The look for a node whose create, or delete, may have been applied.
    Find,
    /// The same, for the next node that may be ours.
    FindNext,
    /// The look at a node that may be ours.
    Check(N),
    /// The node is there.
    Live(Node<N, T>),
    /// The delete. `is_repeated` says that a delete whose reply was lost may have been applied.
    Delete { node: Node<N, T>, is_repeated: bool },
    /// Nothing is left to do.
    Settled(End),
}

impl<N, T> Stage<N, T> {
    /// The create under another name.
    const CREATE_AGAIN: Self = Self::Create {
        renamed: true,
        directory: false,
    };
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
            stage: Stage::Create {
                renamed: false,
                directory: false,
            },
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
        let ask = match &self.stage {
            Stage::Live(_) | Stage::Settled(_) => return Next::Rest,
            _ if self.is_sent => return Next::Await,
            Stage::Create { renamed, directory } => match &self.goal {
                Goal::Replace(writer) => Ask::Replace(writer.clone()),
                _ => Ask::Create {
                    renamed: *renamed,
                    directory: *directory,
                },
            },
            Stage::Find => Ask::Find,
            Stage::FindNext => Ask::FindNext,
            Stage::Check(name) => Ask::Check(name.clone()),
            Stage::Delete { node, .. } => Ask::Delete(node.clone()),
        };
        Next::Send(ask)
    }

    /// The request that [`next`](Self::next) named was sent.
    pub fn sent(&mut self) {
        self.is_sent = true;
    }

    /// The node, while it is there or being deleted.
    pub fn node(&self) -> Option<&Node<N, T>> {
        match &self.stage {
            Stage::Live(node) | Stage::Delete { node, .. } => Some(node),
            _ => None,
        }
    }

    /// The known node that a look is about: the reply to its delete, or to its replacement, was
    /// lost. The look must be made within the session of this node: in a later one it says nothing.
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
            Stage::Check(name) => change(name),
            Stage::Live(node) | Stage::Delete { node, .. } => change(&mut node.name),
            Stage::Create { .. } | Stage::Find | Stage::FindNext | Stage::Settled(_) => {}
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
            self.enter(Stage::Delete {
                node: node.clone(),
                is_repeated: false,
            });
        }
    }

    /// Puts a reader's node in the place of this writer's.
    pub fn replace(&mut self) {
        if let Stage::Live(writer) = &self.stage {
            self.goal = Goal::Replace(writer.clone());
            self.enter(Stage::CREATE_AGAIN);
        }
    }

    /// The caller has gone: deletes what there is, and what may yet be created.
    pub fn abandon(&mut self) {
        self.is_abandoned = true;
        if let Stage::Create { .. } = self.stage
            && !self.is_sent
        {
            self.never_created();
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
            Answer::Created(result) => self.created(result),
            Answer::Found(Ok(Some(name))) => {
                self.enter(Stage::Check(name));
                Ok(())
            }
            Answer::Found(Ok(None) | Err(Failure::NoNode))
            | Answer::Checked(Err(Failure::NoNode)) => {
                self.not_found();
                Ok(())
            }
            Answer::Checked(Ok(seen)) => {
                self.checked(seen);
                Ok(())
            }
            Answer::Found(Err(failure)) | Answer::Checked(Err(failure)) => self.not_seen(failure),
            Answer::Deleted(result) => self.deleted(result),
        }
    }

    fn enter(&mut self, stage: Stage<N, T>) {
        self.stage = stage;
        self.is_sent = false;
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
            Err(Failure::Unknown) => self.enter(Stage::Find),
            Err(Failure::Throttled) if !self.is_abandoned => {}
            Err(Failure::NoNode) if replaces => self.settle(End::Gone),
            Err(Failure::NoNode)
                if !self.is_abandoned && self.directory_attempts < DIRECTORY_ATTEMPTS =>
            {
                self.directory_attempts += 1;
                self.enter(Stage::Create {
                    renamed: false,
                    directory: true,
                });
            }
            Err(Failure::NodeExists) => self.settle(End::Taken),
            Err(Failure::SessionOver { closed }) => return self.session_over(closed),
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
        let Stage::Check(name) = &self.stage else {
            return;
        };
        if !is_ours && self.is_fixed {
            return self.not_found();
        }
        if !is_ours {
            return self.enter(Stage::FindNext);
        }
        let node = Node {
            name: name.clone(),
            tag: seen.tag,
        };
        if let Goal::Delete(_) = self.goal {
            self.enter(Stage::Delete {
                node,
                is_repeated: true,
            });
        } else {
            self.enter_live(node);
        }
    }

    /// The lost create was not applied, and never will be; or the lost delete was.
    fn not_found(&mut self) {
        match self.goal {
            Goal::Delete(_) => self.settle(End::DeletedOrGone),
            _ if self.is_abandoned => self.never_created(),
            _ => self.enter(Stage::CREATE_AGAIN),
        }
    }

    /// The look failed.
    fn not_seen(&mut self, failure: Failure) -> Result<(), Failure> {
        self.enter(Stage::Find);
        match failure {
            failure if failure.is_transient() => Ok(()),
            Failure::SessionOver { closed } => self.session_over(closed),
            failure => Err(failure),
        }
    }

    fn deleted(&mut self, result: Result<(), Failure>) -> Result<(), Failure> {
        match result {
            Ok(()) => self.settle(End::Deleted),
            // After a lost reply, this client has deleted a missing node, or another one has
            // before.
            Err(Failure::NoNode) => self.settle(match self.stage {
                Stage::Delete {
                    is_repeated: true, ..
                } => End::DeletedOrGone,
                _ => End::Gone,
            }),
            Err(Failure::NotApplied | Failure::Throttled) => {}
            Err(Failure::Unknown) => {
                let Stage::Delete { node, is_repeated } = &mut self.stage else {
                    return Ok(());
                };
                *is_repeated = true;
                // The next holder may have created a node with the same fixed name.
                if self.is_fixed {
                    self.goal = Goal::Delete(node.clone());
                    self.enter(Stage::Find);
                }
            }
            Err(Failure::SessionOver { closed }) => self.settle(End::SessionOver { closed }),
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
    fn session_over(&mut self, closed: bool) -> Result<(), Failure> {
        let starts_again = matches!(self.goal, Goal::Create) && !self.is_abandoned && !closed;
        if starts_again {
            self.enter(Stage::CREATE_AGAIN);
            return Ok(());
        }
        self.settle(End::SessionOver { closed });
        if self.is_abandoned {
            Ok(())
        } else {
            Err(Failure::SessionOver { closed })
        }
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

    /// There is no next session. Each further create would fail at once.
    #[test]
    fn an_attempt_of_a_closed_client_ends() {
        for closed in [false, true] {
            let over = Failure::SessionOver { closed };
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
