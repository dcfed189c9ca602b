//! The limit of a semaphore: a fixed number, or the data of a node that all clients share.
//!
//! Not here: counting the permits (`permit_turn`).

use bytes::Bytes;
use lockkeeper_proto::{CreateMode, ErrorCode, Version, Zxid};
use lockkeeper_session::{Client, Error as SessionError, Watcher};

use crate::{backoff::Backoff, error::LockError, node::directory::Directory, order::name::Kind};

/// How the data of the permits' directory begin that name a fixed limit.
const PREFIX: &[u8] = b"limit=";

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
    /// Refuses more permits than the limit: they would never be granted. A shared limit is read for
    /// several permits only. For one permit the first waiter reads it anyway.
    pub(super) async fn allow(&self, asked: usize, directory: &Directory) -> Result<(), LockError> {
        if asked == 1 && matches!(self, Self::Shared(_)) {
            return Ok(());
        }
        match self.read(directory).await? {
            (limit, _) if asked > limit => Err(LockError::OverLimit { asked, limit }),
            _ => Ok(()),
        }
    }

    /// What the data of the permits' directory say of a fixed limit.
    pub(super) fn text(&self) -> Bytes {
        match self {
            Self::Fixed(limit) => [PREFIX, limit.to_string().as_bytes()].concat().into(),
            Self::Shared(_) => Bytes::new(),
        }
    }

    /// Refuses a fixed limit if others hold permits with another one. Who makes the directory of
    /// the permits writes the limit into its data, and so does who finds no permit of others there:
    /// the result is that transaction. Data that are not ours say nothing, and stay.
    pub(super) async fn agree(
        &self,
        permits: &Directory,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<Option<Zxid>, LockError> {
        let Self::Fixed(limit) = *self else {
            return Ok(None);
        };
        let mut backoff = Backoff::default();
        loop {
            let error = match self.theirs(permits, &is_own).await {
                Ok(Theirs::Same) => return Ok(None),
                Ok(Theirs::Written(zxid)) => return Ok(Some(zxid)),
                Ok(Theirs::Other(theirs)) => {
                    return Err(LockError::OtherLimit {
                        path: permits.path.to_string(),
                        limit,
                        theirs,
                    });
                }
                Err(error) => error,
            };
            match error.code() {
                // Another client has changed the data meanwhile.
                Some(ErrorCode::BAD_VERSION) => {
                    backoff.begin(&permits.client);
                    backoff.pause().await;
                }
                _ if error.is_transient() => backoff.after(permits, &error).await?,
                // The directory is gone, or this client may not read or write its data.
                Some(_) => return Ok(None),
                None => return Err(error.into()),
            }
        }
    }

    /// The limit of others who hold permits.
    async fn theirs(
        &self,
        permits: &Directory,
        is_own: impl Fn(&str) -> bool,
    ) -> Result<Theirs, SessionError> {
        let (client, path, ours) = (&permits.client, &*permits.parent, self.text());
        let node = client.get_data(path).await?;
        let data = node.data.unwrap_or_default();
        let theirs = data.strip_prefix(PREFIX).map(String::from_utf8_lossy);
        let theirs = theirs.and_then(|text| text.parse().ok());
        if data == ours || theirs.is_none() && !data.is_empty() {
            return Ok(Theirs::Same);
        }
        let names = client.get_children(path).await?;
        let is_other = |name: &String| Kind::Semaphore.contender(name).is_some() && !is_own(name);
        if names.iter().any(is_other) {
            return Ok(theirs.map_or(Theirs::Same, Theirs::Other));
        }
        let set = client.set_data(path, ours, node.stat.version).await?;
        Ok(Theirs::Written(set.mzxid))
    }

    /// The limit now, and a watcher of its next change. A fixed limit has no watcher.
    pub(super) async fn read(
        &self,
        directory: &Directory,
    ) -> Result<(usize, Option<Watcher>), LockError> {
        let path = match self {
            Self::Fixed(limit) => return Ok((*limit, None)),
            Self::Shared(path) => path,
        };
        let (client, mut backoff) = (&directory.client, Backoff::default());
        loop {
            match client.get_data_and_watch(path).await {
                Err(error) if error.is_transient() => backoff.after(directory, &error).await?,
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

/// What the data of the permits' directory say.
enum Theirs {
    /// Our limit, or nothing.
    Same,
    Other(usize),
    /// Our limit since this transaction, as nobody else holds a permit.
    Written(Zxid),
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
