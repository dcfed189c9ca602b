//! What the contenders of one client have in common at a path: one registry for all of it, so that a
//! program has the code of one map.
//!
//! Not here: what they have in common (`queue::view`, `node::scan`, `queue::stall`).

use std::{
    any::Any,
    collections::HashMap,
    sync::{Arc, Mutex, Weak},
};

use lockkeeper_proto::path;
use lockkeeper_session::{AsRaw, Client, sync::os::lock};

use crate::order::name;

type Shared = dyn Any + Send + Sync;

/// What there is, by its name and by the path.
#[derive(Debug, Default)]
pub(crate) struct Common(Mutex<HashMap<(&'static str, String), Weak<Shared>>>);

impl Common {
    /// What has this name at this path: made at the first call, and there as long as somebody has
    /// it. All with one name are of one type.
    pub(crate) fn at<T: Any + Default + Send + Sync>(
        client: &Client,
        name: &'static str,
        server_path: &str,
    ) -> Arc<T> {
        let common = client.raw().extension::<Self>();
        let shared = common.shared(name, server_path, || Arc::<T>::default());
        shared.downcast().unwrap_or_default()
    }

    fn shared(
        &self,
        name: &'static str,
        server_path: &str,
        make: fn() -> Arc<Shared>,
    ) -> Arc<Shared> {
        let mut common = lock(&self.0);
        let key = (name, server_path.to_owned());
        if let Some(shared) = common.get(&key).and_then(Weak::upgrade) {
            return shared;
        }
        if common.len() == common.capacity() {
            common.retain(|_, shared| shared.strong_count() > 0);
        }
        let shared = make();
        common.insert(key, Arc::downgrade(&shared));
        shared
    }

    /// All that has this name in the directories of the lock at this path. Other locks may have paths
    /// below.
    pub(crate) fn of_lock<T: Any + Send + Sync>(
        client: &Client,
        called: &'static str,
        server_path: &str,
    ) -> Vec<Arc<T>> {
        let common = client.raw().extension::<Self>();
        let common = lock(&common.0);
        let below = |directory| path::join(server_path, directory);
        let directories = [
            server_path.to_owned(),
            below(name::LOCKS),
            below(name::LEASES),
        ];
        let shared = |directory| common.get(&(called, directory))?.upgrade()?.downcast().ok();
        directories.into_iter().filter_map(shared).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_somebody_has_stays_and_the_rest_takes_no_room() {
        let common = Common::default();
        let at = |path: &str| common.shared("view", path, || Arc::new(()));
        let first = at("/first");
        for number in 0..1000 {
            drop(at(&format!("/{number}")));
        }
        assert!(Arc::ptr_eq(&first, &at("/first")));
        assert!(lock(&common.0).capacity() < 100);
    }
}
