//! The directory of a lock, whose children are the nodes of its contenders, and the requests about
//! it and its children.
//!
//! Each method that makes a request also counts it for [`LockMetrics`](crate::LockMetrics).
//!
//! Not here: when the requests are sent (`task`).

use std::sync::Arc;

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, CreateMode, Request, Version, path,
    records::{CreateRequest, DeleteRequest, GetChildrenRequest},
};
use lockkeeper_session::Client;

use crate::metrics::Counters;

/// The directory of a lock.
#[derive(Clone, Debug)]
pub(crate) struct Directory {
    /// The path, as the caller names it. The lock's log lines share it.
    pub(crate) path: Arc<str>,
    /// The path, as the server names it: with the chroot.
    pub(crate) server_path: String,
    /// The data of each new node.
    pub(crate) data: Bytes,
    /// The counters of requests about this directory.
    pub(crate) counters: Arc<Counters>,
}

impl Directory {
    pub(crate) fn new(client: &Client, path: &str, data: Bytes, counters: Arc<Counters>) -> Self {
        Self {
            path: path.into(),
            server_path: client.raw().server_path(path),
            data,
            counters,
        }
    }

    /// The same directory. New nodes have these data.
    pub(crate) fn with_data(&self, data: Bytes) -> Self {
        Self {
            data,
            ..self.clone()
        }
    }

    /// The same directory. These counters count the requests.
    pub(crate) fn counted_by(&self, counters: Arc<Counters>) -> Self {
        Self {
            counters,
            ..self.clone()
        }
    }

    /// Counts a request that another module makes.
    pub(crate) fn count(&self) {
        self.counters.requests.count();
    }

    /// Counts a listing that another module requests.
    pub(crate) fn count_listing(&self) {
        self.count();
        self.counters.listings.count();
    }

    pub(crate) fn list_request(&self) -> Request {
        self.count_listing();
        let path = self.server_path.clone();
        Request::GetChildren(GetChildrenRequest { path, watch: false })
    }

    /// A listing with the metadata of the directory.
    pub(crate) fn list_with_stat_request(&self) -> Request {
        self.count_listing();
        let path = self.server_path.clone();
        Request::GetChildren2(GetChildrenRequest { path, watch: false })
    }

    pub(crate) fn create_request(&self, name: &str, mode: CreateMode, data: Bytes) -> Request {
        self.count();
        Request::Create2(CreateRequest {
            path: path::join(&self.server_path, name),
            data: Some(data),
            acl: Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
            flags: mode.flags(),
        })
    }

    /// The requests that make the directory: one for each level of the path, the highest first. A
    /// request for a level that exists fails, which does no harm.
    pub(crate) fn make_requests(&self) -> Vec<Request> {
        let mut levels: Vec<_> = path::levels(&self.server_path).collect();
        levels.reverse();
        let make = |level: &str| {
            self.count();
            Request::CreateContainer(CreateRequest {
                path: level.to_owned(),
                data: Some(Bytes::new()),
                acl: Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
                flags: CreateMode::Container.flags(),
            })
        };
        levels.into_iter().map(make).collect()
    }

    pub(crate) fn delete_request(&self, name: &str) -> Request {
        self.count();
        let path = path::join(&self.server_path, name);
        Request::Delete(DeleteRequest {
            path,
            version: Version::ANY,
        })
    }
}
