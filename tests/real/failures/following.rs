//! One client whose server is killed again and again: the client moves to another server each time.
//!
//! Not here: clients that contend for a lock (`main`, `contention`).

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::{Duration, Instant},
};

use lockkeeper::{
    Client, CreateMode, Version,
    watch::{EventType, Watcher},
};
use lockkeeper_sim::{
    check::{Bounds, check},
    history::{Event, What},
};

use crate::failures::{
    servers::{COUNT, Members, Servers, on_ensemble},
    support::waiting::soon,
};

/// Longer than any election. An election that fails starts again after three seconds (`initLimit`).
const SESSION_TIMEOUT: Duration = Duration::from_secs(40);

async fn client(servers: &Servers) -> Client {
    let builder = Client::builder(&servers.connect_string()).expect("a list of servers");
    let builder = builder.session_timeout(SESSION_TIMEOUT);
    builder.connect().await.expect("servers that serve")
}

/// The client reads all the time. Its reads never go back in time, although some servers lag. A
/// watch fires even if the server where it was set is dead, and the client sees no newer data
/// before the event.
#[test]
#[ignore = "needs three real ZooKeepers: tests/run.sh"]
fn needs_ensemble_a_client_follows_and_never_reads_backwards() {
    on_ensemble(Members::Fixed, async |servers: &mut Servers| {
        let (reader, writer) = (client(servers).await, client(servers).await);
        let node = format!("/following-{:016x}", reader.raw().random_u64());
        let quiet = format!("{node}-quiet");
        for node in [&node, &quiet] {
            let mode = CreateMode::Persistent;
            writer.create(node, "", mode).await.unwrap();
        }
        // The servers of the other clients may not know these nodes yet.
        let operator = client(servers).await;
        for client in [&reader, &operator] {
            client.sync(&quiet).await.unwrap();
        }
        let session = reader.snapshot().session_id;
        let stop = Arc::new(AtomicBool::new(false));
        let writing = tokio::spawn(write(writer, node.clone(), stop.clone()));
        let reading = tokio::spawn(read(reader.clone(), node.clone(), stop.clone()));
        let mut servers_seen = Vec::new();
        for _ in 0..3 {
            // This watch must fire for a change that is made after its server has died.
            let (_, changed) = soon(watched(&reader, &quiet)).await;
            let number = loop {
                match servers.of(&reader) {
                    Some(number) => break number,
                    None => tokio::time::sleep(Duration::from_millis(5)).await,
                }
            };
            servers_seen.push(number);
            servers.kill(number);
            servers.wait_until_serving(COUNT - 1);
            soon(set(&operator, &quiet)).await;
            let event = soon(changed).await.expect("the session lives");
            assert_eq!(
                (event.event_type, &event.path),
                (EventType::NODE_DATA_CHANGED, &quiet)
            );
            assert_eq!(reader.snapshot().session_id, session);
            servers.start(number);
            servers.wait_until_all_serve();
        }
        stop.store(true, Ordering::SeqCst);
        let written = soon(writing).await.unwrap();
        let events = soon(reading).await.unwrap();
        assert_eq!(reader.snapshot().session_id, session);
        let connections = reader.snapshot().connections;
        assert!(connections >= 4, "{connections} connections");
        let versions = events.iter().filter_map(|event| match event.what {
            What::Read { version, .. } => Some(version),
            _ => None,
        });
        let versions: Vec<_> = versions.collect();
        assert!(versions.is_sorted(), "it read backwards");
        let bounds = Bounds {
            calm: Duration::ZERO,
            max_wait: None,
            news: Duration::ZERO,
            hand_over: None,
            knows_sessions: false,
        };
        let found = check(&events, &bounds);
        assert!(found.is_empty(), "{found:?}");
        println!(
            "a client over servers {servers_seen:?}: {connections} connections, {} reads of {written} writes",
            versions.len()
        );
        reader.close().await;
        operator.close().await;
    });
}

/// Sets a watch. Retries while the connection fails.
async fn watched(client: &Client, node: &str) -> (i64, Watcher) {
    loop {
        match client.get_data_and_watch(node).await {
            Ok((found, watcher)) => return (found.stat.mzxid.0, watcher),
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
    }
}

/// Changes a node. Retries while the connection fails.
async fn set(client: &Client, node: &str) {
    while let Err(error) = client.set_data(node, "", Version::ANY).await {
        assert!(error.is_transient(), "{error}");
    }
}

/// Writes as fast as possible. Returns how many writes had a reply.
async fn write(client: Client, node: String, stop: Arc<AtomicBool>) -> u64 {
    let mut written = 0;
    while !stop.load(Ordering::SeqCst) {
        match client.set_data(&node, "", Version::ANY).await {
            Ok(_) => written += 1,
            Err(error) => assert!(error.is_transient(), "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    client.close().await;
    written
}

/// Reads as fast as possible. Sets a new watch each time that the one before has fired.
async fn read(client: Client, node: String, stop: Arc<AtomicBool>) -> Vec<Event> {
    let start = Instant::now();
    let mut events = Vec::new();
    let mut record = |what| {
        let at = start.elapsed();
        events.push(Event {
            at,
            client: 0,
            what,
        });
    };
    let path: Arc<str> = node.as_str().into();
    let (mut watch, mut watcher) = (0, None);
    while !stop.load(Ordering::SeqCst) {
        if let Some(pending) = &mut watcher {
            let read = client.get_data(&node).await;
            // The event of a change comes before the reply that shows the change.
            if has_fired(pending).await {
                record(What::Fired(watch));
                watch += 1;
                watcher = None;
            }
            match read {
                Ok(found) => {
                    let (path, version) = (path.clone(), found.stat.mzxid.0);
                    record(What::Read { path, version });
                }
                Err(error) => assert!(error.is_transient(), "{error}"),
            }
        } else {
            let (version, pending) = watched(&client, &node).await;
            let path = path.clone();
            record(What::Watching {
                watch,
                path,
                version,
            });
            watcher = Some(pending);
        }
    }
    events
}

/// Whether a watch has fired already.
async fn has_fired(watcher: &mut Watcher) -> bool {
    poll_fn(|cx| Poll::Ready(Pin::new(&mut *watcher).poll(cx).is_ready())).await
}
