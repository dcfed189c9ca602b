//! What the machine asks of the server about watches, beside restoring them: removing some, setting
//! others.
//!
//! Servers before 3.9 keep one kind of watch for a path and connection. So a request that leaves a
//! one-shot watch may be changed when it is sent, see `server_watches`.
//!
//! Not here: restoring watches on a new connection, and telling listeners (`restore`).

use lockkeeper_proto::{
    OpCode, Request, WatcherType, Zxid,
    records::{RemoveWatchesRequest, SetWatches, SetWatches2},
};

use super::{
    batches::{self, Batches},
    kind::{PersistentKind, WatchId, WatchKind},
    path_watches::WatchRequests,
};
use crate::{
    Error, Peer, UnsupportedReason,
    machine::{Machine, Output, ReplyTo, requests::backlog::Queued},
};

impl<T> Machine<T> {
    /// Watches nodes that exist. All of them take one request, unless they are very many. Each id
    /// gets one event.
    ///
    /// The event is the first of these that the server finds when it processes the request:
    ///
    /// - the node does not exist (deleted);
    /// - a transaction newer than all that the replies of this session have reported has set its
    ///   data (changed).
    ///
    /// Otherwise the event is the next change of the data, or the deletion. Without a connection,
    /// the next connection sets the watches, by the same rule. No id gets its event before the
    /// server has answered: see `early`.
    pub fn watch_nodes(
        &mut self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<WatchId> {
        // A persistent watch on the same node is set again in the same request, which doubles it.
        let shares = if self.watches.has_persistent() { 3 } else { 1 };
        let longest = self.config.max_request / shares;
        let (since, restore) = (self.session.last_zxid, false);
        let mut batches = Batches::new(since, longest);
        let watch = |path: String| {
            let id = self.watches.register_data(&path);
            batches.add(WatchKind::Data, path);
            id
        };
        let ids: Vec<_> = paths.into_iter().map(Into::into).map(watch).collect();
        if let Some(error) = self.ended().cloned() {
            self.end_watches(&error);
        } else if self.is_connected() {
            if self.unsupported.includes(OpCode::SET_WATCHES) {
                self.end_one_shot();
            } else {
                let mut last = 0;
                for batch in batches.finish() {
                    last = self.enqueue_own(batch, ReplyTo::SetWatches { since, restore });
                }
                if let Some(open) = self.established_mut() {
                    open.early.sent(last, &ids);
                }
            }
        }
        ids
    }

    /// Gives up a watch. The machine removes the server's watch when its last listener goes.
    pub fn cancel(&mut self, id: WatchId) {
        let requests = self.watches.cancel(id);
        self.send_watch_requests(requests);
    }

    /// Ends all watches of a type on a path, and returns how many there were. Their listeners get
    /// [`Error::WatchRemoved`]. A watch whose request is not answered yet goes on.
    pub fn remove_watches(&mut self, path: &str, watcher_type: WatcherType) -> usize {
        let kinds = WatchKind::of_type(watcher_type);
        let (ended, requests) = self.watches.take(path, kinds);
        let count = ended.len();
        self.end_listeners(ended, &Error::WatchRemoved);
        self.send_watch_requests(requests);
        count
    }

    /// Sends these requests. Without a connection the server has no watches, and there is nothing
    /// to send.
    pub(crate) fn send_watch_requests(&mut self, requests: WatchRequests) {
        if !self.is_connected() {
            return;
        }
        self.remove_from_server(requests.first);
        let (restore, since) = (false, requests.since.unwrap_or(self.session.last_zxid));
        let mut batches = Batches::new(since, self.config.max_request);
        for (kind, path) in requests.set {
            batches.add(kind, path);
        }
        for batch in batches.finish() {
            match self.unsupported.refusal(batch.op()) {
                Some(error) => self.end_unset(&batch, &error),
                None => {
                    self.enqueue_own(batch, ReplyTo::SetWatches { since, restore });
                }
            }
        }
        self.remove_from_server(requests.remove);
    }

    fn remove_from_server(&mut self, removals: impl IntoIterator<Item = RemoveWatchesRequest>) {
        if !self.unsupported.includes(OpCode::REMOVE_WATCHES) {
            for removal in removals {
                self.enqueue_own(Request::RemoveWatches(removal), ReplyTo::RemoveWatches);
            }
        }
    }

    /// Changes a request so that it ends no persistent watch. Returns the request that must be sent
    /// right behind it.
    pub(crate) fn prepare_to_send(&mut self, queued: &mut Queued<T>) -> Option<SetWatches> {
        let since = self.session.last_zxid;
        match (&mut queued.reply_to, &mut queued.request) {
            (
                ReplyTo::Caller {
                    watch: Some(watch), ..
                },
                request,
            ) => {
                let path = watch.prepare_to_send(request, &mut self.watches, since)?;
                Some(SetWatches {
                    child_watches: vec![path],
                    ..nothing(since)
                })
            }
            (ReplyTo::SetWatches { restore: false, .. }, request)
                if self.watches.has_persistent() =>
            {
                if let Request::SetWatches(batch) = request {
                    let batch = std::mem::replace(batch, nothing(since));
                    *request = batches::request(self.with_persistent(batch));
                }
                None
            }
            _ => None,
        }
    }

    /// The same request, which also sets the persistent watches again on nodes that get data
    /// watches.
    fn with_persistent(&mut self, batch: SetWatches) -> SetWatches2 {
        let mut paths_of = [Vec::new(), Vec::new()];
        for path in batch.data_watches.iter().chain(&batch.exist_watches) {
            let Some(server) = self.watches.on_server(path) else {
                continue;
            };
            let kinds = [PersistentKind::Persistent, PersistentKind::Recursive];
            for (kind, paths) in kinds.into_iter().zip(&mut paths_of) {
                if server.has(kind) {
                    paths.push(path.clone());
                }
            }
        }
        let [persistent_watches, persistent_recursive_watches] = paths_of;
        SetWatches2 {
            relative_zxid: batch.relative_zxid,
            data_watches: batch.data_watches,
            exist_watches: batch.exist_watches,
            child_watches: batch.child_watches,
            persistent_watches,
            persistent_recursive_watches,
        }
    }

    /// Ends the watches of a request that cannot be sent.
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
                // The next connection restores the other watches of the path.
                let (ended, _) = self.watches.take(path, &[*kind]);
                self.end_listeners(ended, error);
            }
        }
    }

    /// Ends all persistent watches: the servers do not know them.
    pub(crate) fn end_persistent(&mut self, reason: UnsupportedReason, peer: &Peer) {
        let op = OpCode::ADD_WATCH;
        self.unsupported.note(op, self.connections, reason, peer);
        let ended = self.watches.drain_persistent();
        self.end_unsupported(op, ended);
    }

    /// Ends all one-shot watches: the servers do not accept a list of them.
    pub(crate) fn end_one_shot(&mut self) {
        let ended = self.watches.drain_one_shot();
        self.end_unsupported(OpCode::SET_WATCHES, ended);
    }

    fn end_unsupported(&mut self, op: OpCode, ended: Vec<WatchId>) {
        if let Some(error) = self.unsupported.refusal(op) {
            self.end_listeners(ended, &error);
        }
    }

    /// Tells these listeners that their watches have ended.
    pub(crate) fn end_listeners(&mut self, ended: Vec<WatchId>, error: &Error) {
        for id in ended {
            self.outputs
                .push_back(Output::Watch(id, Err(error.clone())));
        }
    }
}

/// A request without watches.
fn nothing(relative_zxid: Zxid) -> SetWatches {
    SetWatches {
        relative_zxid,
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    }
}
