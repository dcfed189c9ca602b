//! The threads of clients end, and a wait for their end is bounded. A binary of its own: it counts
//! the threads of the process.
#![cfg(target_os = "linux")]

use std::{
    fs, thread,
    time::{Duration, Instant},
};

use futures::executor::block_on;
use lockkeeper_recipes::Mutex;
use lockkeeper_server::Server;
use lockkeeper_session::{AsRaw, Client};

/// How many threads of this process hold a client.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "lockkeeper")
        .count()
}

/// Waits until this many threads hold a client: the system may list a thread for a moment after its
/// end.
fn until_threads(count: usize) {
    let start = Instant::now();
    while threads() != count {
        assert!(
            start.elapsed() < Duration::from_secs(20),
            "{} threads are left, not {count}",
            threads()
        );
        thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn no_thread_is_left_behind_the_last_handle() {
    let server = Server::builder().start_on_thread().unwrap();
    let connect = || block_on(Client::connect(&server.connect_string())).unwrap();
    until_threads(0);
    for _ in 0..3 {
        let (one, other) = (connect(), connect());
        until_threads(2);
        let mutex = Mutex::new(&one, "/mutex").unwrap();
        let guard = block_on(mutex.lock()).unwrap();
        drop((one, mutex));
        assert_eq!(threads(), 2, "a guard is a handle");
        drop(other);
        until_threads(1);
        drop(guard);
        until_threads(0);
    }
    // Nor behind a client that was closed, one that has not connected, and one that is dropped by
    // its own thread.
    block_on(connect().close());
    until_threads(0);
    let builder = Client::builder("127.0.0.1:1").unwrap();
    let short = builder.connect_timeout(Duration::from_millis(50));
    assert!(block_on(short.connect()).is_err());
    until_threads(0);
    let client = connect();
    let task = client.clone();
    client.raw().run_in_background(async move {
        task.sync("/").await.unwrap();
        drop(task);
    });
    drop(client);
    until_threads(0);
}
