//! Helpers of these tests: short names for requests and events, and clients whose connections can
//! be cut.

use lockkeeper::{
    Client, CreateMode, Version,
    watch::{AddWatchMode, EventType, Missed, PersistentWatcher, WatchNotice, Watcher},
};
use tokio::net::lookup_host;

use crate::support::{
    Ensemble, SESSION_TIMEOUT,
    proxy::Proxy,
    waiting::{soon, until},
};

pub(crate) const PERSISTENT: AddWatchMode = AddWatchMode::PERSISTENT;
pub(crate) const RECURSIVE: AddWatchMode = AddWatchMode::PERSISTENT_RECURSIVE;
pub(crate) const CREATED: EventType = EventType::NODE_CREATED;
pub(crate) const DELETED: EventType = EventType::NODE_DELETED;
pub(crate) const CHANGED: EventType = EventType::NODE_DATA_CHANGED;
pub(crate) const CHILDREN: EventType = EventType::NODE_CHILDREN_CHANGED;

/// A client, another client, and the path of a new node.
pub(crate) async fn two_and_a_node(ensemble: &Ensemble, name: &str) -> (Client, Client, String) {
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let path = ensemble.unique_path(name);
    create(&client, &path).await;
    (client, other, path)
}

pub(crate) async fn create(client: &Client, path: &str) {
    client
        .create(path, "", CreateMode::Persistent)
        .await
        .unwrap_or_else(|error| panic!("{path}: {error}"));
}

pub(crate) async fn set(client: &Client, path: &str) {
    client.set_data(path, "x", Version::ANY).await.unwrap();
}

pub(crate) async fn delete(client: &Client, path: &str) {
    client.delete(path, Version::ANY).await.unwrap();
}

/// The event of a one-shot watcher.
pub(crate) async fn fired(watcher: Watcher) -> (EventType, String) {
    let event = soon(watcher).await.unwrap();
    (event.event_type, event.path)
}

/// The next event of a persistent watcher.
pub(crate) async fn event(watcher: &mut PersistentWatcher) -> (EventType, String) {
    match soon(watcher.next()).await {
        Some(Ok(WatchNotice::Event(event))) => (event.event_type, event.path),
        other => panic!("{other:?} instead of an event"),
    }
}

/// The next notice of a persistent watcher, which must be about missed events.
pub(crate) async fn missed(watcher: &mut PersistentWatcher) -> Missed {
    match soon(watcher.next()).await {
        Some(Ok(WatchNotice::Missed(missed))) => missed,
        other => panic!("{other:?} instead of missed events"),
    }
}

/// Checks that a persistent watcher has no notice, after all events up to now have arrived.
pub(crate) async fn silent(client: &Client, watcher: &mut PersistentWatcher) {
    // The events of earlier changes come before the reply to this request.
    client.sync("/").await.unwrap();
    tokio::select! {
        biased;
        notice = watcher.next() => panic!("{notice:?} instead of nothing"),
        () = std::future::ready(()) => {}
    }
}

/// A client, and the proxy between it and one server.
pub(crate) async fn behind_a_proxy(ensemble: &Ensemble) -> (Client, Proxy) {
    let server = lookup_host(ensemble.one_server()).await.unwrap().next();
    let proxy = Proxy::to(&[server.expect("an address")]).await;
    let builder = Client::builder(&proxy.connect_string()).unwrap();
    let client = builder.session_timeout(SESSION_TIMEOUT).connect();
    (client.await.unwrap(), proxy)
}

/// Runs `meanwhile` while a client has no connection, and waits until the client has connected
/// again.
pub(crate) async fn away(client: &Client, proxy: &Proxy, meanwhile: impl Future<Output = ()>) {
    let before = client.snapshot();
    proxy.cut();
    until!(!client.snapshot().state.is_connected());
    meanwhile.await;
    proxy.mend();
    until!(client.snapshot().connections > before.connections);
    assert_eq!(client.snapshot().session_id, before.session_id);
}
