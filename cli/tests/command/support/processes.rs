//! Looks at processes by their ids: whether they live, are stopped, handle a signal; which ones belong to a run.
//!
//! Not here: processes that a test has started itself (`Running`).

use std::fs;

use super::wait_for;
use rustix::process::{Pid, Signal};

pub(crate) fn pid_of(text: &str) -> Pid {
    Pid::from_raw(text.parse().expect(text)).unwrap()
}

/// The line of a process in `/proc`, from its state on.
pub(crate) fn state_of(pid: Pid) -> Option<char> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit(") ").next()?.chars().next()
}

/// Whether a process with this pid exists and is not a zombie.
pub(crate) fn is_alive(pid: Pid) -> bool {
    state_of(pid).is_some_and(|state| state != 'Z')
}

pub(crate) fn until_dead(pid: Pid) {
    wait_for("the end of a process", || !is_alive(pid));
}

/// The watchdog that a `run` has started. For a moment, a new process has no arguments.
pub(crate) fn watchdog_of(run: Pid) -> Pid {
    child_with(run, "--watchdog")
}

/// The process that becomes the command. It is a program of its own by then, and until it is, the watchdog waits for it.
pub(crate) fn launcher_of(watchdog: Pid) -> Pid {
    child_with(watchdog, "--command")
}

/// Waits for a child with this argument.
fn child_with(parent: Pid, argument: &str) -> Pid {
    let is_meant = |pid: &Pid| {
        let command = fs::read_to_string(format!("/proc/{pid}/cmdline"));
        command.is_ok_and(|command| command.contains(argument))
    };
    let mut child = None;
    wait_for(argument, || {
        child = children(parent).into_iter().find(is_meant);
        child.is_some()
    });
    child.unwrap()
}

/// The living processes with this in their environment, and the name of each. What a marked process starts is marked, too.
pub(crate) fn marked(mark: &str) -> Vec<(Pid, String)> {
    let entries = fs::read_dir("/proc").unwrap();
    let pids = entries.filter_map(|it| it.unwrap().file_name().to_str()?.parse().ok());
    let is_marked = |pid: &Pid| {
        let variables = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        let mut variables = variables.split(|byte| *byte == 0);
        variables.any(|it| it == mark.as_bytes()) && is_alive(*pid)
    };
    let marked = pids.filter_map(Pid::from_raw).filter(is_marked);
    marked.map(|pid| (pid, comm_of(pid))).collect()
}

/// The name of the program of a process, with a newline. Empty if there is no such process.
pub(crate) fn comm_of(pid: Pid) -> String {
    fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default()
}

pub(crate) fn children(pid: Pid) -> Vec<Pid> {
    let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.unwrap_or_default();
    children.split_whitespace().map(pid_of).collect()
}

/// Whether this process ignores the signal, as background jobs of scripts do. The commands that it starts inherit that.
pub(crate) fn is_ignored(signal: Signal) -> bool {
    is_in("self", "SigIgn:", signal)
}

/// Whether the signal is in a set of this process.
pub(crate) fn is_in(pid: &str, set: &str, signal: Signal) -> bool {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let set = status
        .lines()
        .find_map(|line| line.strip_prefix(set))
        .map_or(0, |set| u64::from_str_radix(set.trim(), 16).unwrap());
    set >> (signal.as_raw() - 1) & 1 == 1
}
