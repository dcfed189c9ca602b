//! Can two clients hold a lock while the servers are cut off from each other?
//!
//! Run it with `cargo run --example partition`. It starts three embedded servers, and cuts off the
//! one of the holder.

use std::time::{Duration, Instant};

use lockkeeper::{Client, Mutex};
use lockkeeper_server::Server;

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let tick = Duration::from_millis(100);
    let cluster = Server::builder().tick_time(tick).start_cluster(3).await?;
    let [one, other] = cluster.followers()[..] else {
        return Err("a follower is missing".into());
    };
    let holder = Client::builder(&cluster.connect_string_of(one))?
        .session_timeout(Duration::from_secs(1))
        .connect()
        .await?;
    let waiter = Client::connect(&cluster.connect_string_of(other)).await?;
    let guard = Mutex::new(&holder, "/locks/job")?.lock().await?;
    assert!(guard.is_valid());

    let begin = Instant::now();
    cluster.isolate(one); // its clients still reach it, and it answers them
    let next = Mutex::new(&waiter, "/locks/job")?.lock().await?;
    assert!(!guard.is_valid()); // the lease has ended before the next one was granted
    let loss = guard.lost().await.expect("it is not released");
    println!("lost: {loss}, after {:?}", begin.elapsed());
    next.release().await?;
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
