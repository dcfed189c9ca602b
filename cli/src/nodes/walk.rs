//! Finds a node and everything below it, level by level. In the result, parents come before their children.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, Error, proto::path};

use crate::exit::{self, Failure};

/// The most requests under way at once. A level of the tree costs one round trip for every 256 nodes.
pub(super) const AT_ONCE: usize = 256;

/// A node of the tree.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    /// The indices of its children in the result.
    pub(super) children: Vec<usize>,
}

/// Finds a node and `depth` levels below it, or all levels. The node itself comes first in the result.
///
/// A node that is deleted meanwhile appears without children. So does one that the server refuses to list: its error is in the
/// second part of the result, by its path.
///
/// # Errors
/// When the first node does not exist or is refused, and when a listing gets no answer.
pub(super) async fn walk(
    client: &Client,
    top: &str,
    depth: Option<usize>,
) -> Result<(Vec<Found>, BTreeMap<String, Error>), Error> {
    let found = |path| Found {
        path,
        children: Vec::new(),
    };
    let mut all = vec![found(top.to_owned())];
    let mut refused = BTreeMap::new();
    let mut level = 0..1;
    let mut levels = 0;
    while !level.is_empty() && depth != Some(levels) {
        let list = |parent: usize| {
            let path = all[parent].path.clone();
            async move { (parent, client.get_children(&path).await, path) }
        };
        let lists: Vec<_> = level.map(list).collect();
        let mut lists = stream::iter(lists).buffered(AT_ONCE);
        let next = all.len();
        while let Some((parent, names, path)) = lists.next().await {
            let mut names = match names {
                Err(error) if error.is_no_node() && parent > 0 => continue,
                Err(error) if error.code().is_some() && parent > 0 => {
                    refused.insert(path, error);
                    continue;
                }
                names => names?,
            };
            names.sort_unstable();
            for name in names {
                let child = all.len();
                all[parent].children.push(child);
                all.push(found(path::join(&path, &name)));
            }
        }
        drop(lists);
        level = next..all.len();
        levels += 1;
    }
    Ok((all, refused))
}

/// The result of a command that has shown the other nodes: reports each refusal, as find(1) does.
pub(super) fn but(mut refused: BTreeMap<String, Error>) -> Result<(), Failure> {
    let Some((_, last)) = refused.pop_last() else {
        return Ok(());
    };
    for error in refused.into_values() {
        exit::report(&error.into());
    }
    Err(last.into())
}
