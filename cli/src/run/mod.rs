//! `lockkeeper run`: runs a command under a lock.
//!
//! The steps are connect, acquire, run and release. A signal to end is handled during every step. At the end the session
//! is always closed, so no node of ours is left on the servers if they can be reached.
//!
//! Two rules decide the exit status:
//! - `run` returns the command's own status only if the lock was held from the command's start to its end;
//! - if `run` cannot know that, it reports a lost lock.

mod acquire;
mod child;
pub(crate) mod gate;
mod lock;
pub(crate) mod watchdog;

use std::{ffi::OsString, path::Path, pin::pin, process, time::Duration};

use lockkeeper::{Client, Guard, LockError, error::Loss, locks::LockState};
use rustix::process::Signal;
use tokio::time::{Instant, sleep_until, timeout, timeout_at};

use crate::{
    args::RunArgs,
    exit::{self, Failure},
    signals::Signals,
};
use acquire::Wait;
use child::{Child, Place};
use lock::Lock;

/// The signals that `run` catches and passes on to the command.
const CAUGHT: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// How long closing the session may take. Without the close, the servers let the session expire later.
const GOODBYE: Duration = Duration::from_secs(2);

/// The longest default grace time.
const LONGEST_GRACE: Duration = Duration::from_secs(5);

/// Runs the command under the lock, and returns the exit status.
pub(crate) async fn run(args: RunArgs) -> Result<u8, Failure> {
    let wait = Wait::new(&args);
    let settings = args.servers.settings()?;
    let mut signals = Signals::catch(&CAUGHT).map_err(Failure::System)?;
    let client = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        client = acquire::connect(settings, args.session_timeout, wait) => client?,
    };
    let status = under_lock(&client, &args, wait, &mut signals).await;
    let _ = timeout(GOODBYE, client.close()).await;
    status
}

async fn under_lock(
    client: &Client,
    args: &RunArgs,
    wait: Wait,
    signals: &mut Signals,
) -> Result<u8, Failure> {
    let path = args.path.as_str();
    let lock = Lock::new(client, args, who(&args.command))?;
    let guard = tokio::select! {
        biased;
        signal = signals.ending() => return Ok(exit::of_signal(signal.as_raw())),
        guard = acquire::acquire(&lock, wait) => guard?,
    };
    let child = Child::start(&args.command, &environment(&guard, path), Place::of_this())?;
    let grace = args.grace.unwrap_or_else(|| grace_for(client));
    hold(guard, child, signals, path, grace).await
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

/// The environment variables for the command.
fn environment(guard: &Guard, path: &str) -> [(&'static str, String); 3] {
    [
        ("LOCKKEEPER_TOKEN", guard.fencing_token().to_string()),
        ("LOCKKEEPER_PATH", path.to_owned()),
        ("LOCKKEEPER_NODE", guard.path()),
    ]
}

/// The default grace time: an eighth of the session timeout. A lease that servers renew has always more left than that.
fn grace_for(client: &Client) -> Duration {
    (client.snapshot().session_timeout / 8).min(LONGEST_GRACE)
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

/// Waits until the command ends or its lock is lost.
async fn hold(
    guard: Guard,
    mut child: Child,
    signals: &mut Signals,
    path: &str,
    grace: Duration,
) -> Result<u8, Failure> {
    let ended = {
        let mut loss = pin!(guard.lost());
        let mut runs_out = pin!(runs_out(&guard, grace.min(grace_for(guard.client()))));
        loop {
            tokio::select! {
                biased;
                why = &mut loss => break Err(why.to_string()),
                () = &mut runs_out => break Err("no server answers, and the lease runs out".to_owned()),
                status = child.wait() => break Ok(status.map_err(Failure::System)?),
                signal = signals.next() => child.pass_on(signal),
            }
        }
    };
    match ended {
        Ok(status) => release(guard, child::exit_status(status), path).await,
        Err(loss) => {
            exit::say(&format_args!(
                "{path}: lock lost: {loss}; ending {child} within {}",
                crate::duration::Human(grace)
            ));
            child.end(grace, signals).await.map_err(Failure::System)?;
            Ok(exit::LOST)
        }
    }
}

/// Releases the lock after the command has ended with this status.
async fn release(guard: Guard, status: u8, path: &str) -> Result<u8, Failure> {
    let report = |loss: Loss| {
        exit::say(&format_args!(
            "{path}: lock lost before the command ended: {loss}"
        ));
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
        Ok(Ok(())) => return Ok(status),
        Ok(Err(LockError::Lost { loss, .. })) => return report(loss),
        Ok(Err(error)) => error.to_string(),
        Err(_) => "no reply before the lease ended".to_owned(),
    };
    exit::say(&format_args!(
        "{path}: release not confirmed ({unconfirmed}); the lock becomes free at the latest when the session expires"
    ));
    Ok(status)
}
