//! The watchdog: the process between `lockkeeper run` and the command, which ends everything below it when `run` cannot. The command
//! would go on without the lock.
//!
//! It starts the command when `run` says so, and inherits what the command leaves behind. So it can reach each process, and knows
//! when the last one has ended. `run` says again and again how long the command may go on: until a little after the lease of the lock.
//! - The end of the connection says that `run` is gone, however it was killed.
//! - Silence until the end of that time says that `run` is stopped, or hangs.
//!
//! In both cases the watchdog kills all. It ends by itself when all have ended.
//!
//! Not here: ending the command when the lock is lost, or when the watchdog itself is killed (`child`).

use std::{
    env,
    ffi::OsString,
    fs,
    io::{self, IoSlice, IoSliceMut},
    mem::MaybeUninit,
    os::{
        fd::{AsFd as _, OwnedFd},
        unix::{net, process::CommandExt as _},
    },
    path::PathBuf,
    process::Command,
    time::Duration,
};

use rustix::{
    cmsg_space,
    io::retry_on_intr,
    net::{
        RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
        SendAncillaryMessage, SendFlags, recv, recvmsg, send, sendmsg,
    },
    process::{Pid, Signal, kill_process, kill_process_group},
    time::{ClockId, clock_gettime},
};
use tokio::{
    io::Interest,
    net::UnixStream,
    runtime::Builder,
    time::{Instant, sleep},
};

use super::tree::{self, Ends, LOOK};
use crate::{
    duration, exit,
    signals::{ENDING, Signals},
};

/// The first argument of the process.
pub(crate) const NAME: &str = "--watchdog";

/// The name of this program in lists of processes.
const PROGRAM: &str = env!("CARGO_BIN_NAME");

/// Where the watchdog starts the command: in a group of its own, or in that of `run`.
const OWN: &str = "own";
const SHARED: &str = "shared";

/// The longest pause between two looks whether processes that were killed have ended.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A message in one of the directions, which the system keeps in one piece.
type Message = [u8; 8];

/// What the watchdog tells.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// The command has this process id.
    Began(u32),
    /// The command did not begin: the number of the system's error.
    Failed(u32),
    /// The command has ended with this status.
    Ended(u32),
}

impl Word {
    fn encode(self) -> Message {
        let (kind, number) = match self {
            Self::Began(pid) => (0, pid),
            Self::Failed(error) => (1, error),
            Self::Ended(status) => (2, status),
        };
        (kind << 32 | u64::from(number)).to_be_bytes()
    }

    fn decode(message: Message) -> Self {
        let [.., kind, a, b, c, d] = message;
        let number = u32::from_be_bytes([a, b, c, d]);
        match kind {
            0 => Self::Began(number),
            1 => Self::Failed(number),
            _ => Self::Ended(number),
        }
    }
}

/// A message that has come. `None` at the end of the connection.
fn take(stream: &UnixStream) -> io::Result<Option<Message>> {
    let mut message = [0; 8];
    let (length, _) = retry_on_intr(|| recv(stream, &mut message, RecvFlags::DONTWAIT))?;
    Ok((length == message.len()).then_some(message))
}

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
    pub(super) pid: Pid,
    pub(super) has_ended: bool,
    stream: UnixStream,
}

/// The watchdog of a command, which it starts in a group of its own, or in the group of this process. The command has the same
/// environment.
pub(super) fn command(
    command: &[OsString],
    has_own_group: bool,
    group: i32,
) -> io::Result<Command> {
    // On Linux this file is there also if the program was replaced or deleted meanwhile.
    let file = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        env::current_exe()?
    };
    let mut watchdog = Command::new(file);
    watchdog.arg0(PROGRAM);
    watchdog.args([
        NAME,
        if has_own_group { OWN } else { SHARED },
        &group.to_string(),
    ]);
    // In a group of its own: no signal of the terminal reaches it.
    watchdog.args(command).process_group(0);
    Ok(watchdog)
}

impl Watchdog {
    /// Starts the process. The command does not begin before [`begin`](Self::begin).
    pub(super) fn start(mut command: Command) -> io::Result<Self> {
        let (ours, its) = net::UnixStream::pair()?;
        let process = command.stdin(OwnedFd::from(its)).spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Self {
            pid: Pid::from_child(&process),
            has_ended: false,
            stream: UnixStream::from_std(ours)?,
        })
    }

    /// Lets the command begin, with our stdin, and go on until this moment.
    pub(super) fn begin(&self, until: Option<Instant>) -> io::Result<()> {
        let stdin = io::stdin();
        let rights = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&rights));
        let message = encode(until);
        let message = [IoSlice::new(&message)];
        sendmsg(&self.stream, &message, &mut with, SendFlags::empty())?;
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
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::CONT);
        }
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

    /// Ends the watchdog, and nothing else.
    pub(super) fn kill(&self) {
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::KILL);
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

/// The watchdog itself. The arguments are where the command begins, the group of `run`, and the command.
pub(crate) fn watch(arguments: &[OsString]) -> u8 {
    let [place, group, program, arguments @ ..] = arguments else {
        return exit::USAGE;
    };
    // Only Linux has this file, and only there the name needs it.
    let _ = fs::write("/proc/self/comm", PROGRAM);
    let runtime = Builder::new_current_thread().enable_all().build();
    let shared = group.to_str().and_then(|it| it.parse().ok()).unwrap_or(0);
    let mut command = Command::new(program);
    command.args(arguments);
    command.process_group(if place == OWN { 0 } else { shared });
    let kept = runtime.and_then(|it| it.block_on(keep(command, place == OWN, shared)));
    kept.map_or(exit::SYSTEM, |()| exit::OK)
}

async fn keep(mut command: Command, leads_group: bool, shared: i32) -> io::Result<()> {
    let mut ends = Ends::receive()?;
    // A service manager may send such signals to all processes of a unit, and they are for `run` and the command.
    let _caught = Signals::catch(&ENDING)?;
    let stream = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let Some((message, stdin)) = receive_begin(&stream)? else {
        return Ok(());
    };
    let mut until = deadline(message);
    if until.is_some_and(|until| until <= Instant::now()) {
        return Ok(());
    }
    let begun = command.stdin(stdin).spawn();
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // If it cannot be told, `run` is gone.
    let tell = |word: Word| {
        let _ = send(&stream, &word.encode(), SendFlags::DONTWAIT);
    };
    let command = match begun {
        Ok(process) => {
            tell(Word::Began(process.id()));
            Pid::from_child(&process)
        }
        Err(error) => {
            let number = error.raw_os_error().and_then(|it| u32::try_from(it).ok());
            tell(Word::Failed(number.unwrap_or(0)));
            return Ok(());
        }
    };
    // While the command has not been waited for, nobody else's group has this number.
    let mut own = Some(command).filter(|_| leads_group);
    loop {
        tokio::select! {
            biased;
            message = receive(&stream) => match message {
                Some(message) => until = deadline(message),
                None => break,
            },
            () = duration::until(until) => break,
            end = ends.next() => match end? {
                Some((pid, status)) if pid == command => {
                    own = None;
                    tell(Word::Ended(status.into()));
                }
                Some(_) => {}
                None if tree::below(None, Some(command)).is_ok_and(|it| it.is_empty()) => return Ok(()),
                None => sleep(LOOK).await,
            },
        }
    }
    // At once, before a look at each process of the system.
    if let Some(own) = own {
        let _ = kill_process_group(own, Signal::KILL);
    }
    let mut pause = Duration::ZERO;
    loop {
        // Again and again: a process may start another one before it is killed.
        match tree::below(None, Some(command)) {
            Ok(left) if left.is_empty() => return Ok(()),
            Ok(left) => tree::send(&left, Signal::KILL, shared),
            Err(_) => {}
        }
        sleep(pause).await;
        // Those of other users stay.
        pause = (pause * 2).clamp(LOOK, LONGEST_PAUSE);
    }
}

/// Waits until the command may begin: the message, and its stdin. `None` if `run` is gone.
fn receive_begin(stream: &net::UnixStream) -> io::Result<Option<(Message, OwnedFd)>> {
    let mut message = [0; 8];
    let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
    let mut with = RecvAncillaryBuffer::new(&mut space);
    retry_on_intr(|| {
        let mut buffers = [IoSliceMut::new(&mut message)];
        recvmsg(stream, &mut buffers, &mut with, RecvFlags::CMSG_CLOEXEC)
    })?;
    let mut files = with.drain().filter_map(|it| match it {
        RecvAncillaryMessage::ScmRights(mut files) => files.next(),
        _ => None,
    });
    Ok(files.next().map(|stdin| (message, stdin)))
}
