//! How do several copies of a program run each job once, although the copy that runs them may stop
//! at any time?
//!
//! One copy is elected. It takes the jobs from a folder. A job and its result are one transaction
//! under the leadership: a copy that has lost it writes nothing. The next one runs the job again that
//! was under way, so what a job does elsewhere must bear that.

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Election, Guard, LockError, Version, error::Loss};
use lockkeeper_server::Server;
use tokio::time::sleep;

/// Runs the jobs that are there.
async fn run_jobs(guard: &Guard, id: &'static str) -> Result<(), LockError> {
    for name in guard.client().get_children("/jobs").await? {
        println!("{id} runs {name}");
        sleep(Duration::from_millis(5)).await; // the job
        let done = guard
            .transaction()
            .delete(&format!("/jobs/{name}"), Version::ANY)
            .create(&format!("/done/{name}"), id, CreateMode::Persistent);
        done.commit().await?;
    }
    Ok(())
}

/// One copy of the program. It begins again when it has lost the leadership or the servers.
async fn copy(client: &Client, id: &'static str) -> Result<(), LockError> {
    let election = Election::new(client, "/leader")?.with_data(id);
    loop {
        let led = election.lead(async |guard| run_jobs(guard, id).await).await;
        let error = match led.and_then(|done| done) {
            Ok(()) => return Ok(()),
            Err(error) => error,
        };
        let may_succeed = match error.loss() {
            Some(loss) => loss != Loss::Closed,
            None => error.is_transient(),
        };
        if !may_succeed {
            return Err(error);
        }
        eprintln!("{id} begins again: {error}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let one = Client::connect(&server.connect_string()).await?;
    let two = Client::connect(&server.connect_string()).await?;
    for path in ["/done", "/jobs", "/jobs/a", "/jobs/b", "/jobs/c"] {
        one.create(path, "", CreateMode::Persistent).await?;
    }
    // As after a long pause of the first copy.
    server.faults().expire(one.snapshot().session_id);
    tokio::try_join!(copy(&one, "copy 1"), copy(&two, "copy 2"))?;
    assert!(two.get_children("/jobs").await?.is_empty());
    assert_eq!(two.get_children("/done").await?.len(), 3);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
