//! The directory of a lock: where its nodes are, what they have in common, and the requests about
//! both.
//!
//! The requests of a lock go through the client of its directory, which counts them for
//! [`LockMetrics`](crate::LockMetrics).
//!
//! Not here: what identifies a node (`identity`).

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, CreateMode, OpCode, Request, SessionId, Version,
    multi::MultiRequest,
    path::{self, PathError},
    records::{CheckVersionRequest, CreateRequest, DeleteRequest, GetChildrenRequest},
};
use lockkeeper_session::{Client, Clock, Error as SessionError};

use crate::{
    metrics::{Counters, LockMeter},
    order::name::Kind,
};

/// A directory whose children are the nodes of contenders, and what these have in common.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// A handle without a deadline, which does not keep the session open. The meter, if there is
    /// one, counts its requests.
    pub(crate) client: Client,
    /// The path of the lock, for errors and the log. Kept also while nothing listens to the log:
    /// whoever subscribes later must see which lock is lost.
    pub(crate) path: Arc<str>,
    /// What kind of lock that is.
    kind: Kind,
    /// The path of the directory, as the caller names it.
    pub(crate) parent: Arc<str>,
    /// The same, as the server names it: with the chroot.
    pub(crate) server_path: String,
    /// The data of each new node.
    pub(crate) data: Bytes,
    /// The data of the directory itself, if this client makes it.
    pub(crate) about: Bytes,
    /// The ACL of each new node, and of the directory and those above it.
    pub(crate) acl: Acls,
    pub(crate) clock: Clock,
    /// Those of the meter, if there is one.
    counters: Option<Arc<Counters>>,
}

impl Directory {
    /// The directory of the lock at this path: the path or, with a name, the node `below` it.
    pub(crate) fn new(
        client: &Client,
        path: &str,
        below: Option<&str>,
        kind: Kind,
    ) -> Result<Arc<Self>, PathError> {
        path::check(path)?;
        let path: Arc<str> = path.into();
        let parent = below.map_or(path.clone(), |below| path::join(&path, below).into());
        Ok(Arc::new(Self {
            client: client.without_deadline().raw().downgrade(),
            path,
            kind,
            server_path: client.raw().server_path(&parent),
            parent,
            data: Bytes::new(),
            about: Bytes::new(),
            acl: client.raw().default_acl(),
            clock: client.raw().clock(),
            counters: None,
        }))
    }

    /// From now on, this meter counts.
    pub(crate) fn set_meter(&mut self, meter: &LockMeter) {
        let counters = meter.counters();
        self.counters = Some(counters.clone());
        self.client = self.client.raw().observed(move |op| {
            counters.requests.add();
            if matches!(op, OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2) {
                counters.listings.add();
            }
        });
    }

    /// The path and the kind of the lock, for the log.
    pub(crate) fn names(&self) -> (&str, &'static str) {
        (&self.path, self.kind.name())
    }

    /// The time since then.
    pub(crate) fn since(&self, since: Instant) -> Duration {
        self.clock.running().saturating_duration_since(since)
    }

    pub(crate) fn count(&self, count: impl FnOnce(&Counters)) {
        if let Some(counters) = &self.counters {
            count(counters);
        }
    }

    pub(crate) fn list_request(&self) -> Request {
        let path = self.server_path.clone();
        Request::GetChildren(GetChildrenRequest { path, watch: false })
    }

    pub(super) fn create_request(&self, name: &str, mode: CreateMode, data: Bytes) -> Request {
        Request::Create2(self.create(path::join(&self.server_path, name), mode, data))
    }

    fn create(&self, path: String, mode: CreateMode, data: Bytes) -> CreateRequest {
        CreateRequest {
            path,
            data: Some(data),
            acl: Some(self.acl.clone()),
            flags: mode.flags(),
        }
    }

    /// The requests that make the directory: one for each level of the path, the highest first. A
    /// request for a level that exists fails, which does no harm.
    pub(crate) fn make_requests(&self) -> Vec<Request> {
        let mut about = self.about.clone();
        let make = |level: &str| {
            let (mode, data) = (CreateMode::Container, mem::take(&mut about));
            Request::CreateContainer(self.create(level.to_owned(), mode, data))
        };
        let mut levels: Vec<_> = path::levels(&self.server_path).map(make).collect();
        levels.reverse();
        levels
    }

    /// Asks the leader whether a node is there, by a transaction that only checks it; within this
    /// session, if there is one.
    pub(crate) async fn check(
        &self,
        name: &str,
        within: Option<SessionId>,
    ) -> Result<(), SessionError> {
        let check = Request::Check(CheckVersionRequest {
            path: path::join(&self.server_path, name),
            version: Version::ANY,
        });
        let raw = self.client.raw();
        let raw = within.map_or(raw, |session| raw.within(session));
        let request = Request::Multi(MultiRequest { ops: vec![check] });
        let [checked] = raw.submit_with_backpressure([request]).await;
        checked.await.map(drop)
    }

    pub(crate) fn delete_request(&self, name: &str) -> Request {
        Request::Delete(DeleteRequest {
            path: path::join(&self.server_path, name),
            version: Version::ANY,
        })
    }
}
