//! Servers that are too slow for the session timeout.

use std::{fmt, time::Duration};

use crate::error::Exact;

/// Servers answer so slowly that no lease can be proved with the session timeout.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Slow {
    /// How long the slowest answer of late has taken.
    pub answer: Duration,
    /// The session timeout.
    pub session_timeout: Duration,
}

impl Slow {
    /// A session timeout that is long enough, in whole seconds.
    ///
    /// A proof takes three answers and a third of the session timeout, and begins within a twelfth;
    /// a lease lasts for seven eighths. So 11/24 of the session timeout are left for the answers.
    #[must_use]
    pub fn enough(&self) -> Duration {
        Duration::from_secs((self.answer * 3 * 24 / 11).as_secs() + 1)
    }
}

impl fmt::Display for Slow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (answer, timeout) = (Exact(self.answer), Exact(self.session_timeout));
        write!(
            f,
            "an answer of a server took {answer}, and a session timeout of {timeout} is too short to prove a lease then; {} would do",
            Exact(self.enough())
        )
    }
}
