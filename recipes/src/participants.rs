//! Who holds and who waits, as anybody may look it up.

use bytes::Bytes;
use lockkeeper_proto::{Request, Response, SessionId, Stat, path, records::GetDataRequest};
use lockkeeper_session::Client;

use crate::error::Error;

/// A contender of a line, seen from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Participant {
    /// Its node.
    pub path: String,
    /// What it says of itself; `None` for null data. Curator's clients leave their address there.
    pub data: Option<Bytes>,
    /// The session that it belongs to.
    pub session_id: SessionId,
    /// The metadata of its node: since when it is there, among others.
    pub stat: Stat,
}

/// Reads the contenders with these names, all at once. One that has left meanwhile is left out.
pub(crate) async fn participants(
    client: &Client,
    directory: &str,
    names: Vec<String>,
) -> Result<Vec<Participant>, Error> {
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
