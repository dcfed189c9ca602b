//! `setWatches` and `setWatches2` requests, cut by the length of their paths so that a server
//! accepts them.
//!
//! Servers before 3.6 do not know `setWatches2`. It is used only for requests with a persistent
//! watch.

use lockkeeper_proto::{
    Request, Zxid,
    records::{SetWatches, SetWatches2},
};

use crate::machine::{
    encoded::{BEFORE_PATH, Encoded, NO_WATCHES},
    kinds::Kinds,
};

/// The most bytes of paths in one request, so that many watches do not make a frame that the server
/// refuses.
///
/// Source: `ClientCnxn.java`, `SET_WATCHES_MAX_LENGTH`, which does not count the lengths before the
/// paths.
const LONGEST: usize = 128 * 1024;

/// Requests for watches.
#[derive(Debug)]
pub(super) struct Batches {
    since: Zxid,
    longest: usize,
    requests: Vec<SetWatches2>,
    /// How many bytes of paths the last of them has room for.
    room: usize,
}

impl Batches {
    /// Requests of at most `max_request` bytes. The server reports changes that are newer than
    /// `since`.
    pub(super) fn new(since: Zxid, max_request: usize) -> Self {
        Self {
            since,
            longest: max_request.saturating_sub(NO_WATCHES).min(LONGEST),
            requests: Vec::new(),
            room: 0,
        }
    }

    pub(super) fn add(&mut self, kind: Kinds, path: String) {
        let bytes = BEFORE_PATH + path.len();
        if self.room < bytes {
            self.requests.push(SetWatches2 {
                relative_zxid: self.since,
                ..SetWatches2::default()
            });
            self.room = self.longest;
        }
        self.room = self.room.saturating_sub(bytes);
        if let Some(last) = self.requests.last_mut() {
            list(last, kind).push(path);
        }
    }

    pub(super) fn finish(self) -> impl ExactSizeIterator<Item = Encoded> {
        self.requests.into_iter().map(narrow)
    }
}

/// The paths of this kind.
fn list(request: &mut SetWatches2, kind: Kinds) -> &mut Vec<String> {
    match kind {
        Kinds::DATA => &mut request.data_watches,
        Kinds::EXIST => &mut request.exist_watches,
        Kinds::CHILD => &mut request.child_watches,
        Kinds::PERSISTENT => &mut request.persistent_watches,
        _ => &mut request.persistent_recursive_watches,
    }
}

/// The request for these watches that most servers know.
fn narrow(watches: SetWatches2) -> Encoded {
    if watches.persistent_watches.is_empty() && watches.persistent_recursive_watches.is_empty() {
        Request::SetWatches(SetWatches {
            relative_zxid: watches.relative_zxid,
            data_watches: watches.data_watches,
            exist_watches: watches.exist_watches,
            child_watches: watches.child_watches,
        })
        .into()
    } else {
        Request::SetWatches2(watches).into()
    }
}
