//! The client takes the time from the clock, and its random numbers from the seed, that the builder is given.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use lockkeeper_server::Server;
use lockkeeper_session::{Client, Clock};
use tokio::time::Instant;

#[tokio::test]
async fn a_lease_runs_out_on_the_clock_given_to_the_client() {
    let server = Server::start().await.unwrap();
    let ahead = Arc::new(AtomicU64::new(0));
    let told = ahead.clone();
    let clock = Clock::new(move || {
        Instant::now().into_std() + Duration::from_secs(told.load(Ordering::SeqCst))
    });
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
async fn a_seed_repeats_the_random_numbers_of_a_client() {
    let server = Server::start().await.unwrap();
    let servers = server.connect_string();
    let mut drawn = Vec::new();
    for seed in [Some(1), Some(1), Some(2), None, None] {
        let mut builder = Client::builder(&servers).unwrap();
        if let Some(seed) = seed {
            builder = builder.seed(seed);
        }
        let client = builder.connect().await.unwrap();
        drawn.push([client.raw().random_u64(), client.raw().random_u64()]);
        client.close().await;
    }
    assert_eq!(drawn[0], drawn[1]);
    drawn.remove(0);
    for (index, one) in drawn.iter().enumerate() {
        assert!(drawn[index + 1..].iter().all(|other| other != one));
    }
}
