//! The command that runs under the lock, and all that it starts.
//!
//! - Without a controlling terminal, the command leads its own process group.
//! - With one, the command stays in our process group, also in the background: the group is the job that a shell knows. In another
//!   group, the command could never use the terminal, `fg` would not reach it, and its stop would be nobody's business. The terminal
//!   itself sends INT, QUIT and the stops to the group.
//!
//! Not here: when to end the command (`run`), what happens if this process is killed or stopped (`watchdog`).

use std::{
    env,
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io::{self, BufRead as _, BufReader, Read as _},
    process::Command,
    time::Duration,
};

use rustix::process::{Pid, Signal, getpgrp, getpid, kill_process};
use tokio::{
    sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
    time::{Instant, sleep, sleep_until, timeout, timeout_at},
};

use super::{
    message::Word,
    tree::{self, Ends, LOOK, Process, Signaller},
    watchdog::Watchdog,
};
use crate::{
    exit::{self, Failure},
    signals::{ENDING, Signals},
    text::quoted,
};

/// The children of this process that have ended, and their statuses. One task waits for all of them, also for strangers: the first
/// process of a container inherits them.
#[derive(Debug)]
pub(crate) struct Children(UnboundedReceiver<(Pid, u8)>);

impl Children {
    pub(crate) fn receive() -> io::Result<Self> {
        let (told, ended) = unbounded_channel();
        tokio::spawn(wait_for_all(Ends::receive()?, told));
        Ok(Self(ended))
    }

    async fn next(&mut self) -> (Pid, u8) {
        match self.0.recv().await {
            Some(end) => end,
            None => std::future::pending().await,
        }
    }
}

async fn wait_for_all(mut ends: Ends, told: UnboundedSender<(Pid, u8)>) -> io::Result<()> {
    loop {
        match ends.next().await? {
            // Nobody may want to know.
            Some(end) => drop(told.send(end)),
            None => ends.changed().await,
        }
    }
}

/// How long the end of what was killed may take: the system waits for disks.
const LONGEST_KILL: Duration = Duration::from_secs(1);

/// The interpreter that the first line of a script names, if the script is there.
fn interpreter(program: &OsStr) -> Option<String> {
    let is_path = program.as_encoded_bytes().contains(&b'/');
    let directories = env::var_os("PATH").filter(|_| !is_path);
    // A path is one below an empty directory.
    let directories = directories.or_else(|| is_path.then(OsString::new))?;
    let mut files = env::split_paths(&directories).map(|it| it.join(program));
    let file = files.find(|file| file.is_file())?;
    let mut line = Vec::new();
    let opened = File::open(file).map(|it| BufReader::new(it.take(256)));
    let _ = opened.and_then(|mut it| it.read_until(b'\n', &mut line));
    let line = String::from_utf8_lossy(&line);
    let mut words = line.strip_prefix("#!")?.split([' ', '\t', '\n']);
    words.find(|it| !it.is_empty()).map(quoted)
}

/// The terminal that controls this process.
fn terminal() -> io::Result<File> {
    File::open("/dev/tty")
}

/// Whether this process is in the foreground of a terminal.
fn is_in_foreground() -> bool {
    let foreground = terminal().and_then(|it| Ok(rustix::termios::tcgetpgrp(it)?));
    foreground.is_ok_and(|group| group == getpgrp())
}

/// A moment in the life of a command.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    /// The command itself has ended, with this status.
    Ended(u8),
    /// All that it has started has ended, too.
    AllEnded,
    /// The watchdog was killed. Nobody would end the rest if this process were killed now.
    Unwatched,
}

/// A running command, and all that it starts. If this value is dropped, the watchdog kills them.
#[derive(Debug)]
pub(crate) struct Child {
    program: OsString,
    /// Our process group, if the command stays in it.
    pub(super) shared_group: Option<i32>,
    children: Children,
    watchdog: Watchdog,
    /// The command's, since it has begun.
    pid: Option<Pid>,
    was_killed: bool,
    /// What this process had as children before: a shell that replaces itself has some.
    strangers: Vec<Process>,
    /// A child that is no part of the command: the script of `--on-loss`.
    beside: Option<Pid>,
    signaller: Signaller,
}

impl Child {
    /// Starts the watchdog, in an environment that `prepare` changes. The command waits for [`begin`](Self::begin). It inherits this
    /// environment, stdin, stdout and stderr.
    pub(crate) fn start(
        command: &[OsString],
        children: Children,
        prepare: impl FnOnce(&mut Command),
    ) -> io::Result<Self> {
        let shared_group = terminal().is_ok().then(tree::own_group);
        let strangers = tree::below(getpid(), |_| false)?;
        Ok(Self {
            program: command.first().cloned().unwrap_or_default(),
            shared_group,
            children,
            watchdog: Watchdog::start(command, shared_group, prepare)?,
            pid: None,
            was_killed: false,
            strangers,
            beside: None,
            signaller: Signaller::default(),
        })
    }

    /// Begins the command, which may go on for this time, or for ever.
    pub(crate) async fn begin(&mut self, time: Option<Duration>) -> Result<(), Failure> {
        self.watchdog
            .begin(time.map(|time| Instant::now() + time))?;
        let program = quoted(&self.program.display().to_string());
        loop {
            let word = tokio::select! {
                biased;
                word = self.watchdog.hear() => Some(word),
                end = self.children.next() => {
                    self.note_end(end);
                    // It may have said something that was not heard yet.
                    self.watchdog.last_word()
                }
            };
            match word {
                Some(Word::Began(pid)) => {
                    self.pid = Pid::from_raw(pid);
                    return Ok(());
                }
                Some(Word::Failed(error)) => {
                    let error = io::Error::from_raw_os_error(error);
                    // The system reports a missing interpreter as a missing program.
                    return Err(match (error.kind(), interpreter(&self.program)) {
                        (io::ErrorKind::NotFound, None) => {
                            failure!(NOT_FOUND, "{program}: command not found")
                        }
                        (io::ErrorKind::NotFound, Some(name)) => failure!(
                            CANNOT_EXECUTE,
                            "{program}: cannot be executed: its interpreter {name} is missing"
                        ),
                        _ => failure!(CANNOT_EXECUTE, "{program}: cannot be executed: {error}"),
                    });
                }
                // The time was over, and all has ended.
                None if self.watchdog.ended == Some(exit::OK) => {
                    return Err(failure!(
                        LOST,
                        "{program}: its lock was lost before it said that it began"
                    ));
                }
                None if self.watchdog.ended.is_some() => {
                    // It may have begun the command a moment before, and nobody knows.
                    self.kill_all().await;
                    return Err(failure!(
                        SYSTEM,
                        "{program}: its watchdog was killed before it said that the command began"
                    ));
                }
                Some(Word::Ended(_)) | None => {}
            }
        }
    }

    /// Waits for the next event.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub(crate) async fn next(&mut self) -> Event {
        loop {
            if let Some(status) = self.watchdog.ended {
                if let Some(Word::Ended(its)) = self.watchdog.last_word() {
                    return Event::Ended(its);
                }
                // It ends by itself when all have ended. Otherwise this process has inherited what is left.
                if status == exit::OK || self.look().is_ok_and(|left| left.is_empty()) {
                    return Event::AllEnded;
                }
                sleep(LOOK).await;
                continue;
            }
            tokio::select! {
                biased;
                word = self.watchdog.hear() => if let Word::Ended(its) = word {
                    return Event::Ended(its);
                },
                end = self.children.next() => {
                    self.note_end(end);
                    if self.watchdog.ended.is_some_and(|it| it != exit::OK) {
                        return Event::Unwatched;
                    }
                }
            }
        }
    }

    fn note_end(&mut self, (pid, status): (Pid, u8)) {
        self.beside.take_if(|it| *it == pid);
        if pid == self.watchdog.pid() {
            self.watchdog.ended = Some(status);
        }
    }

    /// What lives: the command, and all that it has started.
    pub(super) fn left(&self) -> Vec<Process> {
        self.look().unwrap_or_default()
    }

    /// All of that is below the watchdog, and comes to this process when the watchdog has ended.
    fn look(&self) -> io::Result<Vec<Process>> {
        let root = match self.watchdog.ended {
            None => self.watchdog.pid(),
            Some(_) => getpid(),
        };
        tree::below(root, |it| {
            self.beside == Some(it.pid) || self.strangers.iter().any(|stranger| stranger.is(it))
        })
    }

    /// Passes on a signal that this process has received.
    pub(crate) fn pass_on(&mut self, signal: Signal) {
        let all = self.left();
        let mut told = all.clone();
        match signal {
            // Only the command knows what these mean. They would end children that do not handle them.
            Signal::USR1 | Signal::USR2 => told.retain(|it| Some(it.pid) == self.pid),
            // The terminal has sent the signal to our group.
            Signal::INT | Signal::QUIT if is_in_foreground() => {
                told.retain(|it| Some(it.group) != self.shared_group);
            }
            _ => {}
        }
        self.signaller.send(&told, signal);
        // A stopped process handles it only after CONT.
        if ENDING.contains(&signal) {
            self.signaller.send(&all, Signal::CONT);
        }
    }

    /// Sends a signal to the command and all that it has started.
    pub(super) fn send(&mut self, signal: Signal) {
        let left = self.left();
        self.signaller.send(&left, signal);
    }

    /// Stops the group of the command and this process, until this process gets CONT. The others stay stopped. Not stopped are the
    /// watchdogs of runs inside the command: they end what those protect, as ours ends the command.
    pub(super) fn stop_group(&mut self) {
        let mut group = self.left();
        let own = self.pid.map_or(0, Pid::as_raw_pid);
        group.retain(|it| it.group == own);
        self.signaller.send(&group, Signal::STOP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Lets the command go on for this time. Then it is killed, even if this process is stopped, unless this is said again.
    pub(super) fn may_go_on_for(&self, time: Duration) {
        self.watchdog.tell(Instant::now() + time);
    }

    /// Kills all that is left. Done again until nothing is left: a process may start another one before it is killed.
    pub(super) fn kill(&mut self) {
        if !self.was_killed {
            say!("{self} did not end in the grace time; killing it");
            self.was_killed = true;
        }
        self.send(Signal::KILL);
        self.watchdog.wake();
    }

    /// Kills all, and returns when all have ended.
    async fn kill_all(&mut self) {
        while !self.left().is_empty() {
            self.send(Signal::KILL);
            sleep(LOOK).await;
        }
    }

    /// Ends all that do not end by themselves after TERM: after the grace time with KILL. Returns when all have ended.
    pub(super) async fn end(&mut self, grace: Duration, signals: &mut Signals) {
        let mut kill_at = Instant::now() + grace;
        loop {
            tokio::select! {
                biased;
                event = self.next() => if let Event::AllEnded = event {
                    return;
                },
                () = sleep_until(kill_at) => {
                    self.kill();
                    kill_at = Instant::now() + LOOK;
                }
                signal = signals.next() => self.pass_on(signal),
            }
        }
    }

    /// Gives up the command, which has not begun.
    pub(super) async fn give_up(&mut self) {
        self.watchdog.hang_up();
        self.watchdog_ended().await;
    }

    /// Ends the watchdog, and nothing else: this process inherits what is left.
    pub(super) async fn dismiss_watchdog(&mut self) {
        self.watchdog.kill();
        self.watchdog_ended().await;
    }

    async fn watchdog_ended(&mut self) {
        while self.watchdog.ended.is_none() {
            let end = self.children.next().await;
            self.note_end(end);
        }
    }

    /// Starts a process that is no part of the command.
    pub(super) fn start_beside(&mut self, command: &mut Command) -> io::Result<()> {
        self.beside = Some(Pid::from_child(&command.spawn()?));
        Ok(())
    }

    /// Waits for the end of that process, and after this time kills it and what it has started: nothing else is left.
    pub(super) async fn end_beside(&mut self, longest: Duration) -> bool {
        let kill_at = Instant::now() + longest;
        while self.beside.is_some() {
            let Ok(ended) = timeout_at(kill_at, self.children.next()).await else {
                self.beside = None;
                // Those of other users stay.
                let _ = timeout(LONGEST_KILL, self.kill_all()).await;
                return false;
            };
            self.note_end(ended);
        }
        true
    }
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.program.display())?;
        self.pid.map_or(Ok(()), |pid| write!(f, " (pid {pid})"))
    }
}
