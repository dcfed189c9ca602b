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
pub(crate) mod child;
pub(crate) mod environment;
mod lock;
mod notify;
mod on_loss;
mod once;
pub(crate) mod place;
mod tree;
pub(crate) mod watchdog;

use std::{env, ffi::OsString, path::Path, pin::pin, process, time::Duration};

use lockkeeper::{Client, Guard, LockError, error::Loss, locks::LockState};
use rustix::process::Signal;
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout, timeout_at};

use crate::{
    duration::{Human, Long},
    exit::{self, Failure},
    security,
    signals::{PASSED_ON, Signals},
};
use acquire::Wait;
pub(crate) use args::RunArgs;
use child::{Child, Children, Event};
use environment::Environment;
use lock::Lock;
use notify::Notify;
use on_loss::OnLoss;
use once::Once;
use place::Place;
use tree::{LOOK, Process};

/// How long closing the session may take. Without the close, the servers let the session expire later.
const GOODBYE: Duration = Duration::from_secs(2);

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

/// The variables of the command. A run inside it reads them.
const TOKEN: &str = "LOCKKEEPER_TOKEN";
const PATH: &str = "LOCKKEEPER_PATH";
const NODE: &str = "LOCKKEEPER_NODE";

/// Runs the command under the lock, and returns the exit status.
pub(crate) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let wait = Wait::new(&args);
    let settings = args.servers.settings()?;
    let mut signals = Signals::catch(&PASSED_ON)?;
    let children = Children::receive()?;
    let notify = Notify::new(args.notify)?;
    let client = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        client = acquire::connect(settings, args.session_timeout, wait) => client?,
    };
    let granted = client.snapshot().session_timeout;
    if granted != args.session_timeout {
        let (granted, asked) = (Long(granted), Long(args.session_timeout));
        say!("the servers grant a session timeout of {granted}, not {asked}");
    }
    let status = under_lock(&client, &args, wait, &notify, &mut signals, children).await;
    notify.say("STOPPING=1");
    let _ = timeout(GOODBYE, client.close()).await;
    match status {
        Err(failure) if failure.status() == exit::NOT_ACQUIRED => {
            exit::report(&failure);
            Ok(args.conflict_exit_code)
        }
        // The status of a refusal elsewhere, 1, may be that of the command.
        Err(failure) if failure.status() == exit::REFUSED => {
            exit::report(&failure);
            Ok(exit::UNAVAILABLE)
        }
        status => status,
    }
}

async fn under_lock(
    client: &Client,
    args: &RunArgs,
    wait: Wait,
    notify: &Notify,
    signals: &mut Signals,
    children: Children,
) -> Result<u8, Failure> {
    let path = args.path.as_str();
    let lock = Lock::new(client, args, who(&args.command))?;
    let once = args
        .once_per
        .map(|period| Once::new(client, path, period, args.acl));
    let guard = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        guard = granted(client, args, &lock, once.as_ref(), wait, notify) => guard?,
    };
    let (place, environment) = (Place::of_this(), environment(&guard, args));
    // Before the start is noted: if the system refuses a process, the period is not used up.
    let mut child = Child::start(&args.command, &environment, place, children)?;
    let noted = async {
        if let Some(once) = &once {
            wait.bound(path, once.begin(&guard)).await?;
        }
        Ok::<_, Failure>(())
    };
    let lost = || {
        say!("{path}: lock lost before the command began");
        Ok(exit::LOST)
    };
    let end = tokio::select! {
        biased;
        signal = signals.ending() => Some(Ok(exit::of_signal(signal.as_raw()))),
        noted = noted => match noted {
            Err(failure) if failure.status() == exit::NOT_ACQUIRED => Some(lost()),
            noted => noted.err().map(Err),
        },
    };
    // This process may have been stopped since the grant.
    let time = may_go_on_for(&guard, args).filter(|_| guard.is_valid());
    let end = end.or_else(|| time.is_none().then(lost));
    if let Some(end) = end {
        child.dismiss_watchdog().await;
        return end;
    }
    if place == Place::OwnGroup {
        signals.catch_also(Signal::TSTP)?;
    }
    if let Err(failure) = child.begin(time).await {
        child.dismiss_watchdog().await;
        return Err(failure);
    }
    notify.say(&format!("READY=1\nSTATUS={path} is held"));
    let on_loss = OnLoss::new(args.on_loss.as_deref(), environment);
    hold(guard, child, signals, args, on_loss).await
}

/// Acquires the lock: at the right time, with the right access, and not inside itself.
async fn granted(
    client: &Client,
    args: &RunArgs,
    lock: &Lock,
    once: Option<&Once<'_>>,
    wait: Wait,
    notify: &Notify,
) -> Result<Guard, Failure> {
    let path = args.path.as_str();
    let before = async {
        if is_inside(client, path).await? {
            return Err(failure!(
                USAGE,
                "{path}: this command runs under that lock already, and would wait for itself"
            ));
        }
        tell_of_chroot(client, args).await?;
        access::prepare(client, args).await?;
        match once {
            Some(once) => once.check().await.map(drop),
            None => Ok(()),
        }
    };
    wait.bound(path, before).await?;
    notify.say(&format!("STATUS=waiting for {path}"));
    let began = Instant::now();
    let guard = acquire::acquire(client, lock, wait).await?;
    let (waited, token) = (Human(began.elapsed()), guard.fencing_token());
    tell!("{path}: granted after {waited}, token {token}");
    Ok(guard)
}

/// Says that the chroot is missing, because the lock's directories are created with it. One with a typing error has locks
/// of its own.
async fn tell_of_chroot(client: &Client, args: &RunArgs) -> Result<(), Failure> {
    let servers = args.servers.servers()?;
    if let Some(chroot) = servers.chroot() {
        let exists = client.exists("/").await?;
        if exists.is_none() {
            say!("the chroot {chroot} does not exist; creating it");
        }
    }
    Ok(())
}

/// Whether this process is part of a command that runs under this lock. Its node says so: another server or chroot has no such
/// node.
async fn is_inside(client: &Client, path: &str) -> Result<bool, Failure> {
    let (outer, node) = (env::var(PATH), env::var(NODE));
    match (outer, node) {
        (Ok(outer), Ok(node)) if outer == path => {
            let stat = client.exists(&node).await;
            Ok(stat?.is_some())
        }
        _ => Ok(false),
    }
}

/// The data of the lock's node, for an operator who looks at the queue.
///
/// The command's arguments are left out: they may contain secrets, and everybody can read the node.
fn who(command: &[OsString]) -> String {
    let host = rustix::system::uname();
    let host = host.nodename().to_string_lossy();
    let program = command.first().map_or(Path::new(""), Path::new);
    let (pid, program) = (process::id(), program.display());
    format!("host={host} pid={pid} command={program}")
}

/// Whether the data of a lock node are those of a run.
pub(crate) fn wrote(data: &str) -> bool {
    let mut words = data.splitn(3, ' ');
    ["host=", "pid=", "command="]
        .iter()
        .all(|key| words.next().is_some_and(|word| word.starts_with(key)))
}

/// The environment of the command: what it may know of its lock, and not what only `run` should know.
fn environment(guard: &Guard, args: &RunArgs) -> Environment {
    let mut environment = Environment::default();
    environment.set(TOKEN, guard.fencing_token().to_string());
    environment.set(PATH, args.path.as_str());
    environment.set(NODE, guard.path());
    if !args.pass_auth {
        environment.remove(security::VARIABLE);
    }
    if args.notify {
        environment.remove(notify::VARIABLE);
    }
    environment
}

/// The default grace time: an eighth of the session timeout. A lease that servers renew has always more left than that.
fn grace_for(client: &Client) -> Duration {
    (client.snapshot().session_timeout / 8).min(LONGEST_GRACE)
}

/// How long the command may go on if this process says nothing more: until a moment after the lease. `None` if the lock is lost.
fn may_go_on_for(guard: &Guard, args: &RunArgs) -> Option<Duration> {
    let default_grace = grace_for(guard.client());
    let grace = args.grace.unwrap_or(default_grace);
    let until = Instant::from_std(guard.valid_until()?);
    let left = until.saturating_duration_since(Instant::now());
    let slack = guard.client().snapshot().session_timeout / SLACK;
    // The command gets TERM so long before the end of the lease, and then has the grace time.
    Some((left + grace + slack).saturating_sub(grace.min(default_grace)))
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

/// Waits until the command and all that it has started have ended, or its lock is lost.
async fn hold(
    guard: Guard,
    mut child: Child,
    signals: &mut Signals,
    args: &RunArgs,
    on_loss: OnLoss<'_>,
) -> Result<u8, Failure> {
    let path = args.path.as_str();
    let default_grace = grace_for(guard.client());
    let grace = args.grace.unwrap_or(default_grace);
    let ended = {
        let mut loss = pin!(guard.lost());
        let mut runs_out = pin!(runs_out(&guard, grace.min(default_grace)));
        let (mut kill_at, mut say_at, mut status) = (None, None, exit::LOST);
        let session_timeout = guard.client().snapshot().session_timeout;
        let mut report = interval(session_timeout / REPORTS);
        report.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                biased;
                _ = report.tick() => {
                    if let Some(time) = may_go_on_for(&guard, args) {
                        child.may_go_on_for(time);
                    }
                }
                why = &mut loss => break Err(why.to_string()),
                () = &mut runs_out => break Err("no server answers, and the lease runs out".to_owned()),
                event = child.next() => match event {
                    Event::AllEnded => break Ok(status),
                    Event::Ended(its) if args.no_wait_children => break Ok(its),
                    Event::Ended(its) => {
                        status = its;
                        say_at = Some(Instant::now() + SILENCE);
                    }
                },
                () = at(say_at) => {
                    say_at = None;
                    say!("{path}: {child} has ended; the lock is held until the end of {}", list(&child.left()));
                }
                () = at(kill_at) => {
                    child.kill();
                    kill_at = Some(Instant::now() + LOOK);
                }
                signal = signals.next() => match signal {
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
            release(guard, status, args).await
        }
        Err(loss) => {
            say!(
                "{path}: lock lost: {loss}; ending {child} within {}",
                Human(grace)
            );
            on_loss.start(&loss, &mut child);
            child.end(grace, signals).await;
            on_loss::end(&mut child).await;
            child.dismiss_watchdog().await;
            Ok(exit::LOST)
        }
    }
}

/// The processes, for people: the first of many.
fn list(processes: &[Process]) -> String {
    let named: Vec<_> = processes
        .iter()
        .take(LISTED)
        .map(Process::to_string)
        .collect();
    let more = processes.len().saturating_sub(LISTED);
    let more = (more > 0).then(|| format!(", and {more} more"));
    named.join(", ") + more.as_deref().unwrap_or_default()
}

/// Waits until this moment, or for ever.
async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => sleep_until(moment).await,
        None => std::future::pending().await,
    }
}

/// Releases the lock after the command has ended with this status.
async fn release(guard: Guard, status: u8, args: &RunArgs) -> Result<u8, Failure> {
    let path = args.path.as_str();
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
    let unconfirmed = match timeout_at(until, guard.release()).await {
        Ok(Ok(())) => {
            tell!("{path}: released");
            return Ok(status);
        }
        Ok(Err(LockError::Lost { loss, .. })) => return report(loss),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no reply before the lease ended".to_owned(),
    };
    say!(
        "{path}: release not confirmed ({unconfirmed}); the lock becomes free at the latest when the session expires"
    );
    Ok(if args.strict { exit::LOST } else { status })
}
