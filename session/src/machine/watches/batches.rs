//! `setWatches` and `setWatches2` requests, cut by the length of their paths so that a server
//! accepts them.
//!
//! Servers before 3.6 do not know `setWatches2`. It is used only for requests with a persistent
//! watch.

use lockkeeper_proto::{
    Request, Zxid,
    records::{SetWatches, SetWatches2},
};

use crate::machine::watches::kind::WatchKind;

/// The most bytes of paths in one request, so that many watches do not make a frame that the server
/// refuses.
///
/// Source: `ClientCnxn.java`, `SET_WATCHES_MAX_LENGTH`, which does not count the lengths before the
/// paths.
const LONGEST: usize = 128 * 1024;
/// Bytes before a path: its length.
const PREFIX: usize = 4;
/// Bytes of a request without paths: header, zxid, five counts.
const EMPTY: usize = 8 + 8 + 5 * 4;

/// Full requests, and the one that is being filled.
#[derive(Debug)]
pub(crate) struct Batches {
    longest: usize,
    full: Vec<SetWatches2>,
    last: SetWatches2,
    /// Bytes of the paths in `last`.
    bytes: usize,
}

impl Batches {
    /// Requests of at most `max_request` bytes. The server reports changes that are newer than
    /// `relative_zxid`.
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

    /// Starts another request.
    pub(crate) fn cut(&mut self) {
        if self.bytes > 0 {
            let next = empty(self.last.relative_zxid);
            self.full.push(std::mem::replace(&mut self.last, next));
            self.bytes = 0;
        }
    }

    /// The requests. Each has at least one path.
    pub(crate) fn finish(self) -> impl Iterator<Item = Request> {
        let last = (self.bytes > 0).then_some(self.last);
        self.full.into_iter().chain(last).map(request)
    }
}

/// The request for these watches that most servers know.
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
