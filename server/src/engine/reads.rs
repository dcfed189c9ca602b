//! Requests that do not change the tree: reading it, and setting, checking and removing watches.
//!
//! The order of the checks decides the error of the reply, and whether a watch is set. It is the order of 3.9. Paths
//! are not validated: a malformed path is treated as a path without a node.
//!
//! Source: `FinalRequestProcessor`.

use bytes::Bytes;
use lockkeeper_proto::{
    AddWatchMode, ErrorCode, Id, Perms, Request, Response, SessionId,
    multi::{MultiReadOp, MultiReadRequest, MultiResponse, MultiResult},
    records::{
        AddWatchRequest, ErrorResponse, ExistsRequest, GetAclRequest, GetAclResponse,
        GetAllChildrenNumberResponse, GetChildren2Response, GetChildrenRequest,
        GetChildrenResponse, GetDataRequest, GetDataResponse, GetEphemeralsResponse, StatResponse,
        WhoAmIResponse,
    },
};

use super::{
    ConnId, acl, auth,
    tree::{Node, Tree},
    view::View,
    watches::Modes,
};

/// The client that reads.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asker<'a> {
    pub(crate) connection: ConnId,
    pub(crate) session: SessionId,
    pub(crate) ids: &'a [Id],
}

/// Answers a request that does not change the tree; `None` for any other request.
pub(crate) fn answer(
    view: &mut View,
    asker: Asker<'_>,
    request: &Request,
) -> Option<Result<Response, ErrorCode>> {
    Some(match request {
        Request::Exists(request) => exists(view, asker, request).map(Response::Exists),
        Request::GetData(request) => get_data(view, asker, request).map(Response::GetData),
        Request::GetAcl(request) => get_acl(&view.tree, asker, request).map(Response::GetAcl),
        Request::GetChildren(request) => children(view, asker, request)
            .map(|(children, _)| Response::GetChildren(GetChildrenResponse { children })),
        Request::GetChildren2(request) => children(view, asker, request).map(|(children, node)| {
            let stat = node.stat();
            Response::GetChildren2(GetChildren2Response { children, stat })
        }),
        Request::GetAllChildrenNumber(request) => {
            readable(&view.tree, asker, &request.path).map(|_| {
                let count = view.tree.count_below(&request.path);
                let total_number = i32::try_from(count).unwrap_or(i32::MAX);
                Response::GetAllChildrenNumber(GetAllChildrenNumberResponse { total_number })
            })
        }
        Request::GetEphemerals(request) => {
            let prefix = request.prefix_path.as_deref();
            Ok(Response::GetEphemerals(ephemerals(
                &view.tree, asker, prefix,
            )))
        }
        Request::MultiRead(request) => multi_read(view, asker, request).map(Response::MultiRead),
        Request::AddWatch(request) => add_watch(view, asker, request).map(Response::AddWatch),
        Request::CheckWatches(request) => Modes::of_type(request.watcher_type)
            .ok_or(ErrorCode::MARSHALLING_ERROR)
            .map(|modes| view.watches.has(asker.connection, &request.path, modes))
            .and_then(found)
            .map(Response::CheckWatches),
        Request::RemoveWatches(request) => Modes::of_type(request.watcher_type)
            .ok_or(ErrorCode::MARSHALLING_ERROR)
            .map(|modes| view.watches.remove(asker.connection, &request.path, modes))
            .and_then(found)
            .map(Response::RemoveWatches),
        Request::WhoAmI(_) => Ok(Response::WhoAmI(WhoAmIResponse {
            client_info: auth::client_info(asker.ids),
        })),
        _ => return None,
    })
}

/// Sets the watch even if the node is missing, but not if the client may not read the node.
fn exists(
    view: &mut View,
    asker: Asker<'_>,
    request: &ExistsRequest,
) -> Result<StatResponse, ErrorCode> {
    if request.path.contains('\0') {
        return Err(ErrorCode::BAD_ARGUMENTS);
    }
    let node = view.tree.get(&request.path);
    if let Some(node) = node {
        acl::check(&node.acl, Perms::READ, asker.ids)?;
    }
    if request.watch {
        view.watches
            .add(asker.connection, &request.path, Modes::DATA);
    }
    let stat = node.ok_or(ErrorCode::NO_NODE)?.stat();
    Ok(StatResponse { stat })
}

fn get_data(
    view: &mut View,
    asker: Asker<'_>,
    request: &GetDataRequest,
) -> Result<GetDataResponse, ErrorCode> {
    let node = readable(&view.tree, asker, &request.path)?;
    if request.watch {
        view.watches
            .add(asker.connection, &request.path, Modes::DATA);
    }
    Ok(GetDataResponse {
        data: node.data.clone(),
        stat: node.stat(),
    })
}

fn get_acl(
    tree: &Tree,
    asker: Asker<'_>,
    request: &GetAclRequest,
) -> Result<GetAclResponse, ErrorCode> {
    let node = tree.get(&request.path).ok_or(ErrorCode::NO_NODE)?;
    acl::check(&node.acl, Perms::READ | Perms::ADMIN, asker.ids)?;
    let acl = if acl::allows(&node.acl, Perms::ADMIN, asker.ids) {
        node.acl.to_vec()
    } else {
        acl::redacted(&node.acl)
    };
    let stat = node.stat();
    Ok(GetAclResponse { acl, stat })
}

fn children<'a>(
    view: &'a mut View,
    asker: Asker<'_>,
    request: &GetChildrenRequest,
) -> Result<(Vec<String>, &'a Node), ErrorCode> {
    let node = readable(&view.tree, asker, &request.path)?;
    if request.watch {
        view.watches
            .add(asker.connection, &request.path, Modes::CHILD);
    }
    Ok((names(node), node))
}

/// A short request can name a large node many times. If the reply would be too long, the whole request fails.
fn multi_read(
    view: &View,
    asker: Asker<'_>,
    request: &MultiReadRequest,
) -> Result<MultiResponse, ErrorCode> {
    let one = |op: &MultiReadOp| match op {
        MultiReadOp::GetData(request) => readable(&view.tree, asker, &request.path).map(|node| {
            MultiResult::GetData(GetDataResponse {
                data: node.data.clone(),
                stat: node.stat(),
            })
        }),
        MultiReadOp::GetChildren(request) => {
            readable(&view.tree, asker, &request.path).map(|node| {
                let children = names(node);
                MultiResult::GetChildren(GetChildrenResponse { children })
            })
        }
        _ => Err(ErrorCode::MARSHALLING_ERROR),
    };
    let mut results = Vec::with_capacity(request.ops.len());
    let mut length = 0_usize;
    for op in &request.ops {
        let result = one(op).unwrap_or_else(MultiResult::Error);
        length = length.saturating_add(match &result {
            MultiResult::GetData(read) => read.data.as_ref().map_or(0, Bytes::len),
            MultiResult::GetChildren(list) => list
                .children
                .iter()
                .map(|name| name.len().saturating_add(size_of::<String>()))
                .sum(),
            _ => 0,
        });
        if length > MULTI_READ_LIMIT {
            return Err(ErrorCode::MARSHALLING_ERROR);
        }
        results.push(result);
    }
    Ok(MultiResponse { results })
}

/// The maximum number of bytes of data and names in the reply to one `multiRead`, counted as they are stored. It is the
/// default frame limit of lockkeeper's client.
const MULTI_READ_LIMIT: usize = 8 << 20;

/// The prefix is compared as plain text, not as a path. No prefix, a blank one and `/` mean all nodes.
fn ephemerals(tree: &Tree, asker: Asker<'_>, prefix: Option<&str>) -> GetEphemeralsResponse {
    let prefix = prefix.filter(|prefix| !prefix.trim().is_empty() && *prefix != "/");
    let own = tree.ephemerals_of(asker.session);
    GetEphemeralsResponse {
        ephemerals: own
            .filter(|path| prefix.is_none_or(|prefix| path.starts_with(prefix)))
            .map(std::string::ToString::to_string)
            .collect(),
    }
}

fn add_watch(
    view: &mut View,
    asker: Asker<'_>,
    request: &AddWatchRequest,
) -> Result<ErrorResponse, ErrorCode> {
    let modes = match request.mode {
        AddWatchMode::PERSISTENT => Modes::PERSISTENT,
        AddWatchMode::PERSISTENT_RECURSIVE => Modes::RECURSIVE,
        _ => return Err(ErrorCode::MARSHALLING_ERROR),
    };
    view.watches.add(asker.connection, &request.path, modes);
    let err = ErrorCode::OK;
    Ok(ErrorResponse { err })
}

fn readable<'a>(tree: &'a Tree, asker: Asker<'_>, path: &str) -> Result<&'a Node, ErrorCode> {
    let node = tree.get(path).ok_or(ErrorCode::NO_NODE)?;
    acl::check(&node.acl, Perms::READ, asker.ids)?;
    Ok(node)
}

fn names(node: &Node) -> Vec<String> {
    node.children
        .iter()
        .map(std::string::ToString::to_string)
        .collect()
}

fn found(found: bool) -> Result<lockkeeper_proto::records::Empty, ErrorCode> {
    if found {
        Ok(lockkeeper_proto::records::Empty {})
    } else {
        Err(ErrorCode::NO_WATCHER)
    }
}
