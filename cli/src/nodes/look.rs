//! `lockkeeper ls`, `get` and `stat`: show one node, or what is below it.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, proto::path};

use serde_json::Value;

use super::{
    args::{GetArgs, LsArgs, StatArgs},
    metadata,
    walk::{AT_ONCE, but, walk},
};
use crate::{exit::Failure, refusal, text};

pub(super) async fn ls(args: &LsArgs, client: &Client) -> Result<(), Failure> {
    let depth = if args.recursive { None } else { Some(1) };
    let (found, mut refused) = walk(client, &args.path, depth).await?;
    let mut paths: Vec<_> = found.into_iter().skip(1).map(|it| it.path).collect();
    paths.sort_unstable();
    let shown = |path: &str| {
        if args.recursive {
            text::name(path)
        } else {
            text::name(path::name(path))
        }
    };
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
        lines += &metadata::line(path, &stat);
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
        Ok(text) => text::harmless_lines(text),
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
        return text::print(metadata::line(path, &stat));
    }
    let Value::Object(facts) = metadata::facts(path, &stat) else {
        return Ok(());
    };
    let rows = facts.into_iter().map(|(name, value)| {
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
