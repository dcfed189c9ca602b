//! Requests about watches: what callers ask for, and what the table of watches asks of the server.
//!
//! Not here: watches that a new connection restores (`connecting`), events (`replies`).

use lockkeeper_proto::{ErrorCode, Request, WatcherType, records::SetWatches};

use super::{
    Machine, Phase, WatchId,
    requests::Own,
    watches::{Kinds, PendingWatch},
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
    /// server has answered.
    pub fn watch_nodes(
        &mut self,
        paths: impl IntoIterator<Item = impl Into<String>>,
    ) -> Vec<WatchId> {
        let (newest, longest) = (self.session.last_zxid(), self.config.max_request);
        let paths = paths.into_iter().map(Into::into);
        let is_sent = self.is_connected();
        let out = &mut self.out;
        let (ids, requests) = (self.watches).watch_nodes(paths, newest, longest, is_sent, out);
        if let Phase::Ended(error) = &self.phase {
            self.watches.end(Kinds::ALL, error, &mut self.out);
            return ids;
        }
        let last = self.ask_about_watches(requests);
        if let (Phase::Open(open), Some(last)) = (&mut self.phase, last) {
            open.arrivals.sent(last, &ids);
        }
        ids
    }

    /// Gives up a watch. The machine removes the server's watch when its last listener goes.
    pub fn cancel(&mut self, id: WatchId) {
        let requests = self.watches.cancel(id);
        self.ask_about_watches(requests);
    }

    /// Ends all watches of a type on a path, and returns how many there were. Their listeners get
    /// [`Error::WatchRemoved`](crate::Error::WatchRemoved). A watch whose request is not answered
    /// yet goes on.
    pub fn remove_watches(&mut self, path: &str, watcher_type: WatcherType) -> usize {
        let kinds = Kinds::of_type(watcher_type);
        let (ended, requests) = self.watches.remove(path, kinds, &mut self.out);
        self.ask_about_watches(requests);
        ended
    }

    /// The request that leaves this watch is answered with this code, or never will be.
    pub(crate) fn settle_watch(&mut self, watch: Option<PendingWatch>, code: Option<ErrorCode>) {
        if let Some(watch) = watch {
            let requests = self.watches.settle(&watch, code, &mut self.out);
            self.ask_about_watches(requests);
        }
    }

    /// Queues these requests, and returns the number of the last one. Without a connection the
    /// server has no watches, and there is nothing to ask.
    pub(crate) fn ask_about_watches(
        &mut self,
        requests: impl IntoIterator<Item = Request>,
    ) -> Option<u64> {
        let mut last = None;
        if !self.is_connected() {
            return last;
        }
        for request in requests {
            let own = match &request {
                Request::SetWatches(SetWatches { relative_zxid, .. }) => {
                    let (since, restore) = (*relative_zxid, false);
                    Own::SetWatches { since, restore }
                }
                _ => Own::RemoveWatches,
            };
            match (self.support.refusal(request.op()), own) {
                (None, own) => last = Some(self.ask(request, own)),
                (Some(error), Own::SetWatches { .. }) => {
                    self.watches.end(Kinds::ONE_SHOT, &error, &mut self.out);
                }
                // The server has no such watches.
                (Some(_), _) => {}
            }
        }
        last
    }

    /// A request that sets watches is answered.
    pub(crate) fn watches_set(&mut self, number: u64, restore: bool) {
        if let Phase::Open(open) = &mut self.phase {
            if !restore {
                open.arrivals.answered(number, &mut self.out);
            } else if !self.watches.restored(&mut open.arrivals, &mut self.out) {
                return;
            }
            self.support.watches_set();
        }
    }
}
