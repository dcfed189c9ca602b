//! Watches in requests that a server takes: `setWatches` cut by the length of its paths.

use lockkeeper_proto::{Zxid, records::SetWatches};

use super::watches::WatchKind;

/// Bytes of paths in one `setWatches`, so that many watches do not make a frame that the server refuses.
///
/// Source: `ClientCnxn.java`, `SET_WATCHES_MAX_LENGTH`; there the lengths before the paths are not counted.
const LONGEST: usize = 128 * 1024;
/// Bytes before a path: its length.
const PREFIX: usize = 4;
/// Bytes of a request without paths: header, zxid, three counts.
const EMPTY: usize = 8 + 8 + 3 * 4;

/// Requests to come, and the one that is being filled.
#[derive(Debug)]
pub(super) struct Batches {
    relative_zxid: Zxid,
    longest: usize,
    full: Vec<SetWatches>,
    last: SetWatches,
    /// Bytes of the paths in `last`.
    bytes: usize,
}

impl Batches {
    /// For watches on what has changed since this transaction, in requests of at most `max_request` bytes.
    pub(super) fn new(relative_zxid: Zxid, max_request: usize) -> Self {
        Self {
            relative_zxid,
            longest: max_request.saturating_sub(EMPTY).min(LONGEST),
            full: Vec::new(),
            last: empty(relative_zxid),
            bytes: 0,
        }
    }

    pub(super) fn add(&mut self, kind: WatchKind, path: &str) {
        let bytes = PREFIX + path.len();
        if self.bytes > 0 && self.bytes + bytes > self.longest {
            let full = std::mem::replace(&mut self.last, empty(self.relative_zxid));
            self.full.push(full);
            self.bytes = 0;
        }
        self.bytes += bytes;
        let list = match kind {
            WatchKind::Data => &mut self.last.data_watches,
            WatchKind::Exist => &mut self.last.exist_watches,
            WatchKind::Child => &mut self.last.child_watches,
        };
        list.push(path.to_owned());
    }

    /// The requests, none of them without a path.
    pub(super) fn finish(mut self) -> Vec<SetWatches> {
        if self.bytes > 0 {
            self.full.push(self.last);
        }
        self.full
    }
}

fn empty(relative_zxid: Zxid) -> SetWatches {
    SetWatches {
        relative_zxid,
        data_watches: Vec::new(),
        exist_watches: Vec::new(),
        child_watches: Vec::new(),
    }
}
