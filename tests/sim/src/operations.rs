//! A history as operations on objects, for checkers of linearizability, which know nothing of
//! leases and queues.
//!
//! Each lock is an object. Its state is the token of the last grant, at first 0:
//!
//! | operation | possible if | state after it |
//! |---|---|---|
//! | grant of token `t` | `t` is greater than the state | `t` |
//! | write with token `t`, in a transaction under the lock | `t` is the state | `t` |
//!
//! A grant lasts from the call of `lock` to its return, a write from its call to its answer. Each
//! may take effect at any moment meanwhile. Only exclusive modes are in the list, and no write that
//! was not applied. A grant to a client whose node a third party had deleted is left out: it
//! promises nothing.
//!
//! Not here: the rules of `check`, which also know sessions, leases, readers and semaphores.

use std::{
    collections::{BTreeMap, HashSet},
    fmt::Write,
    sync::Arc,
};

use crate::history::{Answer, Attempt, Event, Mode, What};

/// An operation on a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The path of the lock.
    pub lock: Arc<str>,
    /// What was done.
    pub kind: Kind,
    /// The fencing token.
    pub token: u64,
    /// The index of the event with which it began.
    pub begin: usize,
    /// The index of the event with which it ended; `None` if the caller does not know the result.
    /// It was applied then.
    pub end: Option<usize>,
}

/// The kinds of operations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A client is granted the lock.
    Grant,
    /// A write under the lock is applied.
    Write,
}

/// The operations of a history, in the order in which they began.
#[must_use]
pub fn operations(history: &[Event]) -> Vec<Operation> {
    let mut asked: BTreeMap<Attempt, (Arc<str>, usize)> = BTreeMap::new();
    let mut tokens: BTreeMap<Attempt, u64> = BTreeMap::new();
    let mut writes: BTreeMap<u64, (Operation, Option<Answer>)> = BTreeMap::new();
    let mut broken: (HashSet<&str>, HashSet<i64>) = Default::default();
    let mut found = Vec::new();
    for (index, event) in history.iter().enumerate() {
        match &event.what {
            What::Asked {
                attempt,
                lock,
                mode: Mode::Exclusive,
            } => {
                asked.insert(*attempt, (lock.clone(), index));
            }
            What::Deleted { node } => {
                broken.0.insert(node);
            }
            What::Killed { session } => {
                broken.1.insert(*session);
            }
            What::Granted {
                attempt,
                token,
                node,
                session,
            } => {
                let is_void = broken.0.contains(&**node) || broken.1.contains(session);
                if let Some((lock, begin)) = asked.get(attempt).filter(|_| !is_void) {
                    tokens.insert(*attempt, *token);
                    found.push(Operation {
                        lock: lock.clone(),
                        kind: Kind::Grant,
                        token: *token,
                        begin: *begin,
                        end: Some(index),
                    });
                }
            }
            What::Writing { attempt, write } => {
                if let (Some((lock, _)), Some(token)) = (asked.get(attempt), tokens.get(attempt)) {
                    let operation = Operation {
                        lock: lock.clone(),
                        kind: Kind::Write,
                        token: *token,
                        begin: index,
                        end: None,
                    };
                    writes.insert(*write, (operation, None));
                }
            }
            What::Answered { write, answer } => {
                if let Some((operation, answered)) = writes.get_mut(write) {
                    *answered = Some(*answer);
                    operation.end = (*answer == Answer::Applied).then_some(index);
                }
            }
            What::Applied { write, times: 1.. } => {
                found.extend(writes.remove(write).map(|(operation, _)| operation));
            }
            _ => {}
        }
    }
    found.sort_by_key(|operation| operation.begin);
    found
}

/// The operations as a history of Jepsen: a map in EDN on each line. Knossos and other checkers
/// read it.
#[must_use]
pub fn edn(history: &[Event]) -> String {
    let mut lines = Vec::new();
    for (process, operation) in operations(history).into_iter().enumerate() {
        let Operation {
            lock,
            kind,
            token,
            begin,
            end,
        } = operation;
        let f = match kind {
            Kind::Grant => "grant",
            Kind::Write => "write",
        };
        let line = |index: usize, is: &str, value: &str| {
            let at = history.get(index).map_or(0, |event| event.at.as_nanos());
            let text = format!(
                "{{:process {process}, :type :{is}, :f :{f}, :key \"{lock}\", :value {value}, :time {at}}}"
            );
            (index, text)
        };
        let token = token.to_string();
        let asks = if kind == Kind::Grant { "nil" } else { &token };
        lines.push(line(begin, "invoke", asks));
        lines.push(match end {
            Some(end) => line(end, "ok", &token),
            None => line(history.len(), "info", &token),
        });
    }
    lines.sort();
    lines
        .into_iter()
        .fold(String::new(), |mut text, (_, line)| {
            // Writing to a string cannot fail.
            let _ = writeln!(text, "{line}");
            text
        })
}
