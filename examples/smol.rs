//! How do I use the locks in a program without tokio, here on the executor of smol?
//!
//! Where there is no tokio runtime, the client runs on a thread of its own. Everything else runs on
//! the program's executor.

use async_executor::Executor;
use futures_lite::future::block_on;
use lockkeeper::{Client, LockError, Mutex};

/// Takes turns with the other tasks.
async fn worker(mutex: Mutex, number: u32) -> Result<u64, LockError> {
    let guard = mutex.lock().await?;
    let token = guard.fencing_token().get();
    println!("worker {number} has the lock, token {token}");
    guard.release().await?;
    Ok(token)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::builder().start_on_thread()?;

    let client = block_on(Client::connect(&server.connect_string()))?;
    let mutex = Mutex::new(&client, "/locks/orders")?;

    // `smol::spawn` and `smol::block_on` do the same with an executor that they have made.
    let executor = Executor::new();
    let workers: Vec<_> = (1..=5)
        .map(|number| executor.spawn(worker(mutex.clone(), number)))
        .collect();
    let mut tokens = block_on(executor.run(async {
        let mut tokens = Vec::new();
        for worker in workers {
            tokens.push(worker.await?);
        }
        Ok::<_, LockError>(tokens)
    }))?;
    tokens.sort_unstable();
    tokens.dedup();
    assert_eq!(tokens.len(), 5, "each holder has a token of its own");
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
