//! `lockkeeper export` and `import`: a tree of nodes as lines of JSON, byte for byte.
//!
//! Each line is one node: `below`, its path below the exported one (empty for that one itself); `data` as text, or `data_hex` if
//! they are not UTF-8; `acl`, its entries as text. Parents come before their children.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, CreateMode, Error, Version, client::SessionId, node::Acl, proto::path};
use serde_json::{Value, json};

use super::{
    acl_entry,
    args::{ExportArgs, ImportArgs},
    walk::{AT_ONCE, walk},
};
use crate::{exit::Failure, text};

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
        let as_text = std::str::from_utf8(&data).ok();
        let below = path
            .strip_prefix(top)
            .unwrap_or(&path)
            .trim_start_matches(path::ROOT);
        let entries: Vec<String> = acl.acl.iter().map(acl_entry::show).collect();
        let line = json!({
            "below": below,
            "data": as_text,
            "data_hex": as_text.is_none().then(|| hex::encode(&data)),
            "acl": entries,
        });
        lines.extend([line.to_string(), "\n".to_owned()]);
    }
    if ephemeral > 0 {
        say!("ephemeral nodes that were left out: {ephemeral}");
    }
    text::print(lines)
}

/// A node to import.
struct Node {
    path: String,
    data: Vec<u8>,
    acl: Vec<Acl>,
}

pub(super) async fn import(
    args: &ImportArgs,
    input: &[u8],
    client: &Client,
) -> Result<(), Failure> {
    let nodes = (1..).zip(input.split(|byte| *byte == b'\n'));
    let nodes = nodes
        .filter(|(_, line)| !line.is_empty())
        .map(|(number, line)| {
            node(args.path.as_str(), line).ok_or_else(|| {
                failure!(
                    USAGE,
                    "line {number} of stdin is not one that `lockkeeper export` has written"
                )
            })
        });
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    let reads = nodes
        .iter()
        .map(async |node| client.get_data(&node.path).await);
    let mut reads = stream::iter(reads.collect::<Vec<_>>()).buffered(AT_ONCE);
    let (mut steps, mut lines) = (Vec::new(), Vec::new());
    for node in &nodes {
        let step = match reads.next().await {
            Some(Ok(present)) if present.data.as_deref().unwrap_or_default() == node.data => "same",
            Some(Ok(_)) if !args.overwrite => {
                return Err(failure!(
                    REFUSED,
                    "{} exists with other data, and nothing was changed; --overwrite replaces them",
                    node.path
                ));
            }
            Some(Ok(_)) => "set",
            Some(Err(error)) if error.is_no_node() => "create",
            Some(Err(error)) => return Err(error.into()),
            None => break,
        };
        lines.push(format!("{:<6}  {}\n", step, text::name(&node.path)));
        steps.push(step);
    }
    drop(reads);
    if !args.dry_run {
        for (node, step) in nodes.iter().zip(steps) {
            apply(client, node, step).await?;
        }
    }
    text::print(lines.concat())
}

async fn apply(client: &Client, node: &Node, step: &str) -> Result<(), Error> {
    let (path, data) = (node.path.as_str(), node.data.clone());
    match step {
        "same" => Ok(()),
        "set" => client.set_data(path, data, Version::ANY).await.map(drop),
        _ => {
            let create = || {
                let (data, acl) = (data.clone(), node.acl.clone());
                client.create_with_acl(path, data, CreateMode::Persistent, acl)
            };
            match create().await {
                Err(error) if error.is_no_node() => {}
                created => return created.map(drop),
            }
            // Only the first node can have no parent.
            if let Some(parent) = path::parent(path) {
                match client.create_all(parent, "", CreateMode::Persistent).await {
                    Err(error) if !error.is_node_exists() => return Err(error),
                    _ => {}
                }
            }
            create().await.map(drop)
        }
    }
}

/// The node on a line; `None` if the line is not one of `export`.
fn node(top: &str, line: &[u8]) -> Option<Node> {
    let line: Value = serde_json::from_slice(line).ok()?;
    let below = line.get("below")?.as_str()?;
    let data = match (line.get("data")?, line.get("data_hex")?) {
        (Value::String(data), _) => data.clone().into_bytes(),
        (_, Value::String(hex)) => hex::decode(hex).ok()?,
        _ => return None,
    };
    let entries = line.get("acl")?.as_array()?.iter();
    let acl = entries
        .map(|entry| acl_entry::entry(entry.as_str()?).ok())
        .collect::<Option<_>>()?;
    let path = match below {
        "" => top.to_owned(),
        below => path::join(top, below),
    };
    path::check(&path).ok()?;
    Some(Node { path, data, acl })
}
