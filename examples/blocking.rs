//! How does a program without async hold a lock while it works, and stop when the lock is lost?

use std::time::Duration;

use lockkeeper::{Client, Guard, LockError, Mutex, Wait};

/// The steps of the work. Between two of them, the program looks whether it still has the lock.
fn work(guard: &Guard) -> Result<u32, LockError> {
    let mut done = 0;
    for order in 1..=3 {
        guard.check()?;
        println!("order {order}, token {}", guard.fencing_token());
        done += 1;
    }
    Ok(done)
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = lockkeeper_server::Server::builder().start_on_thread()?;

    // This thread has no runtime, so the client gets a thread of its own.
    let client = Client::connect(&server.connect_string()).wait()?;
    let mutex = Mutex::new(&client, "/locks/orders")?;
    let guard = mutex.lock_timeout(Duration::from_secs(5)).wait()?;
    // Another thread may wait for the loss, for instance to end a child process. It ends with the
    // guard, too.
    let lost = guard.lost();
    let watching = std::thread::spawn(move || lost.wait());
    assert_eq!(work(&guard)?, 3);
    guard.release().wait()?; // success: the lock was held until now
    println!("no longer held: {}", watching.join().expect("no panic")?);
    Ok(())
}

#[test]
fn it_runs() {
    main().unwrap();
}
