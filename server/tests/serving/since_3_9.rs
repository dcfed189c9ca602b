//! What servers answer only since 3.9, as observed on 3.9.3.
//!
//! Not here: what servers of all releases answer alike (`tests/conformance`).

use common::{Peer, auth, create, create_with, exists, get_children, get_data, set_data};
use lockkeeper_proto::{
    Acl, AddWatchMode, CreateMode, ErrorCode, EventType, Perms, Request, Response, WatcherType,
    Zxid,
    multi::MultiRequest,
    records::{
        AddWatchRequest, CheckWatchesRequest, CreateRequest, CreateTtlRequest, RemoveWatchesRequest,
    },
};
use lockkeeper_server::Server;
use lockkeeper_test_support::peer as common;

fn record(path: &str, flags: i32) -> CreateRequest {
    CreateRequest {
        path: path.to_owned(),
        data: None,
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags,
    }
}

fn plain(path: &str, flags: i32) -> Request {
    Request::Create(record(path, flags))
}

fn with_ttl(path: &str, flags: i32, ttl_ms: i64) -> CreateTtlRequest {
    CreateTtlRequest {
        path: path.to_owned(),
        data: None,
        acl: Some(Acl::OPEN_UNSAFE.into()),
        flags,
        ttl_ms,
    }
}

async fn multi(peer: &mut Peer, ops: Vec<Request>) -> Result<Response, ErrorCode> {
    peer.call(&Request::Multi(MultiRequest { ops })).await
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

/// Sets a watch of each kind on `/p/n`.
async fn watch_in_all_modes(watcher: &mut Peer) {
    let add = |mode| {
        let path = "/p/n".to_owned();
        Request::AddWatch(AddWatchRequest { path, mode })
    };
    for request in [
        get_data("/p/n", true),
        get_children("/p/n", true),
        add(AddWatchMode::PERSISTENT),
        add(AddWatchMode::PERSISTENT_RECURSIVE),
    ] {
        watcher.call(&request).await.unwrap();
    }
}

/// From 3.9 on, modes are independent. A connection gets one event for a change, even if several of
/// its watches match.
#[tokio::test]
async fn watch_modes_on_one_path_are_independent() {
    let (server, mut watcher, mut writer) = world().await;
    watch_in_all_modes(&mut watcher).await;
    assert_eq!(server.report().watches, 4);
    let changed = (EventType::NODE_DATA_CHANGED, "/p/n".to_owned());
    for _ in 0..2 {
        writer.call(&set_data("/p/n", b"")).await.unwrap();
        assert_eq!(told(&mut watcher).await, std::slice::from_ref(&changed));
    }
    let create_child = create("/p/n/c", b"", CreateMode::Persistent);
    writer.call(&create_child).await.unwrap();
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
    // Watches of every mode end with their connection.
    watch_in_all_modes(&mut watcher).await;
    watch_in_all_modes(&mut watcher).await;
    assert_eq!(server.report().watches, 4);
    assert!(server.faults().cut(watcher.session));
    watcher.raw.assert_closed().await;
    assert_eq!(server.report().watches, 0);
}

/// From 3.9.2 on, a connection that may not read a node gets no event for it. Its one-shot watch is
/// removed all the same.
#[tokio::test]
async fn events_go_only_to_clients_that_may_read_the_node() {
    let (server, mut watcher, mut writer) = world().await;
    let secret = vec![Acl::new(
        Perms::ALL,
        "digest",
        "u:Jq7wMyA/w2Vd5WIDAKdu4OIIFEQ=",
    )];
    let create_secret = create_with("/p/s", b"", CreateMode::Persistent, secret);
    let auth = auth("u:p");
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

/// Servers before 3.7.2 and 3.8.2 answer a `create2` in a transaction without its metadata.
#[tokio::test]
async fn creates_in_a_multi_answer_with_the_metadata_or_without() {
    let server = Server::start().await.unwrap();
    let mut peer = Peer::join(&server).await;
    let ops = vec![
        // Flag 4 makes a container with any create. Operation 19 makes a container with any flag.
        plain("/a", 4),
        Request::CreateContainer(record("/b", 0)),
        Request::Create2(record("/c", 0)),
        Request::CreateTtl(with_ttl("/d", 5, 1000)),
        // Without a TTL flag this makes a plain node.
        Request::CreateTtl(with_ttl("/e", 0, -1)),
    ];
    let answer = multi(&mut peer, ops).await;
    let Ok(Response::Multi(response)) = answer else {
        panic!("{answer:?}");
    };
    let has_stat =
        |result: &Result<Response, ErrorCode>| matches!(result, Ok(Response::Create2(_)));
    let with_stat: Vec<_> = response.results.iter().map(has_stat).collect();
    assert_eq!(with_stat, [true, true, true, true, false]);
    // A create whose flags need a TTL makes the list unreadable. The request takes a transaction
    // and changes nothing.
    let before = server.report().zxid;
    for flags in [5, 6] {
        let refused = multi(&mut peer, vec![plain("/y", 0), plain("/x", flags)]).await;
        assert_eq!(refused, Err(ErrorCode::MARSHALLING_ERROR));
    }
    assert_eq!(server.report().zxid, Zxid(before.0 + 2));
    assert_eq!(server.report().nodes, 5);
}

/// Older servers read the flags of an operation when they come to it, and not at all behind a
/// failure.
#[tokio::test]
async fn a_bad_flag_fails_a_whole_transaction_wherever_it_stands() {
    let (server, _, mut peer) = world().await;
    let good = || plain("/y", 0);
    let missing = || plain("/no/y", 0);
    for flags in [5, 6, 9] {
        let bad = || plain("/x", flags);
        for ops in [
            vec![good(), bad()],
            vec![missing(), bad()],
            vec![bad(), good()],
        ] {
            let refused = multi(&mut peer, ops).await.unwrap_err();
            assert_eq!(refused, ErrorCode::MARSHALLING_ERROR, "{flags}");
        }
    }
    // A create with a time to live fails by itself.
    let ops = vec![good(), Request::CreateTtl(with_ttl("/x", 9, 1000))];
    let refused = multi(&mut peer, ops).await;
    let Ok(Response::Multi(results)) = refused else {
        panic!("{refused:?}");
    };
    let codes = [ErrorCode::OK, ErrorCode::BAD_ARGUMENTS];
    assert_eq!(results.results, codes.map(Err));
    assert!(!server.paths().iter().any(|path| path == "/y"));
}

/// Older servers answer with the error of the operation. Of several defects the first one counts: a
/// bad flag takes a transaction, and a null ACL takes none.
#[tokio::test]
async fn a_null_acl_fails_a_whole_transaction_wherever_it_stands() {
    let (server, _, mut peer) = world().await;
    let null_of = |path, flags| CreateRequest {
        acl: None,
        ..record(path, flags)
    };
    let with_ttl = Request::CreateTtl(CreateTtlRequest {
        acl: None,
        ..with_ttl("/t", 5, 1000)
    });
    let null = || Request::Create(null_of("/x", 0));
    for (ops, zxids) in [
        (vec![null()], 0),
        (vec![plain("/y", 0), null()], 0),
        (vec![plain("/no/y", 0), null()], 0),
        (vec![Request::Create2(null_of("/x", 0))], 0),
        (vec![Request::CreateContainer(null_of("/x", 4))], 0),
        (vec![Request::Create(null_of("/x", 5))], 0),
        (vec![Request::Create(null_of("/x", 9))], 1),
        (vec![null(), plain("/y", 9)], 0),
        (vec![plain("/y", 9), null()], 1),
        (vec![with_ttl.clone(), null()], 0),
    ] {
        let before = server.report().zxid;
        let refused = multi(&mut peer, ops.clone()).await;
        assert_eq!(refused, Err(ErrorCode::MARSHALLING_ERROR), "{ops:?}");
        assert_eq!(server.report().zxid.0 - before.0, zxids, "{ops:?}");
    }
    let refused = multi(&mut peer, vec![with_ttl]).await;
    let Ok(Response::Multi(results)) = refused else {
        panic!("{refused:?}");
    };
    let invalid = Err(ErrorCode::INVALID_ACL);
    assert_eq!(results.results, [invalid]);
    assert_eq!(server.paths(), ["/p", "/p/n"]);
}
