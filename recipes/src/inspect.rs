//! All contenders at a path, of every recipe, for tools and operators.
//!
//! Not here: how contenders themselves find out whose turn it is (`queue`, `kinds`).

use lockkeeper_proto::{
    SessionId,
    path::{self, PathError},
};
use lockkeeper_session::{Client, Error as SessionError};

use crate::{
    error::LockError,
    order::{
        name::{self, Protection},
        rank::{self, Kind},
        recipe::Recipe,
    },
    participants::{self, Participant, participants, remove_pending_lease},
};

/// A contender at a path, and its place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEntry {
    /// Its recipe and role.
    pub recipe: Recipe,
    /// Whether it holds the lock, as far as the nodes show. The contender itself may not know yet.
    pub holds: bool,
    /// How many contenders ahead conflict with it. For a waiter of a semaphore: how many waiters
    /// are ahead.
    pub ahead: usize,
    /// Its node.
    pub participant: Participant,
}

/// Lists all contenders at a path, of every recipe. Each queue is in its order, and one queue comes
/// after the other.
///
/// The list is empty when the lock is free, and when the path does not exist.
///
/// The answer may be out of date when it arrives. A contender that leaves during the call is left
/// out. Waiters of a plain lock cannot be seen: they have no nodes.
///
/// # Errors
/// [`LockError::Session`] when a request fails, or the path is invalid.
///
/// # Cost
/// Two round trips; three for a semaphore.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// # mod lockkeeper { pub use lockkeeper_recipes::Mutex; pub mod locks { pub use lockkeeper_recipes::inspect; } }
/// use lockkeeper::{Mutex, locks::inspect};
///
/// let mutex = Mutex::new(&client, "/locks/orders")?.with_data("worker 7");
/// let guard = mutex.lock().await?;
/// let entries = inspect(&client, "/locks/orders").await?;
/// assert!(entries[0].holds);
/// assert_eq!(entries[0].participant.data.as_deref(), Some(&b"worker 7"[..]));
/// # guard.release().await?;
/// # Ok(()) }
/// ```
pub async fn inspect(client: &Client, path: &str) -> Result<Vec<QueueEntry>, LockError> {
    path::check(path).map_err(|problem| SessionError::from(PathError::new(path, problem)))?;
    let client = client.without_deadline();
    let children = participants::children(&client, path).await?;
    let mut entries = queue(&client, path, Kind::Mutex, &children).await?;
    entries.extend(queue(&client, path, Kind::Latch, &children).await?);
    entries.extend(plain(&client, path, &children).await?);
    entries.extend(semaphore(&client, path, &children).await?);
    Ok(entries)
}

/// The contenders in the queue of this kind.
async fn queue(
    client: &Client,
    path: &str,
    kind: Kind,
    children: &[String],
) -> Result<Vec<QueueEntry>, LockError> {
    let present = participants(client, path, rank::in_order(kind, children.to_vec())).await?;
    let names = present.iter().map(|it| path::name(&it.path));
    let ahead: Vec<usize> = rank::ahead(kind, names).collect();
    let entry = |(participant, ahead): (Participant, usize)| {
        Some(QueueEntry {
            recipe: Recipe::of(path::name(&participant.path))?.0,
            holds: ahead == 0,
            ahead,
            participant,
        })
    };
    Ok(present.into_iter().zip(ahead).filter_map(entry).collect())
}

/// The holder of a plain lock.
async fn plain(
    client: &Client,
    path: &str,
    children: &[String],
) -> Result<Vec<QueueEntry>, LockError> {
    let names = children.iter().filter(|child| *child == name::PLAIN);
    let mut holders = participants(client, path, names.cloned().collect()).await?;
    // A node with this name that is not ephemeral is no lock.
    holders.retain(|holder| holder.stat.ephemeral_owner != SessionId::NONE);
    let holds = |mut participant: Participant| {
        participant.data = participant.data.as_ref().map(Protection::unmarked);
        QueueEntry {
            recipe: Recipe::Plain,
            holds: true,
            ahead: 0,
            participant,
        }
    };
    Ok(holders.into_iter().map(holds).collect())
}

/// The holders and the waiters of a semaphore, in the layout of Curator or of kazoo.
async fn semaphore(
    client: &Client,
    path: &str,
    children: &[String],
) -> Result<Vec<QueueEntry>, LockError> {
    let has = |name: &str| children.iter().any(|child| child == name);
    let (mut holders, mut waiting) = (Vec::new(), Vec::new());
    if has(name::LEASES) {
        let directory = path::join(path, name::LEASES);
        let mut names = participants::children(client, &directory).await?;
        names.retain(|child| name::parse(child, &[name::LEASE]).is_some());
        holders = participants(client, &directory, names).await?;
    }
    if has(name::LOCKS) {
        let queue_path = path::join(path, name::LOCKS);
        let names = participants::children(client, &queue_path).await?;
        waiting = queue(client, &queue_path, Kind::Mutex, &names).await?;
        if let Some(first) = waiting.first() {
            remove_pending_lease(&mut holders, &first.participant);
        }
    }
    let kazoo: Vec<_> = (children.iter().filter(|child| name::is_kazoo_lease(child)))
        .cloned()
        .collect();
    if !kazoo.is_empty() {
        let queue_path = format!("{path}{}", name::KAZOO_LOCKS);
        let names = participants::children(client, &queue_path).await?;
        holders.append(&mut participants(client, path, kazoo).await?);
        waiting.append(&mut queue(client, &queue_path, Kind::Mutex, &names).await?);
    }
    holders.retain(|holder| holder.stat.ephemeral_owner != SessionId::NONE);
    holders.sort_by_key(|holder| holder.stat.czxid);
    let entry = |holds: bool, ahead: usize, participant: Participant| QueueEntry {
        recipe: Recipe::Semaphore,
        holds,
        ahead,
        participant,
    };
    let holders = holders.into_iter().map(|holder| entry(true, 0, holder));
    let waiting = waiting
        .into_iter()
        .map(|waiter| entry(false, waiter.ahead, waiter.participant));
    Ok(holders.chain(waiting).collect())
}
