//! The command line of every benchmark program.

use std::{fmt, str::FromStr};

/// The arguments of a benchmark program.
#[derive(Clone, Debug)]
pub struct Args {
    /// The server, `host:port`.
    pub server: String,
    /// What the clients do.
    pub workload: Workload,
    /// How long to measure.
    pub seconds: f64,
    /// How many tasks, sessions or requests in flight; see [`Workload`].
    pub param: usize,
}

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workload {
    /// One session, `param` tasks, each with its own lock.
    LockUncontended,
    /// `param` sessions, one lock.
    LockContended,
    /// One session, `param` tasks, one lock.
    LockSharedSession,
    /// One session, `param` reads of a node of 100 bytes in flight.
    GetPipelined,
    /// One session, `param` tasks that create and delete an ephemeral node of their own.
    CreateDelete,
    /// `param` sessions that do nothing.
    IdleSessions,
}

impl Workload {
    const ALL: [Self; 6] = [
        Self::LockUncontended,
        Self::LockContended,
        Self::LockSharedSession,
        Self::GetPipelined,
        Self::CreateDelete,
        Self::IdleSessions,
    ];

    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::LockUncontended => "lock_uncontended",
            Self::LockContended => "lock_contended",
            Self::LockSharedSession => "lock_shared_session",
            Self::GetPipelined => "get_pipelined",
            Self::CreateDelete => "create_delete",
            Self::IdleSessions => "idle_sessions",
        }
    }

    /// Whether the clients acquire locks.
    #[must_use]
    pub fn is_lock(self) -> bool {
        self.is_contended() || self == Self::LockUncontended
    }

    /// Whether several contenders share one lock.
    #[must_use]
    pub fn is_contended(self) -> bool {
        matches!(self, Self::LockContended | Self::LockSharedSession)
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Workload {
    type Err = UsageError;

    fn from_str(name: &str) -> Result<Self, UsageError> {
        let named = |workload: &Self| workload.name() == name;
        let unknown = || UsageError(format!("unknown workload {name:?}"));
        Self::ALL.into_iter().find(named).ok_or_else(unknown)
    }
}

/// The error in a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UsageError(String);

impl fmt::Display for UsageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for UsageError {}

impl Args {
    /// Reads the command line of this process.
    ///
    /// # Errors
    /// [`UsageError`] says which argument is wrong.
    pub fn from_env() -> Result<Self, UsageError> {
        Self::parse(std::env::args().skip(1))
    }

    /// Reads the arguments, without the program's name.
    ///
    /// # Errors
    /// [`UsageError`] says which argument is wrong.
    pub fn parse(arguments: impl IntoIterator<Item = String>) -> Result<Self, UsageError> {
        let arguments: Vec<String> = arguments.into_iter().collect();
        let [server, workload, seconds, param] = &arguments[..] else {
            let usage = "four arguments are needed: HOST:PORT WORKLOAD SECONDS PARAM";
            return Err(UsageError(usage.to_owned()));
        };
        let seconds = seconds.parse().ok().filter(|seconds| *seconds > 0.0);
        let param = param.parse().ok().filter(|param| *param > 0);
        Ok(Self {
            server: server.clone(),
            workload: workload.parse()?,
            seconds: seconds
                .ok_or_else(|| UsageError("SECONDS must be a number above 0".to_owned()))?,
            param: param
                .ok_or_else(|| UsageError("PARAM must be a whole number above 0".to_owned()))?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<Args, UsageError> {
        Args::parse(line.split_whitespace().map(str::to_owned))
    }

    #[test]
    fn every_workload_is_known_by_its_name() {
        for workload in Workload::ALL {
            let args = parse(&format!("localhost:2181 {workload} 2.5 16")).unwrap();
            assert_eq!((args.workload, args.param), (workload, 16));
        }
    }

    #[test]
    fn an_invalid_command_line_is_refused() {
        for line in [
            "",
            "h:1 get_pipelined 1",
            "h:1 unheard_of 1 1",
            "h:1 get_pipelined 0 1",
            "h:1 get_pipelined 1 0",
            "h:1 get_pipelined x 1",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
