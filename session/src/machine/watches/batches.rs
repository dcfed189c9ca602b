//! Watches in requests that a server takes: `setWatches` and `setWatches2` cut by the length of their paths.
//!
//! `setWatches2`, which servers before 3.6 do not know, is used only for requests that name a lasting watch.

use lockkeeper_proto::{
    Request, Zxid,
    records::{SetWatches, SetWatches2},
};

use crate::machine::watches::kind::WatchKind;

/// Bytes of paths in one request, so that many watches do not make a frame that the server refuses.
///
/// Source: `ClientCnxn.java`, `SET_WATCHES_MAX_LENGTH`; there the lengths before the paths are not counted.
const LONGEST: usize = 128 * 1024;
/// Bytes before a path: its length.
const PREFIX: usize = 4;
/// Bytes of a request without paths: header, zxid, five counts.
const EMPTY: usize = 8 + 8 + 5 * 4;

/// Requests to come, and the one that is being filled.
#[derive(Debug)]
pub(crate) struct Batches {
    longest: usize,
    full: Vec<SetWatches2>,
    last: SetWatches2,
    /// Bytes of the paths in `last`.
    bytes: usize,
}

impl Batches {
    /// For watches on what has changed since this transaction, in requests of at most `max_request` bytes.
    pub(crate) fn new(relative_zxid: Zxid, max_request: usize) -> Self {
        Self {
            longest: max_request.saturating_sub(EMPTY).min(LONGEST),
            full: Vec::new(),
            last: empty(relative_zxid),
            bytes: 0,
        }
    }

    pub(crate) fn add(&mut self, kind: WatchKind, path: String) {
        let bytes = PREFIX + path.len();
        if self.bytes + bytes > self.longest {
            self.cut();
        }
        self.bytes += bytes;
        let list = match kind {
            WatchKind::Data => &mut self.last.data_watches,
            WatchKind::Exist => &mut self.last.exist_watches,
            WatchKind::Child => &mut self.last.child_watches,
            WatchKind::Persistent => &mut self.last.persistent_watches,
            WatchKind::Recursive => &mut self.last.persistent_recursive_watches,
        };
        list.push(path);
    }

    /// What follows goes into another request.
    pub(crate) fn cut(&mut self) {
        if self.bytes > 0 {
            let next = empty(self.last.relative_zxid);
            self.full.push(std::mem::replace(&mut self.last, next));
            self.bytes = 0;
        }
    }

    /// The requests, none of them without a path.
    pub(crate) fn finish(self) -> impl Iterator<Item = Request> {
        let last = (self.bytes > 0).then_some(self.last);
        self.full.into_iter().chain(last).map(request)
    }
}

/// The oldest request that can say this.
pub(crate) fn request(watches: SetWatches2) -> Request {
    if watches.persistent_watches.is_empty() && watches.persistent_recursive_watches.is_empty() {
        Request::SetWatches(SetWatches {
            relative_zxid: watches.relative_zxid,
            data_watches: watches.data_watches,
            exist_watches: watches.exist_watches,
            child_watches: watches.child_watches,
        })
    } else {
        Request::SetWatches2(watches)
    }
}

fn empty(relative_zxid: Zxid) -> SetWatches2 {
    SetWatches2 {
        relative_zxid,
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
        persistent_watches: Vec::new(),
        persistent_recursive_watches: Vec::new(),
    }
}
