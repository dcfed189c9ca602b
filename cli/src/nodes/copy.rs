//! `lockkeeper export` and `import`: a tree of nodes as lines of JSON, byte for byte.
//!
//! Each line is one node: `below`, its path below the exported one (empty for that one itself); `data` as text, or `data_hex` if
//! they are not UTF-8; `acl`, its entries as text. Parents come before their children.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, CreateMode, Version, client::SessionId, node::Acl, proto::path};
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::{
    acl_entry,
    args::{ExportArgs, ImportArgs},
    change::data,
    walk::{AT_ONCE, walk},
};
use crate::{client::create_all, exit::Failure, text};

pub(super) async fn export(args: &ExportArgs, client: &Client) -> Result<(), Failure> {
    let top = args.path.as_str();
    let found = walk(client, top, None).await?;
    let reads = found.into_iter().map(async |it| {
        let (node, acl) = tokio::join!(client.get_data(&it.path), client.get_acl(&it.path));
        (it.path, node, acl)
    });
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let (mut lines, mut ephemeral) = (String::new(), 0);
    while let Some((path, node, acl)) = reads.next().await {
        let (node, acl) = match (node, acl) {
            // It was deleted meanwhile.
            (Err(error), _) | (_, Err(error)) if error.is_no_node() && path != top => continue,
            (node, acl) => (node?, acl?),
        };
        // The servers' own nodes exist on every server.
        if top == path::ROOT && (path == "/zookeeper" || path.starts_with("/zookeeper/")) {
            continue;
        }
        if node.stat.ephemeral_owner != SessionId::NONE {
            ephemeral += 1;
            continue;
        }
        if acl.acl.iter().any(acl_entry::is_hidden) {
            return Err(failure!(
                REFUSED,
                "{path}: the server hides users of its ACL, so nothing was exported; give --auth-file with an \
                     identity that has the permission a there"
            ));
        }
        let data = node.data.unwrap_or_default();
        let below = path.strip_prefix(top).unwrap_or(&path);
        let data = String::from_utf8(data.to_vec());
        let line = Line {
            below: below.trim_start_matches(path::ROOT).to_owned(),
            data_hex: data.as_ref().err().map(|it| hex::encode(it.as_bytes())),
            data: data.ok(),
            acl: acl.acl.iter().map(acl_entry::show).collect(),
        };
        lines.extend([json!(line).to_string(), "\n".to_owned()]);
    }
    if ephemeral > 0 {
        say!("ephemeral nodes that were left out: {ephemeral}");
    }
    text::print(lines)
}

/// A line of the output. Later versions may add keys, but remove none.
#[derive(Serialize, Deserialize)]
struct Line {
    below: String,
    data: Option<String>,
    data_hex: Option<String>,
    acl: Vec<String>,
}

/// A node to import.
struct Node {
    path: String,
    data: Vec<u8>,
    acl: Vec<Acl>,
}

pub(super) async fn import(args: &ImportArgs, client: &Client) -> Result<(), Failure> {
    let input = data("-".as_ref()).await?;
    let lines = (1..).zip(input.split(|byte| *byte == b'\n'));
    let lines = lines.filter(|(_, line)| !line.is_empty());
    let nodes = lines.map(|(number, line)| {
        let what = "is not one that `lockkeeper export` has written";
        let bad = || failure!(USAGE, "line {number} of stdin {what}");
        node(&args.path, line).ok_or_else(bad)
    });
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    let reads = nodes
        .iter()
        .map(async |node| (node, client.get_data(&node.path).await));
    let mut reads = stream::iter(reads).buffered(AT_ONCE);
    let mut steps = Vec::new();
    while let Some((node, present)) = reads.next().await {
        let step = match present {
            Ok(present) if present.data.as_deref().unwrap_or_default() == node.data => "same",
            Ok(_) if args.overwrite => "set",
            Err(error) if error.is_no_node() => "create",
            Err(error) => return Err(error.into()),
            Ok(_) => {
                return Err(failure!(
                    REFUSED,
                    "{} exists with other data, and nothing was changed; --overwrite replaces them",
                    node.path
                ));
            }
        };
        steps.push((node, step));
    }
    if !args.dry_run {
        for (node, step) in &steps {
            let Node { path, data, acl } = node;
            match *step {
                "same" => {}
                "set" => drop(client.set_data(path, data.clone(), Version::ANY).await?),
                _ => {
                    // Only the first one can have no parent.
                    if let Some(parent) = path::parent(path).filter(|_| *path == args.path) {
                        create_all(client, parent).await?;
                    }
                    let (data, acl) = (data.clone(), acl.clone());
                    let mode = CreateMode::Persistent;
                    client.create_with_acl(path, data, mode, acl).await?;
                }
            }
        }
    }
    let line = |(node, step): &(&Node, &str)| format!("{step:<6}  {}\n", text::name(&node.path));
    text::print(steps.iter().map(line).collect::<String>())
}

/// The node on a line; `None` if the line is not one of `export`.
fn node(top: &str, line: &[u8]) -> Option<Node> {
    let line: Line = serde_json::from_slice(line).ok()?;
    let data = match (line.data, line.data_hex) {
        (Some(data), _) => data.into_bytes(),
        (None, hex) => hex::decode(hex?).ok()?,
    };
    let acl = line.acl.iter().map(|entry| acl_entry::entry(entry).ok());
    let acl = acl.collect::<Option<_>>()?;
    let path = match &*line.below {
        "" => top.to_owned(),
        below => path::join(top, below),
    };
    path::check(&path).ok()?;
    Some(Node { path, data, acl })
}
