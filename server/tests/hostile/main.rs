//! Clients that break the rules, over real TCP: what they get, that others are served meanwhile, and how much memory and
//! time they can take at most.
//!
//! | file | what the client does |
//! |---|---|
//! | `rules` | sends what is no message, at once and a byte at a time |
//! | `crowds` | comes a thousand times, and says nothing, or not enough |
//! | `greed` | asks for more than it reads, for very much at once, for what takes long |
//! | `sasl` | sends tokens that prove nothing |
//! | `words` | abuses four-letter words |
//!
//! Memory is counted by an allocator of this program, by thread: server and clients are on one. So the clients' own is in it.

#[path = "../common/mod.rs"]
mod common;
mod crowds;
mod greed;
mod rules;
mod sasl;
mod words;

use std::{
    future::Future,
    time::{Duration, Instant},
};

use allocation_counter::AllocationInfo;
use common::{PATIENCE, Peer, exists, now};
use lockkeeper_server::{Report, Server};

/// Runs a story on a runtime of its own; what memory it took, server, sockets and all.
fn measured<F: Future<Output = ()>>(story: impl FnOnce() -> F) -> AllocationInfo {
    allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story());
    })
}

/// Waits until the server says that it is so.
async fn until(server: &Server, is_so: impl Fn(&Report) -> bool) {
    let begin = now();
    loop {
        let report = server.report();
        if is_so(&report) {
            return;
        }
        assert!(begin.elapsed() < PATIENCE, "{report:?}");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// How long the server takes to answer somebody who keeps the rules.
async fn is_served(peer: &mut Peer) -> Duration {
    let begin: Instant = now();
    peer.call(&exists("/", false)).await.unwrap();
    begin.elapsed()
}
