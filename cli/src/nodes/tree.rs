//! `lockkeeper tree`: draws a node and everything below it.

use std::fmt::Write as _;

use lockkeeper::{Client, proto::path};

use super::{
    args::TreeArgs,
    walk::{Found, but, walk},
};
use crate::{exit::Failure, text};

pub(super) async fn show(args: &TreeArgs, client: &Client) -> Result<(), Failure> {
    let (found, refused) = walk(client, &args.path, args.depth).await?;
    text::print(drawn(&found))?;
    but(refused)
}

/// One line for each node, below the line of its parent.
fn drawn(all: &[Found]) -> String {
    let mut lines = String::new();
    // The nodes to draw: index, prefix of its own line, prefix of its children's lines.
    let mut stack = vec![(0, String::new(), String::new())];
    while let Some((index, before, below)) = stack.pop() {
        let Some(found) = all.get(index) else {
            continue;
        };
        let name = match index {
            0 => found.path.as_str(),
            _ => path::name(&found.path),
        };
        let last = found.children.last();
        // Writing to a string does not fail.
        let _ = writeln!(lines, "{before}{}", text::name(name));
        for child in found.children.iter().rev() {
            let (branch, trunk) = if Some(child) == last {
                ("└── ", "    ")
            } else {
                ("├── ", "│   ")
            };
            let (branch, trunk) = (format!("{below}{branch}"), format!("{below}{trunk}"));
            stack.push((*child, branch, trunk));
        }
    }
    lines
}
