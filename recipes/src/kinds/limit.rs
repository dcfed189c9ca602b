//! The limit of a semaphore: a fixed number, or the data of a node that all clients share.
//!
//! Not here: counting the leases (`lease_turn`).

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, Version};
use lockkeeper_session::{Client, Watcher};

use crate::{backoff::Backoff, error::LockError, node::identity::Directory};

/// How often a shared limit is set, and its node made. More than once is needed only while others
/// make or delete the node, too.
const ATTEMPTS: u32 = 10;

/// The limit of a semaphore.
#[derive(Clone, Debug)]
pub(super) enum Limit {
    Fixed(usize),
    /// The path of a node whose data are the limit, as Curator's `SharedCount` writes it: four
    /// bytes, big-endian.
    Shared(String),
}

impl Limit {
    /// Refuses more leases than the limit: they would never be granted. A shared limit is read for
    /// several leases only. For one lease the first waiter reads it anyway.
    pub(super) async fn allow(
        &self,
        client: &Client,
        asked: usize,
        directory: &Directory,
    ) -> Result<(), LockError> {
        if asked == 1 && matches!(self, Self::Shared(_)) {
            return Ok(());
        }
        match self.read(client, directory).await? {
            (limit, _) if asked > limit => Err(LockError::OverLimit { asked, limit }),
            _ => Ok(()),
        }
    }

    /// The limit now, and a watcher of its next change. A fixed limit has no watcher.
    pub(super) async fn read(
        &self,
        client: &Client,
        directory: &Directory,
    ) -> Result<(usize, Option<Watcher>), LockError> {
        let path = match self {
            Self::Fixed(limit) => return Ok((*limit, None)),
            Self::Shared(path) => path,
        };
        let mut backoff = Backoff::default();
        loop {
            directory.count_request();
            match client.get_data_and_watch(path).await {
                Err(error) if error.is_transient() => backoff.after(client, &error).await,
                read => {
                    let (node, changed) = read?;
                    let data = node
                        .data
                        .as_deref()
                        .and_then(|data| data.first_chunk::<4>());
                    let count = data.map_or(0, |data| i32::from_be_bytes(*data));
                    return Ok((usize::try_from(count).unwrap_or(0), Some(changed)));
                }
            }
        }
    }
}

/// Sets the shared limit in this node. Makes the node, and those above it, if it is missing.
pub(super) async fn set(client: &Client, path: &str, limit: usize) -> Result<(), LockError> {
    let count = i32::try_from(limit).map_err(|_| LockError::OverLimit {
        asked: limit,
        limit: i32::MAX.unsigned_abs() as usize,
    })?;
    let data = Bytes::copy_from_slice(&count.to_be_bytes());
    let mut attempts = 0;
    loop {
        attempts += 1;
        match client.set_data(path, data.clone(), Version::ANY).await {
            Err(error) if error.is_no_node() => {}
            set => return set.map(drop).map_err(LockError::from),
        }
        match client
            .create_all(path, data.clone(), CreateMode::Persistent)
            .await
        {
            // Another client has made the node meanwhile, perhaps with another limit.
            Err(error) if error.is_node_exists() && attempts < ATTEMPTS => {}
            made => return made.map(drop).map_err(LockError::from),
        }
    }
}
