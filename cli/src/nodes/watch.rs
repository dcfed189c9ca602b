//! `lockkeeper watch`: prints a line for each event.

use std::{num::NonZero, pin::pin};

use lockkeeper::{
    Client,
    watch::{AddWatchMode, EventType, WatchNotice},
};

use serde_json::json;

use super::args::WatchArgs;
use crate::{exit::Failure, text};

pub(super) async fn watch(args: &WatchArgs, client: &Client) -> Result<(), Failure> {
    let path = &args.path;
    let mode = if args.recursive {
        AddWatchMode::PERSISTENT_RECURSIVE
    } else {
        AddWatchMode::PERSISTENT
    };
    let mut watcher = client.add_watch(path, mode).await?;
    let mut closed = pin!(text::closed());
    let mut left = args.count.map(NonZero::get);
    while left != Some(0) {
        let notice = tokio::select! {
            biased;
            notice = watcher.next() => notice,
            closed = &mut closed => return Err(closed),
        };
        let Some(notice) = notice else {
            break;
        };
        let (what, node) = match notice? {
            WatchNotice::Event(event) => (word(event.event_type), event.path),
            _ => ("missed", path.to_owned()),
        };
        let now = text::now();
        text::print(if args.json {
            let event = json!({"time_ms": text::millis(now), "event": what, "path": node});
            format!("{event}\n")
        } else {
            format!("{}  {what:<8}  {}\n", text::moment(now), text::name(&node))
        })?;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// The word for an event in the output.
fn word(event: EventType) -> &'static str {
    match event {
        EventType::NODE_CREATED => "created",
        EventType::NODE_DATA_CHANGED => "changed",
        EventType::NODE_DELETED => "deleted",
        EventType::NODE_CHILDREN_CHANGED => "children",
        _ => "event",
    }
}
