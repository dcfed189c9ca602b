//! How do several copies of a program run each job once, although the copy that runs them may stop
//! at any time?
//!
//! One copy is elected. It takes the jobs from a folder. A job and its result are one transaction
//! under the leadership: a copy that has lost it writes nothing.

use std::time::Duration;

use lockkeeper::{Client, CreateMode, Election, Guard, LockError, Version, error::Loss};
use lockkeeper_server::Server;
use tokio::{sync::watch, time::sleep};

/// How long a leader may go on when the program is told to stop.
const PATIENCE: Duration = Duration::from_secs(10);

/// Runs jobs until there is none, or `stop` says so. Returns their number.
async fn run_jobs(
    guard: &Guard,
    jobs: &str,
    id: &str,
    stop: &watch::Receiver<bool>,
) -> Result<u32, LockError> {
    let mut done = 0;
    let mut names = guard.client().get_children(jobs).await?;
    names.sort();
    for name in names {
        if *stop.borrow() {
            break;
        }
        println!("{id} runs {name}");
        sleep(Duration::from_millis(5)).await; // the job
        guard
            .transaction()
            .delete(&format!("{jobs}/{name}"), Version::ANY)
            .create(
                &format!("{jobs}-done/{name}"),
                id.to_owned(),
                CreateMode::Persistent,
            )
            .commit()
            .await?;
        done += 1;
    }
    Ok(done)
}

/// One copy of the program. Returns how many jobs it has done.
async fn copy(
    client: &Client,
    jobs: &str,
    id: &str,
    mut stop: watch::Receiver<bool>,
) -> Result<u32, LockError> {
    let election = Election::new(client, &format!("{jobs}-leader"))?.with_data(id.to_owned());
    loop {
        let working = stop.clone();
        let shutdown = stop.wait_for(|stop| *stop);
        let work = async |guard: &Guard| run_jobs(guard, jobs, id, &working).await;
        let again = match election.lead_until(shutdown, PATIENCE, work).await {
            Ok(None) => return Ok(0), // told to stop while it waited
            Ok(Some(Ok(done))) => return Ok(done),
            Ok(Some(Err(error))) | Err(error) => error,
        };
        let is_over = again
            .loss()
            .map_or(!again.is_transient(), |loss| loss == Loss::Closed);
        if is_over {
            return Err(again);
        }
        eprintln!("{id} begins again: {again}");
        sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = Server::start().await?;
    let (one, two) = (
        Client::connect(&server.connect_string()).await?,
        Client::connect(&server.connect_string()).await?,
    );
    let jobs = one
        .create("/jobs-", "", CreateMode::PersistentSequential)
        .await?
        .path;
    one.create(&format!("{jobs}-done"), "", CreateMode::Persistent)
        .await?;
    for number in 1..=6 {
        one.create(&format!("{jobs}/job-{number}"), "", CreateMode::Persistent)
            .await?;
    }

    // A signal handler would send this. The first copy is told to stop after its second job.
    let (stop_one, stop_two) = (watch::Sender::new(false), watch::Sender::new(false));
    let stopping = async {
        while one.get_children(&format!("{jobs}-done")).await?.len() < 2 {
            sleep(Duration::from_millis(1)).await;
        }
        stop_one.send_replace(true);
        Ok(())
    };
    let (first, second, ()) = tokio::try_join!(
        copy(&one, &jobs, "copy 1", stop_one.subscribe()),
        copy(&two, &jobs, "copy 2", stop_two.subscribe()),
        stopping
    )?;
    println!("copy 1 has done {first} jobs, copy 2 has done {second}");
    assert_eq!(one.get_children(&format!("{jobs}-done")).await?.len(), 6);
    assert!(one.get_children(&jobs).await?.is_empty());
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
