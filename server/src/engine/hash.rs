//! Hash maps whose order depends only on the engine's seed, so that a seed repeats a run.
//!
//! Children are listed in hash order. No client may rely on their order, as on the real server.

use std::{
    collections::{HashMap, HashSet},
    hash::{BuildHasher, DefaultHasher, Hasher},
};

/// A map with the engine's seed.
pub(crate) type Map<K, V> = HashMap<K, V, Seeded>;

/// A set with the engine's seed.
pub(crate) type Set<K> = HashSet<K, Seeded>;

/// Makes hashers that start from a seed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seeded(pub(crate) u64);

impl BuildHasher for Seeded {
    type Hasher = DefaultHasher;

    fn build_hasher(&self) -> DefaultHasher {
        let mut hasher = DefaultHasher::new();
        hasher.write_u64(self.0);
        hasher
    }
}
