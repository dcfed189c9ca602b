//! What a server can make a client take of memory, measured: the allocator of this program counts, by thread, and both of them
//! are on one. So what the server itself takes is in it.

use std::{future::Future, time::Duration};

use allocation_counter::AllocationInfo;
use lockkeeper_proto::{Xid, jute::Encode};

use super::server::{Server, assert_well, header, lost, message, raw_reply, within};

const TIMEOUT: Duration = Duration::from_secs(10);
const SHORT: Duration = Duration::from_millis(1500);
const MIB: u64 = 1 << 20;

/// Runs a story on a runtime of its own.
fn measured<F: Future<Output = ()>>(story: impl FnOnce() -> F) -> AllocationInfo {
    allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story());
    })
}

#[test]
fn a_frame_that_is_announced_and_does_not_come_costs_nothing() {
    let taken = measured(|| async {
        let server = Server::bad(1, |mut peer| async move {
            peer.handshake().await;
            peer.request().await;
            let longest: i32 = 8 << 20;
            peer.send(&longest.to_be_bytes()).await;
            peer.ignore().await;
        })
        .await;
        let client = server.client(SHORT).await.unwrap();
        let _ = lost(within(client.get_data("/a")).await.unwrap_err());
        assert_well(&client).await;
    });
    println!("{} bytes for an announced frame", taken.bytes_max);
    assert!(taken.bytes_max < MIB, "{} bytes", taken.bytes_max);
}

/// Names without a letter take four bytes each on the wire and 24 in memory, in a list that is just being doubled.
#[test]
fn the_densest_reply_costs_in_proportion() {
    const NAMES: usize = (1 << 20) + 1;
    let taken = measured(|| async {
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
        let names = within(client.get_children("/a")).await.unwrap();
        assert_eq!(names.len(), NAMES);
    });
    let frame = 4 * NAMES as u64;
    println!("{} bytes for the densest reply of {frame}", taken.bytes_max);
    assert!(taken.bytes_max < 24 * frame, "{} bytes", taken.bytes_max);
}

#[test]
fn a_flood_costs_as_much_as_one_read() {
    let taken = measured(|| async {
        let server = Server::bad(1, |mut peer| async move {
            peer.handshake().await;
            let pings = raw_reply(Xid::PING, b"").repeat(1000);
            let events = super::server::event(1, 3, "/nobody").repeat(1000);
            for _ in 0..20 {
                peer.flood(&pings, 1 << 20).await;
                peer.flood(&events, 1 << 20).await;
            }
            peer.serve().await;
        })
        .await;
        let client = server.client(TIMEOUT).await.unwrap();
        assert_well(&client).await;
        assert_eq!(server.connections(), 1);
    });
    println!("{} bytes for a flood of 40 MiB", taken.bytes_max);
    assert!(taken.bytes_max < 2 * MIB, "{} bytes", taken.bytes_max);
}
