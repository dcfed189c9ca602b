//! Which events each kind of watch gets for each kind of change, as observed on 3.9.3.

mod common;

use bytes::Bytes;
use common::{Peer, create, create_with, delete, exists, get_children, get_data, set_data};
use lockkeeper_proto::{
    Acl, AddWatchMode, CreateMode, ErrorCode, EventType, Perms, Request, Version, WatcherType, Xid,
    Zxid,
    records::{
        AddWatchRequest, AuthPacket, CheckWatchesRequest, RemoveWatchesRequest, SetAclRequest,
        SetWatches, SetWatches2,
    },
};
use lockkeeper_server::Server;

/// A kind of watch on `/p/n`, or on its parent `/p` (names with `Above`).
#[derive(Clone, Copy, Debug, PartialEq)]
enum Watch {
    GetData,
    GetChildren,
    Persistent,
    Recursive,
    RecursiveAbove,
    ChildrenAbove,
    PersistentAbove,
}

const ALL: [Watch; 7] = [
    Watch::GetData,
    Watch::GetChildren,
    Watch::Persistent,
    Watch::Recursive,
    Watch::RecursiveAbove,
    Watch::ChildrenAbove,
    Watch::PersistentAbove,
];

impl Watch {
    fn request(self) -> Request {
        let add = |path: &str, mode| {
            Request::AddWatch(AddWatchRequest {
                path: path.to_owned(),
                mode,
            })
        };
        match self {
            Self::GetData => get_data("/p/n", true),
            Self::GetChildren => get_children("/p/n", true),
            Self::Persistent => add("/p/n", AddWatchMode::PERSISTENT),
            Self::Recursive => add("/p/n", AddWatchMode::PERSISTENT_RECURSIVE),
            Self::RecursiveAbove => add("/p", AddWatchMode::PERSISTENT_RECURSIVE),
            Self::ChildrenAbove => get_children("/p", true),
            Self::PersistentAbove => add("/p", AddWatchMode::PERSISTENT),
        }
    }

    fn is_one_shot(self) -> bool {
        matches!(
            self,
            Self::GetData | Self::GetChildren | Self::ChildrenAbove
        )
    }
}

fn event(watch: Watch, change: &str) -> Option<(EventType, &'static str)> {
    use EventType as E;
    use Watch as W;
    let recursive = matches!(watch, W::Recursive | W::RecursiveAbove);
    let above = matches!(watch, W::ChildrenAbove | W::PersistentAbove);
    match change {
        "set n" if recursive || matches!(watch, W::GetData | W::Persistent) => {
            Some((E::NODE_DATA_CHANGED, "/p/n"))
        }
        "delete n" if above => Some((E::NODE_CHILDREN_CHANGED, "/p")),
        "delete n" => Some((E::NODE_DELETED, "/p/n")),
        "create n/c" if recursive => Some((E::NODE_CREATED, "/p/n/c")),
        "set n/c" if recursive => Some((E::NODE_DATA_CHANGED, "/p/n/c")),
        "delete n/c" if recursive => Some((E::NODE_DELETED, "/p/n/c")),
        "create n/c" | "delete n/c" if matches!(watch, W::GetChildren | W::Persistent) => {
            Some((E::NODE_CHILDREN_CHANGED, "/p/n"))
        }
        _ => None,
    }
}

async fn change(peer: &mut Peer, change: &str) {
    let request = match change {
        "set n" => set_data("/p/n", b""),
        "setACL n" => Request::SetAcl(SetAclRequest {
            path: "/p/n".to_owned(),
            acl: Some(Acl::OPEN_UNSAFE.into()),
            version: Version::ANY,
        }),
        "delete n" => delete("/p/n"),
        "create n/c" => create("/p/n/c", b"", CreateMode::Persistent),
        "set n/c" => set_data("/p/n/c", b""),
        "delete n/c" => delete("/p/n/c"),
        other => panic!("{other}"),
    };
    peer.call(&request).await.unwrap();
}

/// The events that the peer has got so far.
async fn told(peer: &mut Peer) -> Vec<(EventType, String)> {
    peer.call(&exists("/", false)).await.unwrap();
    let events = peer.events.drain(..);
    events.map(|event| (event.event_type, event.path)).collect()
}

async fn world() -> (Server, Peer, Peer) {
    let server = Server::start().await.unwrap();
    let (watcher, mut writer) = (Peer::join(&server).await, Peer::join(&server).await);
    for path in ["/p", "/p/n"] {
        writer.create(path, CreateMode::Persistent).await.unwrap();
    }
    (server, watcher, writer)
}

#[tokio::test]
async fn each_kind_of_watch_gets_the_events_of_each_kind_of_change() {
    for watch in ALL {
        let (server, mut watcher, mut writer) = world().await;
        watcher.call(&watch.request()).await.unwrap();
        // Setting the same watch again causes no second event.
        watcher.call(&watch.request()).await.unwrap();
        let mut is_used_up = false;
        for what in [
            "setACL n",
            "set n",
            "set n",
            "create n/c",
            "set n/c",
            "delete n/c",
            "create n/c",
            "delete n/c",
            "delete n",
        ] {
            change(&mut writer, what).await;
            let expected = event(watch, what).filter(|_| !is_used_up);
            let expected: Vec<_> = expected
                .map(|(what, path)| (what, path.to_owned()))
                .into_iter()
                .collect();
            assert_eq!(told(&mut watcher).await, expected, "{watch:?}, {what}");
            is_used_up |= watch.is_one_shot() && !expected.is_empty();
        }
        assert_eq!(server.report().watches, usize::from(!watch.is_one_shot()));
        assert!(server.faults().cut(watcher.session));
        watcher.raw.assert_closed().await;
        assert_eq!(server.report().watches, 0);
    }
}

#[tokio::test]
async fn an_exists_watch_on_a_missing_node_fires_at_its_creation() {
    let (server, mut watcher, mut writer) = world().await;
    watcher.call(&exists("/p/m", true)).await.unwrap_err();
    watcher.call(&get_data("/p/m", true)).await.unwrap_err();
    watcher.call(&get_children("/p/m", true)).await.unwrap_err();
    assert_eq!(server.report().watches, 1, "only exists sets a watch");
    writer.create("/p/m", CreateMode::Persistent).await.unwrap();
    let created = (EventType::NODE_CREATED, "/p/m".to_owned());
    assert_eq!(told(&mut watcher).await, [created]);
}

/// From 3.9 on, modes are independent. A connection gets one event for a change, even if several of its watches match.
#[tokio::test]
async fn watch_modes_on_one_path_are_independent() {
    let (server, mut watcher, mut writer) = world().await;
    for watch in [
        Watch::GetData,
        Watch::GetChildren,
        Watch::Persistent,
        Watch::Recursive,
    ] {
        watcher.call(&watch.request()).await.unwrap();
    }
    assert_eq!(server.report().watches, 4);
    let changed = (EventType::NODE_DATA_CHANGED, "/p/n".to_owned());
    for _ in 0..2 {
        change(&mut writer, "set n").await;
        assert_eq!(told(&mut watcher).await, std::slice::from_ref(&changed));
    }
    change(&mut writer, "create n/c").await;
    assert_eq!(
        told(&mut watcher).await,
        [
            (EventType::NODE_CREATED, "/p/n/c".to_owned()),
            (EventType::NODE_CHILDREN_CHANGED, "/p/n".to_owned()),
        ]
    );
    assert_eq!(
        server.report().watches,
        2,
        "the one-shot watches have fired"
    );
    let mut remove = async |kind| {
        let path = "/p/n".to_owned();
        let check = Request::CheckWatches(CheckWatchesRequest {
            path: path.clone(),
            watcher_type: kind,
        });
        let checked = watcher.call(&check).await.map(|_| ());
        let remove = Request::RemoveWatches(RemoveWatchesRequest {
            path,
            watcher_type: kind,
        });
        let removed = watcher.call(&remove).await.map(|_| ());
        assert_eq!(checked, removed);
        removed
    };
    let none = Err(ErrorCode::NO_WATCHER);
    assert_eq!(remove(WatcherType::DATA).await, none);
    assert_eq!(remove(WatcherType::CHILDREN).await, none);
    assert_eq!(remove(WatcherType::PERSISTENT).await, Ok(()));
    assert_eq!(remove(WatcherType::PERSISTENT).await, none);
    assert_eq!(remove(WatcherType::ANY).await, Ok(()));
    assert_eq!(remove(WatcherType::PERSISTENT_RECURSIVE).await, none);
    assert_eq!(
        remove(WatcherType(6)).await,
        Err(ErrorCode::MARSHALLING_ERROR)
    );
    assert_eq!(server.report().watches, 0);
}

/// A client may set watches in the middle of a session, with an ordinary xid. The events come before the reply.
#[tokio::test]
async fn watches_can_be_set_in_a_batch_at_any_time() {
    let (server, mut watcher, mut writer) = world().await;
    let since = writer.zxid;
    change(&mut writer, "set n").await;
    let mut data_watches = vec!["/p".to_owned(), "/p/n".to_owned(), "/gone".to_owned()];
    let request = |since, data_watches| {
        Request::SetWatches(SetWatches {
            relative_zxid: since,
            data_watches,
            exist_watches: vec![],
            child_watches: vec![],
        })
    };
    watcher
        .call(&request(since, data_watches.clone()))
        .await
        .unwrap();
    let missed: Vec<_> = watcher
        .events
        .drain(..)
        .map(|event| (event.event_type, event.path))
        .collect();
    assert_eq!(
        missed,
        [
            (EventType::NODE_DATA_CHANGED, "/p/n".to_owned()),
            (EventType::NODE_DELETED, "/gone".to_owned()),
        ]
    );
    assert_eq!(
        server.report().watches,
        1,
        "only /p is unchanged and watched"
    );
    // The client claims to have seen everything, so there are no events, and both paths are watched.
    data_watches.pop();
    watcher
        .call(&request(Zxid(i64::MAX), data_watches))
        .await
        .unwrap();
    assert_eq!(server.report().watches, 2);
    change(&mut writer, "set n").await;
    assert_eq!(told(&mut watcher).await.len(), 1);
}

#[tokio::test]
async fn persistent_watches_are_restored_without_events() {
    let (server, mut watcher, mut writer) = world().await;
    let request = Request::SetWatches2(SetWatches2 {
        relative_zxid: Zxid::ZERO,
        data_watches: vec![],
        exist_watches: vec!["/p/m".to_owned()],
        child_watches: vec![],
        persistent_watches: vec!["/p/n".to_owned()],
        persistent_recursive_watches: vec!["/none".to_owned()],
    });
    let xid = Xid::SET_WATCHES;
    watcher
        .raw
        .send(&common::request_frame(xid, &request))
        .await;
    watcher.reply_to(xid, &request).await.unwrap().unwrap();
    assert_eq!(watcher.events, []);
    assert_eq!(server.report().watches, 3);
    change(&mut writer, "set n").await;
    assert_eq!(told(&mut watcher).await.len(), 1);
}

/// From 3.9.2 on, a connection that may not read a node gets no event for it. Its one-shot watch is removed all the
/// same.
#[tokio::test]
async fn events_go_only_to_clients_that_may_read_the_node() {
    let (server, mut watcher, mut writer) = world().await;
    let secret = vec![Acl::new(
        Perms::ALL,
        "digest",
        "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=",
    )];
    let create_secret = create_with("/p/s", b"", CreateMode::Persistent, secret);
    let auth = Request::Auth(AuthPacket {
        auth_type: 0,
        scheme: "digest".to_owned(),
        auth: Some(Bytes::from_static(b"u:p")),
    });
    let mut insider = Peer::join(&server).await;
    insider.call(&auth).await.unwrap();
    for peer in [&mut watcher, &mut insider] {
        peer.call(&exists("/p/s", true)).await.unwrap_err();
        peer.call(&get_children("/p", true)).await.unwrap();
    }
    writer.call(&create_secret).await.unwrap();
    let children = (EventType::NODE_CHILDREN_CHANGED, "/p".to_owned());
    let created = (EventType::NODE_CREATED, "/p/s".to_owned());
    assert_eq!(told(&mut watcher).await, std::slice::from_ref(&children));
    assert_eq!(told(&mut insider).await, [created, children]);
    assert_eq!(server.report().watches, 0);
    // `exists` sets no watch either, if the client may not read the node.
    let refused = watcher.call(&exists("/p/s", true)).await;
    assert_eq!(refused, Err(ErrorCode::NO_AUTH));
    assert_eq!(server.report().watches, 0);
}
