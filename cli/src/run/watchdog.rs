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
    future::pending,
    io::{self, IoSlice, IoSliceMut},
    iter,
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
    process::{Pid, Signal, getpid, getppid, kill_process, kill_process_group},
    time::{ClockId, clock_gettime},
};
use tokio::{
    io::Interest,
    net::UnixStream,
    runtime::Builder,
    time::{Instant, sleep},
};

use super::{
    environment::Environment,
    place::Place,
    tree::{self, Ends, LOOK, Process},
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

/// The longest pause between two looks whether processes that were killed have ended.
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

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

/// A message that has come, which the system keeps in one piece. `None` at the end of the connection.
fn take<const LENGTH: usize>(stream: &UnixStream) -> io::Result<Option<[u8; LENGTH]>> {
    let mut message = [0; LENGTH];
    let (length, _) = retry_on_intr(|| recv(stream, &mut message, RecvFlags::DONTWAIT))?;
    Ok((length == LENGTH).then_some(message))
}

/// The next message. `None` at the end of the connection.
///
/// # Cancel safety
/// A dropped future loses nothing.
async fn receive<const LENGTH: usize>(stream: &UnixStream) -> Option<[u8; LENGTH]> {
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

impl Watchdog {
    /// Starts the process. If there is a command, [`begin`](Self::begin) lets it begin. Otherwise it is a second watchdog, for what is
    /// below this process.
    pub(super) fn start(
        command: &[OsString],
        environment: &Environment,
        place: Place,
        group: i32,
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
        start.args([NAME, task, &group.to_string()]);
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

    /// Lets the command begin, with our stdin, and go on until this moment.
    pub(super) fn begin(&self, until: Option<Instant>) -> io::Result<()> {
        let stdin = io::stdin();
        let rights = [stdin.as_fd()];
        let mut space = [MaybeUninit::uninit(); cmsg_space!(ScmRights(1))];
        let mut with = SendAncillaryBuffer::new(&mut space);
        with.push(SendAncillaryMessage::ScmRights(&rights));
        let message = encode(until);
        sendmsg(
            &self.stream,
            &[IoSlice::new(&message)],
            &mut with,
            SendFlags::empty(),
        )?;
        self.wake();
        Ok(())
    }

    /// Says until when the command may go on.
    pub(super) fn tell(&self, until: Option<Instant>) {
        // The end of the watchdog shows itself as the end of a child.
        let _ = send(&self.stream, &encode(until), SendFlags::DONTWAIT);
        self.wake();
    }

    /// Lets a watchdog go on that somebody has stopped.
    pub(super) fn wake(&self) {
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::CONT);
        }
    }

    /// What the watchdog tells next. Waits for ever if it was killed. Cancel safe.
    pub(super) async fn hear(&self) -> Word {
        match receive(&self.stream).await {
            Some(word) => Word::decode(word),
            None => pending().await,
        }
    }

    /// What the watchdog told before it was killed.
    pub(super) fn last_words(&self) -> impl Iterator<Item = Word> {
        let next = || take(&self.stream).ok().flatten();
        iter::from_fn(next).map(Word::decode)
    }

    /// Ends the watchdog, and nothing else.
    pub(super) fn kill(&self) {
        if !self.has_ended {
            let _ = kill_process(self.pid, Signal::KILL);
        }
    }
}

/// The length of a message to the watchdog: nanoseconds of the system's clock, which is the same in both processes. So a message that
/// was read late, because the watchdog was stopped, does not let the command go on for longer.
const MESSAGE: usize = 8;

fn encode(until: Option<Instant>) -> [u8; MESSAGE] {
    let at = until.map(|until| now() + until.saturating_duration_since(Instant::now()));
    let ns = at.and_then(|at| u64::try_from(at.as_nanos()).ok());
    ns.unwrap_or(u64::MAX).to_be_bytes()
}

/// The moment when all must end, if there is one.
fn deadline(message: [u8; MESSAGE]) -> Option<Instant> {
    let ns = u64::from_be_bytes(message);
    let left = (ns < u64::MAX).then(|| Duration::from_nanos(ns).saturating_sub(now()));
    left.and_then(|left| Instant::now().checked_add(left))
}

fn now() -> Duration {
    let now = clock_gettime(ClockId::Monotonic);
    Duration::try_from(now).unwrap_or_default()
}

pub(super) fn pid(id: u32) -> io::Result<Pid> {
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    pid.ok_or_else(|| io::Error::other("a process has no id"))
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
    let mut ends = Ends::receive()?;
    // A service manager may send such signals to all processes of a unit, and they are for `run` and the command.
    let _caught = Signals::catch(&ENDING)?;
    let stream = net::UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut charges = Charges::new(group);
    let (mut until, mut begun) = (None, None);
    if let [program, arguments @ ..] = command {
        let Some((message, stdin)) = receive_begin(&stream)? else {
            return Ok(());
        };
        until = deadline(message);
        if until.is_some_and(|until| until <= Instant::now()) {
            return Ok(());
        }
        let mut command = Command::new(program);
        command.args(arguments).stdin(stdin);
        command.process_group(if task == OWN { 0 } else { group });
        begun = Some(command.spawn());
    }
    stream.set_nonblocking(true)?;
    let stream = UnixStream::from_std(stream)?;
    // If it cannot be told, `run` is gone.
    let tell = |word: Word| {
        let _ = send(&stream, &word.encode(), SendFlags::DONTWAIT);
    };
    match begun {
        Some(Ok(process)) => {
            charges.begun(pid(process.id())?, task == OWN);
            tell(Word::Began(process.id()));
        }
        Some(Err(error)) => {
            let number = error.raw_os_error().and_then(|it| u32::try_from(it).ok());
            tell(Word::Failed(number.unwrap_or(0)));
            return Ok(());
        }
        None => charges.note(),
    }
    loop {
        tokio::select! {
            biased;
            message = receive(&stream) => {
                let Some(message) = message else { break };
                until = deadline(message);
                if charges.are_of_run() {
                    charges.note();
                }
            }
            () = super::at(until) => break,
            end = ends.next(), if !charges.are_of_run() => match end? {
                Some((pid, status)) if charges.note_end(pid) => tell(Word::Ended(status.into())),
                Some(_) => {}
                None if charges.have_ended() => {
                    tell(Word::AllEnded);
                    return Ok(());
                }
                None => sleep(LOOK).await,
            },
        }
    }
    charges.kill().await;
    tell(Word::AllEnded);
    Ok(())
}

/// The processes that a watchdog answers for.
#[derive(Debug)]
struct Charges {
    me: Pid,
    run: Option<Pid>,
    /// The group of `run`, which has other processes, too.
    shared: i32,
    /// The command. `None` in a second watchdog: that has nothing below itself.
    command: Option<Pid>,
    /// The group of the command while the command itself lives, or has not been waited for: nobody else's group has this number.
    own: Option<Pid>,
    seen: Vec<Process>,
}

impl Charges {
    fn new(shared: i32) -> Self {
        Self {
            me: getpid(),
            run: getppid(),
            shared,
            command: None,
            own: None,
            seen: Vec::new(),
        }
    }

    fn begun(&mut self, command: Pid, leads_group: bool) {
        self.command = Some(command);
        self.own = leads_group.then_some(command);
    }

    /// Whether they are below `run`, beside this watchdog.
    fn are_of_run(&self) -> bool {
        self.command.is_none()
    }

    /// Whether the command itself has ended.
    fn note_end(&mut self, pid: Pid) -> bool {
        self.own = self.own.filter(|own| *own != pid);
        Some(pid) == self.command
    }

    fn have_ended(&self) -> bool {
        let left = tree::below(&[self.me], None, self.command);
        left.is_ok_and(|left| left.is_empty())
    }

    /// Looks for new ones below those that are known. What was seen once is not forgotten: when `run` has ended, nothing shows any more
    /// to whom the rest belongs.
    fn look(&mut self) -> io::Result<()> {
        self.seen.retain_mut(Process::renew);
        let mut roots: Vec<_> = self.seen.iter().map(|it| it.pid).collect();
        let except = if self.are_of_run() {
            roots.extend(self.run.filter(|run| getppid() == Some(*run)));
            Some(self.me)
        } else {
            roots.push(self.me);
            None
        };
        self.seen.extend(tree::below(&roots, except, self.command)?);
        self.seen.sort_by_key(|it| it.pid.as_raw_pid());
        self.seen.dedup_by_key(|it| it.pid);
        Ok(())
    }

    /// Looks now. The next look comes soon, if this one fails.
    fn note(&mut self) {
        let _ = self.look();
    }

    /// Kills all, again and again: a process may start another one before it is killed.
    async fn kill(&mut self) {
        // At once, before a look at each process of the system.
        if let Some(own) = self.own {
            let _ = kill_process_group(own, Signal::KILL);
        }
        let mut pause = Duration::ZERO;
        loop {
            tree::send(&self.seen, Signal::KILL, self.shared);
            if self.look().is_ok() && self.seen.is_empty() {
                return;
            }
            sleep(pause).await;
            // Those of other users stay.
            pause = (pause * 2).clamp(LOOK, LONGEST_PAUSE);
        }
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
