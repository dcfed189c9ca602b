//! The arguments of `lockkeeper run`, and its help texts.

use std::{ffi::OsString, time::Duration};

use clap::Args;

pub(super) use super::access::Access;
use super::access::Values;
use crate::{duration, exit, number::number, paths, servers::ServerArgs};

/// Run a command while holding a lock
#[derive(Args, Debug)]
#[command(after_help = RUN_EXAMPLE, after_long_help = RUN_DETAILS)]
#[allow(
    clippy::struct_excessive_bools,
    reason = "each is an option of the command line"
)]
pub(crate) struct RunArgs {
    #[command(flatten)]
    pub(crate) servers: ServerArgs,

    /// How long the servers keep the lock when they hear nothing from lockkeeper
    #[arg(long, env = "LOCKKEEPER_SESSION_TIMEOUT", value_name = "DURATION", allow_hyphen_values = true, default_value = "10s", value_parser = duration::parse_positive)]
    pub(crate) session_timeout: Duration,

    /// The tickTime of the servers, the longest if they differ; the lock then stands slower servers. It is not safe
    /// with a shorter time than theirs
    #[arg(long, env = "LOCKKEEPER_TICK", value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::parse_positive)]
    pub(crate) tick: Option<Duration>,

    /// Share the lock with other runs that use --shared; a run without --shared excludes them
    #[arg(long, conflicts_with = "holders")]
    pub(crate) shared: bool,

    /// Let up to N commands hold the lock at once; all users of a path must give --holders and the same N
    #[arg(long, value_name = "N", allow_hyphen_values = true, value_parser = number(1_usize..))]
    pub(crate) holders: Option<usize>,

    /// The longest wait for a server and the lock together [default: no limit]
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::parse)]
    pub(crate) wait: Option<Duration>,

    /// Do not wait; if the lock is taken, the attempt costs the servers one read. A server must answer within a
    /// second
    #[arg(long = "try", conflicts_with = "wait")]
    pub(crate) try_once: bool,

    /// How long the command has from TERM to KILL. By default it has an eighth of the session timeout, at most 5s, after
    /// the lock is lost; and for ever after lockkeeper itself gets TERM
    #[arg(long, value_name = "DURATION", allow_hyphen_values = true, value_parser = duration::parse)]
    pub(crate) grace: Option<Duration>,

    /// Release the lock when the command itself ends, although processes that it has started, such as a daemon, run on
    #[arg(long)]
    pub(crate) no_wait_children: bool,

    /// Run the command once in each period, by the clock of the servers: 15m begins at :00, :15, :30 and :45 UTC. A
    /// command that fails has run, too. The node PATH.once has the time of the last start
    #[arg(long, value_name = "PERIOD", allow_hyphen_values = true, value_parser = duration::parse_positive, conflicts_with_all = ["shared", "holders"])]
    pub(crate) once_per: Option<Duration>,

    /// Who may use what this run creates, missing nodes above the lock included: `world`, everyone; one identity,
    /// which this run must have: `digest:USER` of --auth-file, `x509:SUBJECT` of --tls-cert, `sasl:NAME` of a login; or
    /// `creator`: each identity of this run, and so everybody who has its client certificate
    #[arg(long, value_name = "WHO", default_value = "world", hide_possible_values = true, value_parser = Values)]
    pub(crate) acl: Access,

    /// What an operator reads of this run in lockkeeper queue, in place of command=NAME; everyone may read it
    #[arg(long, value_name = "TEXT")]
    pub(crate) data: Option<String>,

    /// The exit status when the command has run in this period, instead of 80
    #[arg(long, value_name = "N", requires = "once_per", default_value_t = exit::ALREADY_DONE, hide_default_value = true, allow_hyphen_values = true, value_parser = number(0_u8..=255))]
    pub(crate) done_exit_code: u8,

    /// The exit status when the lock is not acquired in time, instead of 75; not when the command has run in this
    /// period: see --done-exit-code
    #[arg(long, short = 'E', value_name = "N", default_value_t = exit::NOT_ACQUIRED, hide_default_value = true, allow_hyphen_values = true, value_parser = number(0_u8..=255))]
    pub(crate) conflict_exit_code: u8,

    /// Exit with 74 also when no server has confirmed the release
    #[arg(long)]
    pub(crate) strict: bool,

    /// Say nothing, also when the lock is not acquired or lost: the exit status tells. Only bad usage and a new chroot are told
    #[arg(long, short, conflicts_with = "verbose")]
    pub(crate) quiet: bool,

    /// When the lock is lost, run this with sh -c, beside the end of the command; `$LOCKKEEPER_LOSS` has the reason
    #[arg(long, value_name = "SCRIPT")]
    pub(crate) on_loss: Option<OsString>,

    /// Tell systemd when the lock is held (READY=1), for a unit with Type=notify and KillMode=mixed
    #[arg(long)]
    pub(crate) notify: bool,

    /// Pass `$LOCKKEEPER_AUTH` on to the command, which otherwise does not get it
    #[arg(long)]
    pub(crate) pass_auth: bool,

    /// The lock: a path in ZooKeeper, created if it is missing
    #[arg(value_parser = paths::lock)]
    pub(crate) path: String,

    /// The command to run, and its arguments
    #[arg(last = true, required = true)]
    pub(crate) command: Vec<OsString>,
}

impl RunArgs {
    /// The longest wait for the lock, from the start of the program on.
    pub(super) fn limit(&self) -> Option<Duration> {
        self.try_once.then_some(Duration::ZERO).or(self.wait)
    }

    pub(super) fn is_try(&self) -> bool {
        self.limit() == Some(Duration::ZERO)
    }
}

const RUN_EXAMPLE: &str = "\
Exit status: that of the command, or 74 lock lost while it ran, 75 lock not acquired in time, \
and others: see --help.

Example:
  lockkeeper run --wait 5m /locks/backup -- ./backup.sh";

// A line is as long as its paragraph: clap breaks it, and keeps its indentation. Lines of a table fit into 60 columns.
const RUN_DETAILS: &str = "\
Exit status:
  that of the command, 128+n if signal n ended it; or
  64   bad usage or a bad path;
       or a path with another kind of lock: a run with --holders and one without cannot use the \
same path, nor can runs with different numbers; or the lock that this run is inside of
  69   a server refused;
       or all fail for a reason that lasts, such as a wrong certificate; with --try also: no \
server answered within a second
  71   the operating system refused something
  74   the lock was lost;
       the command was ended, or did not begin
  75   the lock was not acquired in time: --wait, --try, -E
  80   it has run in this period: --once-per;
       --done-exit-code sets another status
  126  the command cannot be executed
  127  the command was not found
  128+n  signal n ended the wait; no lock node is left

The command's environment:
  LOCKKEEPER_TOKEN  the fencing token:
                    a number that grows with each holder. A service that remembers the highest \
token it has seen, and refuses lower ones, is safe from earlier holders
  LOCKKEEPER_PATH   the path of the lock
  LOCKKEEPER_NODE   the node in ZooKeeper that holds it
  LOCKKEEPER_AROUND both of each lock around this one, in lines: a run inside reads them

An outage of the servers does not end the wait: a run that has lost its session enters the \
queue again, at its end. A line on stderr says so when the outage begins, rarely while it \
lasts, and when it is over.

The lock is lost when its lease runs out because no server answers, when the session expires, \
or when the lock's node is deleted. Then the command gets TERM, and after the grace time KILL.

When no server answers, the command gets TERM so early that the default grace time ends with \
the lease: nobody else can have the lock by then. A longer --grace lets the command overlap \
with the next holder. When the node was deleted, the next holder can start immediately.

Signals: lockkeeper passes TERM, HUP, INT, QUIT, USR1, USR2 on.
  - USR1 and USR2 go to the command alone. The other signals, and those after a lost lock, go \
to the command and to all that it has started, also to daemons and to what has a process group \
of its own (timeout, setsid).
  - With a controlling terminal, the command stays in the process group of lockkeeper, which is \
the job of the shell: Ctrl-C arrives once, from the terminal; Ctrl-Z, bg and fg reach both.
  - When somebody asks for the lock (lockkeeper set NODE __REVOKE__), the command gets TERM, as \
if lockkeeper had got it, and lockkeeper queue shows that.
  - TSTP without a terminal stops the command and lockkeeper. After CONT the command goes on if \
the lock is still held; otherwise it is ended.
  - A command that is stopped goes on when it gets TERM, HUP, INT or QUIT.
  - A signal that was ignored or blocked stays so in the command. Only PIPE and CHLD always have \
their default action there.

The lock is held until the command and all that it has started have ended, as with flock(1). A \
message says what the lock waits for. --no-wait-children releases the lock when the command \
itself ends, and names what runs on.

If lockkeeper itself is killed, its watchdog process kills the command and all that it has \
started. The lock becomes free when the session expires. If lockkeeper is stopped or hangs, the \
watchdog does so when the lease has ended, before the session can end; a --grace that is longer \
than its default comes on top. If the watchdog is killed, lockkeeper ends the command and gives \
the lock up: nobody would end the command in time if lockkeeper were killed, too.

Example:
  lockkeeper run --wait 5m /locks/backup -- ./backup.sh";
