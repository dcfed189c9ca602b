//! A process that ends the command when `lockkeeper run` is killed. The command would go on without the lock.
//!
//! The watchdog waits at a pipe whose other end only `run` has. When the command has ended, `run` writes a byte. The end of the
//! pipe without that byte says that `run` is gone, however it was killed.
//!
//! Not here: ending the command when the lock is lost (`child`).

use std::{
    env,
    ffi::OsString,
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::child::Place;
use crate::exit;

/// The first argument of the process.
pub(crate) const NAME: &str = "--watchdog";

/// A running watchdog. Dropping this value says that the command has ended.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Watches over the command with this process id.
    pub(super) fn start(pid: Pid, place: Place) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        let what = match place {
            Place::OwnGroup => "group",
            Place::Foreground => "process",
        };
        command.args([NAME, &pid.as_raw_pid().to_string(), what]);
        // In a group of its own: no signal of the terminal reaches it.
        let command = command.process_group(0).stdin(Stdio::piped());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // It may have been killed. Then there is nothing to tell. The byte stays in the pipe: nobody has to wait for the end.
            let _ = pipe.write_all(b".");
        }
    }
}

/// The watchdog itself. Returns when the command has ended, or kills it.
///
/// The arguments are the process id of the command, and whether it leads a process group.
pub(crate) fn watch(arguments: &[OsString]) -> u8 {
    let [pid, what] = arguments else {
        return exit::USAGE;
    };
    let has_ended = matches!(io::stdin().read(&mut [0]), Ok(1..));
    let pid = pid.to_str().and_then(|pid| pid.parse().ok());
    if !has_ended && let Some(pid) = pid.and_then(Pid::from_raw) {
        let _ = if what == "group" {
            kill_process_group(pid, Signal::KILL)
        } else {
            kill_process(pid, Signal::KILL)
        };
    }
    exit::OK
}
