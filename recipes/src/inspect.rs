//! Who holds and who waits at a path, of whichever recipe, as anybody may look it up.
//!
//! Not here: what a recipe's own contenders look at before they are granted anything (`line`, `semaphore`).

use lockkeeper_proto::{
    SessionId,
    path::{self, PathError},
};
use lockkeeper_session::{Client, Error as SessionError};

use crate::{
    error::Error,
    node::name::{self, Protection},
    participants::{Participant, participants},
    queue::rank::{self, Kind},
};

/// As what somebody contends.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Recipe {
    /// For a mutex: ours, Curator's, go-zk's, or kazoo's, whose writers have the same names.
    Mutex,
    /// To read, for a read/write lock.
    Read,
    /// To write, for a read/write lock.
    Write,
    /// For the lead.
    Latch,
    /// For leases of a semaphore: ours, Curator's or kazoo's.
    Semaphore,
    /// For a plain lock.
    Plain,
}

/// Where a contender stands.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEntry {
    /// As what it contends.
    pub recipe: Recipe,
    /// Whether it holds what it contends for, as far as nodes tell. It may not know yet.
    pub holds: bool,
    /// How many are ahead with whom it conflicts; of those who wait for a semaphore, how many wait before it.
    pub ahead: usize,
    /// Who it is.
    pub participant: Participant,
}

/// Looks up who contends at this path, of whichever recipe: the lines one after the other, each in the order in which
/// its contenders have their turn. Empty when the lock is free, and when there is nothing at the path.
///
/// A look from outside: by the time of the answer it may be over. Contenders that leave while it is taken are left out. Those
/// who wait for a plain lock cannot be seen: they have no nodes.
///
/// # Errors
/// [`Error::Session`]; a path that breaks a rule.
///
/// # Cost
/// Two round trips; of a semaphore, three.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = lockkeeper_server::Server::start().await?;
/// # let client = lockkeeper_session::Client::connect(&server.connect_string()).await?;
/// use lockkeeper_recipes::{Mutex, inspect};
///
/// let mutex = Mutex::new(&client, "/locks/orders")?.with_data("worker 7");
/// let guard = mutex.lock().await?;
/// let entries = inspect(&client, "/locks/orders").await?;
/// assert!(entries[0].holds);
/// assert_eq!(entries[0].participant.data.as_deref(), Some(&b"worker 7"[..]));
/// # guard.release().await?;
/// # Ok(()) }
/// ```
pub async fn inspect(client: &Client, path: &str) -> Result<Vec<QueueEntry>, Error> {
    path::check(path).map_err(|problem| SessionError::from(PathError::new(path, problem)))?;
    let client = client.without_deadline();
    let children = children(&client, path).await?;
    let mut entries = line(&client, path, Kind::Mutex, &children).await?;
    entries.extend(line(&client, path, Kind::Latch, &children).await?);
    entries.extend(plain(&client, path, &children).await?);
    entries.extend(semaphore(&client, path, &children).await?);
    Ok(entries)
}

/// Those who contend in the line of this kind.
async fn line(
    client: &Client,
    path: &str,
    kind: Kind,
    children: &[String],
) -> Result<Vec<QueueEntry>, Error> {
    let present = participants(client, path, rank::in_order(kind, children.to_vec())).await?;
    let names = present.iter().map(|it| path::name(&it.path));
    let ahead: Vec<usize> = rank::ahead(kind, names).collect();
    let standing = |(participant, ahead): (Participant, usize)| QueueEntry {
        recipe: Recipe::of(kind, path::name(&participant.path)),
        holds: ahead == 0,
        ahead,
        participant,
    };
    Ok(present.into_iter().zip(ahead).map(standing).collect())
}

impl Recipe {
    /// What a contender in the line of this kind is, by its name.
    fn of(kind: Kind, contender: &str) -> Self {
        let marker = name::parse(contender, kind.markers()).map(|(marker, _)| marker);
        match marker {
            Some(name::READ | name::KAZOO_READ) => Self::Read,
            Some(name::WRITE) => Self::Write,
            _ if kind == Kind::Latch => Self::Latch,
            _ => Self::Mutex,
        }
    }
}

/// Who holds a plain lock.
async fn plain(client: &Client, path: &str, children: &[String]) -> Result<Vec<QueueEntry>, Error> {
    let names = children.iter().filter(|child| *child == name::PLAIN);
    let mut holders = participants(client, path, names.cloned().collect()).await?;
    // What lasts is no lock, whatever its name.
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

/// Who holds leases of a semaphore, in Curator's layout or in kazoo's, and who waits for some.
async fn semaphore(
    client: &Client,
    path: &str,
    children: &[String],
) -> Result<Vec<QueueEntry>, Error> {
    let has = |name: &str| children.iter().any(|child| child == name);
    let (mut holders, mut waiting) = (Vec::new(), Vec::new());
    if has(name::LEASES) {
        let directory = path::join(path, name::LEASES);
        let mut names = self::children(client, &directory).await?;
        names.retain(|child| name::parse(child, &[name::LEASE]).is_some());
        holders = participants(client, &directory, names).await?;
    }
    if has(name::LOCKS) {
        let heads = path::join(path, name::LOCKS);
        let names = self::children(client, &heads).await?;
        waiting = line(client, &heads, Kind::Mutex, &names).await?;
    }
    let kazoo: Vec<_> = (children.iter().filter(|child| name::is_kazoo_lease(child)))
        .cloned()
        .collect();
    if !kazoo.is_empty() {
        let heads = format!("{path}{}", name::KAZOO_LOCKS);
        let names = self::children(client, &heads).await?;
        holders.append(&mut participants(client, path, kazoo).await?);
        waiting.append(&mut line(client, &heads, Kind::Mutex, &names).await?);
    }
    holders.retain(|holder| holder.stat.ephemeral_owner != SessionId::NONE);
    holders.sort_by_key(|holder| holder.stat.czxid);
    let standing = |holds: bool, ahead: usize, participant: Participant| QueueEntry {
        recipe: Recipe::Semaphore,
        holds,
        ahead,
        participant,
    };
    let holders = holders.into_iter().map(|holder| standing(true, 0, holder));
    let waiting = waiting
        .into_iter()
        .map(|waiter| standing(false, waiter.ahead, waiter.participant));
    Ok(holders.chain(waiting).collect())
}

/// The children of a node; none when it is not there.
async fn children(client: &Client, path: &str) -> Result<Vec<String>, Error> {
    match client.get_children(path).await {
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        children => Ok(children?),
    }
}
