//! Helpers of these tests: short names for requests and events, and a relay that can cut connections to any server.

use std::{net::SocketAddr, sync::Arc};

use lockkeeper::{
    Client, CreateMode, Version,
    watch::{AddWatchMode, EventType, Missed, PersistentWatcher, WatchNotice, Watcher},
};
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
    task::JoinHandle,
};

use crate::support::{Ensemble, waiting::soon};

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

/// A port in front of a server. The test can cut its connections and refuse new ones.
pub(crate) struct Relay {
    address: SocketAddr,
    /// How often connections were cut, and whether new connections are served.
    fate: watch::Sender<(u64, bool)>,
    task: JoinHandle<()>,
}

impl Relay {
    pub(crate) async fn before(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let fate = watch::Sender::new((0, true));
        let serving = fate.subscribe();
        let server: Arc<str> = server.into();
        let task = tokio::spawn(async move {
            while let Ok((inbound, _)) = listener.accept().await {
                if serving.borrow().1 {
                    tokio::spawn(carry(inbound, server.clone(), serving.clone()));
                }
            }
        });
        Self {
            address,
            fate,
            task,
        }
    }

    pub(crate) fn servers(&self) -> String {
        self.address.to_string()
    }

    /// Cuts all connections, and serves no new connections.
    pub(crate) fn cut(&self) {
        self.fate.send_modify(|fate| *fate = (fate.0 + 1, false));
    }

    /// Serves new connections again.
    pub(crate) fn mend(&self) {
        self.fate.send_modify(|fate| fate.1 = true);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
        self.cut();
    }
}

async fn carry(mut inbound: TcpStream, server: Arc<str>, mut fate: watch::Receiver<(u64, bool)>) {
    let Ok(mut outbound) = TcpStream::connect(&*server).await else {
        return;
    };
    let cuts = fate.borrow().0;
    tokio::select! {
        _ = tokio::io::copy_bidirectional(&mut inbound, &mut outbound) => {}
        _ = fate.wait_for(|fate| fate.0 != cuts) => {}
    }
}
