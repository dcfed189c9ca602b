//! The directory of a lock: its settings, the client and the meter of its requests, and the requests
//! about the directory.
//!
//! The requests of a lock go through the client of its directory, which counts them for
//! [`LockMetrics`](crate::LockMetrics).
//!
//! Not here: the requests about a node (`identity`), sending them (`requests`).

use std::{
    mem,
    sync::{Arc, atomic::AtomicBool},
    time::{Duration, Instant},
};

use bytes::Bytes;
use lockkeeper_proto::{
    Acls, CreateMode, OpCode, Request, SessionId, Stat, Version,
    path::{self, PathError},
    records::CreateRequest,
};
use lockkeeper_session::{
    AsRaw, Client, Clock, Error as SessionError, machine::Encoded, sync::BoxFuture,
};

use crate::{
    metrics::{LockMeter, LockMetrics},
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
    /// The path of the directory, as the server names it: with the chroot.
    pub(crate) server_path: Arc<str>,
    /// The data of each new node.
    pub(crate) data: Bytes,
    /// The data of the directory itself, if this client makes it.
    pub(crate) about: Bytes,
    /// The ACL of each new node, and of the directory and those above it.
    pub(crate) acl: Acls,
    pub(crate) clock: Clock,
    meter: Option<LockMeter>,
    /// Whether the contender only tries: see [`Backoff`](crate::backoff::Backoff).
    pub(crate) is_try: bool,
    pub(super) has_late: Arc<HasLate>,
}

/// Whether this client has creates that a scan has not found, in any directory: `late` has them.
#[derive(Debug, Default)]
pub(super) struct HasLate(pub(super) AtomicBool);

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
            server_path: client.raw().server_path(&parent).into(),
            parent,
            data: Bytes::new(),
            about: Bytes::new(),
            acl: client.raw().default_acl(),
            clock: client.raw().clock(),
            meter: None,
            is_try: false,
            has_late: client.raw().extension(),
        }))
    }

    /// The directory for a contender that only tries.
    pub(crate) fn for_try(&self) -> Arc<Self> {
        let is_try = true;
        Arc::new(Self {
            is_try,
            ..self.clone()
        })
    }

    /// From now on, this meter counts.
    pub(crate) fn set_meter(&mut self, meter: &LockMeter) {
        self.meter = Some(meter.clone());
        let meter = meter.clone();
        let lists = |op| matches!(op, OpCode::GET_CHILDREN | OpCode::GET_CHILDREN2);
        self.client = self.client.raw().observed(move |op| {
            meter.count(|it| {
                it.requests += 1;
                it.listings += u64::from(lists(op));
            });
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

    pub(crate) fn count(&self, count: impl FnOnce(&mut LockMetrics)) {
        if let Some(meter) = &self.meter {
            meter.count(count);
        }
    }

    /// The server's path of a node here, in pieces.
    pub(crate) fn in_pieces<'a>(&'a self, name: &'a str) -> [&'a str; 3] {
        let directory = &self.server_path;
        [directory.strip_suffix('/').unwrap_or(directory), "/", name]
    }

    pub(crate) fn list_request(&self) -> Encoded {
        Encoded::read(OpCode::GET_CHILDREN, &[&self.server_path])
    }

    pub(super) fn create(&self, path: String, mode: CreateMode, data: Bytes) -> CreateRequest {
        CreateRequest {
            path,
            data: Some(data),
            acl: Some(self.acl.clone()),
            flags: mode.flags(),
        }
    }

    /// The requests that make the directory: one for each level of the path, the highest first. A
    /// request for a level that exists fails, which does no harm.
    pub(crate) fn make_requests(&self) -> Vec<Encoded> {
        let mut about = self.about.clone();
        let make = |level: &str| {
            let (mode, data) = (CreateMode::Container, mem::take(&mut about));
            Request::CreateContainer(self.create(level.to_owned(), mode, data)).into()
        };
        let mut levels: Vec<_> = path::levels(&self.server_path).map(make).collect();
        levels.reverse();
        levels
    }

    /// Asks the leader whether a node is there, by a transaction that only checks it; within this
    /// session, if there is one. In a box, as it is rare.
    pub(crate) fn check<'a>(
        &'a self,
        name: &str,
        within: Option<SessionId>,
    ) -> BoxFuture<'a, Result<(), SessionError>> {
        let check = Encoded::check(path::join(&self.server_path, name));
        Box::pin(async move {
            let raw = self.client.raw();
            let raw = within.map_or(raw, |session| raw.within(session));
            let checked = raw.submit_one(check).await;
            checked.await.map(drop)
        })
    }

    /// The metadata of a node, if it is there. In a box, as it is rare.
    pub(crate) fn stat<'a>(
        &'a self,
        name: &str,
    ) -> BoxFuture<'a, Result<Option<Stat>, SessionError>> {
        let path = path::join(&self.parent, name);
        Box::pin(async move { self.client.exists(&path).await })
    }

    pub(crate) fn delete_request(&self, name: &str) -> Encoded {
        Encoded::delete(&self.in_pieces(name), Version::ANY)
    }
}
