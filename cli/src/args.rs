//! The command line: its arguments, and the help texts.
//!
//! Invariant: everything that can be checked without a server is checked here, so bad usage never has an effect.
//! Not here: the arguments of `run` (`run::args`), `queue` (`queue`), of commands on nodes (`nodes::args`), and about servers
//! (`servers`).

use std::{env, ffi::OsString, time::Duration};

use clap::{
    Arg, Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand,
    builder::{PossibleValuesParser, TypedValueParser as _},
};
use tracing::level_filters::LevelFilter;

use crate::{
    doctor::DoctorArgs,
    duration,
    exit::Level,
    nodes::{NodeCommand, OnServers},
    number::number,
    packaging::{CompletionsArgs, ManArgs},
    queue::QueueArgs,
    run::{self, RunArgs},
    servers::{ServerArgs, listen},
    wire::WireCommand,
};

/// Run a command under a distributed lock, on Apache ZooKeeper or on one machine.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    long_version = format!(
        "{}\ncommit: {}\nfeatures: tls{}",
        env!("CARGO_PKG_VERSION"),
        env!("LOCKKEEPER_COMMIT"), // build.rs
        if cfg!(feature = "kerberos") { ", kerberos" } else { "" },
    ),
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = format!(
        "Example:\n  {}\n\n\
        To see it work without a ZooKeeper: lockkeeper demo\n\n\
        Exit status: 0 success; 1 a server refused; 64 bad usage; 69 no server reached; 71 the \
        operating system refused; 128+n signal n ended it; for more see lockkeeper run --help",
        run::EXAMPLE
    )
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Say more: the details of an error; run tells each of its steps
    #[arg(long, short, global = true)]
    verbose: bool,
}

impl Cli {
    /// Parses the command line. A variable that is empty counts as unset.
    pub(crate) fn parse_line(line: &[OsString]) -> Result<Self, clap::Error> {
        let unset = |arg: Arg| match arg.get_env().and_then(env::var_os) {
            Some(value) if value.is_empty() => arg.env(None::<&str>),
            _ => arg,
        };
        let all = Self::command().mut_subcommands(|it| it.mut_args(unset));
        Self::from_arg_matches(&all.try_get_matches_from(line)?)
    }

    /// How much the program says about itself.
    pub(crate) fn level(&self) -> Level {
        match &self.command {
            Command::Run(args) if args.quiet => Level::Quiet,
            _ if self.verbose => Level::Verbose,
            _ => Level::Usual,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Queue(Box<OnServers<QueueArgs>>),
    Doctor(Box<DoctorArgs>),
    Serve(ServeArgs),
    Demo(DemoArgs),
    #[command(subcommand)]
    Wire(WireCommand),
    Completions(CompletionsArgs),
    Man(ManArgs),
    #[command(flatten)]
    Node(NodeCommand),
}

/// Run the embedded ZooKeeper server
#[derive(Args, Debug)]
#[command(
    after_help = "The server is for tests, and for services on a single machine. It keeps all \
        data in memory, loses the data when it ends, and does not encrypt connections.\n\n\
        After a restart, the numbers of transactions and fencing tokens go on growing, and \
        a client that comes back is told that its session has expired. A client that is cut \
        off relies on its lock until the session timeout. So the server creates no ephemeral \
        node for the time of --max-session-timeout after its start: clients that lock wait. \
        If the former server had a longer one, give that. --fresh starts without the wait, \
        and so does a server on a port that the system chose.\n\n\
        Exit status: that of the COMMAND, 126 or 127 if it cannot begin; without a COMMAND 0 \
        after a signal that ends the server; 64 bad usage; 71 the operating system refused \
        something; 128+n signal n ended it.\n\n\
        Example:\n  lockkeeper serve --listen 127.0.0.1:2181\n  lockkeeper serve -- ./integration-tests.sh"
)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 picks a free port [default: 127.0.0.1:2181, with a COMMAND 127.0.0.1:0]
    #[arg(long, value_name = "HOST:PORT", value_parser = listen)]
    pub(crate) listen: Option<String>,

    /// ZooKeeper's tickTime: sessions expire in steps of one tick; the shortest session timeout is two ticks
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "500ms", value_parser = duration::parse_positive)]
    pub(crate) tick_time: Duration,

    /// The longest session timeout that the server grants
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, default_value = "60s", value_parser = duration::parse_positive)]
    pub(crate) max_session_timeout: Duration,

    /// There was no server at this address before, or all its clients have ended: grant locks at once
    #[arg(long)]
    pub(crate) fresh: bool,

    /// The least important lines of the log on stderr [default: info, with a COMMAND warn]
    #[arg(long, value_name = "LEVEL", value_parser = PossibleValuesParser::new(LEVELS).try_map(|it| it.parse::<LevelFilter>()))]
    pub(crate) log: Option<LevelFilter>,

    /// How the lines of the log are written
    #[arg(long, value_name = "FORMAT", value_parser = ["text", "json"], default_value = "text")]
    pub(crate) log_format: String,

    /// Run this command beside the server (on Linux only), with `$LOCKKEEPER_CONNECT` set to it and without variables for TLS, and end with the status of the command
    #[arg(value_name = "COMMAND", last = true)]
    pub(crate) command: Vec<OsString>,
}

/// The levels of the log. Not `trace`: the server has no such lines.
const LEVELS: [&str; 5] = ["off", "error", "warn", "info", "debug"];

/// Watch clients contend for a lock, and see one of them lose it
#[derive(Args, Debug)]
#[command(
    mut_args(|arg| arg.env(None::<&str>)),
    mut_arg("connect", |arg| arg.help("The ZooKeeper servers to use [default: an embedded server]")),
    after_help = "The demo creates nodes below one whose name begins with /lockkeeper-demo, and \
        deletes them at the end.\n\n\
        Exit status: 0 if the lock kept its promises; 1 if two clients held the lock at \
        once, if the lock broke another promise, or if a server refused; 64 bad usage; 69 \
        no server was reached; 71 the operating system refused something; 128+n signal n \
        ended it.\n\n\
        Example:\n  lockkeeper demo --clients 8 --seconds 10"
)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How many clients contend; each client has its own session
    #[arg(long, value_name = "N", default_value_t = 5, allow_hyphen_values = true, value_parser = number(2_u8..=8))]
    pub(crate) clients: u8,

    /// For how many seconds the clients contend, at least
    #[arg(long, value_name = "S", default_value_t = 5, allow_hyphen_values = true, value_parser = number(1_u32..=3600))]
    pub(crate) seconds: u32,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
