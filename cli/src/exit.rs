//! Exit statuses, and the failures behind them.
//!
//! The numbers from 64 on come from `sysexits.h`; shells use 126, 127 and 128+n. When `run` has started a command, it
//! passes on the status of that command unchanged, even if the number has another meaning here.
//!
//! Not here: the words for a server's refusal (`refusal`).

use std::{
    fmt,
    io::{self, Write as _},
    sync::atomic::{AtomicU8, Ordering},
};

use lockkeeper::{
    Error, LockError,
    error::{ErrorKind, Loss},
};

use crate::{
    escape,
    refusal::{plain, reason},
};

/// Success.
pub(crate) const OK: u8 = 0;
/// The demo found that the lock broke a promise.
pub(crate) const BROKEN: u8 = 1;
/// A server refused a request on a node: no such node, another version, no permission.
pub(crate) const REFUSED: u8 = 1;
/// Bad usage. Source: `sysexits.h`, `EX_USAGE`.
pub(crate) const USAGE: u8 = 64;
/// No server was reached by a command that does not wait, or servers refused. Source: `EX_UNAVAILABLE`.
pub(crate) const UNAVAILABLE: u8 = 69;
/// The operating system refused something. Source: `EX_OSERR`.
pub(crate) const SYSTEM: u8 = 71;
/// The lock was lost while the command ran. Source: `EX_IOERR`.
pub(crate) const LOST: u8 = 74;
/// The lock was not acquired in time: try again later. Source: `EX_TEMPFAIL`.
pub(crate) const NOT_ACQUIRED: u8 = 75;
/// The command has run in this period already: see `--once-per`. The number has no other meaning in `sysexits.h`.
pub(crate) const ALREADY_DONE: u8 = 80;
/// The command cannot be executed. Source: POSIX, "Exit Status for Commands".
pub(crate) const CANNOT_EXECUTE: u8 = 126;
/// The command cannot be found. Source: as above.
pub(crate) const NOT_FOUND: u8 = 127;
/// Added to the number of the signal that ended a command.
const SIGNAL_BASE: u8 = 128;

/// The number of the signal for a pipe that nobody reads. Windows has none, and shows the status of this one.
const PIPE: i32 = 13;

/// The exit status that reports a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(SIGNAL_BASE, |signal| SIGNAL_BASE.saturating_add(signal))
}

/// How much the program says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing, except bad usage, and a lock that may exclude nobody.
    Quiet,
    /// What the user should know.
    Usual,
    /// Each step, and the details of errors.
    Verbose,
}

/// The level of this process. `main` sets it once.
static LEVEL: AtomicU8 = AtomicU8::new(Level::Usual as u8);

pub(crate) fn set_level(level: Level) {
    LEVEL.store(level as u8, Ordering::Relaxed);
}

/// Whether messages of this level are printed.
pub(crate) fn says(level: Level) -> bool {
    LEVEL.load(Ordering::Relaxed) >= level as u8
}

/// Prints a message to stderr, unless the user wants none.
macro_rules! say {
    ($($words:tt)+) => {
        $crate::exit::print_at($crate::exit::Level::Usual, format_args!($($words)+))
    };
}

/// Prints a message to stderr, if the user wants to hear of each step.
macro_rules! tell {
    ($($words:tt)+) => {
        $crate::exit::print_at($crate::exit::Level::Verbose, format_args!($($words)+))
    };
}

/// A [`Failure`] with one of the statuses of this module, and a message as for `format!`.
macro_rules! failure {
    ($status:ident, $($words:tt)+) => {
        $crate::exit::Failure::new($crate::exit::$status, format_args!($($words)+))
    };
}

/// Prints a message to stderr, unless the user wants less than this level.
pub(crate) fn print_at(level: Level, what: fmt::Arguments<'_>) {
    if says(level) {
        // One write: the log may have other writers. A closed stderr must not end a command that runs well.
        let what = escape::message(&what.to_string());
        let line = format!("lockkeeper: {what}\n");
        let _ = io::stderr().write_all(line.as_bytes());
    }
}

/// Prints a failure: always, if it is bad usage.
pub(crate) fn report(failure: &Failure) {
    if failure.is_silent() {
        return;
    }
    let is_usage = failure.status == USAGE;
    let level = if is_usage { Level::Quiet } else { Level::Usual };
    print_at(level, format_args!("{failure}"));
    if let Some(error) = &failure.error {
        tell!("the error in full: {error}");
    }
}

/// Why `lockkeeper` itself failed: the exit status, and a message for people.
#[derive(Debug)]
pub(crate) struct Failure {
    /// The exit status.
    pub(crate) status: u8,
    /// Empty if nobody needs to know.
    message: String,
    /// The client's error, if the message says less than it.
    error: Option<Error>,
    /// A server, a connection or a session has failed, and not the request. The same may succeed later, in a new session if need be.
    pub(crate) is_of_outage: bool,
}

impl Failure {
    pub(crate) fn new(status: u8, message: impl fmt::Display) -> Self {
        Self {
            status,
            message: message.to_string(),
            error: None,
            is_of_outage: false,
        }
    }

    /// Bad usage.
    pub(crate) fn usage(message: impl fmt::Display) -> Self {
        Self::new(USAGE, message)
    }

    /// A signal has asked the process to end. Nobody needs to be told.
    pub(crate) fn signal(signal: i32) -> Self {
        Self::new(of_signal(signal), "")
    }

    /// The operating system refused to do this.
    pub(crate) fn system(what: impl fmt::Display) -> impl FnOnce(io::Error) -> Self {
        move |error| Self::new(SYSTEM, format_args!("cannot {what}: {error}"))
    }

    /// The output cannot be written. If its reader has closed the pipe, as in `lockkeeper ls | head`, nobody needs to know.
    pub(crate) fn output(error: &io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::signal(PIPE),
            _ => Self::new(SYSTEM, format_args!("cannot write to stdout: {error}")),
        }
    }

    /// No server accepted the client.
    pub(crate) fn connect(error: &Error) -> Self {
        Self::new(UNAVAILABLE, plain(error))
    }

    /// The lock cannot be acquired.
    pub(crate) fn lock(path: &str, error: LockError) -> Self {
        let status = match error {
            LockError::TimedOut { .. } | LockError::Lost { .. } => NOT_ACQUIRED,
            LockError::OtherKind { .. } | LockError::OtherLimit { .. } => USAGE,
            _ => UNAVAILABLE,
        };
        let message = match &error {
            LockError::Lost { loss, .. } => format!("place in the queue lost: {loss}"),
            LockError::TimedOut {
                obstacle: Some(why),
                ..
            } => why.to_string(),
            LockError::Session(error) => match error.kind() {
                ErrorKind::Refused { op, code, .. } => reason(*op, *code),
                _ => error.to_string(),
            },
            error => error.to_string(),
        };
        let mut failure = Self::new(status, format_args!("{path}: {message}"));
        failure.is_of_outage = error.loss() == Some(Loss::Expired);
        match error {
            LockError::Session(error) => failure.because(error),
            _ => failure,
        }
    }

    /// Likewise, but a refusal has the status of any request.
    pub(crate) fn request(path: &str, error: LockError) -> Self {
        match error {
            LockError::Session(error) => error.into(),
            error => Self::lock(path, error),
        }
    }

    /// With the client's error, which says more if a server refused something.
    pub(crate) fn because(self, error: Error) -> Self {
        let is_of_outage = error.is_transient() || error.is_session_expired();
        Self {
            error: Some(error).filter(|error| error.code().is_some()),
            is_of_outage,
            ..self
        }
    }

    /// Whether the failure needs no message.
    pub(crate) fn is_silent(&self) -> bool {
        self.message.is_empty()
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// A server refused the request, or did not answer.
impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error.kind() {
            ErrorKind::BadPath(_) | ErrorKind::TooLarge { .. } => USAGE,
            _ if error.code().is_some() => REFUSED,
            _ => UNAVAILABLE,
        };
        Self::new(status, plain(&error)).because(error)
    }
}

/// The operating system refused something that usually works.
impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Self::new(SYSTEM, error)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_have_the_exit_statuses_that_shells_use() {
        assert_eq!(of_signal(2), 130);
        assert_eq!(of_signal(15), 143);
        assert_eq!(of_signal(-1), 128);
    }
}
