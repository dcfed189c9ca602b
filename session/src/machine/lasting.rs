//! Lasting watches in the machine: what is sent about them, and what their listeners are told.
//!
//! A server tells a lasting watch nothing of what happened while there was no connection. So after each reconnect every
//! listener is told that there may have been something.

use std::time::Instant;

use lockkeeper_proto::{
    EventType, OpCode, Request, WatcherType, Zxid,
    records::{RemoveWatchesRequest, SetWatches, SetWatches2},
};

use super::{
    Event, Machine, Notice, Output, Phase, Purpose, WatchId,
    backlog::Queued,
    batches::{self, Batches},
    path_watches::Chores,
    unsupported::Evidence,
    watch::{Lasting, WatchKind},
    watches::Told,
};
use crate::{Error, Peer};

/// Events that are kept back for lasting watches while watches are restored: more is a flood.
const MOST_HELD_BACK: usize = 1 << 16;

impl<T> Machine<T> {
    /// Ends all watches of a type on a path, and returns how many there were. Each is told [`Error::WatchRemoved`]; those
    /// whose requests are still on their way go on.
    pub fn remove_watches(&mut self, now: Instant, path: &str, watcher_type: WatcherType) -> usize {
        let kinds = WatchKind::of_type(watcher_type);
        let (ended, chores) = self.watches.take(path, kinds);
        let count = ended.len();
        for id in ended {
            self.outputs
                .push_back(Output::Watch(id, Err(Error::WatchRemoved)));
        }
        self.take_up(now, chores);
        count
    }

    /// Sends what is to be done about the server's watches. Without a connection there are none.
    pub(super) fn take_up(&mut self, now: Instant, chores: Chores) {
        if !matches!(self.phase, Phase::Connected { .. }) {
            return;
        }
        self.remove_from_server(now, chores.first);
        let since = chores.since.unwrap_or(self.session.last_zxid);
        let mut batches = Batches::new(since, self.config.max_request);
        for (kind, path) in chores.set {
            batches.add(kind, path);
        }
        for batch in batches.finish() {
            match self.unsupported.refusal(batch.op()) {
                Some(error) => self.end_unset(&batch, &error),
                None => self.enqueue(now, batch, Purpose::SetWatches { restore: false }),
            }
        }
        self.remove_from_server(now, chores.remove);
    }

    fn remove_from_server(
        &mut self,
        now: Instant,
        removals: impl IntoIterator<Item = RemoveWatchesRequest>,
    ) {
        if !self.unsupported.includes(OpCode::REMOVE_WATCHES) {
            for removal in removals {
                self.enqueue(now, Request::RemoveWatches(removal), Purpose::RemoveWatches);
            }
        }
    }

    /// Makes a request such that it spoils no lasting watch. Returns what is to be sent right behind it.
    pub(super) fn depart(&mut self, queued: &mut Queued<T>) -> Option<Request> {
        let since = self.session.last_zxid;
        match (&mut queued.purpose, &mut queued.request) {
            (
                Purpose::Caller {
                    watch: Some(watch), ..
                },
                request,
            ) => {
                let path = watch.depart(request, &mut self.watches, since)?;
                Some(Request::SetWatches(SetWatches {
                    relative_zxid: since,
                    data_watches: Vec::new(),
                    exist_watches: Vec::new(),
                    child_watches: vec![path],
                }))
            }
            (Purpose::SetWatches { restore: false }, request) if self.watches.has_lasting() => {
                if let Request::SetWatches(batch) = request {
                    let batch = std::mem::replace(batch, nothing(since));
                    *request = batches::request(self.with_lasting(batch));
                }
                None
            }
            _ => None,
        }
    }

    /// The lasting watches on nodes that get data watches are set again behind these, in the same request.
    fn with_lasting(&mut self, batch: SetWatches) -> SetWatches2 {
        let mut lasting = [Vec::new(), Vec::new()];
        for path in batch.data_watches.iter().chain(&batch.exist_watches) {
            let Some(server) = self.watches.on_server(path) else {
                continue;
            };
            let kinds = [Lasting::Persistent, Lasting::Recursive];
            for (kind, paths) in kinds.into_iter().zip(&mut lasting) {
                if server.has(kind) {
                    paths.push(path.clone());
                }
            }
        }
        let [persistent_watches, persistent_recursive_watches] = lasting;
        SetWatches2 {
            relative_zxid: batch.relative_zxid,
            data_watches: batch.data_watches,
            exist_watches: batch.exist_watches,
            child_watches: batch.child_watches,
            persistent_watches,
            persistent_recursive_watches,
        }
    }

    /// Ends the watches that a request was to set, when it cannot be sent.
    pub(super) fn end_unset(&mut self, request: &Request, error: &Error) {
        use WatchKind::{Child, Data, Exist, Persistent, Recursive};
        let lists: &[(WatchKind, &[String])] = match request {
            Request::SetWatches(batch) => &[
                (Data, &batch.data_watches),
                (Exist, &batch.exist_watches),
                (Child, &batch.child_watches),
            ],
            Request::SetWatches2(batch) => &[
                (Data, &batch.data_watches),
                (Exist, &batch.exist_watches),
                (Child, &batch.child_watches),
                (Persistent, &batch.persistent_watches),
                (Recursive, &batch.persistent_recursive_watches),
            ],
            _ => &[],
        };
        for (kind, paths) in lists {
            for path in *paths {
                // What is left of the path is restored with the next connection.
                let (ended, _) = self.watches.take(path, &[*kind]);
                for id in ended {
                    self.outputs
                        .push_back(Output::Watch(id, Err(error.clone())));
                }
            }
        }
    }

    /// The servers do not know lasting watches: who listens to one is told.
    pub(super) fn end_lasting(&mut self, evidence: Evidence, peer: &Peer) {
        let op = OpCode::ADD_WATCH;
        self.unsupported.note(op, self.connections, evidence, peer);
        let ended = self.watches.drain_lasting();
        self.end_unsupported(op, ended);
    }

    /// The servers cannot be told of one-shot watches in a list: who waits for one is told.
    pub(super) fn end_one_shot(&mut self) {
        let ended = self.watches.drain_one_shot();
        self.end_unsupported(OpCode::SET_WATCHES, ended);
    }

    fn end_unsupported(&mut self, op: OpCode, ended: Vec<WatchId>) {
        if let Some(error) = self.unsupported.refusal(op) {
            for id in ended {
                self.outputs
                    .push_back(Output::Watch(id, Err(error.clone())));
            }
        }
    }

    /// How many events may be kept back: a server sends at most one for each one-shot watch and kind.
    pub(super) fn most_held_back(&self) -> usize {
        let lasting = if self.watches.has_lasting() {
            MOST_HELD_BACK
        } else {
            0
        };
        3 * self.restored_watches + lasting
    }

    /// The watches of a former connection are restored.
    pub(super) fn tell_reconnected(&mut self) {
        for id in self.watches.lasting() {
            self.outputs
                .push_back(Output::Lasting(id, Notice::Reconnected));
        }
    }

    /// Tells everybody whom an event concerns.
    pub(super) fn fire(&mut self, event: Event) {
        let told = self.watches.fire(&event.path, event.event_type);
        // The last one gets the event itself: mostly there is one.
        let events = std::iter::repeat_n(event, told.len());
        for (told, event) in told.into_iter().zip(events) {
            self.outputs.push_back(match told {
                Told::Once(id) => Output::Watch(id, Ok(event)),
                Told::Again(id) => Output::Lasting(id, Notice::Event(event)),
                Told::OfChild(id, path) => Output::Lasting(
                    id,
                    Notice::Event(Event {
                        event_type: EventType::NODE_CHILDREN_CHANGED,
                        path: path.to_string(),
                    }),
                ),
            });
        }
    }
}

fn nothing(relative_zxid: Zxid) -> SetWatches {
    SetWatches {
        relative_zxid,
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    }
}
