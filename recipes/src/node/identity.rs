//! What identifies a lock node before its name is known, and the requests about it.
//!
//! Not here: when they are sent (`life`), sending them (`requests`), the directory (`directory`).

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    CreateMode, ErrorCode, OpCode, Request, Response, SessionId, Stat, Version, Zxid,
    multi::MultiRequest,
    records::{DeleteRequest, GetDataResponse, SetDataRequest},
};
use lockkeeper_session::{
    AsRaw, Client, Effect, Error as SessionError, ErrorKind, Raw, machine::Encoded,
};

use super::{
    directory::Directory,
    life::{self, Failure, Seen},
};
use crate::{
    error::Loss,
    order::name::{self, Kind, Protection},
};

/// What the client knows of a lock node, beside its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    /// The transaction that created the node. It is the token of a lock: the data of the node may
    /// have been changed since.
    pub(crate) czxid: Zxid,
    /// The session that owns the node.
    pub(crate) session_id: SessionId,
}

impl From<&Stat> for Tag {
    fn from(stat: &Stat) -> Self {
        Self {
            czxid: stat.czxid,
            session_id: stat.ephemeral_owner,
        }
    }
}

/// A lock node of this client that exists.
pub(crate) type OwnNode = life::Node<Arc<str>, Tag>;

/// What identifies a node of ours.
#[derive(Clone, Debug)]
pub(crate) struct NodeIdentity {
    pub(super) directory: Arc<Directory>,
    protection: Protection,
    /// How the node is named: a protection, the marker of this kind, and a number from the server.
    /// Or it is a plain lock's, which has a fixed name, so that there is only one. Its data begin
    /// with the protection.
    kind: Kind,
}

impl NodeIdentity {
    pub(crate) fn new(directory: Arc<Directory>, kind: Kind) -> Self {
        Self {
            protection: Protection::random(&directory.client),
            directory,
            kind,
        }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.directory.client
    }

    /// Some requests go out only within the session of their node: deletes, and scans for a known
    /// node. In a later session the node is gone already, and a fixed name may belong to another
    /// contender by then.
    pub(super) fn raw(&self, within: Option<SessionId>) -> Raw<'_> {
        let raw = self.client().raw();
        within.map_or(raw, |session| raw.within(session))
    }

    /// Takes a new protection, so that no late request of a former attempt can touch the new node.
    pub(crate) fn renew(&mut self) {
        self.protection = Protection::random(self.client());
    }

    /// Takes the identity of the reader's node that replaces this writer's, under a name that is
    /// drawn for each try.
    pub(crate) fn become_reader(&mut self) {
        self.kind = Kind::Read;
    }

    /// Whether the name is fixed, and others use it too.
    pub(crate) fn is_fixed(&self) -> bool {
        self.kind == Kind::Plain
    }

    /// The data of the node that has this in its user's part.
    fn marked(&self, data: &Bytes) -> Bytes {
        if self.is_fixed() {
            self.protection.mark(data)
        } else {
            data.clone()
        }
    }

    /// The user's part of the data of our node.
    pub(crate) fn unmarked(&self, data: Bytes) -> Bytes {
        if self.is_fixed() {
            Protection::unmarked(&data)
        } else {
            data
        }
    }

    /// How the names of the nodes that may be ours begin, in two parts.
    fn prefix_parts(&self) -> [&str; 2] {
        let is_protected = !self.is_fixed();
        let protection = is_protected.then(|| self.protection.text());
        [protection.unwrap_or(""), self.kind.marker()]
    }

    /// How the names of the nodes that may be ours begin, in one piece.
    pub(super) fn prefix(&self) -> String {
        self.prefix_parts().concat()
    }

    /// Whether the node with this name, which has our prefix, may be ours.
    pub(super) fn may_be(&self, name: &str) -> bool {
        name == name::PLAIN || name::parse(name).is_some_and(|(kind, _)| kind == self.kind)
    }

    /// Whether this is the name of a node of this attempt.
    pub(super) fn is_named(&self, name: &str) -> bool {
        name.starts_with(self.protection.text()) && self.may_be(name)
    }

    pub(crate) fn create_request(&self) -> Encoded {
        let mode = if self.is_fixed() {
            CreateMode::Ephemeral
        } else {
            CreateMode::EphemeralSequential
        };
        let data = self.marked(&self.directory.data);
        let [protection, marker] = self.prefix_parts();
        let [directory, slash, protection] = self.directory.in_pieces(protection);
        let path = [directory, slash, protection, marker].concat();
        Request::Create2(self.directory.create(path, mode, data)).into()
    }

    /// The listing behind the create. That of permits tells whether their directory is a new one.
    pub(crate) fn list_request(&self) -> Encoded {
        match self.kind {
            Kind::Semaphore => Encoded::read(OpCode::GET_CHILDREN2, &[&self.directory.server_path]),
            _ => self.directory.list_request(),
        }
    }

    /// Creates the reader's node and deletes the writer's, in one transaction. Both have the same
    /// number, so the same place in the queue.
    pub(crate) fn replace_request(&self, writer: &str) -> Encoded {
        let number = name::number(writer).unwrap_or(0);
        let (directory, mode) = (&self.directory, CreateMode::Ephemeral);
        let reader = format!("{}{number:010}", self.prefix());
        let reader = directory.in_pieces(&reader).concat();
        let create = directory.create(reader, mode, directory.data.clone());
        let delete = DeleteRequest {
            path: directory.in_pieces(writer).concat(),
            version: Version::ANY,
        };
        let ops = vec![Request::Create2(create), Request::Delete(delete)];
        Request::Multi(MultiRequest { ops }).into()
    }

    /// The barrier, see `life`: it deletes a name that never exists, since the server would have
    /// appended a number to it.
    pub(crate) fn barrier_request(&self) -> Encoded {
        self.directory.delete_request(self.protection.text())
    }

    /// Reads a node that may be ours.
    pub(crate) fn check_request(&self, name: &str) -> Encoded {
        Encoded::read(OpCode::GET_DATA, &self.directory.in_pieces(name))
    }

    /// Sets the data of our node.
    pub(crate) fn set_data_request(&self, name: &str, data: &Bytes, version: Version) -> Encoded {
        let set = SetDataRequest {
            path: self.directory.in_pieces(name).concat(),
            data: Some(self.marked(data)),
            version,
        };
        Request::SetData(set).into()
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
        let is_plausible =
            stat.czxid > Zxid::ZERO && stat.czxid <= self.client().raw().newest_zxid();
        is_plausible.then(|| Seen {
            is_of_session: stat.ephemeral_owner == self.client().snapshot().session_id,
            is_marked: match known {
                // Anybody may have replaced its data.
                Some(node) => node.tag.czxid == stat.czxid,
                None => data.is_some_and(|data| self.protection.marks(data)),
            },
            tag: stat.into(),
        })
    }

    /// What a failed request means for decisions.
    pub(crate) fn failure(&self, error: &SessionError) -> Failure {
        match error.kind() {
            ErrorKind::SessionExpired | ErrorKind::Closed => {
                Failure::SessionOver(if self.client().is_closed() {
                    Loss::Closed
                } else {
                    Loss::Expired
                })
            }
            // The retry waits for capacity.
            ErrorKind::TooManyRequests { .. } => Failure::NotApplied,
            _ if error.is_no_node() => Failure::NoNode,
            _ if error.is_node_exists() => Failure::NodeExists,
            _ if error.effect() == Effect::Unknown => Failure::Unknown,
            _ if error.code() == Some(ErrorCode::THROTTLED_OP) => Failure::Throttled,
            _ if error.is_transient() => Failure::NotApplied,
            _ => Failure::Refused,
        }
    }
}

/// The node that a reply says was created in this directory, perhaps by a transaction.
pub(crate) fn created_node(directory: &str, response: &Response) -> Option<OwnNode> {
    let created = match response {
        Response::Multi(transaction) => transaction.results.first()?.as_ref().ok()?,
        created => created,
    };
    let Response::Create2(created) = created else {
        return None;
    };
    let name = created.path.strip_prefix(directory)?;
    Some(OwnNode {
        name: name.strip_prefix('/').unwrap_or(name).into(),
        tag: (&created.stat).into(),
    })
}
