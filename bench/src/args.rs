//! The command line of every benchmark program.

use clap::{Parser, ValueEnum};

/// The arguments of a benchmark program.
#[derive(Clone, Debug, Parser)]
pub struct Args {
    /// The server, `host:port`.
    pub server: String,
    /// What the clients do.
    pub workload: Workload,
    /// How long to measure.
    #[arg(value_parser = positive)]
    pub seconds: f64,
    /// How many tasks, sessions or requests in flight; see the workloads.
    #[arg(value_parser = clap::value_parser!(u32).range(1..))]
    pub param: u32,
}

fn positive(seconds: &str) -> Result<f64, String> {
    let seconds = seconds.parse().ok().filter(|seconds| *seconds > 0.0);
    seconds.ok_or_else(|| "a number above 0 is needed".to_owned())
}

/// What the clients do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[value(rename_all = "snake_case")]
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
    /// The name on the command line.
    #[must_use]
    pub fn name(self) -> String {
        let value = self.to_possible_value();
        value.map_or_else(String::new, |value| value.get_name().to_owned())
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
