//! The client takes the time from the clock, and its random numbers from the seed, that the builder
//! is given.

use std::{
    sync::{Mutex, atomic::Ordering},
    time::Duration,
};

use futures::future::{FutureExt, join, join_all};
use lockkeeper_server::Server;
use lockkeeper_session::{AsRaw, Client};
use tokio::time::Instant;

use super::waiting::{clock_ahead, soon};

#[tokio::test]
async fn a_lease_runs_out_on_the_clock_given_to_the_client() {
    let server = Server::start().await.unwrap();
    let (clock, ahead) = clock_ahead();
    let client = Client::builder(&server.connect_string()).unwrap();
    let client = client.clock(clock).connect().await.unwrap();
    let lease = client.lease();
    assert!(lease.is_valid && lease.valid_until.unwrap() > client.now());
    ahead.store(60, Ordering::SeqCst);
    let lease = client.lease();
    assert!(!lease.is_valid);
    let until = lease.valid_until.unwrap();
    assert!(until < client.now() && until > Instant::now().into_std());
}

#[tokio::test]
async fn timers_fire_in_their_order_and_all_end_with_the_client() {
    let server = Server::start().await.unwrap();
    let client = Client::connect(&server.connect_string()).await.unwrap();
    let fired = Mutex::new(Vec::new());
    let late_first = (1..100u64).rev().map(|ms| {
        let timer = client.raw().sleep(Duration::from_millis(ms));
        timer.map(|()| fired.lock().unwrap().push(Instant::now()))
    });
    let start = Instant::now();
    soon(join_all(late_first)).await;
    let fired = fired.into_inner().unwrap();
    assert_eq!(fired.len(), 99);
    for (ms, fired) in (1..100).zip(fired) {
        assert!(fired - start >= Duration::from_millis(ms), "{ms} ms");
    }

    let an_hour = Duration::from_secs(3600);
    let timer = client.raw().sleep(Duration::MAX);
    let closed = client.clone().close();
    soon(join(timer, closed)).await;
    soon(client.raw().sleep(an_hour)).await;
}
