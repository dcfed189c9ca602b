//! Who relies on the lease: the holders of lock nodes, and the contenders that are next. The writes
//! of a proof check their nodes, so a holder whose node was deleted hears of it with the next proof.
//!
//! Not here: when those writes are due (`Lease`).

use std::sync::{
    Arc, Weak,
    atomic::{AtomicBool, Ordering},
};

use lockkeeper_proto::path;

/// The most nodes that one write checks. With more, the writes take turns.
const AT_ONCE: usize = 16;
/// The bytes of a check beside the path of its node: the header of the operation (9), the length of
/// the path (4), and the version (4). The request has as many bytes beside its checks.
const BESIDE_PATH: usize = 17;

/// Keeps the lease proved while it lives. Made by
/// [`Machine::keep_lease`](crate::machine::Machine::keep_lease).
#[derive(Debug)]
pub struct LeaseToken(Arc<Kept>);

impl LeaseToken {
    /// Whether a write of a proof has found that the node is gone.
    #[must_use]
    pub fn is_gone(&self) -> bool {
        self.0.is_gone.load(Ordering::Relaxed)
    }

    /// Whether the node is known to be gone, without the token. Without a token, nothing is known
    /// of the node.
    #[cfg(feature = "tokio")]
    pub(crate) fn gone_sign(&self) -> impl Fn() -> bool + Send + Sync + use<> {
        let kept = Arc::downgrade(&self.0);
        move || {
            kept.upgrade()
                .is_some_and(|kept| kept.is_gone.load(Ordering::Relaxed))
        }
    }
}

#[derive(Debug)]
struct Kept {
    directory: Arc<str>,
    name: Arc<str>,
    is_gone: AtomicBool,
    #[allow(dead_code, reason = "the keepers count its clones")]
    count: Arc<()>,
}

/// Those whose nodes one write checks, in the order of its checks.
#[derive(Debug)]
pub(crate) struct Checked(Vec<Weak<Kept>>);

impl Checked {
    /// The check with this index has found no node.
    pub(crate) fn is_gone(&self, index: usize) {
        if let Some(kept) = self.0.get(index).and_then(Weak::upgrade) {
            kept.is_gone.store(true, Ordering::Relaxed);
        }
    }
}

/// Who keeps the lease.
#[derive(Debug, Default)]
pub(super) struct Keepers {
    /// Its own clone, and one in each [`LeaseToken`].
    count: Arc<()>,
    all: Vec<Weak<Kept>>,
    /// From where the next write checks.
    next: usize,
}

impl Keepers {
    pub(super) fn add(&mut self, directory: Arc<str>, name: Arc<str>) -> LeaseToken {
        // Those that have gone make room.
        if self.all.len() == self.all.capacity() {
            self.forget();
        }
        let kept = Arc::new(Kept {
            directory,
            name,
            is_gone: AtomicBool::new(false),
            count: self.count.clone(),
        });
        self.all.push(Arc::downgrade(&kept));
        LeaseToken(kept)
    }

    pub(super) fn are_there(&self) -> bool {
        Arc::strong_count(&self.count) > 1
    }

    fn forget(&mut self) {
        let is_there = |kept: &Arc<Kept>| !kept.is_gone.load(Ordering::Relaxed);
        (self.all).retain(|kept| kept.upgrade().as_ref().is_some_and(is_there));
    }

    /// The nodes that the next write checks, as the server names them: as many as it has room for.
    pub(super) fn next(&mut self, max_request: usize) -> (Vec<String>, Checked) {
        self.forget();
        let count = self.all.len();
        let begin = self.next.checked_rem(count).unwrap_or(0);
        let chosen = self.all.iter().cycle().skip(begin).take(count.min(AT_ONCE));
        let chosen = chosen.filter_map(Weak::upgrade);
        let checks = chosen.map(|kept| {
            let node = path::join(&kept.directory, &kept.name);
            (node, Arc::downgrade(&kept))
        });
        let mut length = BESIDE_PATH;
        let checks = checks.take_while(|(node, _)| {
            let is_first = length == BESIDE_PATH;
            length += BESIDE_PATH + node.len();
            is_first || length <= max_request
        });
        let (nodes, checked): (Vec<_>, Vec<_>) = checks.unzip();
        self.next = begin + nodes.len();
        (nodes, Checked(checked))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_have_gone_take_no_room() {
        let mut keepers = Keepers::default();
        let stays = keepers.add("/lock".into(), "stays".into());
        for _ in 0..1000 {
            drop(keepers.add("/lock".into(), "goes".into()));
        }
        assert!(keepers.all.capacity() <= 8, "{}", keepers.all.capacity());
        stays.0.is_gone.store(true, Ordering::Relaxed);
        assert!(keepers.are_there());
        assert_eq!(keepers.next(1000).0, [""; 0], "it is not looked for again");
    }
}
