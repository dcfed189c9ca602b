//! What becomes of nodes whose owner is gone, or does not know whether they are there.
//!
//! Runs in the client's own task, never under a caller's deadline, and ends with the session.
//! Not here: when it is called for (`contender`).

use lockkeeper_proto::{
    Request, Response,
    multi::OpResult,
    path,
    records::{ExistsRequest, StatResponse},
};
use lockkeeper_session::{Client, Effect, Error as SessionError, Reply};

use crate::{contender::Node, directory::Directory, name::Protection};

/// Deletes a node that may be there, or may yet come.
/// `created` is the reply to come of its create; `None` when that reply is lost.
pub(crate) async fn clean_up(
    client: &Client,
    directory: &Directory,
    protection: &Protection,
    created: Option<Reply>,
) {
    let name = match created {
        Some(reply) => match reply.await {
            Ok(response) => match created_path(&response) {
                Some(created) => Some(path::name(created).to_owned()),
                None => return,
            },
            Err(error) if !is_lost(&error) => return,
            Err(_) => None,
        },
        None => None,
    };
    let name = match name {
        Some(name) => name,
        None => match find_lost(client, directory, protection).await {
            Ok(Some(node)) => node.name,
            Ok(None) | Err(_) => return,
        },
    };
    tracing::debug!(path = %directory.path, %name, "deleting the node of an abandoned attempt");
    let [reply] = client.submit([directory.delete_request(&name)]);
    finish_delete(client, directory, &name, reply).await;
}

/// Repeats a delete until it is done or the session is over.
pub(crate) async fn finish_delete(
    client: &Client,
    directory: &Directory,
    name: &str,
    mut reply: Reply,
) {
    loop {
        match deleted(reply.await) {
            Deleted::Done
            | Deleted::Missing
            | Deleted::Failed(SessionError::SessionExpired { .. } | SessionError::Closed(_)) => {
                return;
            }
            Deleted::Again => [reply] = client.submit([directory.delete_request(name)]),
            Deleted::Failed(error) => {
                tracing::warn!(path = %directory.path, name, %error, "node not deleted, it goes with the session");
                return;
            }
        }
    }
}

/// Looks for a node of this session by its protection, behind a barrier. Repeats while connections are lost; fails when
/// the session is.
pub(crate) async fn find_lost(
    client: &Client,
    directory: &Directory,
    protection: &Protection,
) -> Result<Option<Node>, SessionError> {
    loop {
        // A name that never exists: the server would have appended a number to it.
        let barrier = directory.delete_request(&protection.name(""));
        let [barrier, list] = client.submit([barrier, directory.list_request()]);
        match barrier.await {
            Err(error) if error.is_transient() => continue,
            Err(error) if !error.is_no_node() => return Err(error),
            _ => {}
        }
        let children = match list.await {
            Ok(Response::GetChildren(list)) => list.children,
            Err(error) if error.is_no_node() => return Ok(None),
            Err(error) if !error.is_transient() => return Err(error),
            _ => continue,
        };
        let (mut found, mut again) = (None, false);
        for name in children.into_iter().filter(|name| protection.covers(name)) {
            let path = path::join(&directory.server_path, &name);
            let [reply] = client.submit([Request::Exists(ExistsRequest { path, watch: false })]);
            match reply.await {
                // A node of another session is not ours; one of an earlier session of ours goes with that session.
                Ok(Response::Exists(StatResponse { stat }))
                    if stat.ephemeral_owner == client.snapshot().session_id =>
                {
                    found = Some(Node {
                        name,
                        czxid: stat.czxid,
                        session_id: stat.ephemeral_owner,
                    });
                    break;
                }
                Ok(Response::Exists(_)) => {}
                Err(error) if error.is_no_node() => {}
                Err(error) if !error.is_transient() => return Err(error),
                _ => again = true,
            }
        }
        if found.is_some() || !again {
            return Ok(found);
        }
    }
}

/// Whether a create that failed so may have happened in a session that still lives.
pub(crate) fn is_lost(error: &SessionError) -> bool {
    error.effect() == Effect::Unknown
        && !matches!(
            error,
            SessionError::SessionExpired { .. } | SessionError::Closed(_)
        )
}

/// The node that a reply says was created: by itself, or first in a transaction.
fn created_path(response: &Response) -> Option<&str> {
    match response {
        Response::Create2(created) => Some(&created.path),
        Response::Multi(response) => match response.results.first()? {
            OpResult::Create2(created) => Some(&created.path),
            OpResult::Create(created) => Some(&created.path),
            _ => None,
        },
        _ => None,
    }
}

/// What became of a delete.
pub(crate) enum Deleted {
    Done,
    Missing,
    Again,
    Failed(SessionError),
}

pub(crate) fn deleted(reply: Result<Response, SessionError>) -> Deleted {
    match reply {
        Ok(_) => Deleted::Done,
        Err(error) if error.is_no_node() => Deleted::Missing,
        Err(error) if error.is_transient() || is_lost(&error) => Deleted::Again,
        Err(error) => Deleted::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_server::Server;

    use bytes::Bytes;
    use lockkeeper_proto::CreateMode;

    use super::*;
    use crate::name;

    /// Curator's lock takes the dying node of its own former session for its own.
    #[tokio::test]
    async fn a_node_with_our_name_in_another_session_is_not_ours() {
        let server = Server::start().await.unwrap();
        let ours = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        ours.create("/lock", "", CreateMode::Persistent)
            .await
            .unwrap();
        let directory = Directory::new(&ours, "/lock", Bytes::new());
        let protection = Protection::random(&ours);
        let path = path::join("/lock", &protection.name(name::LOCK));
        let node = other
            .create(&path, "", CreateMode::EphemeralSequential)
            .await
            .unwrap();
        assert_eq!(find_lost(&ours, &directory, &protection).await, Ok(None));
        let mine = ours
            .create(&path, "", CreateMode::EphemeralSequential)
            .await
            .unwrap();
        let found = find_lost(&ours, &directory, &protection).await.unwrap();
        let found = found.map(|node| node.czxid);
        assert_eq!(found, Some(mine.stat.czxid), "behind another's");
        let found = find_lost(&other, &directory, &protection).await.unwrap();
        assert_eq!(
            found,
            Some(Node {
                name: path::name(&node.path).to_owned(),
                czxid: node.stat.czxid,
                session_id: node.stat.ephemeral_owner,
            })
        );
    }
}
