//! The background threads of clients end. A binary of its own: it counts the threads of the process.
#![cfg(target_os = "linux")]

use std::fs;

use lockkeeper_blocking::{Client, Mutex};
use lockkeeper_server::Server;
use tokio::runtime::Runtime;

/// How many threads of this process hold a client.
fn threads() -> usize {
    let tasks = fs::read_dir("/proc/self/task").unwrap();
    tasks
        .filter_map(|task| fs::read_to_string(task.ok()?.path().join("comm")).ok())
        .filter(|name| name.trim() == "lockkeeper")
        .count()
}

#[test]
fn no_thread_is_left_behind_the_last_handle() {
    let runtime = Runtime::new().unwrap();
    let server = runtime.block_on(Server::start()).unwrap();
    let connect = || Client::connect(&server.connect_string()).unwrap();
    assert_eq!(threads(), 0);
    for _ in 0..3 {
        let (one, other) = (connect(), connect());
        assert_eq!(threads(), 2);
        let mutex = Mutex::new(&one, "/mutex").unwrap();
        let guard = mutex.lock().unwrap();
        let watcher = other.exists_and_watch("/").unwrap();
        drop((one, mutex));
        drop(other);
        assert_eq!(threads(), 2, "the handles of both clients live");
        drop(watcher);
        assert_eq!(threads(), 1);
        drop(guard);
        assert_eq!(threads(), 0);
    }
    // Nor behind a client that was closed.
    connect().close();
    assert_eq!(threads(), 0);
    // Nor behind a client that has not connected.
    let builder = Client::builder("127.0.0.1:1").unwrap();
    let short = builder.connect_timeout(std::time::Duration::from_millis(50));
    assert!(short.connect().is_err());
    assert_eq!(threads(), 0);
}
