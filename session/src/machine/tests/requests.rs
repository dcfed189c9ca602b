//! Short functions that make requests, replies and errors for the tests.

use bytes::Bytes;
use lockkeeper_proto::{
    AddWatchMode, CreateMode, Request, SessionId, WatcherType, Zxid,
    connect::ConnectResponse,
    records::{AddWatchRequest, CreateRequest, RemoveWatchesRequest, SetWatches, SetWatches2},
};

pub(super) use lockkeeper_test_support::{
    peer::{delete, exists, get_children as children, get_data as get, sync},
    scripted::sound as sound_reply,
};

use super::pair::{ID, PASSWORD};
use crate::{
    Cause, Config, ConnectString, Endpoint, Error, Lost, Peer,
    machine::{Auth, Event, WatchId},
};

/// A setting: these servers.
pub(super) fn servers(text: &str) -> impl Fn(&mut Config) {
    let servers: ConnectString = text.parse().unwrap();
    move |config| config.endpoints = servers.endpoints().to_vec()
}

/// An identity of the scheme `digest`.
pub(super) fn digest(credentials: &'static str) -> Auth {
    Auth {
        scheme: "digest".to_owned(),
        credentials: Bytes::from_static(credentials.as_bytes()),
    }
}

/// The answer to the handshake that grants this session.
pub(super) fn granted(timeout_ms: i32, session_id: SessionId) -> ConnectResponse {
    ConnectResponse {
        protocol_version: 0,
        timeout_ms,
        session_id,
        password: Some(Bytes::from_static(PASSWORD)),
        read_only: Some(false),
    }
}

/// The watches that fired.
pub(super) fn ids(fired: &[(WatchId, Result<Event, Error>)]) -> Vec<WatchId> {
    fired.iter().map(|(id, _)| *id).collect()
}

pub(super) fn removal(path: &str, watcher_type: WatcherType) -> Request {
    let path = path.to_owned();
    Request::RemoveWatches(RemoveWatchesRequest { path, watcher_type })
}

/// The usual server, and the session [`ID`].
pub(super) fn peer() -> Peer {
    Peer {
        server: Some(lost("zk1", Cause::ByClient).endpoint),
        session: ID,
    }
}

/// The error of a request that was not sent when the usual server says that the session [`ID`] has
/// expired.
pub(super) fn expired() -> Error {
    Error::expired(peer())
}

pub(super) fn create(path: &str, data: Vec<u8>) -> Request {
    Request::Create2(CreateRequest {
        path: path.to_owned(),
        data: Some(data.into()),
        acl: None,
        flags: CreateMode::Persistent.flags(),
    })
}

pub(super) fn set_watches(relative: i64, data: &[&str], exist: &[&str], child: &[&str]) -> Request {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    Request::SetWatches(SetWatches {
        relative_zxid: Zxid(relative),
        data_watches: owned(data),
        exist_watches: owned(exist),
        child_watches: owned(child),
    })
}

pub(super) fn add_watch(path: &str, mode: AddWatchMode) -> Request {
    let path = path.to_owned();
    Request::AddWatch(AddWatchRequest { path, mode })
}

/// The request of [`set_watches`], with persistent and recursive watches.
pub(super) fn set_watches2(relative: i64, lists: [&[&str]; 5]) -> Request {
    let owned = |paths: &[&str]| paths.iter().map(|path| (*path).to_owned()).collect();
    let [data, exist, child, persistent, recursive] = lists;
    Request::SetWatches2(SetWatches2 {
        relative_zxid: Zxid(relative),
        data_watches: owned(data),
        exist_watches: owned(exist),
        child_watches: owned(child),
        persistent_watches: owned(persistent),
        persistent_recursive_watches: owned(recursive),
    })
}

/// The loss of a connection of the session [`ID`] to this server.
pub(super) fn lost(host: &str, cause: Cause) -> Lost {
    Lost {
        session: ID,
        ..not_reached(host, cause)
    }
}

/// The failure of an attempt to connect to this server before there was a session.
pub(super) fn not_reached(host: &str, cause: Cause) -> Lost {
    let endpoint = Endpoint {
        host: host.to_owned(),
        port: 2181,
    };
    Lost {
        endpoint: endpoint.into(),
        session: SessionId::NONE,
        cause,
    }
}
