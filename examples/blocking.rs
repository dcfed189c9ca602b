//! How does a program without async hold a lock while it works, and stop when the lock is lost?

use std::time::Duration;

use futures::executor::block_on;
use lockkeeper::{Client, Guard, LockError, Mutex};

/// The steps of the work. Between two of them, the program looks whether it still has the lock.
fn work(guard: &Guard) -> Result<u32, LockError> {
    let mut done = 0;
    for order in 1..=3 {
        guard.ensure_valid()?;
        println!("order {order}, token {}", guard.fencing_token());
        done += 1;
    }
    Ok(done)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::builder().start_on_thread()?;

    // This thread has no runtime, so the client gets a thread of its own.
    let client = block_on(Client::connect(&server.connect_string()))?;
    let mutex = Mutex::new(&client, "/locks/orders")?;
    let guard = block_on(mutex.try_lock_for(Duration::from_secs(5)))?;
    // Another thread may wait for the loss, for instance to end a child process. It ends with the
    // guard, too.
    let lost = guard.lost();
    let watching = std::thread::spawn(move || block_on(lost));
    assert_eq!(work(&guard)?, 3);
    block_on(guard.release())?; // success: the lock was held until now
    assert_eq!(watching.join().expect("no panic"), None); // released, not lost
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
