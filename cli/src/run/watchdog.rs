//! The watchdog: the process between `lockkeeper run` and the command, which ends everything below it when `run` cannot. The command
//! would go on without the lock.
//!
//! It starts the command when `run` says so, and inherits what the command leaves behind. So it can reach each process, and knows
//! when the last one has ended. `run` says again and again how long the command may go on: until a little after the lease of the lock.
//! - The end of the connection says that `run` is gone, however it was killed.
//! - Silence until the end of that time says that `run` is stopped, or hangs.
//!
//! In both cases the watchdog kills all. If the watchdog itself is killed, `run` inherits the processes, and starts a second watchdog
//! beside them. That one remembers what it has seen below `run`.
//!
//! Not here: ending the command when the lock is lost (`child`).

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
        SendAncillaryMessage, SendFlags, recvmsg, send, sendmsg,
    },
    process::{Pid, Signal, getpid, getppid, kill_process},
};
use tokio::{
    net::UnixStream,
    runtime::Builder,
    time::{Instant, sleep},
};

use super::{
    child::{Environment, LOOK},
    place::Place,
    tree::{self, Ends, Process},
};
use crate::{
    exit,
    signals::{ENDING, Signals},
};

/// The first argument of the process.
pub(crate) const NAME: &str = "--watchdog";

/// The name of this program in lists of processes.
const PROGRAM: &str = env!("CARGO_BIN_NAME");

/// Where the watchdog starts the command: in a group of its own, or in that of `run`.
const OWN: &str = "own";
const SHARED: &str = "shared";

/// What the watchdog tells: a letter and a number.
#[derive(Clone, Copy, Debug)]
pub(super) enum Word {
    /// The command has this process id.
    Began(u32),
    /// The command did not begin: the number of the system's error.
    Failed(u32),
    /// The command has ended with this status.
    Ended(u32),
    /// All that the command has started has ended, too.
    AllEnded,
}

impl Word {
    const LENGTH: usize = 5;

    fn encode(self) -> [u8; Self::LENGTH] {
        let (letter, number) = match self {
            Self::Began(pid) => (b'b', pid),
            Self::Failed(error) => (b'f', error),
            Self::Ended(status) => (b'e', status),
            Self::AllEnded => (b'a', 0),
        };
        let [a, b, c, d] = number.to_be_bytes();
        [letter, a, b, c, d]
    }

    fn decode([letter, number @ ..]: [u8; Self::LENGTH]) -> Self {
        let number = u32::from_be_bytes(number);
        match letter {
            b'b' => Self::Began(number),
            b'f' => Self::Failed(number),
            b'e' => Self::Ended(number),
            _ => Self::AllEnded,
        }
    }
}

/// The next message, which the system keeps in one piece. `None` at the end of the connection.
///
/// # Cancel safety
/// A dropped future loses nothing.
async fn receive<const LENGTH: usize>(stream: &UnixStream) -> Option<[u8; LENGTH]> {
    loop {
        stream.readable().await.ok()?;
        let mut message = [0; LENGTH];
        match stream.try_read(&mut message) {
            Ok(length) if length == LENGTH => return Some(message),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            _ => return None,
        }
    }
}

/// A running watchdog. Dropping this value makes it kill all.
#[derive(Debug)]
pub(super) struct Watchdog {
    pub(super) pid: Pid,
    pub(super) has_ended: bool,
    stream: UnixStream,
}

impl Watchdog {
    /// Starts the process. If there is a command, [`begin`](Self::begin) lets it begin. Otherwise it is a second watchdog, for what is
    /// below this process.
    pub(super) fn start(
        command: &[OsString],
        environment: &Environment,
        place: Place,
    ) -> io::Result<Self> {
        let (ours, its) = net::UnixStream::pair()?;
        // On Linux this file is there also if the program was replaced or deleted meanwhile.
        let file = if cfg!(target_os = "linux") {
            PathBuf::from("/proc/self/exe")
        } else {
            env::current_exe()?
        };
        let task = if place == Place::OwnGroup {
            OWN
        } else {
            SHARED
        };
        let mut start = Command::new(file);
        start.arg0(PROGRAM);
        start.args([NAME, task, &own_group().to_string()]);
        start.args(command);
        environment.apply(&mut start);
        // In a group of its own: no signal of the terminal reaches it.
        let start = start.process_group(0).stdin(OwnedFd::from(its));
        let process = start.spawn()?;
        ours.set_nonblocking(true)?;
        Ok(Self {
            pid: pid(process.id())?,
            has_ended: false,
            stream: UnixStream::from_std(ours)?,
        })
    }

    /// Lets the command begin, with our stdin.
    pub(super) fn begin(&self, time: Duration) -> io::Result<()> {
        let stdin = io::stdin();
        let rights = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&rights));
        let message = encode(time);
        sendmsg(
            &self.stream,
            &[IoSlice::new(&message)],
            &mut with,
            SendFlags::empty(),
        )?;
        Ok(())
    }

    /// Says how long the command may go on.
    pub(super) fn tell(&self, time: Duration) {
        // The end of the connection shows itself in `hear`.
        let _ = send(&self.stream, &encode(time), SendFlags::DONTWAIT);
        self.wake();
    }

    /// Lets a watchdog go on that somebody has stopped.
    pub(super) fn wake(&self) {
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::CONT);
        }
    }

    /// What the watchdog tells next. `None` if it was killed. Cancel safe.
    pub(super) async fn hear(&self) -> Option<Word> {
        receive(&self.stream).await.map(Word::decode)
    }

    /// Ends the watchdog, and nothing else.
    pub(super) fn kill(&self) {
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// The length of a message to the watchdog: milliseconds.
const MESSAGE: usize = 8;

fn encode(time: Duration) -> [u8; MESSAGE] {
    let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
    ms.to_be_bytes()
}

/// The moment when all must end, by a message that has just come.
fn deadline(message: [u8; MESSAGE]) -> Option<Instant> {
    let ms = u64::from_be_bytes(message);
    let time = (ms < u64::MAX).then(|| Duration::from_millis(ms));
    time.and_then(|time| Instant::now().checked_add(time))
}

pub(super) fn pid(id: u32) -> io::Result<Pid> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process has no id"))
}

/// The group of this process. Zero if the group is outside of its namespace, as for the first process of a container.
pub(super) fn own_group() -> i32 {
    Process::find(getpid()).map_or(0, |it| it.group)
}

/// The watchdog itself. The arguments are its task, the group of `run`, and the command.
pub(crate) fn watch(arguments: &[OsString]) -> u8 {
    let [task, group, command @ ..] = arguments else {
        return exit::USAGE;
    };
    // Only Linux has this file, and only there the name needs it.
    let _ = fs::write("/proc/self/comm", PROGRAM);
    let runtime = Builder::new_current_thread().enable_all().build();
    let group = group.to_str().and_then(|it| it.parse().ok()).unwrap_or(0);
    let kept = runtime.and_then(|runtime| runtime.block_on(keep(task, group, command)));
    kept.map_or(exit::SYSTEM, |()| exit::OK)
}

async fn keep(task: &OsString, group: i32, command: &[OsString]) -> io::Result<()> {
    let (me, run) = (getpid(), getppid());
    let mut ends = Ends::receive()?;
    // A service manager may send such signals to all processes of a unit, and they are for `run` and the command.
    let _caught = Signals::catch(&ENDING)?;
    let stream = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let begun = match command {
        [program, arguments @ ..] => {
            let Some((message, stdin)) = receive_begin(&stream)? else {
                return Ok(());
            };
            let group = if task == OWN { 0 } else { group };
            let mut command = Command::new(program);
            command.args(arguments).stdin(stdin).process_group(group);
            Some((deadline(message), command.spawn()))
        }
        [] => None,
    };
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // If it cannot be told, `run` is gone.
    let tell = |word: Word| {
        let _ = send(&stream, &word.encode(), SendFlags::DONTWAIT);
    };
    let (mut until, mut started) = (None, None);
    match begun {
        Some((deadline, Ok(process))) => {
            (until, started) = (deadline, Some(pid(process.id())?));
            tell(Word::Began(process.id()));
        }
        Some((_, Err(error))) => {
            let number = error.raw_os_error().and_then(|it| u32::try_from(it).ok());
            tell(Word::Failed(number.unwrap_or(0)));
            return Ok(());
        }
        None => {}
    }
    let is_second = started.is_none();
    let root = if is_second { run.unwrap_or(me) } else { me };
    let mut seen = Vec::new();
    loop {
        tokio::select! {
            biased;
            message = receive(&stream) => {
                let Some(message) = message else { break };
                until = deadline(message);
                if is_second {
                    seen = tree::below(&[root], Some(me), None);
                }
            }
            () = super::at(until) => break,
            end = ends.next(), if !is_second => match end? {
                Some((pid, status)) if Some(pid) == started => tell(Word::Ended(status.into())),
                Some(_) => {}
                None if tree::below(&[me], None, started).is_empty() => {
                    tell(Word::AllEnded);
                    return Ok(());
                }
                None => sleep(LOOK).await,
            },
        }
    }
    // Again and again: a process may start another one before it is killed.
    loop {
        seen.retain(Process::is_left);
        let mut roots: Vec<_> = seen.iter().map(|it| it.pid).collect();
        // A second watchdog stays the child of `run` as long as that lives.
        if !is_second || getppid() == run {
            roots.push(root);
        }
        seen.extend(tree::below(&roots, is_second.then_some(me), started));
        seen.sort_by_key(|it| it.pid.as_raw_pid());
        seen.dedup_by_key(|it| it.pid);
        if seen.is_empty() {
            return Ok(());
        }
        tree::send(&seen, Signal::KILL, group);
        sleep(LOOK).await;
    }
}

/// Waits until the command may begin: the message, and its stdin. `None` if `run` is gone.
fn receive_begin(stream: &net::UnixStream) -> io::Result<Option<([u8; MESSAGE], OwnedFd)>> {
    let mut message = [0; MESSAGE];
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
