//! `lockkeeper ls`, `get` and `stat`.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, node::Stat, proto::path};
use serde_json::{Value, json};

use super::{
    args::{GetArgs, LsArgs, StatArgs},
    walk::{AT_ONCE, but, walk},
};
use crate::{escape, exit::Failure, refusal, text};

pub(super) async fn ls(args: &LsArgs, client: &Client) -> Result<(), Failure> {
    let is_whole = args.recursive;
    let (found, mut refused) = walk(client, &args.path, is_whole).await?;
    let mut paths: Vec<_> = found.into_iter().skip(1).collect();
    paths.sort_unstable();
    let shown = |path| text::name(if is_whole { path } else { path::name(path) });
    if !args.long && !args.json {
        let lines: String = paths.iter().map(|path| shown(path) + "\n").collect();
        text::print(lines)?;
        return but(refused);
    }
    let stats = paths
        .iter()
        .map(async |path| (path, client.exists(path).await));
    let mut stats = stream::iter(stats).buffered(AT_ONCE);
    let heads = ["VERSION", "BYTES", "CHILDREN", "CHANGED", "SESSION", "NAME"];
    let mut rows = vec![heads.map(str::to_owned)];
    let mut lines = String::new();
    while let Some((path, stat)) = stats.next().await {
        let stat = match stat {
            Ok(Some(stat)) => stat,
            // A node that was deleted meanwhile is left out.
            Ok(None) => continue,
            Err(error) if error.code().is_some() => {
                refused.insert(path.clone(), error);
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        lines += &line(path, &stat);
        rows.push([
            stat.version.to_string(),
            stat.data_length.to_string(),
            stat.num_children.to_string(),
            text::moment(stat.modified()).to_string(),
            text::owner(&stat).unwrap_or("-".to_owned()),
            shown(path),
        ]);
    }
    text::print(if args.json { lines } else { text::table(&rows) })?;
    but(refused)
}

pub(super) async fn get(args: &GetArgs, client: &Client) -> Result<(), Failure> {
    let node = client.get_data(&args.path).await;
    let data = node?.data.unwrap_or_default();
    if !text::is_terminal() {
        return text::print(&data);
    }
    let shown = match std::str::from_utf8(&data) {
        Ok(text) => escape::harmless_lines(text),
        Err(_) => format!("{} (not UTF-8)\n", text::data_in_a_line(Some(&data))),
    };
    text::print(shown)
}

pub(super) async fn stat(args: &StatArgs, client: &Client) -> Result<(), Failure> {
    let path = &args.path;
    // `exists` needs no read permission. The other reads report a missing node themselves, but they need it.
    let stat = client.exists(path).await?;
    let stat = stat.ok_or_else(|| failure!(REFUSED, "{path}: {}", refusal::NO_NODE))?;
    if args.json {
        return text::print(line(path, &stat));
    }
    let facts = facts(path, &stat);
    let facts = facts.as_object().into_iter().flatten();
    let rows = facts.map(|(name, value)| {
        let value = match name.as_str() {
            "path" => text::name(path),
            "created_ms" => text::moment(stat.created()).to_string(),
            "changed_ms" => text::moment(stat.modified()).to_string(),
            "session" => text::owner(&stat).unwrap_or("-".to_owned()),
            _ => value.to_string(),
        };
        [name.trim_end_matches("_ms").to_owned(), value]
    });
    text::print(text::table(&rows.collect::<Vec<_>>()))
}

/// A node's metadata as JSON: one object in one line. Later versions may add keys, but remove none.
fn line(path: &str, stat: &Stat) -> String {
    format!("{}\n", facts(path, stat))
}

fn facts(path: &str, stat: &Stat) -> Value {
    json!({
        "path": path,
        "version": stat.version.0,
        "bytes": stat.data_length,
        "children": stat.num_children,
        "created_ms": stat.ctime,
        "changed_ms": stat.mtime,
        "session": text::owner(stat),
        "czxid": stat.czxid.0,
        "mzxid": stat.mzxid.0,
        "pzxid": stat.pzxid.0,
        "cversion": stat.cversion.0,
        "aversion": stat.aversion.0,
    })
}
