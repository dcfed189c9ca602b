//! All contenders at a path, of every kind of lock, for tools and operators.
//!
//! Not here: how contenders themselves find out whose turn it is (`queue`, `kinds`).

use bytes::Bytes;
use lockkeeper_proto::{ErrorCode, OpCode, Response, SessionId, Stat, jute::Names, path};
use lockkeeper_session::{AsRaw, Client, machine::Encoded};

use crate::{
    error::LockError,
    order::{
        name::{self, Kind, Protection},
        rank,
    },
};

/// A contender at a path, as its node shows it, and its place in the queue.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueEntry {
    /// The kind of lock, and the role in it.
    pub kind: Kind,
    /// Whether it holds the lock, as far as the nodes show. The contender itself may not know yet.
    ///
    /// Of several permits that the first waiter of a semaphore asks for at once
    /// ([`Semaphore::acquire_many`](crate::Semaphore::acquire_many)), all but the newest one show as
    /// held while it waits: their nodes look like those of permits that its session holds.
    pub holds: bool,
    /// How many contenders ahead conflict with it. For a waiter of a semaphore: how many waiters
    /// are ahead.
    pub ahead: usize,
    /// The path of its node.
    pub path: String,
    /// The data of its node, which may say who the contender is; `None` for null data, and if this
    /// client may not read the node. Curator's clients write their address.
    pub data: Option<Bytes>,
    /// Whether this client may read the node.
    pub is_readable: bool,
    /// The metadata of its node: the session that owns it, when it was created. All zero if this
    /// client may not read the node.
    pub stat: Stat,
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
/// assert_eq!(entries[0].data.as_deref(), Some(&b"worker 7"[..]));
/// # guard.release().await?;
/// # Ok(()) }
/// ```
pub async fn inspect(client: &Client, path: &str) -> Result<Vec<QueueEntry>, LockError> {
    path::check(path)?;
    let children = children(client, path).await?;
    let mut entries = queue(client, path, Kind::Mutex, &children).await?;
    entries.extend(queue(client, path, Kind::Latch, &children).await?);
    let names = those(&children, |child| child == name::PLAIN);
    let holders = contenders(client, path, Kind::Plain, names).await?;
    entries.extend(of_sessions(holders));
    entries.extend(semaphore(client, path, &children).await?);
    Ok(entries)
}

/// The children of a node; none when the node does not exist.
pub(crate) async fn children(client: &Client, path: &str) -> Result<Names, LockError> {
    match client.raw().get_children(path).await {
        Err(error) if error.is_no_node() => Ok(Names::default()),
        children => Ok(children?),
    }
}

fn those(children: &Names, are_wanted: impl Fn(&str) -> bool) -> Vec<String> {
    let wanted = children.iter().filter(|child| are_wanted(child));
    wanted.map(String::from).collect()
}

/// The contenders in the queue of this kind.
async fn queue(
    client: &Client,
    path: &str,
    kind: Kind,
    children: &Names,
) -> Result<Vec<QueueEntry>, LockError> {
    let names = rank::in_order(kind, children.iter());
    let mut present = contenders(client, path, kind, names).await?;
    let names = present.iter().map(|it| path::name(&it.path));
    let ahead: Vec<usize> = rank::ahead(kind, names).collect();
    for (entry, ahead) in present.iter_mut().zip(ahead) {
        (entry.holds, entry.ahead) = (ahead == 0, ahead);
    }
    Ok(present)
}

/// A node that is not ephemeral is no lock, if its name alone does not say that it is one.
fn of_sessions(contenders: Vec<QueueEntry>) -> impl Iterator<Item = QueueEntry> {
    let is_of_session =
        |it: &QueueEntry| !it.is_readable || it.stat.ephemeral_owner != SessionId::NONE;
    contenders.into_iter().filter(is_of_session)
}

/// The holders and the waiters of a semaphore, in the layout of Curator or of kazoo.
async fn semaphore(
    client: &Client,
    path: &str,
    children: &Names,
) -> Result<Vec<QueueEntry>, LockError> {
    let has = |name: &str| children.iter().any(|child| child == name);
    let (mut holders, mut waiting) = (Vec::new(), Vec::new());
    if has(name::LEASES) {
        let directory = path::join(path, name::LEASES);
        let names = self::children(client, &directory).await?;
        let names = rank::in_order(Kind::Semaphore, names.iter());
        holders = contenders(client, &directory, Kind::Semaphore, names).await?;
    }
    if has(name::LOCKS) {
        waiting = waiters(client, &path::join(path, name::LOCKS)).await?;
        if let Some(first) = waiting.first() {
            remove_pending_permit(&mut holders, first);
        }
    }
    let kazoo = those(children, name::is_kazoo_permit);
    if !kazoo.is_empty() {
        holders.extend(contenders(client, path, Kind::Semaphore, kazoo).await?);
        waiting.extend(waiters(client, &format!("{path}{}", name::KAZOO_LOCKS)).await?);
    }
    let mut entries: Vec<_> = of_sessions(holders).collect();
    entries.sort_by_key(|holder| holder.stat.czxid);
    entries.append(&mut waiting);
    Ok(entries)
}

/// The queue of a semaphore.
async fn waiters(client: &Client, path: &str) -> Result<Vec<QueueEntry>, LockError> {
    let names = children(client, path).await?;
    let mut waiting = queue(client, path, Kind::Mutex, &names).await?;
    for waiter in &mut waiting {
        (waiter.kind, waiter.holds) = (Kind::Semaphore, false);
    }
    Ok(waiting)
}

/// Takes the permit out that the first waiter of a semaphore's queue has created, and does not hold
/// yet: its newest one. Nothing tells how many it asks for: older ones may be permits that another
/// waiter of the session was granted meanwhile.
fn remove_pending_permit(permits: &mut Vec<QueueEntry>, first: &QueueEntry) {
    let is_pending = |permit: &QueueEntry| {
        let (permit_stat, place_stat) = (&permit.stat, &first.stat);
        permit_stat.czxid > place_stat.czxid
            && permit_stat.ephemeral_owner == place_stat.ephemeral_owner
            && permit.data == first.data
    };
    let pending = permits
        .iter()
        .enumerate()
        .filter(|(_, permit)| is_pending(permit));
    if let Some((at, _)) = pending.max_by_key(|(_, permit)| permit.stat.czxid) {
        permits.remove(at);
    }
}

/// Reads the contenders with these names, all at the same time, as holders of a lock of this kind.
/// Leaves out a contender whose node is gone by then.
async fn contenders(
    client: &Client,
    directory: &str,
    kind: Kind,
    names: Vec<String>,
) -> Result<Vec<QueueEntry>, LockError> {
    let paths: Vec<_> = names
        .iter()
        .map(|name| path::join(directory, name))
        .collect();
    let read = |path: &String| Encoded::read(OpCode::GET_DATA, &[&client.raw().server_path(path)]);
    let requests = paths.iter().map(read).collect();
    let replies = client.raw().submit_all_with_backpressure(requests).await;
    let mut contenders = Vec::with_capacity(replies.len());
    for (path, reply) in paths.into_iter().zip(replies) {
        let (data, stat, is_readable) = match reply.await {
            Ok(Response::GetData(node)) => (node.data, node.stat, true),
            // It is there.
            Err(error) if error.code() == Some(ErrorCode::NO_AUTH) => {
                (None, Stat::default(), false)
            }
            Err(error) if !error.is_no_node() => return Err(error.into()),
            _ => continue,
        };
        let unmarked = |data: &Bytes| match kind {
            Kind::Plain => Protection::unmarked(data),
            _ => data.clone(),
        };
        contenders.push(QueueEntry {
            kind: Kind::of(path::name(&path)).map_or(kind, |(kind, _)| kind),
            holds: true,
            ahead: 0,
            path,
            data: data.as_ref().map(unmarked),
            is_readable,
            stat,
        });
    }
    Ok(contenders)
}
