//! `lockkeeper set`, `create` and `rm`.

use std::{
    ffi::OsStr,
    io::{self, Read as _},
    os::unix::ffi::OsStrExt as _,
};

use bytes::Bytes;
use futures::{StreamExt as _, stream};
use lockkeeper::{Client, CreateMode, Error, Version, proto::ErrorCode};

use super::{
    args::{CreateArgs, RmArgs, SetArgs},
    walk::{AT_ONCE, walk},
};
use crate::{
    exit::{self, Failure},
    text,
};

/// Nodes that `rm --recursive` refuses to delete: the root, and ZooKeeper's own nodes.
const PROTECTED: [&str; 2] = ["/", "/zookeeper"];

pub(super) async fn set(args: &SetArgs, data: Bytes, client: &Client) -> Result<(), Failure> {
    let (path, version) = (
        args.path.as_str(),
        args.expected.version.map_or(Version::ANY, Version),
    );
    match client.set_data(path, data, version).await {
        Ok(_) => Ok(()),
        Err(error) => Err(with_version(path, version, error, client).await),
    }
}

/// Adds the present version to the error for a version conflict.
async fn with_version(path: &str, expected: Version, error: Error, client: &Client) -> Failure {
    if error.code() != Some(ErrorCode::BAD_VERSION) {
        return error.into();
    }
    match client.exists(path).await {
        Ok(Some(stat)) => {
            let present = stat.version;
            let message = format!(
                "{path}: the data have version {present}, not {expected}; nothing was changed"
            );
            Failure::new(exit::REFUSED, message).because(error)
        }
        _ => error.into(),
    }
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
    let created = if args.parents {
        client.create_all(path, data, mode).await
    } else {
        client.create(path, data, mode).await
    };
    let created = created?;
    text::print(format!("{}\n", text::name(&created.path)))
}

pub(super) async fn rm(args: &RmArgs, client: &Client) -> Result<(), Failure> {
    let path = args.path.as_str();
    if !args.recursive {
        let version = args.expected.version.map_or(Version::ANY, Version);
        return match client.delete(path, version).await {
            Ok(()) => Ok(()),
            Err(error) => Err(with_version(path, version, error, client).await),
        };
    }
    if PROTECTED.contains(&path) {
        return Err(failure!(
            USAGE,
            "{path} cannot be deleted recursively; name the nodes below it that should go"
        ));
    }
    Ok(rm_all(client, path).await?)
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
    read.map_err(|error| failure!(SYSTEM, "cannot read stdin: {error}"))?;
    Ok(data.into())
}
