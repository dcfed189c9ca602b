//! Outages while contenders wait: the wait goes on for as long as the caller wants.
//!
//! Runs on tokio's paused time, on the embedded server alone.

use std::time::Duration;

use lockkeeper::{
    Client, LockError,
    client::Clock,
    error::{ErrorKind, Obstacle},
};
use lockkeeper_server::Server;
use tokio::time::{Instant, sleep};

use crate::{
    kinds::Kind,
    rig::{rival, soon, until},
};

const TIMEOUT: Duration = Duration::from_secs(10);

const OUTAGE: Duration = TIMEOUT.saturating_mul(60);

async fn client(server: &Server) -> Client {
    let builder = Client::builder(&server.connect_string()).unwrap();
    let clock = Clock::new(|| Instant::now().into_std());
    let builder = builder.session_timeout(TIMEOUT).clock(clock);
    builder.connect().await.unwrap()
}

/// The servers are silent, or refuse connections, for much longer than the session lives. The
/// waiter enters again, in a new session, whatever has waited: a node or a request.
pub(crate) async fn an_outage_of_sixty_timeouts_does_not_end_a_wait(kind: Kind) {
    for is_silent in [true, false] {
        for was_waiting in [true, false] {
            let server = Server::start().await.unwrap();
            let [first, second] = [client(&server).await, client(&server).await];
            let ahead = rival(kind, &first, "/outage").await;
            let session = second.snapshot().session_id;
            let lock = kind.at(&second, "/outage");
            let waits = async move { lock.lock().await };
            let waits = if was_waiting {
                let waits = tokio::spawn(waits);
                until!(second.metrics().watches > 0);
                begin(&server, is_silent).await;
                waits
            } else {
                begin(&server, is_silent).await;
                tokio::spawn(waits)
            };
            sleep(OUTAGE).await;
            assert!(!waits.is_finished(), "{:?}", waits.await.unwrap().err());
            end(&server, is_silent).await;
            // A latch has entered again, too, perhaps before the waiter.
            drop(ahead);
            let held = soon(waits).await.unwrap().unwrap();
            assert_ne!(second.snapshot().session_id, session);
            soon(held.release()).await.unwrap();
        }
    }
}

/// Without the lock it ends when its time is over, not before. The error says that no server was
/// there, since when, and why.
pub(crate) async fn a_timeout_in_an_outage_names_its_cause(kind: Kind) {
    let server = Server::start().await.unwrap();
    let [first, second] = [client(&server).await, client(&server).await];
    let _ahead = rival(kind, &first, "/late").await;
    let (lock, wait, begun) = (kind.at(&second, "/late"), 6 * TIMEOUT, Instant::now());
    let (late, ()) = tokio::join!(lock.try_lock_for(wait), async {
        until!(second.metrics().watches > 0);
        begin(&server, false).await;
    });
    let took = begun.elapsed();
    assert!(
        took >= wait && took < wait + TIMEOUT / 10,
        "ended after {took:?}"
    );
    let Some(LockError::TimedOut { obstacle, .. }) = late.err() else {
        panic!("no timeout");
    };
    let Some(Obstacle::Servers(why)) = obstacle.as_deref() else {
        panic!("another obstacle: {obstacle:?}");
    };
    let ErrorKind::Unreachable { waited, tried, .. } = why.kind() else {
        panic!("another reason: {why}");
    };
    assert!(*waited <= took && *waited + TIMEOUT > wait, "{waited:?}");
    assert_eq!(tried.len(), 1, "{tried:?}");
}

async fn begin(server: &Server, is_silent: bool) {
    let faults = server.faults();
    if is_silent {
        faults.stall();
    } else {
        faults.close_port().await;
        faults.cut_all();
    }
}

async fn end(server: &Server, is_silent: bool) {
    let faults = server.faults();
    if is_silent {
        faults.resume();
    } else {
        faults.open_port().await.unwrap();
    }
}
