//! `lockkeeper queue`: shows who holds a lock, and who waits for it.
//!
//! | file | what |
//! |---|---|
//! | `show` | the output for people and for programs |
//! | `author` | the client program that has made a node |
//!
//! Not here: reading the lock's nodes (`lockkeeper::locks::inspect`).

mod author;
mod show;

use clap::Args;
use futures::{Stream, StreamExt as _, stream};
use lockkeeper::{
    Client,
    locks::{QueueEntry, inspect},
    watch::AddWatchMode,
};

use crate::{exit::Failure, outage, paths, refusal::NO_NODE, signals, text};

/// How many events may share a listing.
const AT_ONCE: usize = 1024;

/// Behind the path of a semaphore: where kazoo's waiters for it are.
const KAZOO_LOCKS: &str = "-__lock__";

/// Show who holds a lock, and who waits for it
#[derive(Args, Debug)]
#[command(
    after_help = "The command reads the lock nodes of lockkeeper, Curator, go-zk and kazoo, for \
        every kind of lock. WHO is the text that the contender has written into its \
        node. AGE is the time since the contender entered the queue: a holder has held \
        the lock for at most so long. A waiter for a plain lock has no node and is not \
        shown. On a terminal the lines are cut to its width, except with --long. A node \
        marked (never expires) belongs to no session: only a user can delete it. The \
        marks (kazoo) and (go-zk) name the program, by the name of the node.\n\n\
        To take a lock away from a holder that does not release it, find its node with \
        --long, and delete the node with lockkeeper rm NODE. The holder is told, but it \
        decides itself when it stops.\n\n\
        Example:\n  lockkeeper queue --follow /locks/backup"
)]
pub(crate) struct QueueArgs {
    /// Look again after each change, with a line for each contender that has come, got the lock or left since the last
    /// look. One that comes and leaves between two looks is not shown
    #[arg(long, short)]
    follow: bool,

    /// Also show the nodes
    #[arg(long, short, conflicts_with = "json")]
    long: bool,

    /// Print JSON: one object, and with --follow one for each look that differs
    #[arg(long)]
    json: bool,

    /// The lock
    #[arg(value_parser = paths::lock)]
    path: String,
}

/// The contenders of a lock, and whether its node exists.
type Look = (Vec<QueueEntry>, bool);

pub(crate) async fn show(args: &QueueArgs, client: &Client) -> Result<(), Failure> {
    let mut seen: Option<Look> = None;
    if !args.follow {
        return print(args, client, &mut seen).await;
    }
    let follow = outage::persist(async || follow(args, client, &mut seen).await);
    tokio::select! {
        biased;
        done = outage::told(client, follow) => done,
        closed = signals::closed() => Err(closed),
    }
}

/// Prints what has changed since it was `seen`, and each change from then on, until the session or its servers fail.
async fn follow(args: &QueueArgs, client: &Client, seen: &mut Option<Look>) -> Result<(), Failure> {
    // The watches come before the first listing, so that no change between the two is missed.
    let (path, mode) = (&args.path, AddWatchMode::PERSISTENT_RECURSIVE);
    let below = client.add_watch(path, mode).await?;
    let beside = client
        .add_watch(&format!("{path}{KAZOO_LOCKS}"), mode)
        .await?;
    let mut changes = changes_of(stream::select(below, beside));
    loop {
        print(args, client, seen).await?;
        let Some(change) = changes.next().await else {
            return Ok(());
        };
        change?;
    }
}

/// One listing is enough for all events that have arrived meanwhile.
fn changes_of<T, E>(events: impl Stream<Item = Result<T, E>>) -> impl Stream<Item = Result<(), E>> {
    let chunks = events.ready_chunks(AT_ONCE);
    chunks.map(|chunk| chunk.into_iter().try_for_each(|event| event.map(drop)))
}

/// Prints the queue, or what has changed since it was `seen`.
async fn print(args: &QueueArgs, client: &Client, seen: &mut Option<Look>) -> Result<(), Failure> {
    let path = &args.path;
    let now = inspect(client, path).await;
    let now = now.map_err(|error| Failure::request(path, error))?;
    let exists = !now.is_empty() || client.exists(path).await?.is_some();
    let look = (now, exists);
    if seen.as_ref() == Some(&look) {
        return Ok(());
    }
    // Without the chroot every path is missing, and the lock of another path may be held.
    if !exists && client.exists("/").await?.is_none() {
        return Err(failure!(REFUSED, "{path}: {NO_NODE}"));
    }
    let width = signals::width().filter(|_| !args.long);
    text::print(if args.json {
        show::line(path, &look.0, exists)
    } else if let Some((before, _)) = seen {
        show::fitted(&show::changes(before, &look.0, args.long), width)
    } else {
        show::table(path, &look.0, args.long, exists, width)
    })?;
    *seen = Some(look);
    Ok(())
}

#[cfg(test)]
mod tests {
    use futures::{FutureExt as _, stream};

    use super::*;

    /// The end of the watch was taken for one of many events, and the command ended with success.
    #[test]
    fn the_end_behind_many_events_is_not_lost() {
        for count in [0, 2, AT_ONCE, AT_ONCE + 1] {
            let events = stream::iter(vec![Ok(()); count]).chain(stream::iter([Err("the end")]));
            let mut changes = changes_of(events.chain(stream::pending()));
            let mut next = || changes.next().now_or_never();
            if count >= AT_ONCE {
                assert_eq!(next(), Some(Some(Ok(()))), "{count}");
            }
            assert_eq!(next(), Some(Some(Err("the end"))), "{count}");
            assert_eq!(next(), None, "{count}");
        }
    }
}
