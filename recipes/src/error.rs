//! The error of the recipes, and the ways to lose a lock.
//!
//! Not here: errors of single requests (`lockkeeper_session::Error`).

use std::{fmt, sync::Arc, time::Duration};

use lockkeeper_proto::path::PathError;
use lockkeeper_session::{self as session, ConnectStringError, Effect, Endpoint, ErrorKind, Exact};

use crate::order::name::Kind;

/// Why a lock was not acquired, or an operation under it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LockError {
    /// The lock was not acquired before the deadline. The client is deleting the node of the
    /// attempt.
    #[non_exhaustive]
    TimedOut {
        /// The path of the lock; of a multi-lock, the path of the member that it was waiting for.
        path: String,
        /// How long the caller waited.
        waited: Duration,
        /// How many contenders were ahead when this client last looked: at a listing of the queue,
        /// or at its own contenders. For a plain lock, 1 if another contender held it.
        ///
        /// `None` when it had not looked yet, and for locks that do not count the contenders ahead:
        /// a semaphore, a multi-lock, and a reentrant mutex.
        ahead: Option<usize>,
        /// What was in the way, beside those ahead, if it is known.
        obstacle: Option<Box<Obstacle>>,
    },
    /// The lock, or the place in the queue, is lost.
    #[non_exhaustive]
    Lost {
        /// How it was lost.
        loss: Loss,
        /// The path of the lock.
        path: String,
    },
    /// The sequence numbers of the lock's directory are used up, or nearly: 65,536 are left of
    /// 2^31. Or two contenders have the same number, which servers give when they lose writes that
    /// they have answered (ZOOKEEPER-4643). Then a new attempt has
    /// another number.
    ///
    /// Stop using the path until the directory is empty. The server then removes it, and a new one
    /// starts at 0. Or use another path.
    #[non_exhaustive]
    SequenceExhausted {
        /// The lock's path.
        path: String,
    },
    /// The limit of this semaphore cannot be set, because it is fixed.
    ///
    /// See [`Semaphore::with_shared_limit`](crate::Semaphore::with_shared_limit).
    #[non_exhaustive]
    FixedLimit {
        /// The semaphore's path.
        path: String,
    },
    /// More permits were requested than the limit of the semaphore, or a higher limit than a
    /// semaphore can have.
    #[non_exhaustive]
    OverLimit {
        /// The requested number.
        asked: usize,
        /// The highest possible number.
        limit: usize,
    },
    /// The holders of the other permits of the semaphore have another limit. Nothing was acquired.
    ///
    /// All users of a semaphore must have the same limit. A limit that is to change while permits
    /// are held must be [shared](crate::Semaphore::with_shared_limit).
    #[non_exhaustive]
    OtherLimit {
        /// The semaphore's path.
        path: String,
        /// The limit of this semaphore.
        limit: usize,
        /// The limit of the holders.
        theirs: usize,
    },
    /// The path has a node of another kind of lock, which does not exclude this kind. Nothing was
    /// acquired.
    ///
    /// Use one kind of lock for each path. Only [`Mutex`](crate::Mutex),
    /// [`ReentrantMutex`](crate::ReentrantMutex), [`MultiLock`](crate::MultiLock) and
    /// [`RwLock`](crate::RwLock) share a queue and may be mixed. A semaphore that is not used any
    /// more leaves its directory `leases`, until the server removes it.
    #[non_exhaustive]
    OtherKind {
        /// The lock's path.
        path: String,
        /// The name of the node, a child of the path.
        node: String,
        /// The kind of lock that it belongs to.
        found: Kind,
    },
    /// A multi-lock has two members with the same path. The second one would wait for the first.
    #[non_exhaustive]
    SelfDeadlock {
        /// The path.
        path: String,
    },
    /// The locks of a [`MultiGuard`](crate::MultiGuard) do not all belong to one session, or there
    /// are none. No transaction can check them. Nothing was sent.
    SeveralSessions,
    /// The lock is not handed over, or not taken over: see
    /// [`Guard::hand_over`](crate::Guard::hand_over).
    #[non_exhaustive]
    NotHandedOver {
        /// The lock's path.
        path: String,
        /// Why.
        reason: NotHandedOver,
    },
    /// A request of the client failed.
    Session(session::Error),
}

/// Why a lock is not handed over, or not taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum NotHandedOver {
    /// All holders of a [`PlainMutex`](crate::PlainMutex) use one name, so nobody could tell whether
    /// the node is still the one that was handed over.
    Plain,
    /// The session has this other ephemeral node, which nobody would own any more.
    OtherNode(String),
    /// The ticket was used already. Or somebody has set the data of the lock node, for instance to ask
    /// for the release of the lock.
    Spent,
}

impl fmt::Display for NotHandedOver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Plain => f.write_str("a plain lock cannot be: use a mutex"),
            Self::OtherNode(node) => write!(
                f,
                "the session also has the ephemeral node {node}: use a client for this lock alone"
            ),
            Self::Spent => f.write_str(
                "the ticket was used already, or the data of the lock node were set since",
            ),
        }
    }
}

/// What is in the way of a contender that waits for long, beside those ahead of it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Obstacle {
    /// The node ahead may not be read by this client, so servers withhold its events. The client
    /// asks once a session timeout whether it is there. Contenders need the permission READ on each
    /// other's nodes.
    #[non_exhaustive]
    Unreadable {
        /// The path of the node.
        node: String,
    },
    /// A server shows a node ahead that its leader does not have. The client has left that server,
    /// if it knows another one.
    #[non_exhaustive]
    Stale {
        /// The path of the node.
        node: String,
        /// The server.
        server: Option<Arc<Endpoint>>,
    },
    /// Servers answer too slowly to prove a lease, which a grant needs.
    Slow(session::Slow),
    /// No server was connected at the end: [`Unreachable`](ErrorKind::Unreachable) says since
    /// when, and why each server failed.
    Servers(session::Error),
    /// A server throttles: it has too much to do, or it is an embedded one that was started again,
    /// and makes no locks until the clients of the former server have lost theirs.
    #[non_exhaustive]
    Throttled {
        /// The server.
        server: Option<Arc<Endpoint>>,
        /// For how long the requests of this client about the lock have been throttled.
        lasted: Duration,
    },
}

impl fmt::Display for Obstacle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unreadable { node } => write!(
                f,
                "this client may not read {node}, so it hears late of its end: give contenders the permission READ"
            ),
            Self::Stale { node, server } => {
                match server {
                    Some(server) => write!(f, "{server} shows {node}")?,
                    None => write!(f, "a server shows {node}")?,
                }
                f.write_str(", which its leader does not have: restart that server")
            }
            Self::Slow(slow) => slow.fmt(f),
            Self::Servers(error) => error.fmt(f),
            Self::Throttled { server, lasted } => {
                match server {
                    Some(server) => server.fmt(f)?,
                    None => f.write_str("a server")?,
                }
                write!(
                    f,
                    " has throttled for {}: it has too much to do, or is an embedded one that makes no locks for a while after a restart",
                    Exact(*lasted)
                )
            }
        }
    }
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease has ended and no server has answered: another client may hold the lock from now
    /// on.
    ///
    /// It may turn out later that the session still exists, and that the lock was never lost.
    Elapsed,
    /// The session has expired.
    Expired,
    /// Another client deleted the lock node.
    Deleted,
    /// The client was closed.
    Closed,
    /// The lock was held for longer than the limit of its holder: see
    /// [`Guard::limit_hold`](crate::Guard::limit_hold).
    Overdue,
}

impl LockError {
    /// A loss, where the path is not known. [`at`](Self::at) adds it before the error leaves the
    /// crate.
    pub(crate) fn lost(loss: Loss) -> Self {
        let path = String::new();
        Self::Lost { loss, path }
    }

    /// A lock that is not handed over, likewise.
    pub(crate) fn not_handed_over(reason: NotHandedOver) -> Self {
        let path = String::new();
        Self::NotHandedOver { path, reason }
    }

    /// The error, about the lock at this path if it names none yet.
    pub(crate) fn at(mut self, of_lock: &str) -> Self {
        if let Self::Lost { path, .. }
        | Self::TimedOut { path, .. }
        | Self::NotHandedOver { path, .. } = &mut self
        {
            if path.is_empty() {
                of_lock.clone_into(path);
            }
        }
        self
    }

    /// The error; when it is that of a deadline, so many contenders were ahead.
    pub(crate) fn behind(mut self, number: Option<usize>) -> Self {
        if let Self::TimedOut { ahead, .. } = &mut self {
            *ahead = number;
        }
        self
    }

    /// How the lock, or the place in the queue, was lost, if it was.
    #[must_use]
    pub fn loss(&self) -> Option<Loss> {
        match self {
            Self::Lost { loss, .. } => Some(*loss),
            _ => None,
        }
    }

    /// Whether the same call may succeed soon: no server was reached, or a connection was lost.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Session(error) if error.is_transient())
    }

    /// Whether a caller that goes on waiting for the lock may get it: what failed was a server, a
    /// connection, or a session.
    pub(crate) fn ends_with_outage(&self) -> bool {
        self.is_transient() || matches!(self.loss(), Some(Loss::Expired | Loss::Elapsed))
    }

    /// Whether a deadline of the caller has come.
    #[must_use]
    pub fn is_timeout(&self) -> bool {
        match self {
            Self::TimedOut { .. } => true,
            Self::Session(error) => matches!(error.kind(), ErrorKind::DeadlineExceeded { .. }),
            _ => false,
        }
    }

    /// Whether what was to be written under the lock may have been written.
    #[must_use]
    pub fn effect(&self) -> Effect {
        match self {
            Self::Session(error) => error.effect(),
            Self::Lost {
                loss: Loss::Closed, ..
            } => Effect::Unknown,
            _ => Effect::NotApplied,
        }
    }

    /// The path that the error is about, if it names one.
    #[must_use]
    pub fn path(&self) -> Option<&str> {
        let path = match self {
            Self::TimedOut { path, .. }
            | Self::SequenceExhausted { path }
            | Self::FixedLimit { path }
            | Self::OtherLimit { path, .. }
            | Self::OtherKind { path, .. }
            | Self::SelfDeadlock { path }
            | Self::NotHandedOver { path, .. }
            | Self::Lost { path, .. } => path,
            Self::Session(error) => match error.kind() {
                ErrorKind::Refused { path, .. } => path,
                _ => return None,
            },
            _ => return None,
        };
        Some(&**path).filter(|path| !path.is_empty())
    }
}

impl From<PathError> for LockError {
    fn from(error: PathError) -> Self {
        Self::Session(error.into())
    }
}

impl From<ConnectStringError> for LockError {
    fn from(error: ConnectStringError) -> Self {
        Self::Session(error.into())
    }
}

/// The end of the session means the loss of the lock or of the place in the queue.
impl From<session::Error> for LockError {
    fn from(error: session::Error) -> Self {
        match error.kind() {
            ErrorKind::SessionExpired => Self::lost(Loss::Expired),
            ErrorKind::Closed => Self::lost(Loss::Closed),
            _ => Self::Session(error),
        }
    }
}

impl fmt::Display for LockError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut {
                path,
                waited,
                ahead,
                obstacle,
            } => {
                write!(f, "lock {path} not acquired in {}", Exact(*waited))?;
                if let Some(ahead) = ahead {
                    write!(f, ", {ahead} ahead")?;
                }
                match obstacle {
                    Some(obstacle) => write!(f, "; {obstacle}"),
                    None => Ok(()),
                }
            }
            Self::Lost { loss, path } => {
                let space = if path.is_empty() { "" } else { " " };
                write!(f, "lock{space}{path} lost: {loss}")
            }
            Self::SequenceExhausted { path } => write!(
                f,
                "the sequence numbers of {path} are used up (let it drain until the server removes it, or use another path), or servers gave one twice (try again)"
            ),
            Self::FixedLimit { path } => write!(
                f,
                "cannot set the limit of {path}: it is fixed; make the semaphore with a shared limit"
            ),
            Self::OverLimit { asked, limit } => {
                write!(f, "{asked} permits requested, but the limit is {limit}")
            }
            Self::OtherLimit {
                path,
                limit,
                theirs,
            } => write!(
                f,
                "{path} has the limit {theirs} while others hold permits, not {limit}: use one limit for each path"
            ),
            Self::OtherKind { path, node, found } => write!(
                f,
                "{path} has the node {node} of {found}, which does not exclude this kind of lock: use one kind for each path"
            ),
            Self::SelfDeadlock { path } => {
                write!(
                    f,
                    "two members of the multi-lock have the path {path}: the second would wait for the first"
                )
            }
            Self::SeveralSessions => {
                f.write_str(
                    "one transaction cannot check these locks: they belong to several sessions, or there are none",
                )
            }
            Self::NotHandedOver { path, reason } => {
                write!(f, "lock {path} not handed over: {reason}")
            }
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LockError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Session(error) => error.source(),
            _ => None,
        }
    }
}

impl std::error::Error for Loss {}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elapsed => "the lease has run out",
            Self::Expired => "the session has expired",
            Self::Deleted => "the lock node was deleted",
            Self::Closed => "the client was closed",
            Self::Overdue => "it was held for longer than its limit",
        })
    }
}

const _: () = {
    const fn shareable<T: std::error::Error + Send + Sync + 'static>() {}
    shareable::<LockError>();
};

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use lockkeeper_session::Cause;

    use super::*;

    #[test]
    fn an_error_says_what_a_caller_can_do() {
        let timed_out = LockError::TimedOut {
            path: "/l".to_owned(),
            waited: Duration::from_millis(20),
            ahead: Some(3),
            obstacle: None,
        };
        let text = "lock /l not acquired in 20 ms, 3 ahead";
        assert_eq!(
            (timed_out.to_string().as_str(), timed_out.path()),
            (text, Some("/l"))
        );
        assert!(timed_out.is_timeout() && timed_out.loss().is_none() && !timed_out.is_transient());
        assert_eq!(timed_out.effect(), Effect::NotApplied);
        let closed = LockError::lost(Loss::Closed);
        assert!(closed.loss().is_some() && !closed.is_timeout());
        assert_eq!(closed.effect(), Effect::Unknown);
        let cut = ErrorKind::ConnectionLost(Cause::ClosedByServer);
        assert!(LockError::Session(cut.into()).is_transient());
        let path = "/s".to_owned();
        assert_eq!(LockError::FixedLimit { path }.path(), Some("/s"));
        assert_eq!(closed.path(), None);
        let bad = LockError::from(lockkeeper_proto::path::check("a").unwrap_err());
        assert!(
            matches!(&bad, LockError::Session(it) if matches!(it.kind(), ErrorKind::BadPath(_)))
        );
    }

    #[test]
    fn every_error_says_what_failed_and_why() {
        let path = || "/l".to_owned();
        for (error, text) in [
            (
                LockError::lost(Loss::Elapsed),
                "lock lost: the lease has run out",
            ),
            (
                LockError::lost(Loss::Expired),
                "lock lost: the session has expired",
            ),
            (
                LockError::lost(Loss::Deleted),
                "lock lost: the lock node was deleted",
            ),
            (
                LockError::lost(Loss::Closed),
                "lock lost: the client was closed",
            ),
            (
                LockError::lost(Loss::Overdue).at("/l"),
                "lock /l lost: it was held for longer than its limit",
            ),
            (
                LockError::SequenceExhausted { path: path() },
                "the sequence numbers of /l are used up (let it drain until the server removes it, or use another path), or servers gave one twice (try again)",
            ),
            (
                LockError::FixedLimit { path: path() },
                "cannot set the limit of /l: it is fixed; make the semaphore with a shared limit",
            ),
            (
                LockError::OverLimit { asked: 3, limit: 2 },
                "3 permits requested, but the limit is 2",
            ),
            (
                LockError::OtherLimit {
                    path: path(),
                    limit: 3,
                    theirs: 2,
                },
                "/l has the limit 2 while others hold permits, not 3: use one limit for each path",
            ),
            (
                LockError::OtherKind {
                    path: path(),
                    node: "leases".to_owned(),
                    found: Kind::Semaphore,
                },
                "/l has the node leases of a semaphore, which does not exclude this kind of lock: use one kind for each path",
            ),
            (
                LockError::TimedOut {
                    path: path(),
                    waited: Duration::from_secs(1),
                    ahead: None,
                    obstacle: Some(Box::new(Obstacle::Throttled {
                        server: None,
                        lasted: Duration::from_millis(900),
                    })),
                },
                "lock /l not acquired in 1 s; a server has throttled for 900 ms: it has too much to do, or is an embedded one that makes no locks for a while after a restart",
            ),
            (
                LockError::SelfDeadlock { path: path() },
                "two members of the multi-lock have the path /l: the second would wait for the first",
            ),
            (
                LockError::SeveralSessions,
                "one transaction cannot check these locks: they belong to several sessions, or there are none",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert!(error.source().is_none());
        }
    }
}
