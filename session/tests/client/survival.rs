//! A session, its nodes and its watches survive a lost connection. The client reports an expiry.

use std::sync::Arc;

use lockkeeper_proto::{Acl, Acls, CreateMode, EventType, OpCode, Version};
use lockkeeper_server::When;
use lockkeeper_session::{Cause, Client, Effect, Error, Peer, State};

use super::{
    servers::{builder, client, follow, server},
    waiting::{soon, until},
};

const ANY: Version = Version::ANY;

#[tokio::test]
async fn the_session_its_nodes_and_its_watches_survive_a_cut_connection() {
    let server = server().await;
    let (holder, other) = (client(&server).await, client(&server).await);
    for path in ["/data", "/list", "/there"] {
        let created = other.create(path, "", CreateMode::Persistent).await;
        assert_eq!(created.unwrap().path, path);
    }
    let ephemeral = holder.create("/mine", "", CreateMode::Ephemeral).await;
    let session = holder.snapshot().session_id;
    assert_eq!(ephemeral.unwrap().stat.ephemeral_owner, session);
    let (_, data) = holder.get_data_and_watch("/data").await.unwrap();
    let (_, list) = holder.get_children_and_watch("/list").await.unwrap();
    let (there, deleted) = holder.exists_and_watch("/there").await.unwrap();
    let (missing, created) = holder.exists_and_watch("/missing").await.unwrap();
    assert!(there.is_some() && missing.is_none());
    let armed = holder.raw().watch_nodes(&["/mine"]).unwrap().remove(0);

    assert!(server.faults().cut(session));
    let back = follow(&holder, |now| now.connections == 2).await;
    assert_eq!((back.state, back.session_id), (State::Connected, session));
    assert_eq!(holder.metrics().watches, 5);
    other.set_data("/data", "new", ANY).await.unwrap();
    other.delete("/there", ANY).await.unwrap();
    other.delete("/mine", ANY).await.unwrap();
    for path in ["/list/child", "/missing"] {
        let mode = CreateMode::Persistent;
        other.create(path, "", mode).await.unwrap();
    }
    for (watcher, event_type, path) in [
        (data, EventType::NODE_DATA_CHANGED, "/data"),
        (list, EventType::NODE_CHILDREN_CHANGED, "/list"),
        (deleted, EventType::NODE_DELETED, "/there"),
        (created, EventType::NODE_CREATED, "/missing"),
        (armed, EventType::NODE_DELETED, "/mine"),
    ] {
        let event = soon(watcher).await.unwrap();
        assert_eq!((event.event_type, &*event.path), (event_type, path));
    }
    assert_eq!(holder.metrics().watches, 0);
}

#[tokio::test]
async fn events_of_an_outage_are_delivered_after_it() {
    let server = server().await;
    let (watching, other) = (client(&server).await, client(&server).await);
    for path in ["/data", "/gone", "/list"] {
        other
            .create(path, "", CreateMode::Persistent)
            .await
            .unwrap();
    }
    let (_, data) = watching.get_data_and_watch("/data").await.unwrap();
    let (_, gone) = watching.get_data_and_watch("/gone").await.unwrap();
    let (_, list) = watching.get_children_and_watch("/list").await.unwrap();
    let (_, quiet) = watching.get_data_and_watch("/list").await.unwrap();
    let (_, created) = watching.exists_and_watch("/new").await.unwrap();

    server.faults().refuse_handshakes(true);
    server.faults().cut(watching.snapshot().session_id);
    follow(&watching, |now| now.state == State::Suspended).await;
    other.set_data("/data", "new", ANY).await.unwrap();
    other.delete("/gone", ANY).await.unwrap();
    for path in ["/list/child", "/new"] {
        let mode = CreateMode::Persistent;
        other.create(path, "", mode).await.unwrap();
    }
    let armed = watching.raw().watch_nodes(&["/gone", "/list"]).unwrap();
    server.faults().refuse_handshakes(false);

    for (watcher, event_type) in [
        (data, EventType::NODE_DATA_CHANGED),
        (gone, EventType::NODE_DELETED),
        (list, EventType::NODE_CHILDREN_CHANGED),
        (created, EventType::NODE_CREATED),
    ] {
        assert_eq!(soon(watcher).await.unwrap().event_type, event_type);
    }
    let [gone, alive]: [_; 2] = armed.try_into().unwrap();
    let told = soon(gone).await.unwrap().event_type;
    assert_eq!(told, EventType::NODE_DELETED);
    assert_eq!(watching.metrics().watches, 2);
    other.delete("/list/child", ANY).await.unwrap();
    other.delete("/list", ANY).await.unwrap();
    for watcher in [quiet, alive] {
        let told = soon(watcher).await.unwrap().event_type;
        assert_eq!(told, EventType::NODE_DELETED);
    }
}

#[tokio::test]
async fn a_lost_reply_has_an_unknown_effect_and_the_next_request_is_sent_later() {
    let server = server().await;
    let client = client(&server).await;
    server.faults().lose_reply(When::create());
    let lost = client.create("/a", "", CreateMode::Persistent).await;
    let error = lost.unwrap_err();
    assert_eq!(error.effect(), Effect::Unknown);
    let Error::ConnectionLost(why, _) = &error else {
        panic!("{error:?}");
    };
    // The server has not answered this operation before, so the client does not know yet whether
    // the server supports it.
    assert_eq!(why.cause, Cause::ClosedOn(OpCode::CREATE2));
    assert_eq!(why.endpoint.port, server.local_addr().port());
    let again = soon(client.create("/a", "", CreateMode::Persistent)).await;
    assert!(again.unwrap_err().is_node_exists());
    assert_eq!(client.snapshot().connections, 2);
}

#[tokio::test]
async fn an_expired_session_is_reported_and_replaced() {
    let server = server().await;
    let client = client(&server).await;
    let before = client.snapshot().session_id;
    client
        .create("/mine", "", CreateMode::Ephemeral)
        .await
        .unwrap();
    let (_, watcher) = client.get_data_and_watch("/mine").await.unwrap();
    assert!(client.lease().is_valid);

    assert!(server.faults().expire(before));
    let over = Error::SessionExpired {
        peer: Peer {
            server: Some(Arc::new(server.local_addr().into())),
            session: before,
        },
        effect: Effect::NotApplied,
    };
    // The expiry deletes the node. Its event may arrive before the connection ends. Otherwise the
    // client learns of the expiry when it has reconnected.
    match soon(watcher).await {
        Ok(event) => assert_eq!(event.event_type, EventType::NODE_DELETED),
        Err(error) => assert_eq!(error, over),
    }
    let after = follow(&client, |now| {
        now.state == State::Connected && now.session_id != before
    })
    .await;
    assert!(after.is_session(after.session_id) && !after.is_session(before));
    assert_eq!(client.lease().session_id, after.session_id);
    assert_eq!(soon(client.exists("/mine")).await.unwrap(), None);
    let mode = CreateMode::Ephemeral;
    let again = soon(client.create("/mine", "", mode)).await.unwrap();
    assert_eq!(again.stat.ephemeral_owner, after.session_id);
}

/// Other clients send their credentials only once, so requests that worked before are not
/// authorized after a reconnect.
#[tokio::test]
async fn credentials_are_sent_again_on_the_next_connection() {
    let server = server().await;
    let builder = builder(&server).auth("digest", "user:password");
    let owner = soon(builder.connect()).await.unwrap();
    let acl = Acls::Borrowed(Acl::CREATOR_ALL);
    let mode = CreateMode::Persistent;
    owner.create_with_acl("/own", "x", mode, acl).await.unwrap();
    let other = client(&server).await;
    let refused = other.get_data("/own").await.unwrap_err();
    assert_eq!(refused.code(), Some(lockkeeper_proto::ErrorCode::NO_AUTH));
    server.faults().cut(owner.snapshot().session_id);
    follow(&owner, |now| now.connections == 2).await;
    soon(owner.get_data("/own")).await.unwrap();
    let auths = server.counters().requests_of(OpCode::AUTH);
    assert_eq!(auths, 2);
}

#[tokio::test]
async fn a_restarted_server_is_found_again() {
    let server = server().await;
    let client = client(&server).await;
    let session = client.snapshot().session_id;
    server.faults().close_port().await;
    server.faults().cut_all();
    follow(&client, |now| now.state == State::Suspended).await;
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { client.exists("/zookeeper").await }
    });
    tokio::task::yield_now().await;
    server.faults().open_port().await.unwrap();
    let there = soon(waiting).await.unwrap().unwrap();
    assert!(there.is_some());
    assert_eq!(client.snapshot().session_id, session);
}

#[tokio::test]
async fn events_carry_the_paths_that_the_client_uses() {
    let server = server().await;
    let root = client(&server).await;
    root.create("/app", "", CreateMode::Persistent)
        .await
        .unwrap();
    let servers = format!("{}/app", server.connect_string());
    let client = soon(Client::connect(&servers)).await.unwrap();
    let (_, own_root) = client.get_children_and_watch("/").await.unwrap();
    let (_, missing) = client.exists_and_watch("/a").await.unwrap();
    server.faults().cut(client.snapshot().session_id);
    follow(&client, |now| now.connections == 2).await;
    let armed = client.raw().watch_nodes(&["/a"]).unwrap().remove(0);
    // There is no such node, so the watcher reports a deletion.
    assert_eq!(soon(armed).await.unwrap().path, "/a");
    let mode = CreateMode::Persistent;
    root.create("/app/a", "", mode).await.unwrap();
    assert_eq!(soon(own_root).await.unwrap().path, "/");
    assert_eq!(soon(missing).await.unwrap().path, "/a");
}

#[tokio::test]
async fn the_last_dropped_watcher_removes_the_watch_from_the_server() {
    let server = server().await;
    let client = client(&server).await;
    let (_, first) = client.get_children_and_watch("/").await.unwrap();
    let (_, second) = client.get_children_and_watch("/").await.unwrap();
    drop(first);
    soon(client.sync("/")).await.unwrap();
    assert_eq!((server.report().watches, client.metrics().watches), (1, 1));
    drop(second);
    until("the server has no watch", async || {
        server.report().watches == 0
    })
    .await;
    assert_eq!(server.counters().requests_of(OpCode::REMOVE_WATCHES), 1);

    // The future is dropped while its request is under way. It leaves no watch behind either.
    server
        .faults()
        .delay_all(std::time::Duration::from_millis(20));
    {
        let reading = client.get_data_and_watch("/");
        let dropped = tokio::time::timeout(std::time::Duration::from_millis(5), reading);
        assert!(dropped.await.is_err());
    }
    server.faults().delay_none();
    soon(client.sync("/")).await.unwrap();
    until("the server has no watch", async || {
        server.report().watches == 0
    })
    .await;
    assert_eq!(client.metrics().watches, 0);
}
