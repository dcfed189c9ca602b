//! How do all processes together send at most three requests at a time, and how do I change that
//! number?

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use lockkeeper::{Client, Semaphore};
use lockkeeper_server::Server;
use tokio::{task::JoinSet, time::sleep};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let client = Client::connect(&server.connect_string()).await?;
    // The limit is the data of a node, so that it may be changed while programs run.
    let limiter = Semaphore::with_shared_limit(&client, "/limits/partner", "/limits/partner-max")?;
    // Once, when the service is set up. At each start it would undo what an operator has changed.
    limiter.set_limit(3).await?;

    let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let mut requests = JoinSet::new();
    for _ in 0..12 {
        let (limiter, now, most) = (limiter.clone(), now.clone(), most.clone());
        requests.spawn(async move {
            // At most ten seconds in the queue: then the caller gets an error and not a slow
            // answer.
            let permit = limiter.try_acquire_for(Duration::from_secs(10)).await?;
            // Dropped when the permit is lost: then another process may have it.
            let request = permit.during(async {
                most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                sleep(Duration::from_millis(5)).await; // the request
                now.fetch_sub(1, Ordering::SeqCst);
            });
            request.await?;
            permit.release().await
        });
    }
    while let Some(request) = requests.join_next().await {
        request??;
    }
    let most = most.load(Ordering::SeqCst);
    println!("12 requests, at most {most} at a time");
    assert!(most <= 3);

    limiter.set_limit(1).await?;
    let only = limiter.acquire().await?;
    assert!(limiter.try_acquire().await?.is_none());
    only.release().await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
