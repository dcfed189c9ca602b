//! `lockkeeper ls`, `get`, `stat` and `config`: show one node, or what is below it.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, client::SessionId, node::Stat, proto::path};

use super::{
    args::{GetArgs, LsArgs, StatArgs},
    metadata,
    walk::{AT_ONCE, walk},
};
use crate::{exit::Failure, refusal, text};

pub(super) async fn ls(args: &LsArgs, client: &Client) -> Result<(), Failure> {
    let depth = if args.recursive { None } else { Some(1) };
    let found = walk(client, args.path.as_str(), depth).await;
    let mut paths: Vec<_> = found?.into_iter().skip(1).map(|it| it.path).collect();
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
        return text::print(lines);
    }
    let stats = paths
        .iter()
        .map(async |path: &String| client.exists(path).await);
    let mut stats = stream::iter(stats.collect::<Vec<_>>()).buffered(AT_ONCE);
    let heads = ["VERSION", "BYTES", "CHILDREN", "CHANGED", "SESSION", "NAME"];
    let mut rows = vec![heads.map(str::to_owned)];
    let mut lines = String::new();
    for path in &paths {
        // A node that was deleted meanwhile is left out.
        let Some(Some(stat)) = stats.next().await.transpose()? else {
            continue;
        };
        lines += &metadata::line(path, &stat);
        rows.push([
            stat.version.to_string(),
            stat.data_length.to_string(),
            stat.num_children.to_string(),
            text::moment(stat.modified()).to_string(),
            owner(&stat),
            shown(path),
        ]);
    }
    text::print(if args.json { lines } else { text::table(&rows) })
}

pub(super) async fn get(args: &GetArgs, client: &Client) -> Result<(), Failure> {
    let node = client.get_data(args.path.as_str()).await;
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
    let path = args.path.as_str();
    // `exists` needs no read permission. The other reads report a missing node themselves, but they need it.
    let stat = client.exists(path).await?;
    let stat = stat.ok_or_else(|| failure!(REFUSED, "{path}: {}", refusal::NO_NODE))?;
    if args.json {
        return text::print(metadata::line(path, &stat));
    }
    let rows = [
        ("path", text::name(path)),
        ("data", format!("{} bytes", stat.data_length)),
        ("version", stat.version.to_string()),
        ("created", text::moment(stat.created()).to_string()),
        ("changed", text::moment(stat.modified()).to_string()),
        ("children", stat.num_children.to_string()),
        ("session", owner(&stat)),
        ("czxid", stat.czxid.to_string()),
        ("mzxid", stat.mzxid.to_string()),
        ("pzxid", stat.pzxid.to_string()),
        ("cversion", stat.cversion.to_string()),
        ("aversion", stat.aversion.to_string()),
    ];
    text::print(text::table(
        &rows.map(|(name, value)| [name.to_owned(), value]),
    ))
}

/// The session that an ephemeral node belongs to; `-` for other nodes.
pub(super) fn owner(stat: &Stat) -> String {
    match stat.ephemeral_owner {
        SessionId::NONE => "-".to_owned(),
        owner => owner.to_string(),
    }
}

/// The configuration of the ensemble, as the servers write it.
pub(super) async fn config(client: &Client) -> Result<(), Failure> {
    let config = client.get_config().await?;
    let data = config.data.unwrap_or_default();
    text::print(text::harmless_lines(&String::from_utf8_lossy(&data)))
}
