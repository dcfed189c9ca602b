//! `lockkeeper set`, `create` and `rm`.

use std::ffi::OsStr;

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use lockkeeper::{
    Client, CreateMode, Error, Version, error::ErrorKind, locks::REVOKE, node::Stat,
    proto::ErrorCode,
};
use tokio::io::AsyncReadExt as _;

use super::{
    args::{CreateArgs, RmArgs, SetArgs},
    walk::{AT_ONCE, walk},
};
use crate::{exit::Failure, refusal::NO_NODE, text};

/// Nodes that `rm --recursive` refuses to delete: the root, and ZooKeeper's own nodes.
const PROTECTED: [&str; 2] = ["/", "/zookeeper"];

pub(super) async fn set(args: &SetArgs, client: &Client) -> Result<(), Failure> {
    let data = data(&args.data).await?;
    let version = args.version.map_or(Version::ANY, Version);
    // Who holds the lock is told: this replaces it in the node, and a holder that is dead does not write it again.
    if data == REVOKE
        && let Ok(former) = client.get_data(&args.path).await
    {
        let who = text::data_in_a_line(former.data.as_deref());
        say!("{}: asking {who} to release the lock", args.path);
    }
    let set = client.set_data(&args.path, data, version).await;
    explained(client, &args.path, version, set).await.map(drop)
}

/// Adds the path to the error for too many bytes, and the present version to that for a version conflict.
async fn explained<T>(
    client: &Client,
    path: &str,
    expected: Version,
    done: Result<T, Error>,
) -> Result<T, Failure> {
    let error = match done {
        Ok(done) => return Ok(done),
        Err(error) => error,
    };
    if let ErrorKind::TooLarge { length, limit, .. } = error.kind() {
        return Err(failure!(
            USAGE,
            "{path}: the request has {length} bytes, and servers take at most {limit} (jute.maxbuffer)"
        ));
    }
    if error.code() == Some(ErrorCode::BAD_VERSION)
        && let Ok(Some(Stat { version, .. })) = client.exists(path).await
    {
        let why = failure!(
            REFUSED,
            "{path}: the data have version {version}, not {expected}; nothing was changed"
        );
        return Err(why.because(error));
    }
    Err(error.into())
}

pub(super) async fn create(args: &CreateArgs, client: &Client) -> Result<(), Failure> {
    let data = match &args.data {
        Some(given) => data(given).await?,
        None => Bytes::new(),
    };
    let mode = match (args.container, args.ttl, args.sequential) {
        (true, ..) => CreateMode::Container,
        (_, Some(ttl), false) => CreateMode::PersistentWithTtl(ttl),
        (_, Some(ttl), true) => CreateMode::PersistentSequentialWithTtl(ttl),
        (_, None, true) => CreateMode::PersistentSequential,
        (_, None, false) => CreateMode::Persistent,
    };
    let path = &args.path;
    let created = if args.parents {
        if client.exists("/").await?.is_none() {
            say!("the chroot of --connect does not exist; creating it");
        }
        client.create_all(path, data, mode).await
    } else {
        client.create(path, data, mode).await
    };
    let created = explained(client, path, Version::ANY, created).await?;
    text::print(format!("{}\n", text::name(&created.path)))
}

/// Whether `rm` may delete the node: a refusal needs no server.
pub(super) fn may_rm(args: &RmArgs) -> Result<(), Failure> {
    let path = args.path.as_str();
    if args.recursive && PROTECTED.contains(&path) {
        return Err(failure!(
            USAGE,
            "{path} cannot be deleted recursively; name the nodes below it that should go"
        ));
    }
    Ok(())
}

pub(super) async fn rm(args: &RmArgs, client: &Client) -> Result<(), Failure> {
    if args.recursive {
        return rm_all(args, client).await;
    }
    let version = args.version.map_or(Version::ANY, Version);
    let deleted = client.delete(&args.path, version).await;
    explained(client, &args.path, version, deleted).await
}

/// Deletes a node and everything below it, if no session uses it, or with `--force`.
async fn rm_all(args: &RmArgs, client: &Client) -> Result<(), Failure> {
    if !args.force {
        // A server that lags may not know of the newest locks.
        client.sync(&args.path).await?;
        let (found, refused) = walk(client, &args.path, true).await?;
        // Nothing is deleted below a node that cannot go.
        if let Some(error) = refused.into_values().next() {
            return Err(error.into());
        }
        let there = unused(client, &found).await?;
        return rm_found(client, &args.path, &there).await;
    }
    let Err(error) = client.delete_all(&args.path).await else {
        return Ok(());
    };
    let why = match error.kind() {
        ErrorKind::NotAllDeleted { left, .. } => left.first().unwrap_or(&error),
        _ => &error,
    };
    Err(why.clone().into())
}

/// Deletes these nodes, children first, and no others: those that somebody creates meanwhile may be locks.
async fn rm_found(client: &Client, top: &str, found: &[String]) -> Result<(), Failure> {
    if found.first().is_none_or(|first| first != top) {
        return Err(failure!(REFUSED, "{top}: {NO_NODE}"));
    }
    // Whoever may not delete the node itself deletes nothing below it.
    match client.delete(top, Version::ANY).await {
        Err(error) if is_not_empty(&error) => {}
        deleted => return deleted.map_err(Failure::from),
    }
    let depth = |path: &String| path.matches('/').count();
    let levels = found.chunk_by(|one, next| depth(one) == depth(next));
    let mut left: Option<Error> = None;
    for level in levels.rev() {
        let requests = level.iter().map(|path| client.delete(path, Version::ANY));
        let mut replies = stream::iter(requests).buffered(AT_ONCE);
        while let Some(deleted) = replies.next().await {
            match deleted {
                Err(error) if error.is_no_node() => {}
                Err(error) if error.code().is_some() => left = left.or(Some(error)),
                deleted => deleted?,
            }
        }
    }
    match left {
        None => Ok(()),
        Some(error) if is_not_empty(&error) => Err(failure!(
            REFUSED,
            "{top}: nodes that were created in it meanwhile are left"
        )),
        Some(error) => Err(error.into()),
    }
}

fn is_not_empty(error: &Error) -> bool {
    error.code() == Some(ErrorCode::NOT_EMPTY)
}

/// Refuses a tree with a node of a session: its program would lose a lock, or another thing that it relies on. Returns the nodes that
/// are there. One that is not may be that of a plain lock, between two holders.
async fn unused(client: &Client, found: &[String]) -> Result<Vec<String>, Failure> {
    let stats = found
        .iter()
        .map(async |path| (path, client.exists(path).await));
    let mut stats = stream::iter(stats).buffered(AT_ONCE);
    let mut there = Vec::new();
    while let Some((path, stat)) = stats.next().await {
        let Some(stat) = stat? else {
            continue;
        };
        if let Some(owner) = text::owner(&stat) {
            return Err(failure!(
                REFUSED,
                "{path}: session {owner} uses it; nothing was deleted; --force deletes it, too"
            ));
        }
        there.push(path.clone());
    }
    Ok(there)
}

/// The data from the command line, or all of stdin for `-`. The session goes on meanwhile.
async fn data(given: &OsStr) -> Result<Bytes, Failure> {
    if given != "-" {
        return Ok(Bytes::copy_from_slice(given.as_encoded_bytes()));
    }
    let mut data = Vec::new();
    let read = tokio::io::stdin().read_to_end(&mut data).await;
    read.map_err(|error| failure!(SYSTEM, "cannot read stdin: {error}"))?;
    Ok(data.into())
}

#[cfg(test)]
mod tests {
    use lockkeeper::locks::PlainMutex;
    use lockkeeper_server::Server;

    use super::*;

    /// The node of a plain lock has one name for all holders.
    #[tokio::test]
    async fn a_lock_that_was_between_two_holders_at_the_look_is_not_deleted() {
        let server = Server::start().await.unwrap();
        let client = Client::connect(&server.connect_string()).await.unwrap();
        let lock = async |path: &str| PlainMutex::new(&client, path).unwrap().lock().await;
        client.ensure_path("/app/old").await.unwrap();
        let found = ["/app", "/app/lock", "/app/old"].map(str::to_owned);
        let there = unused(&client, &found).await.unwrap();
        let guard = lock("/app").await.unwrap();
        let left = rm_found(&client, "/app", &there).await.unwrap_err();
        assert!(
            left.to_string().contains("created in it meanwhile"),
            "{left}"
        );
        assert_eq!(client.get_children("/app").await.unwrap(), ["lock"]);
        guard.release().await.unwrap();

        let there = unused(&client, &found[1..2]).await.unwrap();
        let guard = lock("/app").await.unwrap();
        let gone = rm_found(&client, "/app/lock", &there).await.unwrap_err();
        assert!(gone.to_string().contains(NO_NODE), "{gone}");
        guard.release().await.unwrap();
    }
}
