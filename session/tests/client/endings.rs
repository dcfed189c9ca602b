//! The end of a client: its last handle is dropped, it is closed, or its runtime is dropped.

use std::{
    io,
    pin::pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
        mpsc,
    },
    task::{Context, Wake, Waker},
    thread,
    time::Duration,
};

use lockkeeper_proto::{AddWatchMode, CreateMode, EventType, OpCode, Version};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Client, Connector, Effect, Error, ErrorKind, State, WatchNotice};
use lockkeeper_test_support::scripted::{Peer, event, sound};
use tokio::runtime::Runtime;

use super::{
    servers::{client, server},
    waiting::{soon, until},
};

#[tokio::test]
async fn the_session_ends_with_the_last_handle() {
    let server = server().await;
    let first = client(&server).await;
    first
        .create("/mine", "", CreateMode::Ephemeral)
        .await
        .unwrap();
    let (second, weak) = (first.clone(), first.raw().downgrade());
    let (_, watcher) = weak.exists_and_watch("/other").await.unwrap();
    drop(first);
    soon(second.sync("/")).await.unwrap();
    assert_eq!(server.report().sessions.len(), 1);
    let mut snapshots = second.snapshots();
    drop(second);
    let last = soon(snapshots.wait_for(|now| now.state == State::Closed)).await;
    assert!(last.is_ok());
    assert!(server.report().sessions.is_empty() && server.paths().is_empty());
    let counters = server.counters();
    assert_eq!(counters.requests_of(OpCode::CLOSE_SESSION), 1);
    assert_eq!(counters.expired, 0);
    assert!(soon(watcher).await.is_err());
    let closed = Error::from(ErrorKind::Closed);
    assert_eq!(soon(weak.sync("/")).await.unwrap_err(), closed);
    assert!(weak.is_closed());
}

#[tokio::test]
async fn closing_waits_for_pending_requests_and_for_the_server() {
    let server = server().await;
    let first = client(&server).await;
    let other = first.clone();
    let mode = CreateMode::Ephemeral;
    let created = tokio::spawn({
        let client = first.clone();
        async move { client.create("/mine", "", mode).await }
    });
    tokio::task::yield_now().await;
    server
        .faults()
        .delay_reply(When::create(), Duration::from_millis(50));
    soon(first.close()).await;
    assert!(server.report().sessions.is_empty());
    assert_eq!(server.paths(), [""; 0]);
    assert!(soon(created).await.unwrap().is_ok());
    let closed = Error::from(ErrorKind::Closed);
    assert_eq!(soon(other.sync("/")).await.unwrap_err(), closed);
    soon(other.clone().close()).await;
    drop(other);
}

/// Closes its client when it is woken.
struct Closing(Mutex<Option<Client>>);

impl Wake for Closing {
    fn wake(self: Arc<Self>) {
        self.0.lock().unwrap().take();
    }
}

/// Regression: the client's task had taken two events and the state `Suspended` from the machine.
/// Whom it told of the first one closed the client, and told the others of that: the second event
/// was lost, and `Suspended` came behind `Closed`, so that `close` waited for ever.
#[tokio::test]
async fn closing_while_the_clients_task_delivers_loses_nothing_and_ends() {
    let (near, far) = tokio::io::duplex(1 << 16);
    let near = Mutex::new(Some(near));
    let connector = Connector::new(move |_| {
        let near = near.lock().unwrap().take();
        async move { near.ok_or_else(|| io::ErrorKind::ConnectionRefused.into()) }
    });
    let serve = tokio::spawn(async move {
        let mut peer = Peer::over(far);
        assert!(peer.handshake().await);
        for _ in 0..2 {
            let (xid, request) = peer.request().await.unwrap();
            peer.answer(xid, &sound(&request)).await;
        }
        peer
    });
    let builder = Client::builder("memory:1").unwrap().connector(connector);
    let client = soon(builder.connect()).await.unwrap();
    let add = || client.add_watch("/a", AddWatchMode::PERSISTENT);
    let mut first = soon(add()).await.unwrap();
    let mut second = soon(add()).await.unwrap();
    let mut peer = soon(serve).await.unwrap();
    let weak = client.raw().downgrade();
    let closing = Waker::from(Arc::new(Closing(Mutex::new(Some(client)))));
    let polled = pin!(first.next()).poll(&mut Context::from_waker(&closing));
    assert!(polled.is_pending());
    peer.send(&event(EventType::NODE_DATA_CHANGED, "/a")).await;
    drop(peer);
    for watcher in [&mut second, &mut first] {
        let told = soon(watcher.next()).await.unwrap();
        assert!(matches!(told, Ok(WatchNotice::Event(_))));
        let told = soon(watcher.next()).await.unwrap();
        assert_eq!(told, Err(ErrorKind::Closed.into()));
        assert!(soon(watcher.next()).await.is_none());
    }
    soon(weak.clone().close()).await;
    assert_eq!(weak.snapshot().state, State::Closed);
}

/// The server and the client's driver each have their own runtime. The users of the client are
/// plain threads.
struct Apart {
    server: Server,
    client: Client,
    drivers: Runtime,
    servers: Runtime,
}

impl Apart {
    fn new() -> Self {
        let runtime = || tokio::runtime::Runtime::new().unwrap();
        let (servers, drivers) = (runtime(), runtime());
        let server = servers.block_on(server());
        let client = drivers.block_on(client(&server));
        Self {
            server,
            client,
            drivers,
            servers,
        }
    }

    fn until(&self, mut condition: impl FnMut() -> bool) {
        self.servers
            .block_on(until("the condition holds", async || condition()));
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_time().build().unwrap();
    runtime.block_on(soon(future))
}

#[test]
fn waiting_callers_get_an_error_when_the_drivers_runtime_is_dropped() {
    let apart = Apart::new();
    let client = apart.client.clone();
    let (_, watcher) = block_on(client.get_data_and_watch("/")).unwrap();
    let late = Duration::from_secs(60);
    let faults = apart.server.faults();
    faults.delay_reply(When::op(OpCode::SYNC), late);
    let waiting = thread::spawn({
        let client = client.clone();
        move || block_on(client.sync("/"))
    });
    let watching = thread::spawn(move || block_on(watcher));
    apart.until(|| apart.server.counters().requests_of(OpCode::SYNC) == 1);
    let Apart {
        drivers,
        server: _server,
        ..
    } = apart;
    drop(drivers);
    let unknown = waiting.join().unwrap().unwrap_err();
    assert_eq!(unknown.kind(), &ErrorKind::Closed);
    assert_eq!(unknown.effect(), Effect::Unknown);
    let closed = Error::from(ErrorKind::Closed);
    assert_eq!(watching.join().unwrap().unwrap_err(), closed);

    assert_eq!(block_on(client.sync("/")).unwrap_err(), closed);
    assert_eq!(client.snapshot().state, State::Closed);
    assert_eq!(client.lease().valid_until, None);
    client
        .raw()
        .run_in_background(async { panic!("no runtime is left to run this") });
    let group = client.raw().watch_group();
    group.watch("/", vec!["a".into()]);
    assert!(block_on(group.next()).is_err());
    block_on(client.close());
}

#[test]
fn background_work_can_be_started_outside_a_runtime() {
    let apart = Apart::new();
    let mode = CreateMode::Persistent;
    block_on(apart.client.create("/a", "", mode)).unwrap();
    let weak = apart.client.raw().downgrade();
    let (done, is_done) = mpsc::channel();
    apart.client.raw().run_in_background(async move {
        let deleted = weak.delete("/a", Version::ANY).await;
        done.send(deleted).unwrap();
    });
    let deleted = is_done.recv_timeout(Duration::from_secs(20)).unwrap();
    assert_eq!(deleted, Ok(()));
    assert!(apart.server.paths().is_empty());

    // Requests, dropping a watcher and dropping the client also work outside a runtime.
    let (_, watcher) = block_on(apart.client.get_data_and_watch("/")).unwrap();
    assert_eq!(apart.server.report().watches, 1);
    drop(watcher);
    apart.until(|| apart.server.report().watches == 0);
    let Apart {
        client,
        server,
        servers,
        drivers: _drivers,
    } = apart;
    drop(client);
    servers.block_on(until("the session ends", async || {
        server.report().sessions.is_empty()
    }));
}

/// Sets a flag when it is dropped.
struct Flag(Arc<AtomicBool>);

impl Drop for Flag {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[tokio::test]
async fn background_work_ends_with_the_client() {
    let server = server().await;
    let client = client(&server).await;
    let dropped = Arc::new(AtomicBool::new(false));
    let flag = Flag(dropped.clone());
    let weak = client.raw().downgrade();
    client.raw().run_in_background(async move {
        let _flag = flag;
        // Never ends by itself, and takes the client's lock when it is dropped.
        let _watcher = weak.exists_and_watch("/never").await;
        std::future::pending::<()>().await;
    });
    until!(server.report().watches == 1);
    assert!(!dropped.load(Ordering::Relaxed));
    soon(client.close()).await;
    until!(dropped.load(Ordering::Relaxed));
}

#[tokio::test]
async fn a_cancelled_connect_leaves_no_connection() {
    let server = server().await;
    server.faults().delay_all(Duration::from_millis(30));
    let connecting = super::servers::builder(&server).connect();
    let given_up = tokio::time::timeout(Duration::from_millis(5), connecting).await;
    assert!(given_up.is_err());
    until!(server.report().connections == 0);
}
