//! How does a service with many tasks end in order, so that all its locks are free at once?
//!
//! An orchestrator sends SIGTERM, waits for some seconds, and then kills. The default action of the
//! signal runs no destructor, and the locks would be held until the session expires. For Unix.

use std::{process, time::Duration};

use lockkeeper::{Client, LockError, Mutex};
use lockkeeper_server::Server;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{sleep, timeout};
use tokio::{sync::watch, task::JoinSet};

/// How long the orchestrator waits, less a reserve.
const GRACE: Duration = Duration::from_secs(8);

/// Works piece by piece under a lock, until it is to stop. Two workers contend for each lock.
async fn worker(
    client: Client,
    number: u32,
    stop: watch::Receiver<bool>,
) -> Result<u32, LockError> {
    let mutex = Mutex::new(&client, &format!("/locks/queue-{}", number / 2))?;
    let mut told = stop.clone();
    let guard = tokio::select! {
        _ = told.wait_for(|stop| *stop) => return Ok(0), // the dropped attempt leaves the queue
        guard = mutex.lock() => guard?,
    };
    let work = async {
        let mut pieces = 0;
        while !*stop.borrow() {
            sleep(Duration::from_millis(5)).await; // one piece: always finished, unless the lock is lost
            pieces += 1;
        }
        pieces
    };
    let pieces = guard.during(work).await?;
    guard.release().await?;
    Ok(pieces)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = watch::Sender::new(false);
    let mut workers = JoinSet::new();
    for number in 0..6 {
        workers.spawn(worker(client.clone(), number, stop.subscribe()));
    }

    // The part of the orchestrator.
    sleep(Duration::from_millis(100)).await;
    let mut kill = process::Command::new("kill");
    kill.arg(process::id().to_string()).status()?;

    terminate.recv().await;
    stop.send_replace(true);
    // Servers that do not answer can delay a release. The client closes its session in any case.
    let ended = timeout(GRACE, workers.join_all()).await;
    let _ = timeout(Duration::from_secs(1), client.close()).await;
    println!("pieces of each worker: {:?}", ended?);
    assert!(server.report().sessions.is_empty(), "nothing has to expire");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
