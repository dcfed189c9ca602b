//! What a node of ours is known by before it is known, and the requests that make it, find it and end it.
//!
//! Deletes go out only within the session that created the node: in a later one the node is gone already, and a name that
//! is everybody's may be somebody else's by then.
//! What is here runs in its caller, or in the client's own task when the caller is gone; it ends with the session.
//! Not here: when it is called for (`contender`).

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, Request, Response, SessionId, Zxid,
    multi::MultiResult,
    path,
    records::{Create2Response, GetDataRequest},
};
use lockkeeper_session::{Client, Effect, Error as SessionError, PendingReply};

use crate::{
    metrics::count,
    node::directory::Directory,
    node::name::{self, Protection},
};

/// A node of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    /// Its name in the directory.
    pub(crate) name: String,
    /// The transaction that created it.
    pub(crate) czxid: Zxid,
    /// The session that it belongs to.
    pub(crate) session_id: SessionId,
}

/// How a node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// By its protection, this marker and a number of the server's: one of many in a line.
    Sequential(&'static str),
    /// As everybody's: there can be one only. Its protection is in its data.
    Fixed,
}

/// What a node of ours is known by.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentity {
    pub(crate) client: Client,
    pub(crate) directory: Arc<Directory>,
    pub(crate) protection: Protection,
    pub(crate) naming: Naming,
}

impl NodeIdentity {
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, naming: Naming) -> Self {
        Self {
            client: client.clone(),
            directory,
            protection: Protection::random(client),
            naming,
        }
    }

    /// The same identity, which does not keep the session open.
    pub(crate) fn detached(&self) -> Self {
        Self {
            client: self.client.downgrade(),
            ..self.clone()
        }
    }

    /// The request that creates the node.
    pub(crate) fn create_request(&self) -> Request {
        let (directory, protection) = (&self.directory, &self.protection);
        match self.naming {
            Naming::Sequential(marker) => directory.create_request(
                &protection.name(marker),
                CreateMode::EphemeralSequential,
                directory.data.clone(),
            ),
            Naming::Fixed => directory.create_request(
                name::PLAIN,
                CreateMode::Ephemeral,
                protection.mark(&directory.data),
            ),
        }
    }

    /// Sends the create, as soon as there is room for it, and where there is a line a listing behind it in the same write,
    /// which shows the new node.
    ///
    /// # Cancel safety
    /// Dropped, nothing was sent.
    pub(crate) async fn create(&self) -> (PendingReply, Option<PendingReply>) {
        let create = self.create_request();
        if self.is_queued() {
            let requests = [create, self.directory.list_request()];
            let [create, list] = self.client.submit_with_backpressure(requests).await;
            (create, Some(list))
        } else {
            let [create] = self.client.submit_with_backpressure([create]).await;
            (create, None)
        }
    }

    /// Whether the node is one of many in a line.
    pub(crate) fn is_queued(&self) -> bool {
        self.naming != Naming::Fixed
    }

    /// Sends the node's delete.
    pub(crate) fn delete(&self, node: &Node) -> PendingReply {
        let request = self.directory.delete_request(&node.name);
        let [reply] = self.client.submit_within(node.session_id, [request]);
        reply
    }

    /// Looks for a node of this session whose create may or may not have happened, behind a barrier. `None` when it did
    /// not, and never will. Repeats while connections are lost; fails when the session is.
    pub(crate) async fn find(&self) -> Result<Option<Node>, SessionError> {
        let directory = &self.directory;
        loop {
            // A name that never exists: the server would have appended a number to it.
            let barrier = directory.delete_request(&self.protection.name(""));
            let [barrier, list] = self.client.submit([barrier, directory.list_request()]);
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
            for name in children.into_iter().filter(|name| self.may_be(name)) {
                let path = path::join(&directory.server_path, &name);
                let get = Request::GetData(GetDataRequest { path, watch: false });
                directory.count();
                let [reply] = self.client.submit([get]);
                match reply.await {
                    // A node of another session is not ours; one of an earlier session of ours goes with that session.
                    Ok(Response::GetData(read))
                        if read.stat.ephemeral_owner == self.client.snapshot().session_id
                            && self.is_marked(read.data.as_ref()) =>
                    {
                        found = Some(Node {
                            name,
                            czxid: read.stat.czxid,
                            session_id: read.stat.ephemeral_owner,
                        });
                        break;
                    }
                    Ok(Response::GetData(_)) => {}
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

    fn may_be(&self, name: &str) -> bool {
        match self.naming {
            Naming::Sequential(_) => self.protection.covers(name),
            Naming::Fixed => name == name::PLAIN,
        }
    }

    /// Whether data say that the node is ours, where the name does not.
    fn is_marked(&self, data: Option<&Bytes>) -> bool {
        self.naming != Naming::Fixed || data.is_some_and(|data| self.protection.marks(data))
    }

    /// Deletes a node that may be there, or may yet come.
    /// `created` is the reply to come of its create; `None` when that reply is lost.
    pub(crate) async fn clean_up(&self, created: Option<PendingReply>) {
        let node = match created {
            Some(reply) => match reply.await {
                Ok(response) => match created_node(&response) {
                    Some(node) => Some(node),
                    None => return,
                },
                Err(error) if !is_lost(&error) => return,
                Err(_) => None,
            },
            None => None,
        };
        let node = match node {
            Some(node) => node,
            None => match self.find().await {
                Ok(Some(node)) => node,
                Ok(None) | Err(_) => return,
            },
        };
        let (path, name) = (&self.directory.path, &node.name);
        tracing::debug!(path, name, "deleting the node of an abandoned attempt");
        count(&self.directory.counters.cleaned_up);
        let reply = self.delete(&node);
        self.finish_delete(&node, reply).await;
    }

    /// Repeats a delete until it is done or the session is over.
    pub(crate) async fn finish_delete(&self, node: &Node, mut reply: PendingReply) {
        loop {
            match deleted(reply.await) {
                Deleted::Done
                | Deleted::Missing
                | Deleted::Failed(SessionError::SessionExpired { .. } | SessionError::Closed(_)) => {
                    return;
                }
                Deleted::Again { perhaps: false } => reply = self.delete(node),
                Deleted::Again { perhaps: true } => match self.is_still_there().await {
                    Ok(true) => reply = self.delete(node),
                    Ok(false) | Err(_) => return,
                },
                Deleted::Failed(error) => {
                    let (path, name) = (&self.directory.path, &node.name);
                    tracing::warn!(path, name, %error, "node not deleted, it goes with the session");
                    return;
                }
            }
        }
    }

    /// Whether the node can still be there after a delete whose reply was lost. What has a name of its own is deleted
    /// again without asking: it cannot be somebody else's.
    pub(crate) async fn is_still_there(&self) -> Result<bool, SessionError> {
        match self.naming {
            Naming::Sequential(_) => Ok(true),
            Naming::Fixed => Ok(self.find().await?.is_some()),
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

/// The node that a reply says was created.
pub(crate) fn node_of(created: &Create2Response) -> Node {
    Node {
        name: path::name(&created.path).to_owned(),
        czxid: created.stat.czxid,
        session_id: created.stat.ephemeral_owner,
    }
}

/// The node that a reply says was created: by itself, or first in a transaction.
fn created_node(response: &Response) -> Option<Node> {
    match response {
        Response::Create2(created) => Some(node_of(created)),
        Response::Multi(response) => match response.results.first()? {
            MultiResult::Create2(created) => Some(node_of(created)),
            _ => None,
        },
        _ => None,
    }
}

/// What became of a delete.
pub(crate) enum Deleted {
    Done,
    Missing,
    /// It is to be sent again; perhaps it has happened already.
    Again {
        perhaps: bool,
    },
    Failed(SessionError),
}

pub(crate) fn deleted(reply: Result<Response, SessionError>) -> Deleted {
    match reply {
        Ok(_) => Deleted::Done,
        Err(error) if error.is_no_node() => Deleted::Missing,
        Err(error) if error.is_transient() || is_lost(&error) => Deleted::Again {
            perhaps: error.effect() == Effect::Unknown,
        },
        Err(error) => Deleted::Failed(error),
    }
}

#[cfg(test)]
mod tests {
    use lockkeeper_server::Server;

    use super::*;

    /// Curator's lock takes the dying node of its own former session for its own.
    #[tokio::test]
    async fn a_node_with_our_name_in_another_session_is_not_ours() {
        let server = Server::start().await.unwrap();
        let ours = Client::connect(&server.connect_string()).await.unwrap();
        let other = Client::connect(&server.connect_string()).await.unwrap();
        ours.create("/lock", "", CreateMode::Persistent)
            .await
            .unwrap();
        let directory = Arc::new(Directory::new(&ours, "/lock", Bytes::new(), Arc::default()));
        let of_ours = NodeIdentity::new(&ours, directory, Naming::Sequential(name::LOCK));
        let of_other = NodeIdentity {
            client: other.clone(),
            ..of_ours.clone()
        };
        let path = path::join("/lock", &of_ours.protection.name(name::LOCK));
        let node = other
            .create(&path, "", CreateMode::EphemeralSequential)
            .await
            .unwrap();
        assert_eq!(of_ours.find().await, Ok(None));
        let mine = ours
            .create(&path, "", CreateMode::EphemeralSequential)
            .await
            .unwrap();
        let found = of_ours.find().await.unwrap().map(|node| node.czxid);
        assert_eq!(found, Some(mine.stat.czxid), "behind another's");
        let found = of_other.find().await.unwrap();
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
