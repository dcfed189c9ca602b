//! The node under which contenders line up, and the requests that are about it and its children.

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, CreateMode, Request, Version, path,
    records::{CreateRequest, DeleteRequest, GetChildrenRequest},
};
use lockkeeper_session::Client;

/// The place where contenders line up.
#[derive(Debug)]
pub(crate) struct Directory {
    /// The path, as the client names it.
    pub(crate) path: String,
    /// The path, as the server names it.
    pub(crate) server_path: String,
    /// What each node is to hold.
    pub(crate) data: Bytes,
}

impl Directory {
    pub(crate) fn new(client: &Client, path: &str, data: Bytes) -> Self {
        Self {
            path: path.to_owned(),
            server_path: client.server_path(path),
            data,
        }
    }

    pub(crate) fn list_request(&self) -> Request {
        let path = self.server_path.clone();
        Request::GetChildren(GetChildrenRequest { path, watch: false })
    }

    pub(crate) fn create_request(&self, name: &str, mode: CreateMode, data: Bytes) -> Request {
        Request::Create2(CreateRequest {
            path: path::join(&self.server_path, name),
            data: Some(data),
            acl: Some(Acls::Borrowed(Acl::OPEN_UNSAFE)),
            flags: mode.flags(),
        })
    }

    /// One request for each level of the path, the highest first. Those that exist fail, and nobody minds.
    pub(crate) fn make_requests(&self) -> Vec<Request> {
        let mut levels: Vec<_> = path::levels(&self.server_path).collect();
        levels.reverse();
        let make = |level: &str| {
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
        let path = path::join(&self.server_path, name);
        Request::Delete(DeleteRequest {
            path,
            version: Version::ANY,
        })
    }
}
