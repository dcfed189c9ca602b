//! The processes below a process: its children, their children, and so on. Whatever they leave behind comes to the process itself
//! (`Ends::receive`), so nothing gets out: no daemon, and no process with a session or a group of its own.
//!
//! Invariant: only a process that a look has shown below the root is signalled, and only if it is still that process. Groups are not
//! signalled: they may have members that are not below the root.

use std::{collections::BTreeSet, fmt, fs, io, os::fd::OwnedFd, time::Duration};

use rustix::{
    io::Errno,
    process::{
        Pid, PidfdFlags, Signal, WaitOptions, getpid, kill_process, pidfd_open, pidfd_send_signal,
        set_child_subreaper, wait,
    },
};
use tokio::signal::unix::{self, SignalKind};

use crate::exit::{self, Failure};

/// How soon to look again whether processes that were killed have ended.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// Checks that this process can see what it starts.
pub(super) fn check() -> Result<(), Failure> {
    let pid = getpid().to_string();
    let why = match fs::read_link("/proc/self") {
        Ok(name) if name.as_os_str() == &*pid => return Ok(()),
        Ok(_) => "it belongs to another PID namespace".to_owned(),
        Err(error) => error.to_string(),
    };
    Err(failure!(
        SYSTEM,
        "/proc does not show the processes of the command ({why}): mount it, with mount -t proc proc /proc"
    ))
}

/// A process, whatever its id names later.
#[derive(Debug)]
pub(super) struct Handle {
    pub(super) pid: Pid,
    file: Option<OwnedFd>,
}

impl Handle {
    /// The process that has this id now.
    pub(super) fn open(pid: Pid) -> Self {
        Self {
            pid,
            // Linux has such files since 5.3.
            file: pidfd_open(pid, PidfdFlags::empty()).ok(),
        }
    }

    pub(super) fn signal(&self, signal: Signal) -> io::Result<()> {
        if let Some(file) = &self.file {
            return Ok(pidfd_send_signal(file, signal)?);
        }
        Ok(kill_process(self.pid, signal)?)
    }
}

/// A living process. The time of its start tells it from a later one with the same id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// Zero if it is outside of our namespace. The same goes for the group.
    parent: i32,
    pub(super) group: i32,
    began: u64,
    name: String,
}

impl Process {
    /// `None` if there is no such process, or if it has ended.
    fn find(pid: Pid) -> io::Result<Option<Self>> {
        match fs::read(format!("/proc/{pid}/stat")) {
            Ok(line) => Ok(Self::parse(pid, &String::from_utf8_lossy(&line))),
            Err(error) => match Errno::from_io_error(&error) {
                // Those of other users may be hidden.
                Some(Errno::NOENT | Errno::SRCH | Errno::ACCESS | Errno::PERM) => Ok(None),
                _ => Err(error),
            },
        }
    }

    /// Source: `proc_pid_stat(5)`. The second field is a name in parentheses, and may have spaces and parentheses itself.
    fn parse(pid: Pid, line: &str) -> Option<Self> {
        let (start, fields) = line.rsplit_once(") ")?;
        let (_, name) = start.split_once('(')?;
        let mut fields = fields.split(' ');
        let state = fields.next()?;
        let (parent, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        // The fields 6 to 19 lie between. Another thread may work when the first one has ended.
        let threads: u32 = fields.nth(14)?.parse().ok()?;
        let has_ended = matches!(state, "Z" | "X") && threads < 2;
        let (began, name) = (fields.nth(1)?.parse().ok()?, name.to_owned());
        (!has_ended).then_some(Self {
            pid,
            parent,
            group,
            began,
            name,
        })
    }

    /// Whether both are the same process.
    pub(super) fn is(&self, other: &Self) -> bool {
        (self.pid, self.began) == (other.pid, other.began)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        let handle = Handle::open(self.pid);
        // The process may have ended since the look, and its id may be that of another one.
        match Self::find(self.pid)? {
            Some(opened) if opened.is(self) => handle.signal(signal),
            _ => Ok(()),
        }
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The living processes below the root, each after its parent, without some of them and what is below those.
///
/// # Errors
/// A list that is not complete, because the system refuses a look, is none: that something is not in it would prove nothing.
pub(super) fn below(root: Pid, is_left_out: impl Fn(&Process) -> bool) -> io::Result<Vec<Process>> {
    let mut others = Vec::new();
    for name in fs::read_dir("/proc")? {
        let name = name?.file_name();
        let pid = name.to_str().and_then(|it| it.parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            others.extend(Process::find(pid)?);
        }
    }
    let mut inside = BTreeSet::from([root.as_raw_pid()]);
    let mut found = Vec::new();
    loop {
        let children;
        (children, others) = others
            .into_iter()
            .partition(|it| inside.contains(&it.parent) && !is_left_out(it));
        if children.is_empty() {
            return Ok(found);
        }
        inside.extend(children.iter().map(|it| it.pid.as_raw_pid()));
        found.extend(children);
    }
}

/// The group of this process. Zero if the group is outside of its namespace, as for the first process of a container.
pub(super) fn own_group() -> i32 {
    let this = Process::find(getpid());
    this.ok().flatten().map_or(0, |it| it.group)
}

/// Sends signals, and says once of each process that it may not be signalled.
#[derive(Debug, Default)]
pub(super) struct Signaller {
    refused: BTreeSet<(i32, u64)>,
}

impl Signaller {
    /// Sends a signal to each of the processes, parents first. Those that have ended by now get none.
    pub(super) fn send(&mut self, processes: &[Process], signal: Signal) {
        for process in processes {
            let sent = process.signal(signal);
            let is_refused = sent.is_err_and(|it| it.kind() == io::ErrorKind::PermissionDenied);
            let key = (process.pid.as_raw_pid(), process.began);
            if is_refused && self.refused.insert(key) {
                say!(
                    "{process} belongs to another user: it cannot be ended, and works on when the lock is lost"
                );
            }
        }
    }
}

/// The ends of this process's children. Without a wait for them, they would stay as dead processes.
#[derive(Debug)]
pub(super) struct Ends(unix::Signal);

impl Ends {
    /// From now on, this process inherits what its descendants leave behind.
    pub(super) fn receive() -> io::Result<Self> {
        set_child_subreaper(Some(getpid()))?;
        Ok(Self(unix::signal(SignalKind::child())?))
    }

    /// The next child that has ended, and its status. `None` if there is no child.
    ///
    /// # Cancel safety
    /// A dropped future loses nothing.
    pub(super) async fn next(&mut self) -> io::Result<Option<(Pid, u8)>> {
        loop {
            match wait(WaitOptions::NOHANG) {
                Ok(Some((pid, status))) => {
                    let signal = || exit::of_signal(status.terminating_signal().unwrap_or(0));
                    let code = status.exit_status();
                    let code = code.map_or_else(signal, |it| u8::try_from(it).unwrap_or(u8::MAX));
                    return Ok(Some((pid, code)));
                }
                Ok(None) => self.changed().await,
                Err(Errno::CHILD) => return Ok(None),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Waits until a child has ended.
    pub(super) async fn changed(&mut self) {
        self.0.recv().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent_a_group_and_a_start_and_a_dead_one_is_none() {
        let pid = Pid::from_raw(7).unwrap();
        let parsed = |state, threads| {
            let line =
                format!("7 (a) R 1 ) {state} 5 6 8 0 -1 1 2 3 4 5 6 7 8 9 20 0 {threads} 0 1234 9");
            Process::parse(pid, &line).map(|it| (it.parent, it.group, it.began, it.name))
        };
        let process = Some((5, 6, 1234, "a) R 1 ".to_owned()));
        assert_eq!(parsed("S", 1), process);
        assert_eq!(parsed("Z", 1), None);
        // Its first thread has ended, and another one works.
        assert_eq!(parsed("Z", 2), process);
        assert_eq!(Process::parse(pid, ""), None);
    }

    /// The id has been given to another process after the look.
    #[test]
    fn a_later_process_with_the_same_id_gets_no_signal() {
        let mut child = std::process::Command::new("sleep")
            .arg("600")
            .spawn()
            .unwrap();
        let found = below(getpid(), |_| false).unwrap();
        let sleep = found.iter().find(|it| it.pid == Pid::from_child(&child));
        let sleep = sleep.unwrap().clone();
        let earlier = Process {
            began: sleep.began - 1,
            ..sleep.clone()
        };
        Signaller::default().send(&[earlier], Signal::KILL);
        Signaller::default().send(&[sleep], Signal::TERM);
        let ended = std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap());
        assert_eq!(
            ended,
            Some(Signal::TERM.as_raw()),
            "only the second signal came"
        );
    }
}
