//! A node and everything below it, level by level: parents come before their children.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, Error, proto::path};

/// How many requests are under way at a time: a tree costs a round trip for each level, and for each so many nodes of it.
pub(super) const AT_ONCE: usize = 256;

/// A node that was found.
#[derive(Debug)]
pub(super) struct Found {
    pub(super) path: String,
    /// Where its children stand among all that was found.
    pub(super) children: Vec<usize>,
    /// Whether it was not looked below it, though it may have children.
    pub(super) cut: bool,
}

/// Lists so many levels below a node; all of them if no number is given. The node itself is the first one found.
///
/// Nodes that go away meanwhile are found without children; the first one must be there.
pub(super) async fn walk(
    client: &Client,
    top: &str,
    depth: Option<usize>,
) -> Result<Vec<Found>, Error> {
    let found = |path| Found {
        path,
        children: Vec::new(),
        cut: false,
    };
    let mut all = vec![found(top.to_owned())];
    let mut level = 0..1;
    let mut levels = 0;
    while !level.is_empty() {
        if depth == Some(levels) {
            for index in level {
                all[index].cut = true;
            }
            break;
        }
        let paths: Vec<_> = all[level.clone()]
            .iter()
            .map(|it| it.path.clone())
            .collect();
        let list = |path: String| async move {
            let names = client.get_children(&path).await;
            (path, names)
        };
        let mut lists = stream::iter(paths.into_iter().map(list)).buffered(AT_ONCE);
        let next = all.len();
        for parent in level {
            let Some((path, names)) = lists.next().await else {
                break;
            };
            let mut names = match names {
                Err(error) if error.is_no_node() && parent > 0 => continue,
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
    Ok(all)
}
