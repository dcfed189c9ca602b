//! How does a service with many tasks end in order, so that all its locks are free at once?
//!
//! An orchestrator sends SIGTERM, waits for some seconds, and then kills. The default action of the
//! signal runs no destructor, and the locks would be held until the session expires. For Unix.

use std::{pin::pin, time::Duration};

use lockkeeper::{Client, LockError, Mutex, locks::inspect};
use lockkeeper_server::Server;
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::watch,
    task::JoinSet,
    time::{sleep, timeout},
};

/// How long the orchestrator waits, less a reserve.
const GRACE: Duration = Duration::from_secs(8);

/// One of the tasks: works piece by piece under a lock, until it is to stop.
async fn worker(
    client: Client,
    queue: u32,
    mut stop: watch::Receiver<bool>,
) -> Result<u32, LockError> {
    let mutex = Mutex::new(&client, &format!("/locks/queue-{queue}"))?;
    let stopped = stop.clone();
    let mut told = pin!(stop.wait_for(|stop| *stop));
    let guard = tokio::select! {
        biased;
        _ = &mut told => return Ok(0), // the attempt is dropped: it leaves the queue
        guard = mutex.lock() => guard?,
    };
    let work = async {
        let mut pieces = 0;
        while !*stopped.borrow() {
            sleep(Duration::from_millis(5)).await; // one piece: always finished, unless the lock is lost
            pieces += 1;
        }
        pieces
    };
    let pieces = guard.during(work).await?;
    guard.release().await?;
    Ok(pieces)
}

/// Runs the tasks until the process gets SIGTERM.
async fn serve(client: Client) -> Result<u32, Box<dyn std::error::Error>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let stop = watch::Sender::new(false);
    let mut workers = JoinSet::new();
    for queue in 0..4 {
        workers.spawn(worker(client.clone(), queue, stop.subscribe()));
    }
    terminate.recv().await;
    stop.send_replace(true);
    let finish = async {
        let mut pieces = 0;
        while let Some(worker) = workers.join_next().await {
            match worker? {
                Ok(done) => pieces += done,
                Err(error) => eprintln!("a worker failed: {error}"),
            }
        }
        Ok::<_, tokio::task::JoinError>(pieces)
    };
    // Servers that do not answer can delay a release. The client closes its session in any case.
    let pieces = timeout(GRACE, finish).await;
    let _ = timeout(Duration::from_secs(1), client.close()).await;
    Ok(pieces??)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    let other = Client::connect(&server.connect_string()).await?;
    let serving = tokio::spawn(async { serve(client).await.map_err(|error| error.to_string()) });

    // The part of the orchestrator: a lock is held, then comes the signal.
    let lock = Mutex::new(&other, "/locks/queue-0")?;
    while inspect(&other, lock.path()).await?.is_empty() {
        sleep(Duration::from_millis(5)).await;
    }
    let mut kill = std::process::Command::new("kill");
    assert!(kill.arg(std::process::id().to_string()).status()?.success());

    let pieces = serving.await??;
    println!("ended in order after {pieces} pieces");
    // Nothing has to expire.
    lock.try_lock()
        .await?
        .expect("the lock is free")
        .release()
        .await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
