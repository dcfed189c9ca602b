//! Why a lock was not acquired, or is not held any more.

use std::{fmt, time::Duration};

use lockkeeper_session as session;

/// Why a lock was not acquired, or a step under it failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The deadline came first. Nothing is left behind: the node is being deleted.
    TimedOut {
        /// How long it was tried.
        waited: Duration,
        /// How many contenders were ahead when last looked; `None` when nobody has looked yet, or they are not counted: by a
        /// semaphore, a multi-lock, or for the owner of a reentrant mutex.
        ahead: Option<usize>,
    },
    /// The lock, or the place in the line, is lost.
    Lost(Loss),
    /// The numbers of the lock's directory are used up, or nearly: see [`SEQUENCE_LIMIT`](crate::rank::SEQUENCE_LIMIT).
    ///
    /// Let the directory drain, so that the server removes it and it starts anew, or use another path.
    SequenceExhausted {
        /// The lock's path.
        path: String,
    },
    /// A limit was set that is not shared: it is the number that the semaphore was made with.
    FixedLimit {
        /// The semaphore's path.
        path: String,
    },
    /// More leases were asked for than there can be.
    OverLimit {
        /// How many were asked for.
        asked: usize,
        /// How many there can be.
        limit: usize,
    },
    /// One path is twice among the locks that are to be taken together: it would wait for itself.
    SelfDeadlock {
        /// The path.
        path: String,
    },
    /// The locks of a [`MultiGuard`](crate::MultiGuard) are not all of one client, or there are none: no transaction can
    /// check them. Nothing was sent.
    SeveralSessions,
    /// The client could not do it.
    Session(session::Error),
}

/// How a lock was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Loss {
    /// The lease has run out without a word from a server: another client may hold the lock from now on.
    /// It may turn out that the session survived.
    Elapsed,
    /// The session has expired.
    Expired,
    /// Somebody deleted the node.
    Deleted,
    /// The client was closed.
    Closed,
    /// It was held for longer than its holder allowed itself: see [`Guard::limit_hold`](crate::Guard::limit_hold).
    Overdue,
}

impl Error {
    /// Names errors of the client that mean the loss of a place in line.
    pub(crate) fn of_session(error: session::Error) -> Self {
        match error {
            session::Error::SessionExpired { .. } => Self::Lost(Loss::Expired),
            session::Error::Closed(_) => Self::Lost(Loss::Closed),
            error => Self::Session(error),
        }
    }
}

impl From<session::Error> for Error {
    fn from(error: session::Error) -> Self {
        Self::of_session(error)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::TimedOut { waited, ahead } => {
                write!(f, "lock not acquired in {:.1} s", waited.as_secs_f64())?;
                ahead.map_or(Ok(()), |ahead| write!(f, ", {ahead} ahead"))
            }
            Self::Lost(loss) => write!(f, "lock lost: {loss}"),
            Self::SequenceExhausted { path } => write!(
                f,
                "the sequence numbers of {path} are used up: let it drain until the server removes it, or use another path"
            ),
            Self::FixedLimit { path } => write!(
                f,
                "the limit of {path} is fixed; one that can be set is shared through a node"
            ),
            Self::OverLimit { asked, limit } => {
                write!(f, "{asked} leases asked for, the limit is {limit}")
            }
            Self::SelfDeadlock { path } => {
                write!(f, "{path} is there twice and would wait for itself")
            }
            Self::SeveralSessions => {
                f.write_str("a transaction can check locks of one client only, and at least one")
            }
            Self::Session(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Session(error) => error.source(),
            _ => None,
        }
    }
}

impl fmt::Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Elapsed => "the lease has run out",
            Self::Expired => "the session has expired",
            Self::Deleted => "the lock node was deleted",
            Self::Closed => "the client was closed",
            Self::Overdue => "it was held for too long",
        })
    }
}

const _: () = {
    const fn shareable<T: std::error::Error + Send + Sync + 'static>() {}
    shareable::<Error>();
};

#[cfg(test)]
mod tests {
    use std::error::Error as _;

    use super::*;

    #[test]
    fn every_error_says_what_to_do_or_what_was() {
        let path = || "/l".to_owned();
        for (error, text) in [
            (
                Error::Lost(Loss::Elapsed),
                "lock lost: the lease has run out",
            ),
            (
                Error::Lost(Loss::Expired),
                "lock lost: the session has expired",
            ),
            (
                Error::Lost(Loss::Deleted),
                "lock lost: the lock node was deleted",
            ),
            (
                Error::Lost(Loss::Closed),
                "lock lost: the client was closed",
            ),
            (
                Error::Lost(Loss::Overdue),
                "lock lost: it was held for too long",
            ),
            (
                Error::SequenceExhausted { path: path() },
                "the sequence numbers of /l are used up: let it drain until the server removes it, or use another path",
            ),
            (
                Error::FixedLimit { path: path() },
                "the limit of /l is fixed; one that can be set is shared through a node",
            ),
            (
                Error::OverLimit { asked: 3, limit: 2 },
                "3 leases asked for, the limit is 2",
            ),
            (
                Error::SelfDeadlock { path: path() },
                "/l is there twice and would wait for itself",
            ),
            (
                Error::SeveralSessions,
                "a transaction can check locks of one client only, and at least one",
            ),
        ] {
            assert_eq!(error.to_string(), text);
            assert!(error.source().is_none());
        }
    }
}
