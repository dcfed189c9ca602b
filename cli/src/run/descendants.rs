//! What a command has started: its children, their children, and so on. In the foreground of a terminal, the command is in the process
//! group of `run` and of the rest of a pipeline. A signal to the group would reach too many.
//!
//! Only Linux shows these processes, in `/proc`; elsewhere the list is empty. A process whose parent has ended is not in it.

use std::fs;

use rustix::process::{Pid, Signal, kill_process};

/// The processes that a command has started. Dropping this value does nothing.
#[derive(Debug, Default)]
pub(super) struct Descendants(Vec<Process>);

/// A living process. The time of its start tells it from a later one with the same id.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Process {
    pid: Pid,
    parent: i32,
    began: u64,
}

impl Descendants {
    /// Those that live now, each after its parent.
    pub(super) fn of(command: Pid) -> Self {
        let names = fs::read_dir("/proc").into_iter().flatten();
        let all = names.filter_map(|name| {
            let pid = name.ok()?.file_name().to_str()?.parse().ok()?;
            Process::find(Pid::from_raw(pid)?)
        });
        let all: Vec<_> = all.collect();
        let mut found: Vec<Process> = Vec::new();
        let mut parents = vec![command];
        while let Some(parent) = parents.pop() {
            let is_child = |it: &&Process| it.parent == parent.as_raw_pid();
            let children = all.iter().filter(is_child);
            let from = found.len();
            found.extend(children);
            parents.extend(found.iter().skip(from).map(|it| it.pid));
        }
        Self(found)
    }

    pub(super) fn send(&self, signal: Signal) {
        for process in self.0.iter().filter(|it| it.is_left()) {
            // It may have ended by now, or belong to another user.
            let _ = kill_process(process.pid, signal);
        }
    }

    pub(super) fn are_left(&self) -> bool {
        self.0.iter().any(Process::is_left)
    }
}

impl Process {
    fn find(pid: Pid) -> Option<Self> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        Self::parse(pid, &stat)
    }

    /// Source: `proc_pid_stat(5)`. The second field is a name in parentheses, and may have spaces and parentheses itself.
    fn parse(pid: Pid, stat: &str) -> Option<Self> {
        let (_, fields) = stat.rsplit_once(") ")?;
        let mut fields = fields.split(' ');
        if matches!(fields.next()?, "Z" | "X") {
            return None;
        }
        let parent = fields.next()?.parse().ok()?;
        // The fields 5 to 21 lie between.
        let began = fields.nth(17)?.parse().ok()?;
        Some(Self { pid, parent, began })
    }

    fn is_left(&self) -> bool {
        Self::find(self.pid).is_some_and(|now| now.began == self.began)
    }
}

/// Kills the command and what it has started. Nobody may start anything meanwhile, so all are stopped first.
pub(super) fn kill_all(command: Pid) {
    let _ = kill_process(command, Signal::STOP);
    Descendants::of(command).send(Signal::STOP);
    Descendants::of(command).send(Signal::KILL);
    let _ = kill_process(command, Signal::KILL);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_has_a_parent_and_a_start_and_a_dead_one_is_none() {
        let pid = Pid::from_raw(7).unwrap();
        let stat =
            |state| format!("7 (a) R 1 ) {state} 5 7 7 0 -1 1 2 3 4 5 6 7 8 9 20 0 1 0 1234 99 1");
        let (parent, began) = (5, 1234);
        assert_eq!(
            Process::parse(pid, &stat("S")),
            Some(Process { pid, parent, began })
        );
        assert_eq!(Process::parse(pid, &stat("Z")), None);
        assert_eq!(Process::parse(pid, ""), None);
    }
}
