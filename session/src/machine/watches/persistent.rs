//! Persistent watches in the machine: what is sent about them, and what their listeners are told.
//!
//! A server tells a lasting watch nothing of what happened while there was no connection. So after each reconnect every
//! listener is told that there may have been something.

use std::time::Instant;

use lockkeeper_proto::{
    EventType, OpCode, Request, WatcherType, Zxid,
    records::{RemoveWatchesRequest, SetWatches, SetWatches2},
};

use crate::machine::{
    Event, Machine, Notice, Output, Phase, ReplyTo, WatchId,
    requests::backlog::Queued,
    requests::unsupported::UnsupportedReason,
    watches::batches::{self, Batches},
    watches::kind::{PersistentKind, WatchKind},
    watches::path_watches::WatchRequests,
    watches::table::Recipient,
};
use crate::{Error, Peer};

/// Events that are kept back for lasting watches while watches are restored: more is a flood.
const MOST_HELD_BACK: usize = 1 << 16;

impl<T> Machine<T> {
    /// Ends all watches of a type on a path, and returns how many there were. Each is told [`Error::WatchRemoved`]; those
    /// whose requests are still on their way go on.
    pub fn remove_watches(&mut self, now: Instant, path: &str, watcher_type: WatcherType) -> usize {
        let kinds = WatchKind::of_type(watcher_type);
        let (ended, requests) = self.watches.take(path, kinds);
        let count = ended.len();
        for id in ended {
            self.outputs
                .push_back(Output::Watch(id, Err(Error::WatchRemoved)));
        }
        self.send_watch_requests(now, requests);
        count
    }

    /// Sends what is to be done about the server's watches. Without a connection there are none.
    pub(crate) fn send_watch_requests(&mut self, now: Instant, requests: WatchRequests) {
        if !matches!(self.phase, Phase::Connected { .. }) {
            return;
        }
        self.remove_from_server(now, requests.first);
        let since = requests.since.unwrap_or(self.session.last_zxid);
        let mut batches = Batches::new(since, self.config.max_request);
        for (kind, path) in requests.set {
            batches.add(kind, path);
        }
        for batch in batches.finish() {
            match self.unsupported.refusal(batch.op()) {
                Some(error) => self.end_unset(&batch, &error),
                None => self.enqueue(now, batch, ReplyTo::SetWatches { restore: false }),
            }
        }
        self.remove_from_server(now, requests.remove);
    }

    fn remove_from_server(
        &mut self,
        now: Instant,
        removals: impl IntoIterator<Item = RemoveWatchesRequest>,
    ) {
        if !self.unsupported.includes(OpCode::REMOVE_WATCHES) {
            for removal in removals {
                self.enqueue(now, Request::RemoveWatches(removal), ReplyTo::RemoveWatches);
            }
        }
    }

    /// Makes a request such that it spoils no lasting watch. Returns what is to be sent right behind it.
    pub(crate) fn prepare_to_send(&mut self, queued: &mut Queued<T>) -> Option<Request> {
        let since = self.session.last_zxid;
        match (&mut queued.reply_to, &mut queued.request) {
            (
                ReplyTo::Caller {
                    watch: Some(watch), ..
                },
                request,
            ) => {
                let path = watch.prepare_to_send(request, &mut self.watches, since)?;
                Some(Request::SetWatches(SetWatches {
                    relative_zxid: since,
                    data_watches: Vec::new(),
                    exist_watches: Vec::new(),
                    child_watches: vec![path],
                }))
            }
            (ReplyTo::SetWatches { restore: false }, request) if self.watches.has_persistent() => {
                if let Request::SetWatches(batch) = request {
                    let batch = std::mem::replace(batch, nothing(since));
                    *request = batches::request(self.with_persistent(batch));
                }
                None
            }
            _ => None,
        }
    }

    /// The lasting watches on nodes that get data watches are set again behind these, in the same request.
    fn with_persistent(&mut self, batch: SetWatches) -> SetWatches2 {
        let mut persistent = [Vec::new(), Vec::new()];
        for path in batch.data_watches.iter().chain(&batch.exist_watches) {
            let Some(server) = self.watches.on_server(path) else {
                continue;
            };
            let kinds = [PersistentKind::Persistent, PersistentKind::Recursive];
            for (kind, paths) in kinds.into_iter().zip(&mut persistent) {
                if server.has(kind) {
                    paths.push(path.clone());
                }
            }
        }
        let [persistent_watches, persistent_recursive_watches] = persistent;
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
    pub(crate) fn end_unset(&mut self, request: &Request, error: &Error) {
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
    pub(crate) fn end_persistent(&mut self, reason: UnsupportedReason, peer: &Peer) {
        let op = OpCode::ADD_WATCH;
        self.unsupported.note(op, self.connections, reason, peer);
        let ended = self.watches.drain_persistent();
        self.end_unsupported(op, ended);
    }

    /// The servers cannot be told of one-shot watches in a list: who waits for one is told.
    pub(crate) fn end_one_shot(&mut self) {
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
    pub(crate) fn most_held_back(&self) -> usize {
        let persistent = if self.watches.has_persistent() {
            MOST_HELD_BACK
        } else {
            0
        };
        3 * self.restored_watches + persistent
    }

    /// The watches of a former connection are restored.
    pub(crate) fn tell_reconnected(&mut self) {
        for id in self.watches.persistent() {
            self.outputs
                .push_back(Output::Notice(id, Notice::Reconnected));
        }
    }

    /// Tells everybody whom an event concerns.
    pub(crate) fn fire(&mut self, event: Event) {
        let told = self.watches.fire(&event.path, event.event_type);
        // The last one gets the event itself: mostly there is one.
        let events = std::iter::repeat_n(event, told.len());
        for (told, event) in told.into_iter().zip(events) {
            self.outputs.push_back(match told {
                Recipient::OneShot(id) => Output::Watch(id, Ok(event)),
                Recipient::Persistent(id) => Output::Notice(id, Notice::Event(event)),
                Recipient::Parent(id, path) => Output::Notice(
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
