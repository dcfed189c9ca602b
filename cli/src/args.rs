//! The command line: its arguments, and the help texts.
//!
//! Invariant: everything that can be checked without a server is checked here, so bad usage never has an effect.
//! Not here: the arguments of `queue` (`queue`), of commands on nodes (`nodes::args`), and about servers (`servers`).

use std::{ffi::OsString, fmt, num::NonZero, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, error::ErrorKind};

use crate::{duration, nodes::NodeCommand, paths::LockPath, queue::QueueArgs, servers::ServerArgs};

/// Run a command under a distributed lock, on Apache ZooKeeper or on one machine.
#[derive(Debug, Parser)]
#[command(
    name = "lockkeeper",
    version,
    arg_required_else_help = true,
    max_term_width = 80,
    after_help = "Example:\n  \
        lockkeeper run --connect zk1:2181,zk2:2181 /locks/backup -- ./backup.sh\n\n\
        To see it work without a ZooKeeper: lockkeeper demo\n\n\
        Exit status: 0 success; 1 a server refused; 64 bad usage; 69 no server reached;\n\
        for more see lockkeeper run --help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// A hint to print after clap's error message, for mistakes that clap cannot explain.
pub(crate) fn hint(error: &clap::Error, arguments: &[OsString]) -> Option<&'static str> {
    let runs = arguments.get(1).is_some_and(|command| command == "run");
    let separated = arguments.iter().any(|argument| argument == "--");
    (runs && !separated && error.kind() == ErrorKind::UnknownArgument)
        .then_some("the command comes after --, as in: lockkeeper run PATH -- COMMAND ARG..")
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Run(Box<RunArgs>),
    Queue(Box<QueueArgs>),
    Serve(ServeArgs),
    Demo(DemoArgs),
    #[command(hide = true)]
    Gate(GateArgs),
    #[command(hide = true)]
    Watchdog(WatchdogArgs),
    #[command(flatten)]
    Node(NodeCommand),
}

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(max_term_width = 80, after_help = RUN_EXAMPLE, after_long_help = RUN_DETAILS)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How long the servers keep the lock when they hear nothing from lockkeeper
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_positive)]
    pub(crate) session_timeout: Duration,

    /// Share the lock with other runs that use --shared; a run without --shared excludes them
    #[arg(long, conflicts_with = "holders")]
    pub(crate) shared: bool,

    /// Let up to N commands hold the lock at once; all users of a path must give --holders and the same N
    #[arg(long, value_name = "N")]
    pub(crate) holders: Option<NonZero<usize>>,

    /// The longest wait for a server and the lock together [default: no limit for the lock]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait; if the lock is taken, the attempt costs the servers one read. A server must answer within a
    /// second
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,

    /// After the lock is lost: how long the command has from TERM to KILL [default: an eighth of the session
    /// timeout, at most 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// The lock: a path in ZooKeeper, created if it is missing
    #[arg(value_name = "PATH")]
    pub(crate) path: LockPath,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// What becomes the command of `run`
#[derive(Args, Debug)]
pub(crate) struct GateArgs {
    /// The process id of `run`
    pub(crate) parent: i32,

    /// The command, and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// What `run` starts beside its command
#[derive(Args, Debug)]
pub(crate) struct WatchdogArgs {
    /// The process to end with `run`
    pub(crate) pid: i32,

    /// End its whole process group
    #[arg(long)]
    pub(crate) group: bool,
}

/// Run the embedded ZooKeeper server
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "The server is for tests, and for services on a single machine. It keeps all\n\
        data in memory, loses the data when it ends, and does not encrypt connections.\n\n\
        After a restart, the numbers of transactions and fencing tokens go on growing, and\n\
        a client that comes back is told that its session has expired. A client that is cut\n\
        off relies on its lock until the session timeout. So the server creates no ephemeral\n\
        node for the time of --max-session-timeout after its start: clients that lock wait.\n\
        If the former server had a longer one, give that. --fresh starts without the wait.\n\n\
        Example:\n  lockkeeper serve --listen 127.0.0.1:2181"
)]
pub(crate) struct ServeArgs {
    /// The address to listen on; port 0 picks a free port
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2181", value_parser = listen)]
    pub(crate) listen: String,

    /// ZooKeeper's tickTime: sessions expire in steps of one tick; the shortest session timeout is two ticks
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse_positive)]
    pub(crate) tick_time: Duration,

    /// The longest session timeout that the server grants
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse_positive)]
    pub(crate) max_session_timeout: Duration,

    /// There was no server at this address before, or all its clients have ended: grant locks at once
    #[arg(long)]
    pub(crate) fresh: bool,

    /// Serve only the users in this file: one line sasl:USER:PASSWORD for each, as in a client's --auth-file
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
}

/// Watch clients contend for a lock, and see one of them lose it
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    mut_arg("connect", |arg| arg.help(DEMO_CONNECT_HELP)),
    after_help = "The demo creates nodes below /lockkeeper-demo and deletes them at the end.\n\n\
        Exit status: 0 if the lock kept its promises; 1 if two clients held the lock at\n\
        once, or if the lock broke another promise.\n\n\
        Example:\n  lockkeeper demo --clients 8 --seconds 10"
)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How many clients contend; each client has its own session
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(2..=24))]
    pub(crate) clients: u8,

    /// For how many seconds the clients contend, at least
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

const DEMO_CONNECT_HELP: &str =
    "The ZooKeeper servers to use: host:port,host:port/chroot [default: an embedded server]";

const RUN_EXAMPLE: &str = "\
Exit status: that of the command (128+n if signal n ended it), or
  64 bad usage     69 no server reached in time     74 lock lost while it ran
  75 lock not acquired in time     126, 127 the command cannot run, or be found

Example:
  lockkeeper run --wait 5m /locks/backup -- ./backup.sh

More with --help.";

const RUN_DETAILS: &str = "\
Exit status:
  that of the command, 128+n if signal n ended it; or
  64   bad usage or a bad path, or a path with another kind of lock: a run
       with --holders and one without cannot use the same path
  69   no server reached in time, or a server refused
  71   the operating system refused something
  74   the lock was lost while the command ran; the command was ended
  75   the lock was not acquired in time (--wait, --try)
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the wait for the lock; no lock node is left behind

The command's environment:
  LOCKKEEPER_TOKEN  the fencing token: a number that grows with each holder.
                    A service that remembers the highest token it has seen,
                    and refuses lower ones, is safe from earlier holders
  LOCKKEEPER_PATH   the path of the lock
  LOCKKEEPER_NODE   the node in ZooKeeper that holds it

The lock is lost when its lease runs out because no server answers, when the
session expires, or when the lock's node is deleted. Then the command gets TERM,
and after the grace time KILL.

When no server answers, the command gets TERM so early that the default grace
time ends with the lease: nobody else can have the lock by then. A longer
--grace lets the command overlap with the next holder. When the node was
deleted, the next holder can start immediately.

Signals: lockkeeper passes TERM, HUP, INT, QUIT, USR1, USR2 on to the command.
  - Usually the command leads its own process group. USR1 and USR2 go to the
    command alone. The other signals, and those after a lost lock, go to the
    whole group, so a script ends together with the programs it has started.
  - In the foreground of a terminal, the command stays in the process group of
    lockkeeper, and signals go to the command alone. INT and QUIT are not
    passed on: the terminal itself sends them, so Ctrl-C arrives once.

If lockkeeper itself is killed, its watchdog process kills the command. The lock
becomes free when the session expires.

Example:
  lockkeeper run --wait 5m /locks/backup -- ./backup.sh";

/// Checks the form of `host:port`; the host may be a name.
fn listen(text: &str) -> Result<String, BadListen> {
    let (host, port) = text.rsplit_once(':').ok_or(BadListen)?;
    let bare_ipv6 = host.contains(':') && !(host.starts_with('[') && host.ends_with(']'));
    if host.is_empty() || bare_ipv6 || port.parse::<u16>().is_err() {
        return Err(BadListen);
    }
    Ok(text.to_owned())
}

/// The address does not have the form `host:port`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct BadListen;

impl fmt::Display for BadListen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an address looks like 127.0.0.1:2181, localhost:2181 or [::1]:2181")
    }
}

impl std::error::Error for BadListen {}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_address_to_listen_on_has_a_host_and_a_port() {
        for good in ["127.0.0.1:0", "localhost:2181", "[::1]:2181", "0.0.0.0:1"] {
            assert_eq!(listen(good).as_deref(), Ok(good));
        }
        for bad in [
            "",
            "2181",
            ":2181",
            "localhost",
            "::1:2181",
            "a:65536",
            "a:b",
        ] {
            assert_eq!(listen(bad), Err(BadListen), "{bad:?}");
        }
    }
}
