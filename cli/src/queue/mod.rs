//! `lockkeeper queue`: who holds a lock, and who waits for it.
//!
//! | file | what |
//! |---|---|
//! | `table` | for people |
//! | `json` | for programs |
//! | `changes` | what has happened between two looks |

mod changes;
mod json;
mod table;

use clap::Args;
use futures::FutureExt as _;
use lockkeeper::{AddWatchMode, Client, QueueEntry, inspect};

use crate::{client::ClientArgs, exit::Failure, paths::LockPath, text};

/// Show who holds a lock, and who waits for it
#[derive(Args, Debug)]
#[command(
    max_term_width = 80,
    after_help = "It reads the nodes of every kind of lock, lockkeeper's, Curator's, go-zk's and\n\
        kazoo's. What it says of a contender is what that one says of itself, in its\n\
        node; AGE is that of the node, so it counts from when its owner entered the\n\
        line. Those who wait for a plain lock have no nodes, and are not seen.\n\n\
        To take a lock away from somebody who does not let go: see with --long which\n\
        node it is, and then lockkeeper rm NODE. The holder is told; whether it stops\n\
        at once is up to it.\n\n\
        Example:\n  lockkeeper queue --follow /locks/backup"
)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    client: ClientArgs,

    /// Go on, with a line for each contender that comes, is granted the lock, or goes
    #[arg(long, short)]
    follow: bool,

    /// Name the nodes, too
    #[arg(long, short, conflicts_with = "json")]
    long: bool,

    /// One JSON object for each look
    #[arg(long)]
    json: bool,

    /// The lock
    #[arg(value_name = "PATH")]
    path: LockPath,
}

pub(crate) async fn run(args: QueueArgs) -> Result<u8, Failure> {
    let show = async |client: &Client| show(&args, client).await;
    args.client.with_client(show).await
}

async fn show(args: &QueueArgs, client: &Client) -> Result<(), Failure> {
    let path = args.path.as_str();
    // Before the first look, so that no change is missed between the two.
    let mut watcher = if args.follow {
        let watcher = client.add_watch(path, AddWatchMode::PERSISTENT_RECURSIVE);
        Some(watcher.await.map_err(Failure::Refused)?)
    } else {
        None
    };
    let mut seen = look(client, path).await?;
    if args.json {
        text::print(json::line(path, &seen))?;
    } else {
        let exists = !seen.is_empty() || exists(client, path).await?;
        text::print(table::text(path, &seen, args.long, exists))?;
    }
    let Some(watcher) = &mut watcher else {
        return Ok(());
    };
    loop {
        match watcher.next().await {
            Some(Err(error)) => return Err(Failure::Refused(error)),
            None => return Ok(()),
            Some(Ok(_)) => {}
        }
        // One look for all that has happened meanwhile.
        while let Some(Some(Ok(_))) = watcher.next().now_or_never() {}
        let now = look(client, path).await?;
        if now == seen {
            continue;
        }
        if args.json {
            text::print(json::line(path, &now))?;
        } else {
            text::print(changes::text(&seen, &now, args.long))?;
        }
        seen = now;
    }
}

async fn look(client: &Client, path: &str) -> Result<Vec<QueueEntry>, Failure> {
    let entries = inspect(client, path).await;
    entries.map_err(|error| Failure::Lock {
        path: path.to_owned(),
        error,
    })
}

async fn exists(client: &Client, path: &str) -> Result<bool, Failure> {
    let stat = client.exists(path).await.map_err(Failure::Refused)?;
    Ok(stat.is_some())
}
