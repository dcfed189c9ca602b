//! A process that ends the command when `lockkeeper run` is killed. The command would go on without the lock.
//!
//! The watchdog waits at a pipe whose other end only `run` has. When the command has ended, `run` writes a byte. The end of the
//! pipe without that byte says that `run` is gone, however it was killed.
//!
//! Not here: ending the command when the lock is lost (`child`).

use std::{
    env,
    io::{self, Read as _, Write as _},
    os::unix::process::CommandExt as _,
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process, kill_process_group};

use super::child::Place;
use crate::{args::WatchdogArgs, exit};

/// A running watchdog. Dropping this value says that the command has ended.
#[derive(Debug)]
pub(super) struct Watchdog(Child);

impl Watchdog {
    /// Watches over the command with this process id.
    pub(super) fn start(pid: Pid, place: Place) -> io::Result<Self> {
        let mut command = Command::new(env::current_exe()?);
        command.arg("watchdog").arg(pid.as_raw_pid().to_string());
        if place == Place::OwnGroup {
            command.arg("--group");
        }
        // In a group of its own: no signal of the terminal reaches it.
        let command = command.process_group(0).stdin(Stdio::piped());
        let command = command.stdout(Stdio::null()).stderr(Stdio::null());
        command.spawn().map(Self)
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        if let Some(mut pipe) = self.0.stdin.take() {
            // It may have been killed. Then there is nothing to tell.
            let _ = pipe.write_all(b".");
        }
        let _ = self.0.wait();
    }
}

/// The watchdog itself. Returns when the command has ended, or kills it.
pub(crate) fn watch(args: &WatchdogArgs) -> u8 {
    let has_ended = matches!(io::stdin().read(&mut [0]), Ok(1..));
    if !has_ended && let Some(pid) = Pid::from_raw(args.pid) {
        let _ = if args.group {
            kill_process_group(pid, Signal::KILL)
        } else {
            kill_process(pid, Signal::KILL)
        };
    }
    exit::OK
}
