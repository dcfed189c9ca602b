//! Very many servers, names that do not resolve, and silent servers. The client connects within a
//! bounded time, or its error says which servers it has tried.

use std::time::Duration;

use lockkeeper_session::Client;
use tokio::time::Instant;

use super::{
    assert_well,
    scripted::{Peer, Server},
    waiting::{LONG, soon},
};

/// The addresses of `count` servers that are down. Loopback has an address for each of them.
fn dead(count: usize) -> Vec<String> {
    (0..count)
        .map(|number| format!("127.77.{}.{}:1", number / 250, number % 250 + 1))
        .collect()
}

/// In an earlier version each refusal cost up to 50 ms, so the one good server among a thousand was
/// reached after 25 s.
#[tokio::test]
async fn one_good_server_among_a_thousand_is_found_in_time() {
    let good = Server::bad(0, Peer::close).await;
    let silent = Server::bad(usize::MAX, |mut peer| async move { peer.ignore().await }).await;
    let mut servers = dead(997);
    // A name that no resolver accepts.
    servers.push("no..name:2181".to_owned());
    servers.push(silent.address.to_string());
    servers.push(good.address.to_string());
    for seed in 0..3 {
        let builder = Client::builder(&servers.join(",")).unwrap().seed(seed);
        // Longer than what is asserted below: by default it ends earlier.
        let builder = builder.connect_timeout(LONG);
        let begin = Instant::now();
        let client = soon(builder.connect()).await.unwrap();
        // The silent server costs at most a quarter of the session timeout. The rest of the time is
        // for a busy machine.
        let took = begin.elapsed();
        assert!(took < Duration::from_secs(15), "{took:?}");
        assert_well(&client).await;
    }
}
