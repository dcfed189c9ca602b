//! `lockkeeper queue`: shows who holds a lock, and who waits for it.
//!
//! | file | what |
//! |---|---|
//! | `table` | the output for people |
//! | `json` | the output for programs |
//! | `changes` | the changes between two listings |
//! | `author` | the client program that has written a node |
//!
//! Not here: reading the lock's nodes (`lockkeeper::locks::inspect`).

mod author;
mod changes;
mod json;
mod table;

use std::pin::pin;

use clap::Args;
use futures::{FutureExt as _, Stream, StreamExt as _};
use lockkeeper::{
    Client,
    locks::{QueueEntry, inspect},
    watch::AddWatchMode,
};

use crate::{client::ClientArgs, exit::Failure, paths, text};

/// Show who holds a lock, and who waits for it
#[derive(Args, Debug)]
#[command(
    after_help = "The command reads the lock nodes of lockkeeper, Curator, go-zk and kazoo, for\n\
        every kind of lock. WHO is the text that the contender has written into its\n\
        node. AGE is the time since the contender entered the queue. A waiter for a\n\
        plain lock has no node and is not shown. On a terminal the lines are cut to its\n\
        width, except with --long. A node marked (never expires) belongs to no session:\n\
        only a user can delete it. The marks (curator), (kazoo) and (go-zk) name the\n\
        program, where the name of the node or its data tell.\n\n\
        To take a lock away from a holder that does not release it, find its node with\n\
        --long, and delete the node with lockkeeper rm NODE. The holder is told, but it\n\
        decides itself when it stops.\n\n\
        Example:\n  lockkeeper queue --follow /locks/backup"
)]
pub(crate) struct QueueArgs {
    #[command(flatten)]
    client: ClientArgs,

    /// Continue, with a line for each contender that enters the queue, gets the lock, or leaves
    #[arg(long, short)]
    follow: bool,

    /// Also show the nodes
    #[arg(long, short, conflicts_with = "json")]
    long: bool,

    /// Print JSON: one object, and with --follow one for each change
    #[arg(long)]
    json: bool,

    /// The lock
    #[arg(value_parser = paths::lock)]
    path: String,
}

pub(crate) async fn run(args: QueueArgs) -> Result<u8, Failure> {
    let show = async |client: &Client| show(&args, client).await;
    args.client.with_client(show).await
}

async fn show(args: &QueueArgs, client: &Client) -> Result<(), Failure> {
    let path = &args.path;
    // The watch comes before the first listing, so that no change between the two is missed.
    let mut watcher = if args.follow {
        let watcher = client.add_watch(path, AddWatchMode::PERSISTENT_RECURSIVE);
        Some(watcher.await?)
    } else {
        None
    };
    let mut seen = look(client, path).await?;
    if args.json {
        text::print(json::line(path, &seen))?;
    } else {
        let exists = !seen.is_empty() || client.exists(path).await?.is_some();
        let width = text::width().filter(|_| !args.long);
        text::print(table::text(path, &seen, args.long, exists, width))?;
    }
    let Some(watcher) = &mut watcher else {
        return Ok(());
    };
    let mut closed = pin!(text::closed());
    loop {
        // One listing is enough for all events that have arrived meanwhile.
        let newest = tokio::select! {
            biased;
            newest = newest(watcher) => newest,
            closed = &mut closed => return Err(closed),
        };
        match newest {
            Some(Err(error)) => return Err(error.into()),
            None => return Ok(()),
            Some(Ok(_)) => {}
        }
        let now = look(client, path).await?;
        if now == seen {
            continue;
        }
        if args.json {
            text::print(json::line(path, &now))?;
        } else {
            let changes = changes::text(&seen, &now, args.long);
            text::print(table::fitted(
                &changes,
                text::width().filter(|_| !args.long),
            ))?;
        }
        seen = now;
    }
}

/// Waits for an event, and takes all that have arrived. Returns the last one, or the end.
async fn newest<T, E>(
    events: &mut (impl Stream<Item = Result<T, E>> + Unpin),
) -> Option<Result<T, E>> {
    let mut newest = events.next().await;
    while let Some(Ok(_)) = newest
        && let Some(more) = events.next().now_or_never()
    {
        newest = more;
    }
    newest
}

async fn look(client: &Client, path: &str) -> Result<Vec<QueueEntry>, Failure> {
    let entries = inspect(client, path).await;
    entries.map_err(|error| Failure::lock(path, error))
}

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;

    /// The end of the watch was taken for one of many events, and the command ended with success.
    #[test]
    fn the_end_behind_many_events_is_not_lost() {
        let mut events = stream::iter([Ok(1), Ok(2), Err("the end")]).chain(stream::pending());
        assert_eq!(
            newest(&mut events).now_or_never(),
            Some(Some(Err("the end")))
        );
        let mut events = stream::iter([Ok::<_, ()>(1), Ok(2)]).chain(stream::pending());
        assert_eq!(newest(&mut events).now_or_never(), Some(Some(Ok(2))));
    }
}
