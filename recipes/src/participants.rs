//! Reading the nodes of contenders: the path, the data and the session of each.
//!
//! Not here: which of them holds the lock (`order::rank`), all contenders at a path (`inspect`).

use bytes::Bytes;
use lockkeeper_proto::{Request, Response, SessionId, Stat, path, records::GetDataRequest};
use lockkeeper_session::Client;

use crate::error::LockError;

/// A contender, as its node shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// The path of its node.
    pub path: String,
    /// The data of its node, which may say who the contender is; `None` for null data. Curator's
    /// clients write their address.
    pub data: Option<Bytes>,
    /// The session that owns the node.
    pub session_id: SessionId,
    /// The metadata of its node, for instance when it was created.
    pub stat: Stat,
}

/// Reads the contenders with these names, all at the same time. Leaves out a contender whose node
/// is gone by then.
pub(crate) async fn participants(
    client: &Client,
    directory: &str,
    names: Vec<String>,
) -> Result<Vec<Participant>, LockError> {
    let paths: Vec<_> = names
        .iter()
        .map(|name| path::join(directory, name))
        .collect();
    let read = |path: &String| {
        Request::GetData(GetDataRequest {
            path: client.raw().server_path(path),
            watch: false,
        })
    };
    let requests = paths.iter().map(read).collect();
    let replies = client.raw().submit_all_with_backpressure(requests).await;
    let mut participants = Vec::with_capacity(replies.len());
    for (path, reply) in paths.into_iter().zip(replies) {
        match reply.await {
            Ok(Response::GetData(node)) => participants.push(Participant {
                path,
                data: node.data,
                session_id: node.stat.ephemeral_owner,
                stat: node.stat,
            }),
            Err(error) if !error.is_no_node() => return Err(error.into()),
            _ => {}
        }
    }
    Ok(participants)
}

/// The children of a node; none when the node does not exist.
pub(crate) async fn children(client: &Client, path: &str) -> Result<Vec<String>, LockError> {
    match client.get_children(path).await {
        Err(error) if error.is_no_node() => Ok(Vec::new()),
        children => Ok(children?),
    }
}

/// Takes the lease out that the first waiter of a semaphore's queue has created, and does not hold
/// yet: its newest one.
pub(crate) fn remove_pending_lease(leases: &mut Vec<Participant>, first_waiter: &Participant) {
    let is_pending = |lease: &Participant| {
        let is_newer = lease.stat.czxid > first_waiter.stat.czxid;
        is_newer && lease.session_id == first_waiter.session_id && lease.data == first_waiter.data
    };
    let pending = leases
        .iter()
        .enumerate()
        .filter(|(_, lease)| is_pending(lease));
    if let Some((at, _)) = pending.max_by_key(|(_, lease)| lease.stat.czxid) {
        leases.remove(at);
    }
}
