//! `lockkeeper ls`, `get` and `stat`: show one node, or its children.

use futures::{StreamExt as _, stream};
use lockkeeper::{Client, client::SessionId, node::Stat, proto::path};

use super::{
    args::{GetArgs, LsArgs, StatArgs},
    walk::AT_ONCE,
};
use crate::{exit::Failure, text};

pub(super) async fn ls(args: &LsArgs, client: &Client) -> Result<(), Failure> {
    let parent = args.path.as_str();
    let mut names = client
        .get_children(parent)
        .await
        .map_err(Failure::Refused)?;
    names.sort_unstable();
    if !args.long {
        let lines: String = names
            .iter()
            .flat_map(|name| [text::name(name), "\n".to_owned()])
            .collect();
        return text::print(lines);
    }
    let paths = names.iter().map(|name| path::join(parent, name));
    let stats = paths.map(|path| async move { client.exists(&path).await });
    let mut stats = stream::iter(stats.collect::<Vec<_>>()).buffered(AT_ONCE);
    let heads = ["VERSION", "BYTES", "CHILDREN", "CHANGED", "SESSION", "NAME"];
    let mut rows = vec![heads.map(str::to_owned)];
    for name in &names {
        // A child that was deleted meanwhile is left out.
        if let Some(Some(stat)) = stats.next().await.transpose().map_err(Failure::Refused)? {
            rows.push([
                stat.version.to_string(),
                stat.data_length.to_string(),
                stat.num_children.to_string(),
                text::moment(stat.modified()).to_string(),
                owner(&stat),
                text::name(name),
            ]);
        }
    }
    text::print(text::table(&rows))
}

pub(super) async fn get(args: &GetArgs, client: &Client) -> Result<(), Failure> {
    let node = client.get_data(args.path.as_str()).await;
    let data = node.map_err(Failure::Refused)?.data.unwrap_or_default();
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
    let stat = client.exists(path).await.map_err(Failure::Refused)?;
    let stat = stat.ok_or_else(|| Failure::NoNode(path.to_owned()))?;
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
