//! Clients on threads of their own, and waiting without async: on the embedded server, which runs
//! on other threads.
//!
//! Not here: every single method. This crate depends on no runtime, so no future of a lock can need
//! one, if none of the session does (`session/tests/client/no_runtime.rs`). Nor that the threads end
//! (`threads`), and the promises of the locks (`tests/contract`).

use std::{
    env,
    pin::pin,
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use futures::{FutureExt as _, executor::block_on, future::join};
use lockkeeper_proto::{AddWatchMode, CreateMode, EventType, Version};
use lockkeeper_recipes::{Election, Loss, Mutex, ReentrantMutex};
use lockkeeper_server::Server;
use lockkeeper_session::{Builder, Client};
use tokio::runtime::{self, Runtime};

/// No wait of a test gets as long, unless something is wrong.
const LONG: Duration = Duration::from_secs(60);
/// A wait that ends without what was waited for.
const SHORT: Duration = Duration::from_millis(200);
/// Tells the child process of a test how to end: `ADDRESS HOW`.
const CHILD: &str = "LOCKKEEPER_CHILD";

/// An embedded server, which runs on a thread of its own.
struct Ensemble {
    server: Server,
}

impl Ensemble {
    fn start() -> Self {
        let builder = Server::builder()
            .tick_time(Duration::from_millis(100))
            .max_session_timeout(LONG);
        let server = builder.start_on_thread().unwrap();
        Self { server }
    }

    fn builder(&self) -> Builder {
        let builder = Client::builder(&self.server.connect_string()).unwrap();
        builder.session_timeout(LONG)
    }

    /// A client whose session does not expire in a test.
    fn client(&self) -> Client {
        block_on(self.builder().connect()).unwrap()
    }

    fn has_lock_nodes(&self) -> bool {
        let paths = self.server.paths();
        paths.iter().any(|path| path.contains("_c_"))
    }
}

#[test]
fn a_lock_is_taken_and_lost_without_a_runtime() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let (_, created) = block_on(client.exists_and_watch("/a")).unwrap();
    let mut all = block_on(client.add_watch("/", AddWatchMode::PERSISTENT_RECURSIVE)).unwrap();
    block_on(client.create("/a", "1", CreateMode::Persistent)).unwrap();
    let event = block_on(created).unwrap();
    assert_eq!(event.event_type, EventType::NODE_CREATED);
    assert!(block_on(all.next()).is_some());

    let mutex = Mutex::new(&client, "/mutex").unwrap();
    let guard = block_on(mutex.lock()).unwrap();
    let late = block_on(mutex.try_lock_for(SHORT)).unwrap_err();
    assert!(late.is_timeout());
    let mut lost = pin!(guard.lost());
    assert!(lost.as_mut().now_or_never().is_none());
    block_on(client.delete(&guard.path(), Version::ANY)).unwrap();
    assert_eq!(block_on(lost), Some(Loss::Deleted));
    assert!(block_on(guard.release()).unwrap_err().loss().is_some());
    assert!(!ensemble.has_lock_nodes());

    let latch = Election::new(&client, "/leader").unwrap().latch();
    block_on(latch.elected()).unwrap();
    block_on(client.close());
    assert!(!latch.is_leader());
}

/// The session is gone when the last handle was dropped, whatever that handle is, and wherever.
#[test]
fn the_drop_of_the_last_handle_waits_for_the_end_of_the_session() {
    let ensemble = Ensemble::start();
    let sessions = || ensemble.server.report().sessions;
    let other = Runtime::new().unwrap();
    let began = Instant::now();
    for round in 0..20 {
        let client = ensemble.client();
        let session = client.snapshot().session_id;
        let mutex = Mutex::new(&client, "/mutex").unwrap();
        let guard = block_on(mutex.lock()).unwrap();
        drop((client, mutex));
        assert!(sessions().contains_key(&session) && guard.is_valid());
        if round % 2 == 0 {
            drop(guard);
        } else {
            other.block_on(async { drop(guard) });
        }
        assert!(!sessions().contains_key(&session));
    }
    let took = began.elapsed();
    assert!(took < Duration::from_secs(15), "{took:?} for 20 drops");
    // A client that connects in the background has a thread, too.
    let lazy = ensemble.builder().connect_lazy();
    block_on(lazy.sync("/")).unwrap();
    drop(lazy);
    assert!(sessions().is_empty());
}

/// A drop waits for at most a second. A loaded machine takes longer, but not nearly as long as a
/// session timeout.
#[test]
fn a_drop_does_not_wait_for_a_server_that_does_not_answer() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let guard = block_on(Mutex::new(&client, "/mutex").unwrap().lock()).unwrap();
    drop(client);
    ensemble.server.faults().stall();
    let start = Instant::now();
    drop(guard);
    let waited = start.elapsed();
    assert!(waited >= Duration::from_secs(1), "it gave up early");
    assert!(waited < Duration::from_secs(20), "{waited:?}");
    ensemble.server.faults().resume();
}

/// A runtime of one thread that a task blocks for several session timeouts: the commonest cause of
/// lost locks in services.
#[test]
fn a_blocked_runtime_costs_no_session_on_a_thread_of_its_own() {
    let ensemble = Ensemble::start();
    let program = runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    // Until the one on the runtime has lost its lock, also on a machine with much to do.
    program.block_on(async {
        let builder = || ensemble.builder().session_timeout(Duration::from_secs(2));
        let on_thread = builder().own_thread().connect().await.unwrap();
        let on_runtime = builder().connect().await.unwrap();
        let lock = async |client| Mutex::new(client, "/a")?.lock().await;
        let kept = lock(&on_thread).await.unwrap();
        let other = Mutex::new(&on_runtime, "/b").unwrap();
        let lost = other.lock().await.unwrap();
        thread::sleep(Duration::from_secs(8));
        assert!(kept.is_valid() && !lost.is_valid());
        kept.confirm().await.unwrap();
        kept.release().await.unwrap();
        assert!(lost.release().await.unwrap_err().loss().is_some());
    });
}

/// The timers of a client end with it: a wait for something else does not go on without its limit.
#[test]
fn a_wait_with_a_limit_ends_with_the_client() {
    let ensemble = Ensemble::start();
    let client = ensemble.client();
    let mutex = ReentrantMutex::new(&client, "/reentrant").unwrap();
    let _held = block_on(mutex.lock("a")).unwrap();
    let start = Instant::now();
    let waits = mutex.try_lock_for("b", LONG);
    let (waited, ()) = block_on(join(waits, client.clone().close()));
    assert!(waited.is_err_and(|error| error.loss() == Some(Loss::Closed)));
    assert!(start.elapsed() < LONG);
}

/// A process that ends in the usual ways leaves no lock node behind, since the last handle waits.
#[test]
fn a_process_that_ends_leaves_no_node() {
    let ensemble = Ensemble::start();
    let address = ensemble.server.connect_string();
    for how in ["returns", "panics", "inside a runtime"] {
        for _ in 0..5 {
            let mut child = Command::new(env::current_exe().unwrap());
            child.args([
                "--exact",
                "blocking::child_of_the_test_above",
                "--nocapture",
            ]);
            child.env(CHILD, format!("{address} {how}"));
            child.stdout(Stdio::null()).stderr(Stdio::null());
            let ended = child.status().unwrap();
            assert_eq!(ended.success(), how != "panics");
            assert!(!ensemble.has_lock_nodes(), "{how}");
            assert!(ensemble.server.paths().contains(&"/child".to_owned()));
        }
    }
}

#[test]
fn child_of_the_test_above() {
    let Ok(child) = env::var(CHILD) else {
        return;
    };
    let (address, how) = child.split_once(' ').unwrap();
    let builder = || Client::builder(address).unwrap().session_timeout(LONG);
    if how == "inside a runtime" {
        return Runtime::new().unwrap().block_on(async {
            let client = builder().own_thread().connect().await.unwrap();
            let _guard = Mutex::new(&client, "/child").unwrap().lock().await.unwrap();
        });
    }
    let client = block_on(builder().connect()).unwrap();
    let _guard = block_on(Mutex::new(&client, "/child").unwrap().lock()).unwrap();
    assert_ne!(how, "panics", "on purpose");
}
