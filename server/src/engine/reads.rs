//! Requests that do not change the tree: reading it, and setting, checking and removing watches.
//!
//! The order of the checks decides the error of the reply, and whether a watch is set. It is the
//! order of 3.9. Paths are not validated: a malformed path is treated as a path without a node.
//!
//! Source: `FinalRequestProcessor`.

use bytes::BytesMut;
use lockkeeper_proto::{
    AddWatchMode, ErrorCode, Id, Perms, Request, Response, SessionId, Stat, WatcherType,
    jute::{Encode, Names, Writer},
    multi::{MultiReadRequest, MultiResponse},
    records::{
        AddWatchRequest, Empty, ErrorResponse, ExistsRequest, GetAclResponse,
        GetAllChildrenNumberResponse, GetChildren2Response, GetChildrenRequest,
        GetChildrenResponse, GetDataRequest, GetDataResponse, GetEphemeralsResponse, StatResponse,
        WhoAmIResponse,
    },
};

use super::{acl, auth, basics::ConnId, tree::Node, view::View, watches::Modes};

/// A client that reads, and what it sees.
pub(super) struct Reader<'a> {
    pub(super) view: &'a mut View,
    pub(super) connection: ConnId,
    pub(super) session: SessionId,
    pub(super) ids: &'a [Id],
}

impl Reader<'_> {
    /// Answers a request that does not change the tree; `None` for any other request.
    pub(super) fn answer(mut self, request: &Request) -> Option<Result<Response, ErrorCode>> {
        Some(match request {
            Request::Exists(it) => self.exists(it).map(Response::Exists),
            Request::GetData(it) => self.get_data(it).map(Response::GetData),
            Request::GetAcl(it) => self.get_acl(&it.path).map(Response::GetAcl),
            Request::GetChildren(it) => self
                .children(it)
                .map(|(children, _)| Response::GetChildren(GetChildrenResponse { children })),
            Request::GetChildren2(it) => self.children(it).map(|(children, stat)| {
                Response::GetChildren2(GetChildren2Response { children, stat })
            }),
            Request::GetAllChildrenNumber(it) => self.readable(&it.path).map(|_| {
                let count = self.view.tree.count_below(&it.path);
                let total_number = i32::try_from(count).unwrap_or(i32::MAX);
                Response::GetAllChildrenNumber(GetAllChildrenNumberResponse { total_number })
            }),
            Request::GetEphemerals(it) => {
                let ephemerals = self.ephemerals(it.prefix_path.as_deref());
                Ok(Response::GetEphemerals(GetEphemeralsResponse {
                    ephemerals,
                }))
            }
            Request::MultiRead(it) => self.multi_read(it).map(Response::MultiRead),
            Request::AddWatch(it) => self.add_watch(it).map(Response::AddWatch),
            Request::CheckWatches(it) => modes(it.watcher_type)
                .map(|modes| self.view.watches.has(self.connection, &it.path, modes))
                .and_then(found)
                .map(Response::CheckWatches),
            Request::RemoveWatches(it) => modes(it.watcher_type)
                .map(|modes| self.view.watches.remove(self.connection, &it.path, modes))
                .and_then(found)
                .map(Response::RemoveWatches),
            Request::WhoAmI(_) => Ok(Response::WhoAmI(WhoAmIResponse {
                client_info: auth::client_info(self.ids),
            })),
            _ => return None,
        })
    }

    fn watch(&mut self, path: &str, modes: Modes, wanted: bool) {
        if wanted {
            self.view.watches.add(self.connection, path, modes);
        }
    }

    fn readable(&self, path: &str) -> Result<&Node, ErrorCode> {
        let node = self.view.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&node.acl, Perms::READ, self.ids)?;
        Ok(node)
    }

    /// Sets the watch even if the node is missing, but not if the client may not read the node.
    fn exists(&mut self, request: &ExistsRequest) -> Result<StatResponse, ErrorCode> {
        if request.path.contains('\0') {
            return Err(ErrorCode::BAD_ARGUMENTS);
        }
        let stat = self.readable(&request.path).map(Node::stat);
        let may_watch = stat != Err(ErrorCode::NO_AUTH);
        self.watch(&request.path, Modes::DATA, request.watch && may_watch);
        stat.map(|stat| StatResponse { stat })
    }

    fn get_data(&mut self, request: &GetDataRequest) -> Result<GetDataResponse, ErrorCode> {
        let read = self.readable(&request.path).map(data_of)?;
        self.watch(&request.path, Modes::DATA, request.watch);
        Ok(read)
    }

    fn get_acl(&self, path: &str) -> Result<GetAclResponse, ErrorCode> {
        let node = self.view.tree.get(path).ok_or(ErrorCode::NO_NODE)?;
        acl::check(&node.acl, Perms::READ | Perms::ADMIN, self.ids)?;
        let acl = if acl::allows(&node.acl, Perms::ADMIN, self.ids) {
            node.acl.to_vec()
        } else {
            acl::redacted(&node.acl)
        };
        let stat = node.stat();
        Ok(GetAclResponse { acl, stat })
    }

    fn children(&mut self, request: &GetChildrenRequest) -> Result<(Names, Stat), ErrorCode> {
        let node = self.readable(&request.path)?;
        let children = (names(node), node.stat());
        self.watch(&request.path, Modes::CHILD, request.watch);
        Ok(children)
    }

    /// A short request can name a large node many times. If the reply would be too long, the whole
    /// request fails.
    fn multi_read(&self, request: &MultiReadRequest) -> Result<MultiResponse, ErrorCode> {
        let one = |op: &Request| match op {
            Request::GetData(it) => {
                let node = self.readable(&it.path)?;
                Ok(Response::GetData(data_of(node)))
            }
            Request::GetChildren(it) => {
                let children = names(self.readable(&it.path)?);
                Ok(Response::GetChildren(GetChildrenResponse { children }))
            }
            _ => Err(ErrorCode::MARSHALLING_ERROR),
        };
        let mut results = Vec::with_capacity(request.ops.len());
        let (mut length, mut encoded) = (0, BytesMut::new());
        for op in &request.ops {
            let result = one(op);
            if let Ok(response) = &result {
                response.encode(&mut Writer::new(&mut encoded));
            }
            length += encoded.len();
            encoded.clear();
            if length > MULTI_READ_LIMIT {
                return Err(ErrorCode::MARSHALLING_ERROR);
            }
            results.push(result);
        }
        Ok(MultiResponse { results })
    }

    /// The prefix is compared as plain text, not as a path. No prefix, a blank one and `/` mean all
    /// nodes.
    fn ephemerals(&self, prefix: Option<&str>) -> Vec<String> {
        let prefix = prefix.filter(|prefix| !prefix.trim().is_empty() && *prefix != "/");
        let own = self.view.tree.ephemerals_of(self.session);
        let own = own.filter(|path| prefix.is_none_or(|prefix| path.starts_with(prefix)));
        own.map(ToString::to_string).collect()
    }

    fn add_watch(&mut self, request: &AddWatchRequest) -> Result<ErrorResponse, ErrorCode> {
        let modes = match request.mode {
            AddWatchMode::PERSISTENT => Modes::PERSISTENT,
            AddWatchMode::PERSISTENT_RECURSIVE => Modes::RECURSIVE,
            _ => return Err(ErrorCode::MARSHALLING_ERROR),
        };
        self.watch(&request.path, modes, true);
        let err = ErrorCode::OK;
        Ok(ErrorResponse { err })
    }
}

/// The maximum number of bytes of the results in the reply to one `multiRead`. It is the default
/// frame limit of lockkeeper's client.
const MULTI_READ_LIMIT: usize = 8 << 20;

fn data_of(node: &Node) -> GetDataResponse {
    let (data, stat) = (node.data.clone(), node.stat());
    GetDataResponse { data, stat }
}

fn names(node: &Node) -> Names {
    node.children.iter().collect()
}

fn modes(watcher_type: WatcherType) -> Result<Modes, ErrorCode> {
    Modes::of_type(watcher_type).ok_or(ErrorCode::MARSHALLING_ERROR)
}

fn found(found: bool) -> Result<Empty, ErrorCode> {
    found.then_some(Empty {}).ok_or(ErrorCode::NO_WATCHER)
}
