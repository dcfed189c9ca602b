//! The command line: what may be said, and what the help says about it.
//!
//! Whatever can be checked without a server is checked here, so that bad usage never has an effect.

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
        To see it work, without a ZooKeeper: lockkeeper demo\n\n\
        Exit status: 0; 1 the servers refused; 64 bad usage; 69 no server reached; more\n\
        at run --help"
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to add to clap's message about a command line, if anything.
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
    #[command(flatten)]
    Node(NodeCommand),
}

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(max_term_width = 80, after_help = RUN_EXAMPLE, after_long_help = RUN_DETAILS)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How long the servers keep the lock for us without hearing of us
    #[arg(long, value_name = "DURATION", default_value = "10s", value_parser = duration::parse_positive)]
    pub(crate) session_timeout: Duration,

    /// Share the lock with others who run with --shared; not beside one who runs without
    #[arg(long, conflicts_with = "holders")]
    pub(crate) shared: bool,

    /// Let this many hold the lock at a time; all users of a path must say the same number
    #[arg(long, value_name = "N")]
    pub(crate) holders: Option<NonZero<usize>>,

    /// How long to wait for a server and the lock together [default: as long as it takes]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait at all; a lock that is taken costs the servers one read
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,

    /// When the lock is lost: how long the command has from TERM to KILL [default: a quarter of the session
    /// timeout, at most 5s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// The lock: a path in ZooKeeper, made if it is missing
    #[arg(value_name = "PATH")]
    pub(crate) path: LockPath,

    /// The command to run, and its arguments
    #[arg(value_name = "COMMAND", last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

/// Run the embedded ZooKeeper server
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "It is for tests, and for services that run on a single machine: it keeps\n\
        everything in memory, forgets it when it ends, and knows no encryption.\n\n\
        Example:\n  lockkeeper serve --listen 127.0.0.1:2181"
)]
pub(crate) struct ServeArgs {
    /// Where to listen; port 0 takes any that is free
    #[arg(long, value_name = "HOST:PORT", default_value = "127.0.0.1:2181", value_parser = listen)]
    pub(crate) listen: String,

    /// ZooKeeper's tickTime: sessions expire in steps of it, and two of it are the shortest session timeout
    #[arg(long, value_name = "DURATION", default_value = "500ms", value_parser = duration::parse_positive)]
    pub(crate) tick_time: Duration,

    /// The longest session timeout that a client is granted
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = duration::parse_positive)]
    pub(crate) max_session_timeout: Duration,

    /// Answer only these users: lines of sasl:USER:PASSWORD, as clients have theirs
    #[arg(long, value_name = "FILE")]
    pub(crate) auth_file: Option<PathBuf>,
}

/// Watch clients contend for a lock, and one of them lose it
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    mut_arg("connect", |arg| arg.help(DEMO_CONNECT_HELP)),
    after_help = "It works below /lockkeeper-demo and leaves nothing behind.\n\n\
        Exit status: 0 if no two clients ever held the lock at once, 1 if they did, or\n\
        if the lock broke another of its promises.\n\n\
        Example:\n  lockkeeper demo --clients 8 --seconds 10"
)]
pub(crate) struct DemoArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How many clients contend, each with a session of its own
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u8).range(2..=24))]
    pub(crate) clients: u8,

    /// How many seconds they contend at least
    #[arg(long, value_name = "S", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=3600))]
    pub(crate) seconds: u32,
}

const DEMO_CONNECT_HELP: &str =
    "ZooKeeper servers to show it on: host:port,host:port/chroot [default: an embedded server]";

const RUN_EXAMPLE: &str = "\
Exit status: the command's own (128+n when signal n ended it), else
  64 bad usage     69 no server reached in time     74 lock lost while it ran
  75 lock not acquired in time     126, 127 the command cannot run, or be found

Example:
  lockkeeper run --wait 5m /locks/backup -- ./backup.sh

More with --help.";

const RUN_DETAILS: &str = "\
Exit status:
  the command's own, 128+n when signal n ended it; else
  64   bad usage or a bad path
  69   no server reached in time, or the servers refused
  71   the operating system refused something
  74   the lock was lost while the command ran; the command was ended
  75   the lock was not acquired in time (--wait, --try)
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the wait for the lock; nothing is left behind

The command's environment:
  LOCKKEEPER_TOKEN  the fencing token: a number that grows with each holder.
                    Whatever remembers the highest it has seen, and refuses
                    lower ones, is safe from a holder of the past
  LOCKKEEPER_PATH   the path of the lock
  LOCKKEEPER_NODE   the node in ZooKeeper that holds it

When the lock is lost (no word from a server for two thirds of the session
timeout, the node was deleted, ..) the command gets TERM, and KILL after the
grace time. Nobody else can get the lock before the whole session timeout is
over, so the default grace time ends the command before that. A longer --grace
lets it overlap with the next holder.

Signals: TERM, HUP, INT, QUIT, USR1 and USR2 are passed on to the command. It
leads a process group of its own, and what is meant to end it (all but the USR
signals, and a lost lock) goes to the whole group: a script ends with what it
has started. Not so in the foreground of a terminal, which the command shares
with lockkeeper: there only the command itself is ended, and INT and QUIT are
left to the terminal, so that Ctrl-C reaches the command once.

If lockkeeper itself is killed with KILL, the command lives on, and the lock is
free when the session timeout is over. Where that matters, on Linux:
  lockkeeper run /locks/backup -- setpriv --pdeathsig KILL ./backup.sh

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

/// An address that is not of the form `host:port`.
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
