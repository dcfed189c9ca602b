//! What identifies a lock node before its name is known, and the requests about it.
//!
//! Not here: when they are sent (`life`), sending them (`task`).

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, Request, Response, SessionId, Stat, Version, Zxid,
    multi::{MultiOp, MultiRequest, MultiResult},
    path,
    records::{Create2Response, GetDataRequest, GetDataResponse, SetDataRequest},
};
use lockkeeper_session::{Client, Effect, Error as SessionError};

use super::{
    directory::Directory,
    life::{Failure, Node, Seen},
};
use crate::order::name::{self, Protection};

/// What the client knows of a lock node, beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The transaction that created the node.
    pub(crate) czxid: Zxid,
    /// The session that owns the node.
    pub(crate) session_id: SessionId,
}

/// A lock node of this client that exists.
pub(crate) type OwnNode = Node<Arc<str>, Tag>;

/// How a node is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Naming {
    /// A protection, this marker, and a number from the server: one of many nodes in a queue.
    Sequential(&'static str),
    /// A fixed name, so that there is only one. Its data begin with the protection.
    Fixed,
}

/// What identifies a node of ours.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentity {
    pub(crate) client: Client,
    pub(crate) directory: Arc<Directory>,
    pub(super) protection: Protection,
    pub(super) naming: Naming,
    /// Whether a listing goes out behind the create.
    pub(super) lists: bool,
}

impl NodeIdentity {
    pub(crate) fn new(client: &Client, directory: Arc<Directory>, naming: Naming) -> Self {
        Self {
            client: client.clone(),
            directory,
            protection: Protection::random(client),
            naming,
            lists: naming != Naming::Fixed,
        }
    }

    /// The same identity, which does not keep the session open.
    pub(crate) fn detached(&self) -> Self {
        Self {
            client: self.client.raw().downgrade(),
            ..self.clone()
        }
    }

    /// Takes a new protection, so that no late request of a former attempt can touch the new node.
    pub(crate) fn renew(&mut self) {
        self.protection = Protection::random(&self.client);
    }

    /// Whether the name is fixed, and others use it too.
    pub(crate) fn is_fixed(&self) -> bool {
        self.naming == Naming::Fixed
    }

    /// Creates the node.
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

    /// The listing behind the create. That of leases tells whether their directory is a new one.
    pub(crate) fn list_request(&self) -> Request {
        match self.naming {
            Naming::Sequential(name::LEASE) => self.directory.list_with_stat_request(),
            _ => self.directory.list_request(),
        }
    }

    /// The name of the reader's node that takes the place of this writer's: the same number, so the
    /// same place in the queue.
    fn reader_name(&self, writer: &str) -> String {
        let number = name::parse(writer, &[name::WRITE]).map_or(0, |(_, number)| number);
        format!("{}{number:010}", self.protection.name(name::READ))
    }

    /// Creates the reader's node and deletes the writer's, in one transaction.
    pub(crate) fn replace_request(&self, writer: &str) -> Request {
        let (reader, data) = (self.reader_name(writer), self.directory.data.clone());
        let create = self
            .directory
            .create_request(&reader, CreateMode::Ephemeral, data);
        let delete = self.directory.delete_request(writer);
        let op = |request| match request {
            Request::Create2(create) => Some(MultiOp::Create2(create)),
            Request::Delete(delete) => Some(MultiOp::Delete(delete)),
            _ => None,
        };
        let ops = [create, delete].into_iter().filter_map(op).collect();
        Request::Multi(MultiRequest { ops })
    }

    /// The barrier, see `life`: it deletes a name that never exists, since the server would have
    /// appended a number to it.
    pub(crate) fn barrier_request(&self) -> Request {
        self.directory.delete_request(&self.protection.name(""))
    }

    /// Reads a node that may be ours.
    pub(crate) fn check_request(&self, name: &str) -> Request {
        self.directory.count();
        let path = path::join(&self.directory.server_path, name);
        Request::GetData(GetDataRequest { path, watch: false })
    }

    /// Sets the data of our node.
    pub(crate) fn set_data_request(&self, name: &str, data: &Bytes, version: Version) -> Request {
        self.directory.count();
        let data = match self.naming {
            Naming::Sequential(_) => data.clone(),
            Naming::Fixed => self.protection.mark(data),
        };
        Request::SetData(SetDataRequest {
            path: path::join(&self.directory.server_path, name),
            data: Some(data),
            version,
        })
    }

    /// The user's part of the data of our node.
    pub(crate) fn unmarked(&self, data: Bytes) -> Bytes {
        match self.naming {
            Naming::Sequential(_) => data,
            Naming::Fixed => Protection::unmarked(&data),
        }
    }

    /// How the names of the nodes that may be ours begin.
    pub(super) fn prefix(&self) -> String {
        match self.naming {
            Naming::Sequential(marker) => self.protection.name(marker),
            Naming::Fixed => name::PLAIN.to_owned(),
        }
    }

    /// Whether the node with this name may be ours. Its name has our prefix.
    pub(super) fn may_be(&self, name: &str) -> bool {
        match self.naming {
            Naming::Sequential(marker) => name::parse(name, &[marker]).is_some(),
            Naming::Fixed => name == name::PLAIN,
        }
    }

    /// What a read says of a node that may be ours, or that is this known one. `None` if its
    /// `czxid`, which may become a fencing token, is of no transaction, or of a newer one than any
    /// that the servers have named.
    pub(crate) fn seen(
        &self,
        read: &GetDataResponse,
        known: Option<&OwnNode>,
    ) -> Option<Seen<Tag>> {
        let (data, stat) = (read.data.as_ref(), &read.stat);
        let is_plausible = stat.czxid > Zxid::ZERO && stat.czxid <= self.client.raw().newest_zxid();
        is_plausible.then(|| Seen {
            is_of_session: stat.ephemeral_owner == self.client.snapshot().session_id,
            is_marked: match known {
                // Anybody may have replaced its data.
                Some(node) => node.tag.czxid == stat.czxid,
                None => data.is_some_and(|data| self.protection.marks(data)),
            },
            tag: tag(stat),
        })
    }

    /// What a failed request means for decisions.
    pub(crate) fn failure(&self, error: &SessionError) -> Failure {
        match error {
            SessionError::SessionExpired { .. } | SessionError::Closed(_) => Failure::SessionOver {
                closed: self.client.is_closed(),
            },
            // The retry waits for capacity.
            SessionError::TooManyRequests { .. } => Failure::NotApplied,
            error if error.is_no_node() => Failure::NoNode,
            error if error.is_node_exists() => Failure::NodeExists,
            error if error.effect() == Effect::Unknown => Failure::Unknown,
            error if error.code() == Some(ErrorCode::THROTTLED_OP) => Failure::Throttled,
            error if error.is_transient() => Failure::NotApplied,
            _ => Failure::Refused,
        }
    }
}

/// What a node's metadata tell the client. The token of a lock is the transaction that *created*
/// its node: its data may have been changed since.
fn tag(stat: &Stat) -> Tag {
    Tag {
        czxid: stat.czxid,
        session_id: stat.ephemeral_owner,
    }
}

/// The node that a reply says was created.
pub(crate) fn created_node(created: &Create2Response) -> OwnNode {
    Node {
        name: path::name(&created.path).into(),
        tag: tag(&created.stat),
    }
}

/// The reader's node, if a reply says that it was created.
pub(crate) fn replacement(response: &Response) -> Option<OwnNode> {
    match response {
        Response::Multi(response) => match response.results.first()? {
            MultiResult::Create2(created) => Some(created_node(created)),
            _ => None,
        },
        _ => None,
    }
}
