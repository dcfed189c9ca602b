//! How much memory a server can make a client allocate. The allocator of this program counts by
//! thread. Client and server run on the same thread, so the numbers include the server's memory.

use std::{
    future::Future,
    io,
    iter::{once, repeat_n},
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures::{
    future::select,
    stream::{StreamExt as _, iter},
};
use lockkeeper_proto::{AddWatchMode, EventType, Xid, jute::Encode};
use lockkeeper_session::{Client, Connector};
use tokio::io::{join, sink};
use tokio_util::io::StreamReader;

use super::{
    assert_well, lost,
    scripted::{ID, Server, event, greeting, header, message, raw_reply},
    waiting::{LONG, soon, until},
};

const TIMEOUT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(1500);
const MIB: u64 = 1 << 20;

/// Runs a test on a runtime of its own. It takes less memory than this.
fn takes_less_than<F: Future<Output = ()>>(most: u64, what: &str, test: impl FnOnce() -> F) {
    let taken = allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(test());
    });
    println!("{} bytes for {what}", taken.bytes_max);
    assert!(taken.bytes_max < most, "{} bytes", taken.bytes_max);
}

#[test]
fn an_announced_frame_that_does_not_come_takes_no_memory() {
    takes_less_than(MIB, "an announced frame", || async {
        let server = Server::bad(1, |mut peer| async move {
            peer.handshake().await;
            peer.request().await;
            let longest: i32 = 8 << 20;
            peer.send(&longest.to_be_bytes()).await;
            peer.ignore().await;
        })
        .await;
        let client = server.client(SHORT).await.unwrap();
        let _ = lost(&soon(client.get_data("/a")).await.unwrap_err());
        assert_well(&client).await;
    });
}

/// An empty name takes four bytes in the reply and 24 in memory, in a list that may have doubled
/// its capacity just before.
#[test]
fn the_densest_reply_takes_memory_in_proportion_to_its_length() {
    const NAMES: usize = (1 << 20) + 1;
    let frame = 4 * NAMES as u64;
    takes_less_than(24 * frame, "the densest reply", || async {
        let server = Server::bad(1, |mut peer| async move {
            peer.handshake().await;
            let (xid, _) = peer.request().await.unwrap();
            let names = message(|writer| {
                header(xid, lockkeeper_proto::ErrorCode::OK).encode(writer);
                vec![String::new(); NAMES].encode(writer);
            });
            peer.send(&names).await;
            peer.serve().await;
        })
        .await;
        let client = server.client(TIMEOUT).await.unwrap();
        let names = soon(client.get_children("/a")).await.unwrap();
        assert_eq!(names.len(), NAMES);
    });
}

/// Once, only the number of these events had a bound: 65,536 of them, with paths of 8 MiB each.
#[test]
fn events_with_long_paths_are_not_kept_without_end() {
    const EVENTS: usize = 64;
    for in_restore in [false, true] {
        takes_less_than(12 * MIB, "events with long paths", || async {
            let bad = 1 + usize::from(in_restore);
            let server = Server::start(move |number, mut peer| async move {
                if number >= bad {
                    return peer.healthy().await;
                }
                peer.handshake().await;
                let (xid, _) = peer.request().await.unwrap();
                if number == 0 {
                    peer.send(&raw_reply(xid, &[0; 4])).await;
                    if in_restore {
                        return peer.close().await;
                    }
                }
                let long = event(
                    EventType::NODE_CREATED,
                    &format!("/{}", "x".repeat(1 << 20)),
                );
                peer.flood(&long, EVENTS << 20).await;
            })
            .await;
            let client = server.client(TIMEOUT).await.unwrap();
            let mode = AddWatchMode::PERSISTENT_RECURSIVE;
            let _watcher = soon(client.add_watch("/", mode)).await.unwrap();
            until!(server.connections() > bad);
            assert_well(&client).await;
        });
    }
}

/// Once, up to 256 frames were read before the first one was handled, if a server sent them fast
/// enough.
#[test]
fn long_frames_are_not_read_all_at_once() {
    const FRAMES: usize = 64;
    takes_less_than(12 * MIB, "long frames", || async {
        let connections = Arc::new(AtomicUsize::new(0));
        let counted = connections.clone();
        let long = event(
            EventType::NODE_CREATED,
            &format!("/{}", "x".repeat(1 << 20)),
        );
        let connector = Connector::new(move |_| {
            counted.fetch_add(1, Ordering::Relaxed);
            let greeting = greeting(10_000, ID, &[7; 16]);
            // All bytes are there at once, and take no memory of their own.
            let bytes = iter(once(greeting).chain(repeat_n(long.clone(), FRAMES)));
            let stream = StreamReader::new(bytes.map(io::Result::Ok));
            async move { Ok(join(stream, sink())) }
        });
        let builder = Client::builder("nowhere:1").unwrap();
        let connecting = builder.connector(connector).connect();
        let read = until("the end of the stream", async || {
            connections.load(Ordering::Relaxed) > 1
        });
        drop(soon(select(pin!(connecting), pin!(read))).await);
    });
}

#[test]
fn a_flood_takes_as_much_memory_as_one_read() {
    takes_less_than(2 * MIB, "a flood of 20 MiB", || async {
        let server = Server::bad(1, |mut peer| async move {
            peer.handshake().await;
            let pings = raw_reply(Xid::PING, b"").repeat(1000);
            let events = event(EventType::NODE_CREATED, "/nobody").repeat(1000);
            for _ in 0..10 {
                peer.flood(&pings, 1 << 20).await;
                peer.flood(&events, 1 << 20).await;
            }
            peer.serve().await;
        })
        .await;
        // A busy machine takes its time.
        let client = server.client(LONG).await.unwrap();
        assert_well(&client).await;
        assert_eq!(server.connections(), 1);
    });
}
