//! One method for each operation on nodes.
//!
//! Each checks its path, sends one request and waits for the reply. All fail as [`Client`] says; the sections "Errors"
//! name what the server refuses besides.

use bytes::Bytes;
use lockkeeper_proto::{
    Acl, Acls, CreateMode, Request, Response, Stat, Version,
    jute::{DecodeError, DecodeErrorKind},
    path,
    records::{
        Create2Response, CreateRequest, CreateTtlRequest, DeleteRequest, ExistsRequest,
        GetAclRequest, GetAclResponse, GetChildren2Response, GetChildrenRequest, GetDataRequest,
        GetDataResponse, SetAclRequest, SetDataRequest, SyncRequest,
    },
};

use super::{Client, Reply, Watcher};
use crate::Error;

/// Takes the record out of a reply. The machine decodes a reply by its request, so that another one cannot come.
macro_rules! expect {
    ($reply:expr, $($variant:ident)|+) => {
        match $reply {
            $(Response::$variant(record) => Ok(record),)+
            other => Err(unexpected(&other)),
        }
    };
}

fn unexpected(reply: &Response) -> Error {
    let kind = DecodeErrorKind::Unknown(reply.op().0);
    Error::Malformed {
        op: reply.op(),
        error: DecodeError {
            field: "reply",
            offset: 0,
            kind,
        },
    }
}

impl Client {
    /// Creates a node that anybody may change, and returns its path and metadata.
    ///
    /// The path of a sequential node gets ten digits appended; see the returned one.
    ///
    /// # Errors
    /// "no node" when the parent is missing, "node exists", "ephemeral nodes have no children", "not authorized".
    pub async fn create(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
    ) -> Result<Create2Response, Error> {
        self.create_with_acl(path, data, mode, Acls::Borrowed(Acl::OPEN_UNSAFE))
            .await
    }

    /// As [`create`](Self::create), with an access control list.
    ///
    /// # Errors
    /// As [`create`](Self::create), and "invalid ACL" for one that is empty or not understood.
    pub async fn create_with_acl(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        mode: CreateMode,
        acl: impl Into<Acls>,
    ) -> Result<Create2Response, Error> {
        let checked = if mode.is_sequential() {
            path::check_sequential(path)
        } else {
            path::check(path)
        };
        checked.map_err(|problem| path::PathError::new(path, problem))?;
        let request = create_request(self.server_path(path), data.into(), mode, acl.into());
        let created = self.ask(path, request).await?;
        let created = expect!(created, Create2 | CreateContainer | CreateTtl)?;
        Ok(Create2Response {
            path: self.client_path(created.path),
            stat: created.stat,
        })
    }

    /// Deletes a node without children, if its data have this version ([`Version::ANY`] for any).
    ///
    /// # Errors
    /// "no node", "bad version", "not empty", "not authorized" (the permission is the parent's).
    pub async fn delete(&self, path: &str, version: Version) -> Result<(), Error> {
        let request = DeleteRequest {
            path: self.resolve(path)?,
            version,
        };
        let deleted = self.ask(path, Request::Delete(request)).await?;
        expect!(deleted, Delete).map(|_| ())
    }

    /// Reads a node's metadata; `None` when there is no such node.
    ///
    /// # Errors
    /// "not authorized", from servers that check it (3.8.4, 3.9.2 and later).
    pub async fn exists(&self, path: &str) -> Result<Option<Stat>, Error> {
        let request = ExistsRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        stat_if_there(self.ask(path, Request::Exists(request)).await)
    }

    /// As [`exists`](Self::exists), and watches the node: its creation if it is missing, else its deletion or the next
    /// change of its data.
    ///
    /// # Errors
    /// As [`exists`](Self::exists).
    pub async fn exists_and_watch(&self, path: &str) -> Result<(Option<Stat>, Watcher), Error> {
        let request = ExistsRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::Exists(request));
        let stat = stat_if_there(reply.await.map_err(|error| error.on(path)))?;
        Ok((stat, watcher?))
    }

    /// Reads a node's data and metadata. The data are a slice of the frame that they came in; null data are `None`.
    ///
    /// # Errors
    /// "no node", "not authorized".
    pub async fn get_data(&self, path: &str) -> Result<GetDataResponse, Error> {
        let request = GetDataRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        expect!(self.ask(path, Request::GetData(request)).await?, GetData)
    }

    /// As [`get_data`](Self::get_data), and watches for the node's deletion or the next change of its data.
    ///
    /// # Errors
    /// As [`get_data`](Self::get_data); no watch is left then.
    pub async fn get_data_and_watch(
        &self,
        path: &str,
    ) -> Result<(GetDataResponse, Watcher), Error> {
        let request = GetDataRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::GetData(request));
        let data = expect!(reply.await.map_err(|error| error.on(path))?, GetData)?;
        Ok((data, watcher?))
    }

    /// Sets a node's data, if they have this version ([`Version::ANY`] for any), and returns its new metadata.
    ///
    /// # Errors
    /// "no node", "bad version", "not authorized".
    pub async fn set_data(
        &self,
        path: &str,
        data: impl Into<Bytes>,
        version: Version,
    ) -> Result<Stat, Error> {
        let request = SetDataRequest {
            path: self.resolve(path)?,
            data: Some(data.into()),
            version,
        };
        expect!(self.ask(path, Request::SetData(request)).await?, SetData).map(|set| set.stat)
    }

    /// Lists the names of a node's children, in no order.
    ///
    /// # Errors
    /// "no node", "not authorized".
    pub async fn get_children(&self, path: &str) -> Result<Vec<String>, Error> {
        let request = GetChildrenRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        expect!(
            self.ask(path, Request::GetChildren(request)).await?,
            GetChildren
        )
        .map(|list| list.children)
    }

    /// Lists the names of a node's children, in no order, and reads its metadata.
    ///
    /// # Errors
    /// As [`get_children`](Self::get_children).
    pub async fn get_children_with_stat(&self, path: &str) -> Result<GetChildren2Response, Error> {
        let request = GetChildrenRequest {
            path: self.resolve(path)?,
            watch: false,
        };
        expect!(
            self.ask(path, Request::GetChildren2(request)).await?,
            GetChildren2
        )
    }

    /// As [`get_children`](Self::get_children), and watches for the node's deletion or the next child that comes or goes.
    ///
    /// # Errors
    /// As [`get_children`](Self::get_children); no watch is left then.
    pub async fn get_children_and_watch(
        &self,
        path: &str,
    ) -> Result<(Vec<String>, Watcher), Error> {
        let request = GetChildrenRequest {
            path: self.resolve(path)?,
            watch: true,
        };
        let (reply, watcher) = self.submit_watching(Request::GetChildren(request));
        let list = expect!(reply.await.map_err(|error| error.on(path))?, GetChildren)?;
        Ok((list.children, watcher?))
    }

    /// Reads a node's access control list and metadata.
    ///
    /// # Errors
    /// "no node", "not authorized".
    pub async fn get_acl(&self, path: &str) -> Result<GetAclResponse, Error> {
        let request = GetAclRequest {
            path: self.resolve(path)?,
        };
        expect!(self.ask(path, Request::GetAcl(request)).await?, GetAcl)
    }

    /// Sets a node's access control list, if its `aversion` is this one ([`Version::ANY`] for any).
    ///
    /// # Errors
    /// "no node", "bad version", "invalid ACL", "not authorized".
    pub async fn set_acl(
        &self,
        path: &str,
        acl: impl Into<Acls>,
        version: Version,
    ) -> Result<Stat, Error> {
        let request = SetAclRequest {
            path: self.resolve(path)?,
            acl: Some(acl.into()),
            version,
        };
        expect!(self.ask(path, Request::SetAcl(request)).await?, SetAcl).map(|set| set.stat)
    }

    /// Brings this client's server up to date with its leader: reads made after it see all that was written before it.
    ///
    /// # Errors
    /// "server is read-only".
    pub async fn sync(&self, path: &str) -> Result<(), Error> {
        let request = SyncRequest {
            path: self.resolve(path)?,
        };
        expect!(self.ask(path, Request::Sync(request)).await?, Sync).map(|_| ())
    }

    /// Sends a request that leaves a watch, at once. The watcher is there unless the request was refused right away.
    fn submit_watching(&self, request: Request) -> (Reply, Result<Watcher, Error>) {
        let op = request.op();
        let (receiver, watch) = self.shared.act(|core| core.submit_watching(request));
        let watcher = watch
            .map(|(id, events)| Watcher::new(self.shared.clone(), id, events))
            .ok_or_else(super::shared::driver_gone);
        (Reply { op, receiver }, watcher)
    }
}

/// The request that creates such a node, at a path of the server.
pub(super) fn create_request(path: String, data: Bytes, mode: CreateMode, acl: Acls) -> Request {
    let (data, acl, flags) = (Some(data), Some(acl), mode.flags());
    match mode.ttl_ms() {
        Some(ttl_ms) => Request::CreateTtl(CreateTtlRequest {
            path,
            data,
            acl,
            flags,
            ttl_ms,
        }),
        None if mode == CreateMode::Container => Request::CreateContainer(CreateRequest {
            path,
            data,
            acl,
            flags,
        }),
        None => Request::Create2(CreateRequest {
            path,
            data,
            acl,
            flags,
        }),
    }
}

fn stat_if_there(reply: Result<Response, Error>) -> Result<Option<Stat>, Error> {
    match reply {
        Ok(reply) => expect!(reply, Exists).map(|there| Some(there.stat)),
        Err(error) if error.is_no_node() => Ok(None),
        Err(error) => Err(error),
    }
}
