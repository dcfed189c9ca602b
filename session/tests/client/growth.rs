//! The client's memory does not grow: after many rounds of reconnects, watches, dropped futures or
//! expiries it holds as much as before. The allocator of this program counts by thread. The server
//! runs on other threads, so only the client is counted.

use std::{future::Future, pin::pin, thread, time::Duration};

use lockkeeper_proto::{AddWatchMode, CreateMode, Version};
use lockkeeper_server::{Faults, Server};
use lockkeeper_session::{Client, ErrorKind};
use tokio::runtime::Runtime;

use super::{
    servers::{client, follow, server},
    waiting::{poll_once, soon},
};

/// Rounds before the measurement. Buffers and tables have reached their size after these.
const FIRST: usize = 30;
/// Rounds that are measured.
const ROUNDS: usize = 200;
/// Allowed growth in bytes: a table may grow once more.
const SLACK: i64 = 16 * 1024;

/// A server on its own threads.
struct Apart {
    server: Server,
    _servers: Runtime,
}

impl Apart {
    fn new() -> Self {
        let servers = Runtime::new().unwrap();
        let server = servers.block_on(server());
        Self {
            server,
            _servers: servers,
        }
    }

    /// Does this to the server on another thread, because the server's memory must not be counted.
    fn fault(&self, fault: impl FnOnce(Faults) + Send) {
        let faults = self.server.faults();
        thread::scope(|scope| scope.spawn(|| fault(faults)).join().unwrap());
    }

    /// Cuts the connection and waits for the next one. The client counts short connections as
    /// failures and waits longer after each. Therefore this happens only in a few of the rounds.
    async fn reconnect(&self, client: &Client, number: usize) {
        if number % 40 == 0 {
            let before = client.snapshot().connections;
            self.fault(|faults| faults.cut_all());
            connected_since(client, before).await;
        }
    }
}

/// Waits for another connection than the first `before`.
async fn connected_since(client: &Client, before: u64) {
    follow(client, |now| {
        now.connections > before && now.state.is_connected()
    })
    .await;
}

/// Checks that [`ROUNDS`] rounds leave nothing allocated, and no request.
fn assert_nothing_grows(what: &str, apart: &Apart, round: &impl AsyncFn(&Client, usize)) {
    let runtime = tokio::runtime::Builder::new_current_thread();
    let runtime = { runtime }.enable_all().build().unwrap();
    let client = runtime.block_on(client(&apart.server));
    let rounds = async |range: std::ops::Range<usize>| {
        for number in range {
            round(&client, number).await;
        }
        soon(client.sync("/")).await.unwrap();
    };
    runtime.block_on(rounds(0..FIRST));
    let (outstanding, watches) = (client.metrics().outstanding(), client.metrics().watches);
    let left = allocation_counter::measure(|| {
        runtime.block_on(rounds(FIRST..FIRST + ROUNDS));
    });
    assert_eq!(
        (client.metrics().outstanding(), client.metrics().watches),
        (outstanding, watches)
    );
    assert_eq!(client.metrics().waiting, 0);
    let (bytes, blocks) = (left.bytes_current, left.count_current);
    println!("{what}: {bytes} bytes, {blocks} blocks more after {ROUNDS} rounds");
    assert!(bytes < SLACK, "{what}: {bytes} bytes");
}

/// Polls the future once and drops it.
fn glance<F: Future>(future: F) {
    let _ = poll_once(pin!(future));
}

#[test]
fn reconnects_leave_nothing_behind() {
    let apart = Apart::new();
    assert_nothing_grows("reconnects", &apart, &async |client, number| {
        apart.reconnect(client, number).await;
    });
}

#[test]
fn watches_leave_nothing_behind() {
    let apart = Apart::new();
    assert_nothing_grows("watches", &apart, &async |client, number| {
        let path = format!("/node-{number}");
        soon(client.create(&path, "", CreateMode::Persistent))
            .await
            .unwrap();
        // One watch fires, one is dropped, one is dropped before its reply, and two are persistent.
        let (_, fires) = soon(client.get_data_and_watch(&path)).await.unwrap();
        let (_, dropped) = soon(client.get_children_and_watch(&path)).await.unwrap();
        glance(client.exists_and_watch("/never"));
        let mode = AddWatchMode::PERSISTENT_RECURSIVE;
        let mut persistent = soon(client.add_watch("/", mode)).await.unwrap();
        let also = soon(client.add_watch("/", mode)).await.unwrap();
        drop(also);
        let armed = client.raw().watch_group();
        armed.watch("/", vec![path[1..].into()]);
        apart.reconnect(client, number).await;
        soon(client.delete(&path, Version::ANY)).await.unwrap();
        soon(fires).await.unwrap();
        assert!(soon(persistent.next()).await.is_some());
        soon(armed.next()).await.unwrap();
        drop(dropped);
    });
}

#[test]
fn dropped_futures_and_passed_deadlines_leave_nothing_behind() {
    let apart = Apart::new();
    assert_nothing_grows("dropped futures", &apart, &async |client, number| {
        for _ in 0..20 {
            glance(client.sync("/"));
            glance(client.get_data_and_watch("/"));
            glance(client.create("/", "exists", CreateMode::Persistent));
        }
        let passed = client.with_deadline(Duration::ZERO);
        let late = passed.sync("/");
        let late = soon(late).await.unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::DeadlineExceeded { .. }));
        let hasty = client.with_deadline(Duration::from_micros(1));
        let _ = soon(hasty.get_data_and_watch("/")).await;
        apart.reconnect(client, number).await;
        while client.metrics().watches > 0 || client.metrics().outstanding() > 0 {
            tokio::task::yield_now().await;
        }
    });
}

/// The watches and requests of a session end with it.
#[test]
fn expired_sessions_leave_nothing_behind() {
    let apart = Apart::new();
    assert_nothing_grows("expiries", &apart, &async |client, number| {
        let session = client.snapshot().session_id;
        let path = format!("/node-{session}-{number}");
        soon(client.create(&path, "", CreateMode::Ephemeral))
            .await
            .unwrap();
        let (_, fires) = soon(client.get_data_and_watch(&path)).await.unwrap();
        let mode = AddWatchMode::PERSISTENT_RECURSIVE;
        let mut persistent = soon(client.add_watch("/never", mode)).await.unwrap();
        let armed = client.raw().watch_group();
        armed.watch("/", vec![path[1..].into()]);
        // Only in a few rounds: a client whose connections are closed at once, again and again,
        // waits longer each time.
        if number % 20 == 0 {
            apart.fault(|faults| assert!(faults.expire_early(session)));
            glance(client.get_children_and_watch("/"));
            follow(client, |now| {
                now.session_id != session && now.state.is_connected()
            })
            .await;
            // The watchers get the error of the expiry, or the event of the deletion that came with
            // it.
            let _ = soon(fires).await;
            while let Some(Ok(_)) = soon(persistent.next()).await {}
        } else {
            soon(client.delete(&path, Version::ANY)).await.unwrap();
            soon(fires).await.unwrap();
        }
        drop(armed);
    });
}
