//! The processes below a process: its children, their children, and so on. Whatever they leave behind comes to the process itself
//! (`Ends::receive`), so nothing gets out: no daemon, and no process with a session or a group of its own.
//!
//! Only Linux shows these processes, in `/proc`, and gives them to the process. Elsewhere the list has the command only, and its group.

use std::{collections::BTreeSet, fmt, fs, io, time::Duration};

use rustix::{
    io::Errno,
    process::{
        Pid, Signal, WaitOptions, getpid, kill_process, kill_process_group, test_kill_process,
        test_kill_process_group, wait,
    },
};
use tokio::signal::unix::{self, SignalKind};

use crate::exit;

/// How soon to look again whether processes that were killed have ended.
pub(super) const LOOK: Duration = Duration::from_millis(20);

/// A living process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: Pid,
    /// Zero if it is outside of our namespace. The same goes for the group.
    parent: i32,
    pub(super) group: i32,
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
        let name = name.to_owned();
        (!has_ended).then_some(Self {
            pid,
            parent,
            group,
            name,
        })
    }
}

impl fmt::Display for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (pid {})", self.name, self.pid)
    }
}

/// The living processes below this one, each after its parent, without one of them and what is below that.
///
/// # Errors
/// A list that is not complete, because the system refuses a look, is none: that something is not in it would prove nothing.
#[cfg(target_os = "linux")]
pub(super) fn below(except: Option<Pid>, _command: Option<Pid>) -> io::Result<Vec<Process>> {
    let mut others = Vec::new();
    for name in fs::read_dir("/proc")? {
        let name = name?.file_name();
        let pid = name.to_str().and_then(|it| it.parse().ok());
        if let Some(pid) = pid.and_then(Pid::from_raw) {
            others.extend(Process::find(pid)?);
        }
    }
    let mut inside = BTreeSet::from([getpid().as_raw_pid()]);
    let mut found = Vec::new();
    loop {
        let children;
        (children, others) = others
            .into_iter()
            .partition(|it| inside.contains(&it.parent) && Some(it.pid) != except);
        if children.is_empty() {
            return Ok(found);
        }
        inside.extend(children.iter().map(|it| it.pid.as_raw_pid()));
        found.extend(children);
    }
}

#[cfg(not(target_os = "linux"))]
pub(super) fn below(_except: Option<Pid>, command: Option<Pid>) -> io::Result<Vec<Process>> {
    Ok(of_command(command))
}

/// The command, or its group, if that lives: what is known without a look.
pub(super) fn of_command(command: Option<Pid>) -> Vec<Process> {
    let leads = |pid: Pid| test_kill_process_group(pid).is_ok();
    let alive = command.filter(|pid| leads(*pid) || test_kill_process(*pid).is_ok());
    let process = |pid: Pid| Process {
        pid,
        parent: 0,
        group: if leads(pid) { pid.as_raw_pid() } else { 0 },
        name: "the command".to_owned(),
    };
    alive.map(process).into_iter().collect()
}

/// The group of this process. Zero if the group is outside of its namespace, as for the first process of a container.
pub(super) fn own_group() -> i32 {
    let this = Process::find(getpid());
    this.ok().flatten().map_or(0, |it| it.group)
}

/// Sends a signal to each of the processes: to whole groups, so that a process gets it also if it has begun after the look. Only the
/// group with this number has other processes, too.
pub(super) fn send(processes: &[Process], signal: Signal, shared: i32) {
    let (alone, grouped): (Vec<_>, Vec<_>) = processes
        .iter()
        .partition(|it| it.group == shared || it.group == 0);
    let groups: BTreeSet<_> = grouped.iter().map(|it| it.group).collect();
    // Each may have ended by now, or belong to another user.
    for group in groups.into_iter().filter_map(Pid::from_raw) {
        let _ = kill_process_group(group, signal);
    }
    for process in alone {
        let _ = kill_process(process.pid, signal);
    }
}

/// The ends of this process's children. Without a wait for them, they would stay as dead processes.
#[derive(Debug)]
pub(super) struct Ends(unix::Signal);

impl Ends {
    /// From now on, this process inherits what its descendants leave behind.
    pub(super) fn receive() -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        rustix::process::set_child_subreaper(Some(getpid()))?;
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
    fn a_process_has_a_parent_and_a_group_and_a_dead_one_is_none() {
        let pid = Pid::from_raw(7).unwrap();
        let parsed = |state, threads| {
            let line = format!("7 (a) R 1 ) {state} 5 6 8 0 -1 1 2 3 4 5 6 7 8 9 20 0 {threads} 0");
            Process::parse(pid, &line).map(|it| (it.parent, it.group, it.name))
        };
        let process = Some((5, 6, "a) R 1 ".to_owned()));
        assert_eq!(parsed("S", 1), process);
        assert_eq!(parsed("Z", 1), None);
        // Its first thread has ended, and another one works.
        assert_eq!(parsed("Z", 2), process);
        assert_eq!(Process::parse(pid, ""), None);
    }
}
