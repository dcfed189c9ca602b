//! Different kinds of lock on one path: those that share a queue exclude each other, all others say
//! so.
//!
//! Not here: nodes that only look like lock nodes (`tests/contract/directory.rs`).

use std::any::Any;

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode, Version};
use lockkeeper_recipes::{Election, Kind, LockError, Mutex, PlainMutex, RwLock, Semaphore};
use lockkeeper_server::When;
use lockkeeper_session::Client;

use crate::support::{server_and_two, waiting::soon};

const PATH: &str = "/l";
const KINDS: [Kind; 6] = [
    Kind::Mutex,
    Kind::Read,
    Kind::Write,
    Kind::Latch,
    Kind::Semaphore,
    Kind::Plain,
];

/// What holds a lock.
type Held = Box<dyn Any + Send>;

fn boxed(guard: impl Any + Send) -> Held {
    Box::new(guard)
}

async fn hold(client: &Client, kind: Kind) -> Result<Held, LockError> {
    Ok(match kind {
        Kind::Mutex => boxed(Mutex::new(client, PATH)?.lock().await?),
        Kind::Read => boxed(RwLock::new(client, PATH)?.read().await?),
        Kind::Write => boxed(RwLock::new(client, PATH)?.write().await?),
        Kind::Latch => {
            let election = Election::new(client, PATH)?;
            // A latch that is refused tries again for ever.
            election.lead(async |_| ()).await?;
            let latch = election.latch();
            latch.elected().await?;
            boxed(latch)
        }
        Kind::Semaphore => boxed(Semaphore::new(client, PATH, 2)?.acquire().await?),
        _ => boxed(PlainMutex::new(client, PATH)?.lock().await?),
    })
}

/// A try; `None` if the lock is taken, or has no try.
async fn try_to_hold(client: &Client, kind: Kind) -> Result<Option<Held>, LockError> {
    Ok(match kind {
        Kind::Mutex => Mutex::new(client, PATH)?.try_lock().await?.map(boxed),
        Kind::Read => RwLock::new(client, PATH)?.try_read().await?.map(boxed),
        Kind::Write => RwLock::new(client, PATH)?.try_write().await?.map(boxed),
        Kind::Semaphore => Semaphore::new(client, PATH, 2)?
            .try_acquire()
            .await?
            .map(boxed),
        Kind::Plain => PlainMutex::new(client, PATH)?.try_lock().await?.map(boxed),
        _ => return hold(client, kind).await.map(Some),
    })
}

fn is_of_queue(kind: Kind) -> bool {
    matches!(kind, Kind::Mutex | Kind::Read | Kind::Write)
}

fn exclude_each_other(one: Kind, other: Kind) -> bool {
    one == other || is_of_queue(one) && is_of_queue(other)
}

fn is_refused<T>(attempt: Result<T, LockError>, found: Kind) -> bool {
    match attempt {
        Err(LockError::OtherKind {
            path, found: it, ..
        }) => path == PATH && it == found,
        _ => false,
    }
}

/// A plain lock and a semaphore on one path were both granted, and nobody was told.
#[tokio::test]
async fn a_kind_that_does_not_exclude_the_holder_is_refused() {
    for held in KINDS {
        for kind in KINDS {
            if exclude_each_other(held, kind) {
                continue;
            }
            let (_server, one, other) = server_and_two().await;
            let held_by_one = soon(hold(&one, held)).await.unwrap();
            let tried = soon(try_to_hold(&other, kind)).await;
            assert!(is_refused(tried, held), "{kind:?} was tried under {held:?}");
            // It creates its node without a look: it costs one request.
            if kind != Kind::Plain {
                let attempt = soon(hold(&other, kind)).await;
                assert!(is_refused(attempt, held), "{kind:?} under {held:?}");
            }
            drop(held_by_one);
        }
    }
}

/// A look without an answer says nothing: it is repeated, and then it finds the other kind.
#[tokio::test]
async fn a_look_whose_reply_is_lost_is_repeated() {
    for (held, op) in [
        (Kind::Plain, OpCode::EXISTS),
        (Kind::Semaphore, OpCode::GET_CHILDREN2),
    ] {
        let (server, one, other) = server_and_two().await;
        let held_by_one = soon(hold(&one, held)).await.unwrap();
        let look = || When::op(op).of_session(other.snapshot().session_id);
        server.faults().lose_reply(look());
        server.faults().cut_before(look().nth(2));
        server
            .faults()
            .refuse(look().nth(3), ErrorCode::THROTTLED_OP);
        let attempt = soon(hold(&other, Kind::Mutex)).await;
        assert!(is_refused(attempt, held), "under {held:?}");
        assert_eq!(server.faults().pending(), 0);
        drop(held_by_one);
    }
}

/// What is sound to mix stays allowed.
#[tokio::test]
async fn a_mutex_and_a_read_write_lock_wait_for_each_other() {
    for held in KINDS.into_iter().filter(|kind| is_of_queue(*kind)) {
        for kind in KINDS.into_iter().filter(|kind| is_of_queue(*kind)) {
            let (_server, one, other) = server_and_two().await;
            let held_by_one = soon(hold(&one, held)).await.unwrap();
            let tried = soon(try_to_hold(&other, kind)).await.unwrap();
            let share = held == Kind::Read && kind == Kind::Read;
            assert_eq!(tried.is_some(), share, "{kind:?} under {held:?}");
            drop((tried, held_by_one));
            soon(hold(&other, kind)).await.unwrap();
        }
    }
}

/// A semaphore looks once at the directory above its permits. The directory of the permits may be
/// removed after that, and a mutex may be taken: the semaphore looks again when there is a new one.
#[tokio::test]
async fn a_semaphore_whose_directory_is_new_looks_again() {
    let (_server, one, other) = server_and_two().await;
    let semaphore = Semaphore::new(&one, PATH, 1).unwrap();
    soon(semaphore.acquire())
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    one.sync("/").await.unwrap();
    let refused = soon(hold(&other, Kind::Mutex)).await;
    assert!(
        is_refused(refused, Kind::Semaphore),
        "its directory is there"
    );
    let remove = async || {
        for node in ["/l/leases", "/l/locks"] {
            other.delete(node, Version::ANY).await.unwrap();
        }
    };
    remove().await;
    let mutex = soon(hold(&other, Kind::Mutex)).await.unwrap();
    for _ in 0..2 {
        let refused = soon(semaphore.acquire()).await;
        assert!(
            is_refused(refused, Kind::Mutex),
            "it saw the directory before"
        );
    }
    drop(mutex);
    other.sync("/").await.unwrap();
    drop(soon(semaphore.acquire()).await.unwrap());
}

/// The listing behind the create of the first permit is throttled. The semaphore has not looked for
/// other kinds yet.
#[tokio::test]
async fn a_semaphore_without_a_listing_of_its_permits_looks() {
    let (server, one, other) = server_and_two().await;
    let mutex = soon(hold(&one, Kind::Mutex)).await.unwrap();
    // The directories are there: the create is not repeated for them.
    for node in ["/l/leases", "/l/locks"] {
        one.create(node, "", CreateMode::Persistent).await.unwrap();
    }
    let permits = When::op(OpCode::GET_CHILDREN2).within("/l/leases");
    server.faults().refuse(permits, ErrorCode::THROTTLED_OP);
    let refused = soon(hold(&other, Kind::Semaphore)).await;
    assert_eq!(server.faults().pending(), 0);
    assert!(is_refused(refused, Kind::Mutex));
    drop(mutex);
}

/// Applications have nodes with such names, too. They belong to no session, or hold no permits.
#[tokio::test]
async fn nodes_of_an_application_are_no_locks() {
    let (_server, one, other) = server_and_two().await;
    for node in [
        "/l",
        "/l/lock",
        "/l/leases",
        "/l/leases/flat-7",
        "/l/locks",
        "/l/x-latch-0000000000",
        "/l/m",
        "/l/m/x-lock-0000000000",
        "/l/x-lock-0000000000x",
    ] {
        let mode = CreateMode::Persistent;
        one.create(node, "", mode).await.unwrap();
    }
    one.create("/l/worker", "", CreateMode::Ephemeral)
        .await
        .unwrap();
    for kind in [Kind::Mutex, Kind::Read, Kind::Write] {
        drop(soon(hold(&other, kind)).await.unwrap());
        other.sync("/").await.unwrap();
    }
    let election = Election::new(&other, "/l/m").unwrap();
    soon(election.lead(async |_| ())).await.unwrap();
}

/// A contender that comes later, and does not exclude those that are there, is refused; the others
/// go on.
#[tokio::test]
async fn whoever_came_first_is_not_disturbed() {
    let (_server, one, other) = server_and_two().await;
    let mutex = Mutex::new(&one, PATH).unwrap();
    let holder = soon(mutex.lock()).await.unwrap();
    let waiter = soon(mutex.enqueue()).await.unwrap();
    // It belongs to a client that does not look.
    let mode = CreateMode::EphemeralSequential;
    other.create("/l/x-latch-", "", mode).await.unwrap();
    drop(holder);
    drop(soon(waiter.wait()).await.unwrap());
    let refused = soon(mutex.lock()).await;
    assert!(is_refused(refused, Kind::Latch));
}
