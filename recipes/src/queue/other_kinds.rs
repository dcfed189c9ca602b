//! Nodes of another kind of lock in the directory of a lock: the two kinds do not exclude each
//! other, so one of them is refused.
//!
//! A contender sees such nodes in a listing that it makes anyway. Names alone prove nothing:
//! applications choose names, too. So the contender looks at the suspects, and at nothing if there
//! are none. A node of a contender is ephemeral. A semaphore shows in its directory `leases`.
//!
//! Invariant: of two contenders of different kinds, the second one is refused. Each creates its
//! node before it lists, and a semaphore creates a permit before it looks at the directory above.
//!
//! Not here: a plain lock that is not free creates its node without a listing (`kinds::plain`).

use lockkeeper_proto::{OpCode, Response, SessionId, path};
use lockkeeper_session::{AsRaw, machine::Encoded, sync::BoxFuture};

use crate::{
    backoff::Backoff,
    error::LockError,
    node::directory::Directory,
    order::{
        name::{self, Kind},
        rank,
    },
};

/// Refuses if one of these children of the lock's path belongs to a kind of lock that does not
/// exclude this one.
///
/// # Cancel safety
/// It changes nothing.
pub(crate) async fn refuse(
    directory: &Directory,
    ours: Kind,
    children: impl IntoIterator<Item = &str>,
) -> Result<(), LockError> {
    let suspects: Vec<_> = children
        .into_iter()
        .filter_map(|child| Kind::of(child).map(|(kind, _)| (kind, child)))
        .filter(|(kind, _)| !ours.excludes(*kind))
        .collect();
    if suspects.is_empty() {
        return Ok(());
    }
    refuse_suspects(directory, suspects).await
}

/// Refuses if one of these suspects is a lock. In a box, as suspects are rare.
fn refuse_suspects<'a>(
    directory: &'a Directory,
    suspects: Vec<(Kind, &'a str)>,
) -> BoxFuture<'a, Result<(), LockError>> {
    Box::pin(async move {
        let client = &directory.client;
        let look = |(_, child): &(Kind, &str)| {
            let path = client
                .raw()
                .server_path(&path::join(&directory.path, child));
            let op = match *child {
                name::LEASES => OpCode::GET_CHILDREN2,
                _ => OpCode::EXISTS,
            };
            Encoded::read(op, &[&path])
        };
        let mut backoff = Backoff::default();
        'again: loop {
            let requests = suspects.iter().map(look).collect();
            let replies = client.raw().submit_all_with_backpressure(requests).await;
            for (reply, (found, node)) in replies.into_iter().zip(&suspects) {
                let is_lock = match reply.await {
                    Ok(Response::Exists(stat)) => stat.stat.ephemeral_owner != SessionId::NONE,
                    // An application's node has had no child, or has others.
                    Ok(Response::GetChildren2(list)) => {
                        let is_empty = list.children.is_empty() && list.stat.next_sequence() > 0;
                        is_empty || rank::permits(list.children.iter()) > 0
                    }
                    // A repeated read does no harm. The client itself pauses between connections.
                    Err(error) if error.is_transient() => {
                        backoff.after(directory, &error).await?;
                        continue 'again;
                    }
                    // It is gone, or it belongs to somebody who hides it from the users of this lock.
                    Ok(_) => false,
                    Err(error) if error.code().is_some() => false,
                    Err(error) => return Err(error.into()),
                };
                if is_lock {
                    return Err(LockError::OtherKind {
                        path: directory.path.to_string(),
                        node: (*node).to_owned(),
                        found: *found,
                    });
                }
            }
            return Ok(());
        }
    })
}
