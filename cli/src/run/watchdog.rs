//! The watchdog: the process between `lockkeeper run` and the command, which ends everything below it when `run` cannot. The command
//! would go on without the lock.
//!
//! It lets the command begin when `run` says so, and inherits what the command leaves behind. So it can reach each process, and knows
//! when the last one has ended. `run` says again and again how long the command may go on: until a little after the lease of the lock.
//! - The end of the connection says that `run` is gone, however it was killed.
//! - Silence until the end of that time says that `run` is stopped, or hangs.
//!
//! In both cases the watchdog kills all that is below itself, and nothing else. It ends by itself when all have ended.
//!
//! Its name in lists of processes is not that of this program: killall(1) and pkill(1) end `run`, and the watchdog has to end the rest.
//!
//! Not here: how the process of the command begins (`launcher`), ending the command when the lock is lost, or when the watchdog itself
//! is killed (`child`).

use std::{
    ffi::OsString,
    fs, io,
    os::{
        fd::{AsFd, OwnedFd},
        unix::{net, process::CommandExt as _},
    },
    process::Command,
    time::Duration,
};

use rustix::{
    net::{SendFlags, Shutdown, send, shutdown},
    process::{Pid, Signal, getpid, kill_process},
    time::{ClockId, clock_gettime},
};
use tokio::{
    io::Interest,
    net::UnixStream,
    runtime::Builder,
    time::{Instant, timeout},
};

use super::{
    launcher,
    message::{Message, Word, receive_begin, send_begin, take},
    tree::{self, Ends, Handle, LOOK, Signaller},
};
use crate::{
    duration, exit,
    signals::{ENDING, Signals},
};

/// The first argument of the process.
pub(crate) const NAME: &str = "--watchdog";

/// The name of the process in lists, at most 15 bytes.
const PROGRAM: &str = "lock-watchdog";

/// The longest pause between two looks whether processes that were killed have ended.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// The next message. `None` at the end of the connection.
///
/// # Cancel safety
/// A dropped future loses nothing.
async fn receive(stream: &UnixStream) -> Option<Message> {
    let taken = stream.async_io(Interest::READABLE, || take(stream)).await;
    taken.ok().flatten()
}

/// A running watchdog. Dropping this value makes it kill all.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Handle,
    /// Its exit status.
    pub(super) ended: Option<u8>,
    stream: UnixStream,
}

/// This program. The file is there also if the program was replaced or deleted meanwhile.
fn this_program() -> Command {
    let mut program = Command::new("/proc/self/exe");
    program.arg0(PROGRAM);
    program
}

impl Watchdog {
    /// Starts the process, in an environment that `prepare` changes. The command does not begin before [`begin`](Self::begin), in this
    /// group, or in a group of its own.
    pub(super) fn start(
        command: &[OsString],
        shared_group: Option<i32>,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let mut watchdog = this_program();
        watchdog.args([NAME, &shared_group.unwrap_or(0).to_string()]);
        // In a group of its own: no signal of the terminal reaches it.
        watchdog.args(command).process_group(0);
        prepare(&mut watchdog);
        let (ours, its) = net::UnixStream::pair()?;
        let process = watchdog.stdin(OwnedFd::from(its)).spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Self {
            process: Handle::open(Pid::from_child(&process)),
            ended: None,
            stream: UnixStream::from_std(ours)?,
        })
    }

    pub(super) fn pid(&self) -> Pid {
        self.process.pid
    }

    /// Lets the command begin, with our stdin, and go on until this moment.
    pub(super) fn begin(&self, until: Option<Instant>) -> io::Result<()> {
        send_begin(&self.stream, encode(until), io::stdin().as_fd())?;
        self.wake();
        Ok(())
    }

    /// Says until when the command may go on.
    pub(super) fn tell(&self, until: Instant) {
        // The end of the watchdog shows itself as the end of a child.
        let _ = send(&self.stream, &encode(Some(until)), SendFlags::DONTWAIT);
        self.wake();
    }

    /// Lets a watchdog go on that somebody has stopped.
    pub(super) fn wake(&self) {
        self.signal(Signal::CONT);
    }

    /// What the watchdog tells next. Waits for ever if it has ended. Cancel safe.
    pub(super) async fn hear(&self) -> Word {
        match receive(&self.stream).await {
            Some(message) => Word::decode(message),
            None => std::future::pending().await,
        }
    }

    /// What the watchdog told before it ended.
    pub(super) fn last_word(&self) -> Option<Word> {
        take(&self.stream).ok().flatten().map(Word::decode)
    }

    /// Ends the watchdog, and nothing else: if the command has not ended, its process ends, too.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// Says that the command is not to begin. The watchdog ends then.
    pub(super) fn hang_up(&self) {
        let _ = shutdown(&self.stream, Shutdown::Write);
        self.wake();
    }

    fn signal(&self, signal: Signal) {
        if self.ended.is_none() {
            let _ = self.process.signal(signal);
        }
    }
}

/// Until when the command may go on: nanoseconds of the system's clock, which is the same in both processes. So a message that was
/// read late, because the watchdog was stopped, does not let the command go on for longer.
fn encode(until: Option<Instant>) -> Message {
    let at = until.map(|until| now() + until.saturating_duration_since(Instant::now()));
    let ns = at.and_then(|at| u64::try_from(at.as_nanos()).ok());
    ns.unwrap_or(u64::MAX).to_be_bytes()
}

/// The moment when all must end, if there is one.
fn deadline(message: Message) -> Option<Instant> {
    let ns = u64::from_be_bytes(message);
    let left = (ns < u64::MAX).then(|| Duration::from_nanos(ns).saturating_sub(now()));
    left.and_then(|left| Instant::now().checked_add(left))
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

/// The watchdog itself. The arguments are the group in which the command begins, 0 for one of its own, and the command.
pub(crate) fn watch(arguments: &[OsString]) -> u8 {
    let [group, command @ ..] = arguments else {
        return exit::USAGE;
    };
    let group = group.to_str().and_then(|it| it.parse().ok()).unwrap_or(0);
    // Some lists of processes show this name, and not that of `arg0`.
    let _ = fs::write("/proc/self/comm", PROGRAM);
    let runtime = Builder::new_current_thread().enable_all().build();
    let kept = runtime.and_then(|it| it.block_on(keep(command, group)));
    kept.map_or(exit::SYSTEM, |()| exit::OK)
}

async fn keep(command: &[OsString], group: i32) -> io::Result<()> {
    let mut ends = Ends::receive()?;
    // A service manager may send such signals to all processes of a unit, and they are for `run` and the command.
    let _caught = Signals::catch(&ENDING)?;
    let stream = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let (launched, its) = net::UnixStream::pair()?;
    let mut launch = this_program();
    launch.args([launcher::NAME, &getpid().to_string()]);
    launch.args(command).process_group(group);
    let started = launch.stdin(OwnedFd::from(its)).spawn();
    drop(launch);
    let order = receive_begin(&stream)?.map(|(message, stdin)| (message, deadline(message), stdin));
    let in_time = |until: Option<Instant>| until.is_none_or(|until| Instant::now() < until);
    let Some((message, mut until, stdin)) = order.filter(|(_, until, _)| in_time(*until)) else {
        drop(launched);
        return all_ended(&mut ends).await;
    };
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // If it cannot be told, `run` is gone.
    let tell = |message: Message| {
        let _ = send(&stream, &message, SendFlags::DONTWAIT);
    };
    let command = match started {
        Ok(process) => Pid::from_child(&process),
        Err(error) => {
            tell(Word::failed(&error).encode());
            return Ok(());
        }
    };
    launched.set_nonblocking(true)?;
    let launched = UnixStream::from_std(launched)?;
    // If this fails, the process has ended, and that is told.
    let _ = send_begin(&launched, message, stdin.as_fd());
    drop(stdin);
    let has_failed = |failure: Option<Message>| {
        let began = Word::Began(command.as_raw_pid());
        tell(failure.unwrap_or(began.encode()));
        failure.is_some()
    };
    let (mut has_begun, mut has_ended) = (false, false);
    loop {
        tokio::select! {
            biased;
            message = receive(&stream) => match message {
                Some(message) => until = deadline(message),
                None => break,
            },
            () = duration::until(until) => break,
            failure = receive(&launched), if !has_begun => {
                has_begun = true;
                if has_failed(failure) {
                    return all_ended(&mut ends).await;
                }
            }
            end = ends.next() => match end? {
                Some((pid, status)) if pid == command => {
                    // Its end may be heard before its beginning.
                    if !has_begun && has_failed(take(&launched).ok().flatten()) {
                        return all_ended(&mut ends).await;
                    }
                    has_begun = true;
                    has_ended = true;
                    tell(Word::Ended(status).encode());
                }
                Some(_) => {}
                None => return Ok(()),
            },
        }
    }
    // At once, before a look at each process of the system. Its id is its own until it was waited for.
    if !has_ended {
        let _ = kill_process(command, Signal::KILL);
    }
    let (mut signaller, mut pause) = (Signaller::default(), Duration::ZERO);
    loop {
        // Again and again: a process may start another one before it is killed.
        let left = tree::below(getpid(), |_| false).unwrap_or_default();
        signaller.send(&left, Signal::KILL);
        if let Ok(ended) = timeout(pause, all_ended(&mut ends)).await {
            return ended;
        }
        // Those of other users stay.
        pause = (pause * 2).clamp(LOOK, LONGEST_PAUSE);
    }
}

/// Waits until everything below this process has ended. Orphans become its children.
async fn all_ended(ends: &mut Ends) -> io::Result<()> {
    while ends.next().await?.is_some() {}
    Ok(())
}
