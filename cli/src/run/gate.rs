//! The start of the command. Its process stops before it becomes the command, until the watchdog runs. Until then, it ends with
//! `run`. So there is no moment at which `run` can be killed and leave the command behind.
//!
//! Not here: ending the command when `run` is gone (`watchdog`).

use std::{
    env, ffi::OsString, io, os::unix::process::CommandExt as _, path::PathBuf, process::Command,
};

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions, getpid, getppid, kill_process, waitid};

use crate::exit::{self, Failure, Level};

/// The first argument of the process.
pub(crate) const NAME: &str = "--gate";

/// The argument of a process that says nothing.
const QUIET: &str = "quiet";

/// The name of this program in lists of processes.
pub(super) const PROGRAM: &str = env!("CARGO_BIN_NAME");

/// The process that becomes the command when [`open`] lets it.
pub(super) fn closed(command: &[OsString]) -> io::Result<Command> {
    let mut gate = this_program()?;
    let level = if exit::says(Level::Usual) { "" } else { QUIET };
    gate.args([NAME, level, &getpid().to_string()]);
    gate.args(command);
    Ok(gate)
}

/// A process of this program. On Linux it has the file that this process has, also if that was replaced or deleted since then.
pub(super) fn this_program() -> io::Result<Command> {
    let file = if cfg!(target_os = "linux") {
        PathBuf::from("/proc/self/exe")
    } else {
        env::current_exe()?
    };
    let mut command = Command::new(file);
    command.arg0(PROGRAM);
    Ok(command)
}

/// Lets the process become the command, as soon as it has stopped.
///
/// It may have ended instead. Then it has a status, as a command has.
pub(super) fn open(pid: Pid) -> io::Result<()> {
    let what = WaitIdOptions::STOPPED | WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
    waitid(WaitId::Pid(pid), what)?;
    Ok(kill_process(pid, Signal::CONT)?)
}

/// The process itself: stops, and becomes the command. Returns only the reason why it did not.
///
/// The arguments are [`QUIET`] or nothing, the process id of `run`, and the command.
pub(crate) fn pass(arguments: &[OsString]) -> Result<u8, Failure> {
    let [level, parent, program, arguments @ ..] = arguments else {
        return Ok(exit::USAGE);
    };
    if level == QUIET {
        exit::set_level(Level::Quiet);
    }
    let has_parent = || getppid().is_some_and(|pid| *parent == *pid.to_string());
    let system = |error: rustix::io::Errno| Failure::from(io::Error::from(error));
    // Nobody else would wake a stopped process whose parent is gone.
    end_with_parent(true).map_err(system)?;
    if has_parent() {
        kill_process(getpid(), Signal::STOP).map_err(system)?;
    }
    if !has_parent() {
        return Ok(exit::SYSTEM);
    }
    // From here on, the watchdog ends the command and its whole group.
    end_with_parent(false).map_err(system)?;
    let error = Command::new(program).args(arguments).exec();
    let program = program.display();
    Err(match error.kind() {
        io::ErrorKind::NotFound => failure!(NOT_FOUND, "{program}: command not found"),
        _ => failure!(CANNOT_EXECUTE, "{program}: cannot be executed: {error}"),
    })
}

/// Sets whether the system kills this process when its parent ends. Only Linux can do that. Elsewhere a stopped process may be
/// left, but never a running command.
fn end_with_parent(ends: bool) -> rustix::io::Result<()> {
    #[cfg(target_os = "linux")]
    rustix::process::set_parent_process_death_signal(ends.then_some(Signal::KILL))?;
    let _ = ends;
    Ok(())
}
