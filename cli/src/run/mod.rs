//! `lockkeeper run`: runs a command under a lock.
//!
//! The steps are connect, acquire, run and release. A signal to end is handled during every step. At the end the session
//! is always closed, so no node of ours is left on the servers if they can be reached.
//!
//! Two rules decide the exit status:
//! - `run` returns the command's own status only if the lock was held from the command's start to its end;
//! - if `run` cannot know that, it reports a lost lock.

mod access;
mod acquire;
mod args;
mod child;
mod launcher;
mod message;
mod notify;
mod once;
mod tree;
mod watchdog;

use std::{
    env,
    ffi::OsString,
    path::Path,
    pin::pin,
    process::{self, Command, Stdio},
    time::Duration,
};

use futures::FutureExt as _;
use lockkeeper::{
    Client, Guard, LockError, Version, error::Loss, locks::LockState, proto::path, raw::AsRaw,
};
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until, timeout, timeout_at};

use crate::{
    client::{GOODBYE, connected},
    duration::{Human, until},
    exit::{self, Failure},
    outage, servers,
    signals::{PASSED_ON, Signals},
    text::quoted,
};
pub(crate) use args::RunArgs;
use child::{Child, Children, Event};
use notify::Notify;
use tree::{LOOK, Process};

/// How often the watchdog hears of the lease: this many times in a session timeout. A lease lasts for a fifth of it, at least.
const REPORTS: u32 = 16;

/// If `run` is stopped, its watchdog kills the command this part of the session timeout after the end of the lease. The lease ends at
/// least twice as long before the session. A `run` that works ends the command before.
const SLACK: u32 = 32;

/// The longest default grace time.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// After this time the user is told that the lock waits for what the command has left behind.
const SILENCE: Duration = Duration::from_secs(1);

/// How many processes a message names.
const LISTED: usize = 8;

/// How long `run` waits for the script of `--on-loss` after the command has ended. Then it kills the script.
const LONGEST_SCRIPT: Duration = Duration::from_secs(10);

/// After this time a signal ends the wait for a release. One that has ended the command may come to this process a little later.
const USUAL_RELEASE: Duration = Duration::from_secs(1);

/// The variables of the command. A run inside it reads them.
const PATH: &str = "LOCKKEEPER_PATH";
const NODE: &str = "LOCKKEEPER_NODE";
/// The same two of each lock around that one, in lines: for a run inside alone.
const AROUND: &str = "LOCKKEEPER_AROUND";

/// An example for the help of the whole program.
pub(crate) const EXAMPLE: &str =
    "lockkeeper run --connect zk1:2181,zk2:2181 /locks/backup -- ./backup.sh";

/// What a process does that `run` has started, and its exit status. It needs no command line, and should start fast.
pub(crate) fn helper(arguments: &[OsString]) -> Option<u8> {
    match arguments {
        [_, name, rest @ ..] if name == watchdog::NAME => Some(watchdog::watch(rest)),
        [_, name, rest @ ..] if name == launcher::NAME => Some(launcher::launch(rest)),
        _ => None,
    }
}

/// Runs a command beside the server of `serve`, without a lock, and passes signals on to it.
pub(crate) async fn beside(
    command: &[OsString],
    server: &str,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let children = Children::receive().map_err(Failure::system("watch processes"))?;
    let mut child = Child::start(command, children, |command| {
        command.env(servers::VARIABLE, server);
        // They are for other servers: this one does not encrypt.
        for name in servers::TLS_VARIABLES {
            command.env_remove(name);
        }
    })?;
    child.begin(None).await?;
    loop {
        tokio::select! {
            biased;
            event = child.next() => match event {
                Event::Ended(status) => return Ok(status),
                Event::Unwatched | Event::AllEnded => break,
            },
            signal = signals.next() => child.pass_on(signal),
        }
    }
    child.pass_on(Signal::TERM);
    child.end(LONGEST_GRACE, signals).await;
    Err(failure!(
        SYSTEM,
        "the watchdog was killed, so nobody would end the command in time"
    ))
}

/// Runs the command under the lock, and returns the exit status.
pub(crate) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let began = Instant::now();
    tree::check()?;
    let settings = args.settings()?;
    let mut signals = Signals::catch(&PASSED_ON)?;
    let children = Children::receive().map_err(Failure::system("watch processes"))?;
    let notify = Notify::new(args.notify)?;
    let client = signals.or_end(acquire::client(settings, &args)).await?;
    let run = Run {
        args,
        began,
        notify,
        client,
    };
    let status = run.under_lock(&mut signals, children).await;
    run.notify.say("STOPPING=1");
    let _ = timeout(GOODBYE, run.client.close()).await;
    status.or_else(|failure| {
        exit::report(&failure);
        Ok(match failure.status {
            exit::NOT_ACQUIRED => run.args.conflict_exit_code,
            exit::ALREADY_DONE => run.args.done_exit_code,
            // The status of a refusal elsewhere, 1, may be that of the command.
            exit::REFUSED => exit::UNAVAILABLE,
            status => status,
        })
    })
}

/// A run with a session.
struct Run {
    args: RunArgs,
    began: Instant,
    notify: Notify,
    client: Client,
}

impl Run {
    async fn under_lock(&self, signals: &mut Signals, children: Children) -> Result<u8, Failure> {
        let (args, path) = (&self.args, &self.args.path);
        let guard = signals.or_end(Box::pin(self.granted())).await?;
        // Before the start is noted: if the system refuses a process, the period is not used up.
        let prepare = |command: &mut Command| self.prepare(command, &guard);
        let child = Child::start(&args.command, children, prepare);
        let mut child = child.map_err(Failure::system("start the command"))?;
        let lost = || failure!(LOST, "{path}: lock lost before the command began");
        let noted = match signals.or_end(self.note_start(&guard)).await {
            Err(failure) if failure.status == exit::NOT_ACQUIRED || failure.is_of_outage => {
                Err(lost())
            }
            noted => noted,
        };
        if child.shared_group.is_none() {
            signals.catch_also(Signal::TSTP)?;
        }
        // This process may have been stopped since the grant.
        let time = self.may_go_on_for(&guard).filter(|_| guard.is_valid());
        let (begun, before) = match (noted, time) {
            (Ok(before), Some(_)) => (child.begin(time).await, before),
            (noted, _) => (noted.and(Err(lost())), None),
        };
        if let Err(failure) = begun {
            child.give_up().await;
            if let exit::CANNOT_EXECUTE | exit::NOT_FOUND = failure.status
                && let Some(before) = before
            {
                // Nothing has begun: the period comes back under the same lock.
                let given_back = self.note(&guard, before, Version::ANY);
                if let Err(why) = signals.or_end(given_back).await {
                    say!("the period counts as used; {why}");
                }
            }
            return Err(failure);
        }
        self.notify.say(&format!("READY=1\nSTATUS={path} is held"));
        self.hold(guard, child, signals).await
    }

    /// Acquires the lock: at the right time, with the right access, and not inside itself. An outage costs only time.
    async fn granted(&self) -> Result<Guard, Failure> {
        let (client, args, path) = (&self.client, &self.args, &self.args.path);
        let acquired = async {
            if args.is_try() {
                self.prepare_lock().await?;
            } else {
                let prepared = outage::persist(async || self.prepare_lock().await);
                self.in_time(prepared).await?;
            }
            let (granted, asked) = (client.snapshot().session_timeout, args.session_timeout);
            if granted != asked {
                let (granted, asked) = (Human(granted), Human(asked));
                say!("the servers grant a session timeout of {granted}, not {asked}");
            }
            self.notify.say(&format!("STATUS=waiting for {path}"));
            let began = Instant::now();
            let guard = self.in_time(self.acquire()).await?;
            let (waited, token) = (Human(began.elapsed()), guard.fencing_token());
            tell!("{path}: granted after {waited}, token {token}");
            Ok(guard)
        };
        let acquired = Box::pin(acquired);
        if args.is_try() {
            acquired.await
        } else {
            outage::told(client, acquired).await
        }
    }

    /// What comes before the wait for the lock.
    async fn prepare_lock(&self) -> Result<(), Failure> {
        let (client, path) = (&self.client, &self.args.path);
        let connected = connected(client).await;
        connected.map_err(|error| Failure::connect(&error))?;
        if self.is_inside().await? {
            return Err(failure!(
                USAGE,
                "{path}: this command runs under that lock already, and would wait for itself"
            ));
        }
        // The lock's directories are created with the chroot, and one with a typing error has locks of its own. No status tells.
        if let Some(chroot) = self.args.servers.servers()?.chroot()
            && client.exists("/").await?.is_none()
        {
            let what = format!("the chroot {chroot} does not exist; creating it");
            exit::print_at(exit::Level::Quiet, format_args!("{what}"));
        }
        self.check_identity().await?;
        self.prepare_access().await?;
        if let Some(period) = self.args.once_per {
            self.check_period(period).await?;
        }
        Ok(())
    }

    /// Whether this process is part of a command that runs under this lock, perhaps with others in between. The node says so, whose
    /// name no other lock has: the chroot may be another one.
    async fn is_inside(&self) -> Result<bool, Failure> {
        let around = around();
        let lines: Vec<_> = around.lines().collect();
        for lock in lines.chunks_exact(2) {
            let [path, node] = lock else { continue };
            let Some(below) = node.strip_prefix(path) else {
                continue;
            };
            let node = path::join(&self.args.path, below.trim_start_matches('/'));
            if self.client.exists(&node).await?.is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The data of the lock's node, for an operator who looks at the queue.
    ///
    /// The command's arguments are left out: they may contain secrets, and everybody can read the node.
    fn who(&self) -> String {
        let host = rustix::system::uname();
        let host = host.nodename().to_string_lossy();
        let program = self.args.command.first().map_or(Path::new(""), Path::new);
        let program = || format!("command={}", quoted(&program.display().to_string()));
        let what = self.args.data.as_deref().map_or_else(program, quoted);
        format!("host={host} pid={} {what}", process::id())
    }

    /// Gives a command what it may know of its lock, and not what only `run` should know.
    fn prepare(&self, command: &mut Command, guard: &Guard) {
        command.env("LOCKKEEPER_TOKEN", guard.fencing_token().to_string());
        command.env(PATH, &self.args.path);
        command.env(NODE, guard.path());
        command.env(AROUND, around());
        if !self.args.pass_auth {
            command.env_remove(servers::AUTH_VARIABLE);
        }
        if self.args.notify {
            command.env_remove(notify::VARIABLE);
        }
    }

    /// The default grace time: an eighth of the session timeout. A lease that servers renew has always more left than that.
    fn default_grace(&self) -> Duration {
        (self.client.snapshot().session_timeout / 8).min(LONGEST_GRACE)
    }

    fn grace(&self) -> Duration {
        self.args.grace.unwrap_or_else(|| self.default_grace())
    }

    /// How long before the end of the lease the command gets TERM.
    fn ahead(&self) -> Duration {
        self.grace().min(self.default_grace())
    }

    /// How long the command may go on if this process says nothing more: until a moment after the lease. `None` if the lock is
    /// lost.
    fn may_go_on_for(&self, guard: &Guard) -> Option<Duration> {
        let until = Instant::from_std(guard.valid_until()?);
        let left = until.saturating_duration_since(Instant::now());
        let slack = self.client.snapshot().session_timeout / SLACK;
        Some((left + self.grace() + slack).saturating_sub(self.ahead()))
    }

    /// That servers throttle or are too slow, or that none answers, with the reason of the newest failure. Those before the present
    /// connection say nothing of it.
    fn silence(&self) -> String {
        let (raw, now) = (self.client.raw(), self.client.snapshot());
        let why = raw.throttled();
        let why = why.map(|it| format!("servers throttle, for {} now", Human(it)));
        let why = why.or_else(|| Some(raw.slow()?.to_string()));
        if let (None, Some(why)) = (raw.outage(), why) {
            return format!("the lease runs out: {why}");
        }
        let failures = self.client.failures();
        let newest = failures.last().filter(|_| !now.state.is_connected());
        let failure = newest.map(|lost| format!(": {}: {}", lost.endpoint, lost.cause));
        let slow = || Some(format!(": {} is too slow, or hangs", now.server?));
        let why = failure.or_else(slow).unwrap_or_default();
        format!("no server answers, and the lease runs out{why}")
    }

    /// Waits until another client asks for the lock, and says so in the node. The command then gets this signal.
    async fn asked(&self, guard: &Guard) -> Signal {
        guard.revoked().await;
        let path = &self.args.path;
        say!("{path}: asked to release the lock; ending the command");
        let who = format!("{}, asked to release the lock", self.who());
        if let Err(error) = guard.set_data(who).await {
            tracing::debug!(%error, "the node does not say that its holder was asked");
        }
        Signal::TERM
    }

    /// Waits until the command and all that it has started have ended, or its lock is lost.
    async fn hold(
        &self,
        guard: Guard,
        mut child: Child,
        signals: &mut Signals,
    ) -> Result<u8, Failure> {
        let (args, path, grace) = (&self.args, &self.args.path, self.grace());
        let ended = {
            let mut loss = pin!(guard.lost().fuse());
            let mut runs_out = pin!(runs_out(&guard, self.ahead()));
            let mut asked = pin!(self.asked(&guard).fuse());
            let (mut kill_at, mut say_at, mut status) = (None, None, exit::LOST);
            let session_timeout = self.client.snapshot().session_timeout;
            let mut report = interval(session_timeout / REPORTS);
            report.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    biased;
                    _ = report.tick() => {
                        if let Some(time) = self.may_go_on_for(&guard) {
                            child.may_go_on_for(time);
                        }
                    }
                    Some(why) = &mut loss => break Err(why.to_string()),
                    () = &mut runs_out => break Err(self.silence()),
                    event = child.next() => match event {
                        Event::AllEnded => break Ok(status),
                        Event::Unwatched => break Err("the watchdog of the command was killed, so nobody would end it in time".to_owned()),
                        Event::Ended(its) if args.no_wait_children => break Ok(its),
                        Event::Ended(its) => {
                            status = its;
                            say_at = Some(Instant::now() + SILENCE);
                        }
                    },
                    () = until(say_at) => {
                        say_at = None;
                        say!("{path}: {child} has ended; the lock is held until the end of {}", list(&child.left()));
                    }
                    () = until(kill_at) => {
                        child.kill();
                        kill_at = Some(Instant::now() + LOOK);
                    }
                    signal = async { tokio::select! { it = signals.next() => it, it = &mut asked => it } } => match signal {
                        Signal::TSTP => {
                            child.stop_group();
                            if guard.is_valid() {
                                child.send(Signal::CONT);
                            }
                        }
                        signal => {
                            child.pass_on(signal);
                            if signal == Signal::TERM && kill_at.is_none() {
                                kill_at = args.grace.map(|grace| Instant::now() + grace);
                            }
                        }
                    },
                }
            }
        };
        match ended {
            Ok(status) => {
                child.dismiss_watchdog().await;
                let left = child.left();
                if !left.is_empty() {
                    say!("{path}: without the lock run on: {}", list(&left));
                }
                release(guard, status, args, signals).await
            }
            Err(loss) => {
                // Before the message, which nobody may read.
                child.pass_on(Signal::TERM);
                say!(
                    "{path}: lock lost: {loss}; ending {child} within {}",
                    Human(grace)
                );
                if let Some(script) = &args.on_loss {
                    let mut shell = Command::new("sh");
                    self.prepare(&mut shell, &guard);
                    shell.arg("-c").arg(script).stdin(Stdio::null());
                    shell.env("LOCKKEEPER_LOSS", loss);
                    if let Err(error) = child.start_beside(&mut shell) {
                        say!("the script of --on-loss did not start: {error}");
                    }
                }
                child.end(grace, signals).await;
                child.dismiss_watchdog().await;
                if !child.end_beside(LONGEST_SCRIPT).await {
                    say!("the script of --on-loss did not end in 10 s; it was killed");
                }
                Ok(exit::LOST)
            }
        }
    }
}

/// The locks under which this process runs, the innermost one first: a line with the path of each, and one with its node.
fn around() -> String {
    match (env::var(PATH), env::var(NODE)) {
        (Ok(path), Ok(node)) => {
            let others = env::var(AROUND).unwrap_or_default();
            format!("{path}\n{node}\n{others}")
        }
        _ => String::new(),
    }
}

/// Waits until the lease of the lock has less than this left, so that the command can be ended before another client can get
/// the lock.
async fn runs_out(guard: &Guard, left: Duration) {
    while let Some(until) = guard.valid_until() {
        let left = until.checked_sub(left).map(Instant::from_std);
        match left {
            Some(at) if Instant::now() < at => sleep_until(at).await,
            _ => return,
        }
    }
    // The lock is lost: another future says how.
    std::future::pending::<()>().await;
}

/// The processes, for people: the first of many.
fn list(processes: &[Process]) -> String {
    let named = processes.iter().take(LISTED).map(Process::to_string);
    let more = processes.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join(", ")
}

/// Releases the lock after the command has ended with this status.
async fn release(
    guard: Guard,
    status: u8,
    args: &RunArgs,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let path = &args.path;
    let report = |loss: Loss| {
        say!("{path}: lock lost before the command ended: {loss}");
        Ok(exit::LOST)
    };
    // This process may have been stopped while the command went on and ended. The lease shows that without any event.
    let until = match (guard.state(), guard.valid_until()) {
        (LockState::Held | LockState::Suspended { .. }, Some(until)) => Instant::from_std(until),
        (LockState::Lost(loss), _) => return report(loss),
        _ => return report(Loss::Elapsed),
    };
    // Wait no longer than the lease. A later reply could say that the session has expired, although the lock was held
    // until the command ended.
    let released = timeout_at(until, guard.release());
    let signal = async {
        sleep(USUAL_RELEASE).await;
        signals.ending().await
    };
    let unconfirmed = tokio::select! {
        biased;
        released = released => match released {
            Ok(Ok(())) => {
                tell!("{path}: released");
                return Ok(status);
            }
            Ok(Err(LockError::Lost { loss, .. })) => return report(loss),
            Ok(Err(error)) => error.to_string(),
            Err(_) => "no reply before the lease ended".to_owned(),
        },
        _ = signal => "no reply before a signal".to_owned(),
    };
    say!(
        "{path}: release not confirmed ({unconfirmed}); the lock becomes free at the latest when the session expires"
    );
    Ok(if args.strict { exit::LOST } else { status })
}
