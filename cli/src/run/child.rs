//! The command that runs under the lock, as a process.
//!
//! - Outside the foreground of a terminal, the command leads its own process group, so that a signal reaches a whole
//!   script. If only the shell ended, the program that it waits for would go on without the lock.
//! - In the foreground, the command stays in our process group. In another group it could not use the terminal, and it
//!   would be apart from the rest of its pipeline. The terminal itself sends INT and QUIT to the command. After a lost lock, each
//!   process that the command has started gets the signals, too (`descendants`).
//!
//! Not here: when to end the command (`run`).

use std::{
    ffi::OsString,
    fmt, io,
    os::unix::process::{CommandExt as _, ExitStatusExt as _},
    process::ExitStatus,
    time::Duration,
};

use rustix::process::{
    Pid, Signal, getpid, kill_process, kill_process_group, test_kill_process_group,
};
use tokio::{
    process,
    time::{Instant, sleep, sleep_until},
};

use super::{
    descendants::{self, Descendants},
    gate,
    place::Place,
    watchdog::Watchdog,
};
use crate::{exit, signals::Signals};

/// How often to check whether all of its processes have ended. The system sends no event for that.
const LOOK: Duration = Duration::from_millis(20);

/// The variables in which the environment of a command differs from ours: new values, and variables to remove.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment(Vec<(&'static str, Option<String>)>);

impl Environment {
    pub(crate) fn set(&mut self, name: &'static str, value: impl Into<String>) {
        self.0.push((name, Some(value.into())));
    }

    pub(crate) fn remove(&mut self, name: &'static str) {
        self.0.push((name, None));
    }

    pub(super) fn apply(&self, command: &mut std::process::Command) {
        for (name, value) in &self.0 {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
    }
}

/// A running command. Dropping this value kills the command.
#[derive(Debug)]
pub(crate) struct Child {
    process: process::Child,
    pid: Pid,
    place: Place,
    program: OsString,
    /// Ends the command if this process is killed or stopped.
    watchdog: Watchdog,
}

impl Child {
    /// Starts the process of the command. The command itself waits for [`begin`](Self::begin). It inherits stdin, stdout and stderr.
    pub(crate) fn start(
        command: &[OsString],
        environment: &Environment,
        place: Place,
    ) -> io::Result<Self> {
        let mut start = gate::closed(command)?;
        environment.apply(&mut start);
        if place == Place::OwnGroup {
            start.process_group(0);
        }
        let process = process::Command::from(start).kill_on_drop(true).spawn()?;
        let pid = process
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .and_then(Pid::from_raw)
            .ok_or_else(|| io::Error::other("the command has no process id"))?;
        Ok(Self {
            process,
            pid,
            place,
            program: command.first().cloned().unwrap_or_default(),
            watchdog: Watchdog::start(pid, place)?,
        })
    }

    /// Begins the command, which may go on for this time.
    pub(crate) fn begin(&mut self, may_go_on_for: Option<Duration>) -> io::Result<()> {
        // Before the command begins: this process may be stopped at any moment.
        if let Some(time) = may_go_on_for {
            self.may_go_on_for(time);
        }
        gate::open(self.pid)
    }

    /// Ends the process of a command that has not begun.
    pub(super) async fn cancel(mut self) {
        let _ = self.process.kill().await;
    }

    /// Waits for the end of the command.
    ///
    /// # Cancel safety
    /// The future may be dropped, and the method called again.
    pub(crate) async fn wait(&mut self) -> io::Result<ExitStatus> {
        self.process.wait().await
    }

    /// Passes on a signal that this process has received.
    pub(crate) fn pass_on(&self, signal: Signal) {
        match (self.place, signal) {
            // The terminal has sent the signal to the command, too.
            (Place::Foreground, Signal::INT | Signal::QUIT) => {}
            // Only the command knows what the USR signals mean. They would end children that do not handle them.
            (_, Signal::USR1 | Signal::USR2) => self.send(Place::Foreground, signal),
            (place, signal) => self.send(place, signal),
        }
    }

    /// Stops the command and this process, until this process gets CONT. The command stays stopped.
    pub(super) fn stop_both(&self) {
        self.send(self.place, Signal::STOP);
        let _ = kill_process(getpid(), Signal::STOP);
    }

    /// Lets the command go on for this time. Then it is killed, even if this process is stopped, unless this is said again.
    pub(super) fn may_go_on_for(&mut self, time: Duration) {
        self.watchdog.tell(time);
    }

    /// Ends the watchdog: the command has ended.
    pub(super) fn dismiss_watchdog(&mut self) {
        self.watchdog.kill();
    }

    /// Lets the command go on after a stop.
    pub(super) fn go_on(&self) {
        self.send(self.place, Signal::CONT);
    }

    /// Kills the command, which had a grace time.
    pub(super) fn kill(&self) {
        say!("{self} did not end in the grace time; killing it");
        match self.place {
            Place::Foreground if self.process.id().is_some() => descendants::kill_all(self.pid),
            place => self.send(place, Signal::KILL),
        }
    }

    /// Ends the command with TERM, and after the grace time with KILL.
    ///
    /// Returns when the command has ended. If it leads a process group, the whole group has ended or was killed. In the foreground, the
    /// same is true of what it had started.
    pub(super) async fn end(mut self, grace: Duration, signals: &mut Signals) -> io::Result<()> {
        let started = match self.place {
            Place::Foreground => Descendants::of(self.pid),
            Place::OwnGroup => Descendants::default(),
        };
        self.send(self.place, Signal::TERM);
        started.send(Signal::TERM);
        // A stopped process handles TERM only after CONT.
        self.go_on();
        started.send(Signal::CONT);
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
                    self.kill();
                    killed = true;
                }
                signal = signals.next() => self.pass_on(signal),
            }
        }
        let leads_group = self.place == Place::OwnGroup;
        while leads_group && test_kill_process_group(self.pid).is_ok() || started.are_left() {
            if Instant::now() >= deadline {
                if leads_group {
                    let _ = kill_process_group(self.pid, Signal::KILL);
                }
                started.send(Signal::KILL);
                break;
            }
            sleep(LOOK).await;
        }
        Ok(())
    }

    /// Sends a signal, unless the command has been waited for. After that, another process may have its pid.
    fn send(&self, place: Place, signal: Signal) {
        if self.process.id().is_none() {
            return;
        }
        // The only possible error is that the process has ended: it is our child, so we have the permission.
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

/// The status that a shell would report for this end.
pub(crate) fn exit_status(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => u8::try_from(code).unwrap_or(u8::MAX),
        (None, signal) => exit::of_signal(signal.unwrap_or(0)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exit_statuses_are_the_ones_that_shells_report() {
        assert_eq!(exit_status(ExitStatus::from_raw(0)), 0);
        assert_eq!(exit_status(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_status(ExitStatus::from_raw(9)), 137);
    }
}
