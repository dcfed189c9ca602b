//! A process that ends the command when `lockkeeper run` cannot. The command would go on without the lock.
//!
//! The watchdog waits at a pipe whose other end only `run` has. `run` says again and again how long the command may go on: until a
//! little after the lease of the lock. When the command has ended, `run` kills the watchdog, and waits for its end.
//! - The end of the pipe says that `run` is gone, however it was killed.
//! - Silence until the end of that time says that `run` is stopped, or hangs.
//!
//! In both cases the watchdog kills the command. Not here: ending the command when the lock is lost (`child`).

use std::{
    ffi::OsString,
    fs,
    io::{self, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, ChildStdin, Stdio},
    time::{Duration, Instant},
};

use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
    process::{Pid, Signal, kill_process_group},
};

use tokio::runtime::Builder;

use super::{descendants, gate, place::Place};
use crate::{
    exit,
    signals::{ENDING, Signals},
};

/// The first argument of the process.
pub(crate) const NAME: &str = "--watchdog";

/// The length of a message: milliseconds, big-endian.
const MESSAGE: usize = 8;

/// A running watchdog. Dropping this value ends it, because the command has ended.
#[derive(Debug)]
pub(super) struct Watchdog {
    process: Child,
    pipe: Option<ChildStdin>,
}

impl Watchdog {
    /// Watches over the command with this process id.
    pub(super) fn start(pid: Pid, place: Place) -> io::Result<Self> {
        let mut command = gate::this_program()?;
        let what = match place {
            Place::OwnGroup => "group",
            Place::Foreground => "process",
        };
        command.args([NAME, &pid.as_raw_pid().to_string(), what]);
        // In a group of its own: no signal of the terminal reaches it.
        let command = command.process_group(0).stdin(Stdio::piped());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        let mut process = command.spawn()?;
        let pipe = process.stdin.take();
        let watchdog = Self { process, pipe };
        if let Some(pipe) = &watchdog.pipe {
            rustix::io::ioctl_fionbio(pipe, true)?;
        }
        Ok(watchdog)
    }

    /// Says how long the command may go on.
    pub(super) fn tell(&mut self, time: Duration) {
        let ms = u64::try_from(time.as_millis()).unwrap_or(u64::MAX);
        if let Some(pipe) = &mut self.pipe {
            // A full pipe, or none: the watchdog is stopped, or was killed. `run` must not wait for it.
            let _ = pipe.write_all(&ms.to_be_bytes());
        }
    }

    /// Ends the watchdog, also if it is stopped.
    pub(super) fn kill(&mut self) {
        let _ = self.process.kill();
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        self.kill();
        // A short wait. Otherwise the first process of the system would have to wait for the watchdog.
        let _ = self.process.wait();
    }
}

/// The watchdog itself. Kills the command when that must end.
///
/// The arguments are the process id of the command, and whether it leads a process group.
pub(crate) fn watch(arguments: &[OsString]) -> u8 {
    let [pid, what] = arguments else {
        return exit::USAGE;
    };
    // Only Linux has this file, and only there the name needs it.
    let _ = fs::write("/proc/self/comm", gate::PROGRAM);
    // It is better to watch without this than not at all. The last step: a caught signal says that the watchdog is ready.
    let _ = outlive_signals();
    let pid = pid.to_str().and_then(|pid| pid.parse().ok());
    wait();
    if let Some(pid) = pid.and_then(Pid::from_raw) {
        if what == "group" {
            let _ = kill_process_group(pid, Signal::KILL);
        } else {
            descendants::kill_all(pid);
        }
    }
    exit::OK
}

/// Catches the signals that ask a process to end. A service manager may send them to all processes of a unit, and they are for `run`
/// and the command.
fn outlive_signals() -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_io().build()?;
    let _inside = runtime.enter();
    // They stay caught.
    Signals::catch(&ENDING).map(drop)
}

/// Waits until the command must end.
fn wait() {
    let mut deadline = None;
    while is_readable(deadline) {
        // Not buffered: what is in a buffer cannot be waited for. The system keeps messages of this length in one piece.
        let mut message = [0; MESSAGE];
        match rustix::io::read(io::stdin(), &mut message) {
            Ok(MESSAGE) => {
                let ms = u64::from_be_bytes(message);
                deadline = Instant::now().checked_add(Duration::from_millis(ms));
            }
            Err(Errno::INTR) => {}
            _ => return,
        }
    }
}

/// Waits for a message, or the end of the pipe. False at the deadline.
fn is_readable(deadline: Option<Instant>) -> bool {
    let stdin = io::stdin();
    loop {
        let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
        let left = left.map(|left| Timespec::try_from(left).unwrap_or_default());
        match poll(&mut [PollFd::new(&stdin, PollFlags::IN)], left.as_ref()) {
            Ok(0) => return false,
            Ok(_) => return true,
            Err(_) => {} // a signal
        }
    }
}
