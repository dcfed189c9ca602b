//! Clients that break the rules, over real TCP. The tests check the replies, that the server still
//! serves others, and the memory and time that such clients can cost.
//!
//! | file | what the client does |
//! |---|---|
//! | `rules` | sends malformed messages |
//! | `crowds` | opens a thousand connections and sends nothing, or too little |
//! | `greed` | asks for more than it reads, for very much at once, or for something slow |
//! | `words` | abuses four-letter words |
//!
//! This program's allocator counts memory by thread. Server and clients share one thread, so the
//! clients' memory is included.

mod crowds;
mod greed;
mod rules;
mod words;

use lockkeeper_test_support::peer as common;
use std::{
    future::Future,
    time::{Duration, Instant},
};

use allocation_counter::AllocationInfo;
use common::{PATIENCE, Peer, exists, now};
use lockkeeper_server::{Report, Server};

/// Runs a story on a runtime of its own. Returns the memory that it took, including server and
/// sockets.
fn measured<F: Future<Output = ()>>(story: impl FnOnce() -> F) -> AllocationInfo {
    allocation_counter::measure(|| {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(story());
    })
}

/// Runs a story on a runtime of its own. It takes less memory than this, including server and sockets.
fn takes_less_than<F: Future<Output = ()>>(most: u64, what: &str, story: impl FnOnce() -> F) {
    let bytes = measured(story).bytes_max;
    println!("{bytes} bytes for {what}");
    assert!(bytes < most, "{bytes} bytes for {what}");
}

/// Waits until the server's report fulfils a condition.
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

/// How long the server takes to answer a correct client.
async fn is_served(peer: &mut Peer) -> Duration {
    let begin: Instant = now();
    peer.call(&exists("/", false)).await.unwrap();
    begin.elapsed()
}
