//! Exit statuses, and the failures behind them.
//!
//! The numbers from 64 on come from `sysexits.h`; shells use 126, 127 and 128+n. When `run` has started a command, it
//! passes on the status of that command unchanged, even if the number has another meaning here.
//!
//! Not here: the words for a server's refusal (`refusal`).

use std::{
    ffi::OsString,
    fmt, io,
    path::PathBuf,
    sync::atomic::{AtomicU8, Ordering},
    time::Duration,
};

use lockkeeper::{Error, LockError, Version};
use rustix::process::Signal;

use crate::{
    duration::{Human, Long},
    refusal::{self, Plain},
    servers::BadServers,
};

/// Success.
pub(crate) const OK: u8 = 0;
/// The demo found that the lock broke a promise.
pub(crate) const BROKEN: u8 = 1;
/// A server refused a request on a node: no such node, another version, no permission.
pub(crate) const REFUSED: u8 = 1;
/// Bad usage. Source: `sysexits.h`, `EX_USAGE`.
pub(crate) const USAGE: u8 = 64;
/// No server was reached in time, or a server refused. Source: `EX_UNAVAILABLE`.
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

/// The exit status that reports a signal.
pub(crate) fn of_signal(signal: i32) -> u8 {
    u8::try_from(signal).map_or(SIGNAL_BASE, |signal| SIGNAL_BASE.saturating_add(signal))
}

/// How much the program says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    /// Nothing, except bad usage.
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
pub(crate) fn say(what: &dyn fmt::Display) {
    if says(Level::Usual) {
        print(what);
    }
}

/// Prints a message to stderr, if the user wants to hear of each step.
pub(crate) fn tell(what: &dyn fmt::Display) {
    if says(Level::Verbose) {
        print(what);
    }
}

/// Prints a failure: always, if it is bad usage.
pub(crate) fn report(failure: &Failure) {
    if failure.is_silent() {
        return;
    }
    if failure.status() == USAGE {
        print(failure);
    } else {
        say(failure);
    }
    if let Some(error) = failure.error() {
        tell(&format_args!("the error in full: {error}"));
    }
}

fn print(what: &dyn fmt::Display) {
    use io::Write as _;
    // A closed stderr must not end a command that runs well.
    let _ = writeln!(io::stderr(), "lockkeeper: {what}");
}

/// Why `lockkeeper` itself failed.
#[derive(Debug)]
#[non_exhaustive]
pub(crate) enum Failure {
    /// There are no servers to connect to.
    Servers(BadServers),
    /// No server accepted the client.
    Connect(Error),
    /// The chroot in the list of servers does not exist.
    NoChroot(String),
    /// A server refused the request, or did not answer.
    Refused(Error),
    /// There is no such node.
    NoNode(String),
    /// The data have another version than the user expects.
    Version {
        path: String,
        expected: Version,
        present: Version,
        error: Error,
    },
    /// A file cannot be read.
    File(PathBuf, io::Error),
    /// This line of the file is not one of a recording.
    NotRecorded(PathBuf, usize),
    /// This line of stdin is not one that `export` has written.
    BadLine(usize),
    /// The ACL of this node has users whose digests the server hides.
    HiddenIds(String),
    /// The node exists with other data.
    Differs(String),
    /// The command runs under this lock already, and would wait for itself.
    Inside(String),
    /// The lock's directory is open to everyone, and should not be.
    OpenToAll(String),
    /// The command has run in this period.
    AlreadyDone { path: String, period: Duration },
    /// This node must not be deleted recursively.
    Protected(String),
    /// The lock is taken, and the user does not want to wait.
    Taken { path: String },
    /// The lock was not acquired in time.
    TimedOut {
        path: String,
        waited: Duration,
        ahead: Option<usize>,
    },
    /// The server grants no lock at present.
    TooEarly(String),
    /// No server has answered in time.
    NoAnswer { path: String, waited: Duration },
    /// The lock cannot be acquired.
    Lock { path: String, error: LockError },
    /// The command did not start.
    Command { program: OsString, error: io::Error },
    /// The server cannot listen on the address.
    Listen { address: String, error: io::Error },
    /// The operating system refused something that usually works.
    System(io::Error),
    /// The input cannot be read.
    Input(io::Error),
    /// The output cannot be written.
    Output(io::Error),
}

impl Failure {
    /// The exit status.
    pub(crate) fn status(&self) -> u8 {
        match self {
            Self::Servers(_)
            | Self::Protected(_)
            | Self::BadLine(_)
            | Self::NotRecorded(..)
            | Self::Inside(_)
            | Self::OpenToAll(_)
            | Self::Refused(Error::BadPath(_) | Error::TooLarge { .. }) => USAGE,
            Self::Refused(Error::Unsupported { .. })
            | Self::NoNode(_)
            | Self::Version { .. }
            | Self::HiddenIds(_)
            | Self::Differs(_) => REFUSED,
            Self::AlreadyDone { .. } => ALREADY_DONE,
            Self::Refused(error) if error.code().is_some() => REFUSED,
            Self::Refused(_) | Self::Connect(_) | Self::NoChroot(_) | Self::NoAnswer { .. } => {
                UNAVAILABLE
            }
            Self::Taken { .. } | Self::TooEarly(_) | Self::TimedOut { .. } => NOT_ACQUIRED,
            Self::Lock { error, .. } => match error {
                LockError::TimedOut { .. } | LockError::Lost { .. } => NOT_ACQUIRED,
                LockError::OtherKind { .. } => USAGE,
                _ => UNAVAILABLE,
            },
            Self::Command { error, .. } => match error.kind() {
                io::ErrorKind::NotFound => NOT_FOUND,
                _ => CANNOT_EXECUTE,
            },
            Self::Output(_) if self.is_silent() => of_signal(Signal::PIPE.as_raw()),
            Self::Listen { .. }
            | Self::System(_)
            | Self::File(..)
            | Self::Input(_)
            | Self::Output(_) => SYSTEM,
        }
    }

    /// The client's error, if the message says less than it.
    fn error(&self) -> Option<&Error> {
        match self {
            Self::Refused(error)
            | Self::Version { error, .. }
            | Self::Lock {
                error: LockError::Session(error),
                ..
            } => error.code().map(|_| error),
            _ => None,
        }
    }

    /// Whether the failure needs no message: the reader of stdout has closed the pipe, as in `lockkeeper ls | head`.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self, Self::Output(error) if error.kind() == io::ErrorKind::BrokenPipe)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Servers(problem) => problem.fmt(f),
            Self::Connect(error) | Self::Refused(error) => Plain(error).fmt(f),
            Self::NoNode(path) => write!(f, "{path}: {}", refusal::NO_NODE),
            Self::Version {
                path,
                expected,
                present,
                ..
            } => write!(
                f,
                "{path}: the data have version {present}, not {expected}; nothing was changed"
            ),
            Self::File(path, error) => write!(f, "{}: {error}", path.display()),
            Self::NotRecorded(path, number) => write!(
                f,
                "{}, line {number}: neither C> nor S> with hexadecimal digits, nor a comment; \
                 raw bytes need --from client or --from server",
                path.display()
            ),
            Self::BadLine(number) => {
                write!(
                    f,
                    "line {number} of stdin is not one that `lockkeeper export` has written"
                )
            }
            Self::HiddenIds(path) => write!(
                f,
                "{path}: the server hides users of its ACL, so nothing was exported; give --auth-file with an identity \
                 that has the permission a there"
            ),
            Self::Differs(path) => write!(
                f,
                "{path} exists with other data, and nothing was changed; --overwrite replaces them"
            ),
            Self::Inside(path) => write!(
                f,
                "{path}: this command runs under that lock already, and would wait for itself"
            ),
            Self::OpenToAll(path) => write!(
                f,
                "{path} exists, and everyone may change it; restrict it with `lockkeeper setacl`, or leave out --acl"
            ),
            Self::AlreadyDone { path, period } => {
                write!(f, "{path}: it has run in this period of {}", Long(*period))
            }
            Self::Protected(path) => write!(
                f,
                "{path} cannot be deleted recursively; name the nodes below it that should go"
            ),
            Self::NoChroot(chroot) => write!(
                f,
                "the chroot {chroot} does not exist; create it, or leave it out of --connect"
            ),
            Self::Taken { path } => write!(f, "{path}: the lock is taken"),
            Self::TooEarly(path) => write!(f, "{path}: {}", refusal::TOO_EARLY),
            Self::NoAnswer { path, waited } => {
                write!(f, "{path}: no server has answered in {}", Human(*waited))
            }
            Self::TimedOut {
                path,
                waited,
                ahead,
            } => {
                write!(f, "{path}: lock not acquired in {}", Human(*waited))?;
                ahead.map_or(Ok(()), |ahead| write!(f, ", {ahead} ahead"))
            }
            Self::Lock {
                path,
                error: LockError::Lost { loss, .. },
            } => write!(f, "{path}: place in the queue lost: {loss}"),
            Self::Lock {
                path,
                error: LockError::Session(Error::Refused { op, code, .. }),
            } => write!(f, "{path}: {}", refusal::reason(*op, *code)),
            Self::Lock { path, error } => write!(f, "{path}: {error}"),
            Self::Command { program, error } => {
                let program = program.display();
                match error.kind() {
                    io::ErrorKind::NotFound => write!(f, "{program}: command not found"),
                    _ => write!(f, "{program}: cannot be executed: {error}"),
                }
            }
            Self::Listen { address, error } => write!(f, "cannot listen on {address}: {error}"),
            Self::System(error) => error.fmt(f),
            Self::Input(error) => write!(f, "cannot read stdin: {error}"),
            Self::Output(error) => write!(f, "cannot write to stdout: {error}"),
        }
    }
}

impl From<BadServers> for Failure {
    fn from(problem: BadServers) -> Self {
        Self::Servers(problem)
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

    #[test]
    fn a_missing_command_and_one_that_cannot_run_have_different_statuses() {
        let failure = |kind| Failure::Command {
            program: "x".into(),
            error: io::Error::from(kind),
        };
        assert_eq!(failure(io::ErrorKind::NotFound).status(), 127);
        assert_eq!(failure(io::ErrorKind::PermissionDenied).status(), 126);
    }
}
