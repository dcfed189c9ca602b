//! Finds a node and everything below it, level by level. In the result, parents come before their children.

use std::collections::BTreeMap;

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, Error, proto::path};

use crate::exit::{self, Failure};

/// The most requests under way at once. A level of the tree costs one round trip for every 256 nodes.
pub(super) const AT_ONCE: usize = 256;

/// Finds the paths of a node and of its children, or of the whole tree below it. The node itself comes first in the result.
///
/// A node that is deleted meanwhile appears without children. So does one that the server refuses to list: its error is in the
/// second part of the result, by its path.
///
/// # Errors
/// When the first node does not exist or is refused, and when a listing gets no answer.
pub(super) async fn walk(
    client: &Client,
    top: &str,
    is_whole: bool,
) -> Result<(Vec<String>, BTreeMap<String, Error>), Error> {
    let (mut above, mut level) = (Vec::new(), vec![top.to_owned()]);
    let mut refused = BTreeMap::new();
    loop {
        let lists = level
            .iter()
            .map(async |path| (path, client.get_children(path).await));
        let mut lists = stream::iter(lists).buffered(AT_ONCE);
        let mut below = Vec::new();
        while let Some((path, names)) = lists.next().await {
            match names {
                Ok(names) => below.extend(names.iter().map(|name| path::join(path, name))),
                Err(error) if error.is_no_node() && path != top => {}
                Err(error) if error.code().is_some() && path != top => {
                    refused.insert(path.clone(), error);
                }
                Err(error) => return Err(error),
            }
        }
        drop(lists);
        above.append(&mut level);
        level = below;
        if level.is_empty() || !is_whole {
            above.append(&mut level);
            return Ok((above, refused));
        }
    }
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
