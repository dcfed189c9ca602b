//! Rows 71, 72 and 74: requests to release a lock, request numbers, and the number of requests
//! while no server answers.

use std::time::{Duration, Instant};

use lockkeeper::{
    Client, Mutex,
    error::Loss,
    locks::{break_lock, revoke},
};

use crate::{
    counting::Tally,
    rig::{PATH, client, cut_off, let_in, mutex, server, soon, until},
};

/// Curator's lock object forgets its revocation listener at the first release, so nobody could ask
/// the second holder to release. Here each hold can be revoked.
#[tokio::test]
async fn row_71_every_hold_can_be_revoked() {
    let server = server().await;
    let (holder, operator) = (client(&server).await, client(&server).await);
    let mutex = Mutex::new(&holder, PATH).unwrap().with_data("host-1");
    for _ in 0..2 {
        let guard = mutex.lock().await.unwrap();
        let asked = tokio::spawn(guard.revoked());
        let lock = self::mutex(&operator);
        let participants = lock.participants().await.unwrap();
        assert_eq!(participants[0].data.as_deref(), Some(&b"host-1"[..]));
        revoke(&operator, &participants[0].path).await.unwrap();
        soon(asked).await.unwrap();
        assert!(guard.is_valid(), "the holder decides when it releases");
        guard.release().await.unwrap();
    }
    let guard = mutex.lock().await.unwrap();
    let lost = tokio::spawn(guard.lost());
    break_lock(&operator, &guard.path()).await.unwrap();
    assert_eq!(soon(lost).await.unwrap(), Loss::Deleted);
}

/// kazoo numbers its requests from 1 again on each connection. A follower was still waiting for the
/// commit of a write from the former connection. A new request had the same session and number, and
/// the follower answered it with the result of the old write. Here the numbers of a session only
/// grow.
#[tokio::test]
async fn row_72_no_xid_is_used_twice_in_a_session() {
    let server = server().await;
    let tally = Tally::default();
    let client = Client::builder(&server.connect_string())
        .unwrap()
        .connector(tally.connector());
    let client = client.connect().await.unwrap();
    let mutex = Mutex::new(&client, PATH).unwrap();
    for connections in 2..6 {
        let guard = mutex.lock().await.unwrap();
        server.faults().cut_all();
        until("the connection is back", async || {
            client.snapshot().connections == connections
        })
        .await;
        guard.release().await.unwrap();
    }
    let xids = tally.xids();
    assert!(xids.len() >= 12, "{xids:?}");
    assert!(
        xids.windows(2).all(|pair| pair[0].0 < pair[1].0),
        "{xids:?}"
    );
}

/// kezhuw's lock repeats a request that an outage has cut off immediately, and repeats it again and
/// again without a pause. Here all attempts wait for the next connection, and the pauses between
/// connections grow.
#[tokio::test]
async fn row_74_an_outage_causes_no_storm_of_requests() {
    let server = server().await;
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let _guard = mutex(&client).lock().await.unwrap();
    let waiting = tokio::spawn(mutex(&client).enqueue().await.unwrap().wait());
    cut_off(&server, &client).await;
    let attempts = (0..10).map(|_| {
        let mutex = mutex(&client);
        tokio::spawn(async move { mutex.lock().await.map(drop) })
    });
    let attempts: Vec<_> = attempts.collect();
    let (before, started) = (server.counters(), Instant::now());
    until("the client has connected four times", async || {
        server.counters().connections >= before.connections + 4
    })
    .await;
    // Each pause is twice as long as the one before. The first one is at least 66 ms.
    let took = started.elapsed();
    assert!(
        took >= Duration::from_millis(400),
        "four connections in only {took:?}"
    );
    assert_eq!(server.counters().all_requests(), before.all_requests());
    for attempt in attempts {
        attempt.abort();
    }
    waiting.abort();
    let_in(&server);
}
