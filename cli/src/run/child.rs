//! The command that runs under the lock, as a process.
//!
//! Outside a terminal's foreground the command leads a process group of its own, so that the whole of a script can be
//! told to end: a shell that is ended alone leaves the program it waits for behind, and that would go on without the
//! lock. In the foreground it stays in our group: another one could not use the terminal, and the rest of a pipeline is
//! in ours. There the terminal sends INT and QUIT to the command itself.

use std::{
    ffi::{OsStr, OsString},
    fmt,
    fs::File,
    io,
    os::unix::process::ExitStatusExt as _,
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, getpgrp, kill_process, kill_process_group, test_kill_process_group,
};
use tokio::{
    process::{self, Command},
    time::{Instant, sleep, sleep_until},
};

use crate::{
    exit::{self, Failure},
    signals::Signals,
};

/// How often it is looked whether a process group is empty: nobody tells.
const LOOK: Duration = Duration::from_millis(20);

/// Where a command is started.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In the foreground of a terminal, in our own process group.
    Foreground,
    /// Anywhere else, in a process group of its own.
    OwnGroup,
}

impl Place {
    /// Where this process is.
    pub(super) fn of_this() -> Self {
        let foreground =
            File::open("/dev/tty").and_then(|tty| Ok(rustix::termios::tcgetpgrp(tty)?));
        match foreground {
            Ok(group) if group == getpgrp() => Self::Foreground,
            _ => Self::OwnGroup,
        }
    }
}

/// A command that runs. It is killed when this is dropped before its end.
#[derive(Debug)]
pub(super) struct Child {
    process: process::Child,
    pid: Pid,
    place: Place,
    program: OsString,
}

impl Child {
    /// Starts the command; stdin, stdout and stderr are its own.
    pub(super) fn start(
        command: &[OsString],
        environment: &[(&str, String)],
        place: Place,
    ) -> Result<Self, Failure> {
        let (program, arguments) = match command {
            [program, arguments @ ..] => (program.as_os_str(), arguments),
            [] => (OsStr::new(""), command),
        };
        let failed = |error| Failure::Command {
            program: program.to_owned(),
            error,
        };
        let mut command = Command::new(program);
        command.args(arguments).kill_on_drop(true);
        for (name, value) in environment {
            command.env(name, value);
        }
        if place == Place::OwnGroup {
            command.process_group(0);
        }
        let process = command.spawn().map_err(failed)?;
        let pid = process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| failed(io::Error::other("it has no process id")))?;
        Ok(Self {
            process,
            pid,
            place,
            program: program.to_owned(),
        })
    }

    /// Waits for the end of the command.
    ///
    /// # Cancel safety
    /// It may be dropped and called again.
    pub(super) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Passes on a signal that we got.
    pub(super) fn pass_on(&self, signal: Signal) {
        match (self.place, signal) {
            // The terminal has sent it to the command, too.
            (Place::Foreground, Signal::INT | Signal::QUIT) => {}
            // They mean whatever the command makes of them, and would end those of its children that do not know them.
            (_, Signal::USR1 | Signal::USR2) => self.send(Place::Foreground, signal),
            (place, signal) => self.send(place, signal),
        }
    }

    /// Ends the command: TERM, and after the grace time KILL. Returns when it is gone, with its process group if it
    /// leads one.
    pub(super) async fn end(mut self, grace: Duration, signals: &mut Signals) -> io::Result<()> {
        self.send(self.place, Signal::TERM);
        // What was stopped would not hear it.
        self.send(self.place, Signal::CONT);
        let deadline = Instant::now() + grace;
        let mut killed = false;
        loop {
            tokio::select! {
                biased;
                status = self.process.wait() => {
                    status?;
                    break;
                }
                () = sleep_until(deadline), if !killed => {
                    exit::say(&format_args!("{self} has not ended: killed"));
                    self.send(self.place, Signal::KILL);
                    killed = true;
                }
                signal = signals.next() => self.pass_on(signal),
            }
        }
        if self.place == Place::OwnGroup {
            while test_kill_process_group(self.pid).is_ok() {
                if Instant::now() >= deadline {
                    let _ = kill_process_group(self.pid, Signal::KILL);
                    break;
                }
                sleep(LOOK).await;
            }
        }
        Ok(())
    }

    /// Sends a signal, unless the command has been waited for: its number may be somebody else's by then.
    fn send(&self, place: Place, signal: Signal) {
        if self.process.id().is_none() {
            return;
        }
        // What is gone needs no signal, and nothing else can fail: the processes are ours.
        let _ = match place {
            Place::Foreground => kill_process(self.pid, signal),
            Place::OwnGroup => kill_process_group(self.pid, signal),
        };
    }
}

impl fmt::Display for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.program.display(), self.pid)
    }
}

/// The status with which shells would report this end.
pub(super) fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit::of_signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_are_reported_as_shells_report_them() {
        assert_eq!(exit_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_status(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_status(ExitStatus::from_raw(9)), 137);
    }
}
