//! Rules about single nodes: watches, answers to writes, nodes and watches left behind.
//!
//! Not here: rules about locks (the other modules).

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use super::{Rule, Violation};
use crate::history::{Answer, Event, What};

pub(super) fn check(history: &[Event], found: &mut Vec<Violation>) {
    let mut watches: HashMap<u64, (u32, &Arc<str>, i64)> = HashMap::new();
    let mut answers: HashMap<u64, (u32, Answer)> = HashMap::new();
    let mut ended: HashSet<u64> = HashSet::new();
    for event in history {
        let Event { at, client, what } = event;
        let mut broken = |rule, text: String| found.push(Violation::new(*at, rule, text));
        match what {
            What::Watching {
                watch,
                path,
                version,
            } => {
                watches.insert(*watch, (*client, path, *version));
            }
            What::Fired(watch) => {
                let known = watches.remove(watch).is_some();
                if !known || !ended.insert(*watch) {
                    let text = format!("watch {watch} fired twice, or was never set");
                    broken(Rule::Watch, text);
                }
            }
            What::Read { path, version } => {
                let mut stale: Vec<_> = watches
                    .iter()
                    .filter(|(_, (owner, watched, seen))| {
                        // A lower version was read before the watch was set, and is only told late.
                        let is_newer = version > seen || *version < 0 && *seen >= 0;
                        owner == client && *watched == path && is_newer
                    })
                    .map(|(watch, _)| *watch)
                    .collect();
                stale.sort_unstable();
                for watch in stale {
                    let text = format!(
                        "client {client} read {path} at {version} before watch {watch} fired"
                    );
                    broken(Rule::Watch, text);
                }
            }
            What::Answered { write, answer } => {
                answers.insert(*write, (*client, *answer));
            }
            What::Applied { write, times } => {
                let Some((owner, answer)) = answers.get(write) else {
                    continue;
                };
                let fits = match answer {
                    Answer::Applied => *times == 1,
                    Answer::NotApplied => *times == 0,
                    Answer::Unknown => *times <= 1,
                    Answer::Another => false,
                };
                if !fits {
                    let text = format!(
                        "write {write} of client {owner} was answered {answer:?} but applied {times} times"
                    );
                    broken(Rule::Write, text);
                }
            }
            What::Standing { leaders: 1, .. } => {}
            What::Standing { .. } => broken(Rule::Leader, format!("{what:?}")),
            What::Drowned { .. } => broken(Rule::Storm, format!("{what:?}")),
            What::Believed(_) => broken(Rule::Lie, format!("{what:?}")),
            What::Deserted(_) => broken(Rule::Deserted, format!("{what:?}")),
            What::Left { .. } => broken(Rule::Left, format!("{what:?}")),
            What::Strayed { .. } => broken(Rule::Strayed, format!("{what:?}")),
            _ => {}
        }
    }
}
