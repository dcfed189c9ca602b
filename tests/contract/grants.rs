//! How much of its lease a new holder has: a quarter of the session timeout, at least.
//!
//! Runs on tokio's paused time, on the embedded server alone.

use std::{pin::pin, time::Duration};

use lockkeeper::{
    Client, Mutex,
    client::{Clock, LeasePolicy},
};
use lockkeeper_server::Server;
use tokio::time::{Instant, sleep, sleep_until};

use crate::{
    kinds::{Contender, How, Kind},
    rig::{rival, soon, until, until_waiting},
};

const TIMEOUT: Duration = Duration::from_secs(10);

async fn client(server: &Server, policy: LeasePolicy) -> Client {
    let builder = Client::builder(&server.connect_string()).unwrap();
    let builder = builder.session_timeout(TIMEOUT).lease_policy(policy);
    let clock = Clock::new(|| Instant::now().into_std());
    builder.clock(clock).connect().await.unwrap()
}

fn left(client: &Client) -> Duration {
    let until = client.lease().valid_until.unwrap();
    until.saturating_duration_since(client.now())
}

/// Nobody keeps the lease of a session that waits far back in a queue, or does nothing. It has what
/// is left of its first proof when its turn comes.
pub(crate) async fn a_new_holder_has_a_quarter_of_its_lease(kind: Kind) {
    let server = Server::start().await.unwrap();
    for policy in [LeasePolicy::Proved, LeasePolicy::Assumed { margin: None }] {
        let [first, second] = [client(&server, policy).await, client(&server, policy).await];
        // Until the turn comes: the lease of a new session has a quarter left after 6.9 s, and is
        // over after 9.4 s.
        for (number, wait) in [6800, 7500, 8500, 9300, 12_000].into_iter().enumerate() {
            let wait = Duration::from_millis(wait);
            for how in [How::Wait, How::Within(2 * TIMEOUT), How::Try] {
                let path = format!("/{policy:?}{number}{how:?}").replace(' ', "");
                let third = client(&server, policy).await;
                let begin = Instant::now();
                let ahead = rival(kind, &first, &path).await;
                let next = tokio::spawn({
                    let (one, other) = (kind.at(&second, &path), kind.at(&second, &path));
                    let pass = async |it: Contender| drop(it.lock().await.unwrap());
                    async move { tokio::join!(pass(one), pass(other)) }
                });
                until_waiting(kind, &first, &path, 2).await;
                let last = kind.at(&third, &path);
                let mut granted = pin!(async {
                    if let How::Try = how {
                        until!(next.is_finished());
                    }
                    loop {
                        if let Some(held) = last.enter(how).await.unwrap() {
                            break (held, left(&third));
                        }
                    }
                });
                tokio::select! {
                    _ = &mut granted => panic!("{path}: not its turn"),
                    () = sleep_until(begin + wait) => {}
                }
                drop(ahead);
                let (_held, lease) = soon(granted).await;
                assert!(lease >= TIMEOUT / 4, "{path}: {lease:?} left");
                // Nor does it sink before the holder's first write.
                for _ in 0..60 {
                    let lease = left(&third);
                    assert!(lease > TIMEOUT / 6, "{path}: {lease:?} left later");
                    sleep(Duration::from_millis(50)).await;
                }
            }
        }
    }
}

/// Two writes take so long that they never leave a quarter of the lease.
#[tokio::test(start_paused = true)]
async fn slow_servers_delay_a_grant_and_do_not_prevent_it() {
    let server = Server::start().await.unwrap();
    let client = client(&server, LeasePolicy::Proved).await;
    sleep(TIMEOUT * 2).await;
    server.faults().delay_all(TIMEOUT * 3 / 20);
    let mutex = Mutex::new(&client, "/slow").unwrap();
    let guard = soon(mutex.lock()).await.unwrap();
    assert!(guard.is_valid());
    let left = left(&client);
    assert!(left < TIMEOUT / 4, "not slow enough: {left:?}");
}
