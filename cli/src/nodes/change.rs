//! `lockkeeper set`, `create` and `rm`.

use std::{
    ffi::OsStr,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use lockkeeper::{Client, CreateMode, Error, Version, proto::path};

use super::{
    args::{CreateArgs, RmArgs, SetArgs},
    walk::{AT_ONCE, walk},
};
use crate::{exit::Failure, text};

/// Nodes that `rm --recursive` refuses to delete: the root, and ZooKeeper's own nodes.
const PROTECTED: [&str; 2] = ["/", "/zookeeper"];

pub(super) async fn set(args: &SetArgs, data: Bytes, client: &Client) -> Result<(), Failure> {
    let version = args.version.map_or(Version::ANY, Version);
    let set = client.set_data(args.path.as_str(), data, version);
    set.await.map_err(Failure::Refused)?;
    Ok(())
}

pub(super) async fn create(args: &CreateArgs, data: Bytes, client: &Client) -> Result<(), Failure> {
    let mode = match (args.container, args.ttl, args.sequential) {
        (true, ..) => CreateMode::Container,
        (_, Some(ttl), false) => CreateMode::PersistentWithTtl(ttl),
        (_, Some(ttl), true) => CreateMode::PersistentSequentialWithTtl(ttl),
        (_, None, true) => CreateMode::PersistentSequential,
        (_, None, false) => CreateMode::Persistent,
    };
    let path = args.path.as_str();
    if args.parents {
        create_parents(client, path)
            .await
            .map_err(Failure::Refused)?;
    }
    let created = client.create(path, data, mode).await;
    let created = created.map_err(Failure::Refused)?;
    text::print(format!("{}\n", text::name(&created.path)))
}

/// Creates the missing parents of a node. It reads before it creates, because most parents usually exist.
async fn create_parents(client: &Client, path: &str) -> Result<(), Error> {
    let mut missing = Vec::new();
    let mut above = path::parent(path);
    while let Some(parent) = above.filter(|parent| *parent != path::ROOT) {
        if client.exists(parent).await?.is_some() {
            break;
        }
        missing.push(parent);
        above = path::parent(parent);
    }
    for parent in missing.into_iter().rev() {
        match client.create(parent, "", CreateMode::Persistent).await {
            Err(error) if !error.is_node_exists() => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

pub(super) async fn rm(args: &RmArgs, client: &Client) -> Result<(), Failure> {
    let path = args.path.as_str();
    if !args.recursive {
        let version = args.version.map_or(Version::ANY, Version);
        return client.delete(path, version).await.map_err(Failure::Refused);
    }
    if PROTECTED.contains(&path) {
        return Err(Failure::Protected(path.to_owned()));
    }
    rm_all(client, path).await.map_err(Failure::Refused)
}

/// Deletes a node and everything below it, children first. A node that somebody else has deleted meanwhile is no error.
async fn rm_all(client: &Client, path: &str) -> Result<(), Error> {
    let found = walk(client, path, None).await?;
    let delete = |path: String| async move {
        match client.delete(&path, Version::ANY).await {
            Err(error) if !error.is_no_node() => Err(error),
            _ => Ok(()),
        }
    };
    // The client sends the deletes in this order, and the server applies them in this order.
    let deletes = found.into_iter().rev().map(|found| delete(found.path));
    let mut deletes = stream::iter(deletes).buffered(AT_ONCE);
    while let Some(deleted) = deletes.next().await {
        deleted?;
    }
    Ok(())
}

/// The data from the command line, or all of stdin for `-`.
///
/// Reading stdin may take long. The caller reads it before it connects, so that no session has to be kept meanwhile.
pub(super) fn data(given: &OsStr) -> Result<Bytes, Failure> {
    if given != "-" {
        return Ok(Bytes::copy_from_slice(given.as_bytes()));
    }
    let mut data = Vec::new();
    let read = io::stdin().lock().read_to_end(&mut data);
    read.map_err(Failure::Input)?;
    Ok(data.into())
}
