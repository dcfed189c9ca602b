//! `inspect`: holders and waiters as another client sees them, for every recipe and every
//! implementation.

use lockkeeper_proto::{CreateMode, ErrorCode, OpCode};
use lockkeeper_recipes::{
    Election, Kind, Mutex, PlainMutex, QueueEntry, RwLock, Semaphore, inspect,
};
use lockkeeper_server::When;
use lockkeeper_session::Client;

use crate::support::{below, server_and_two, waiting::until};

const PATH: &str = "/locks/orders";

/// What `inspect` reports of each contender: its recipe, whether it holds, how many are ahead, and
/// its data.
async fn seen(client: &Client) -> Vec<(Kind, bool, usize, String)> {
    let data_of = |entry: &QueueEntry| {
        let data = entry.data.as_deref().unwrap_or_default();
        String::from_utf8(data.to_vec()).unwrap()
    };
    let entries = inspect(client, PATH).await.unwrap();
    entries
        .iter()
        .map(|it| (it.kind, it.holds, it.ahead, data_of(it)))
        .collect()
}

fn contender(kind: Kind, ahead: usize, data: &str) -> (Kind, bool, usize, String) {
    (kind, ahead == 0, ahead, data.to_owned())
}

#[tokio::test]
async fn a_missing_path_and_a_free_lock_have_no_contenders() {
    let (_server, client, _) = server_and_two().await;
    assert_eq!(inspect(&client, PATH).await.unwrap(), []);
    let guard = Mutex::new(&client, PATH).unwrap().lock().await.unwrap();
    guard.release().await.unwrap();
    assert_eq!(inspect(&client, PATH).await.unwrap(), []);
    let error = inspect(&client, "locks").await.unwrap_err().to_string();
    assert!(error.contains("locks"), "{error}");
}

#[tokio::test]
async fn a_queue_is_listed_in_order_with_sessions_and_nodes() {
    let (_server, one, other) = server_and_two().await;
    let first = Mutex::new(&one, PATH).unwrap().with_data("first");
    let guard = first.lock().await.unwrap();
    let second = Mutex::new(&other, PATH).unwrap().with_data("second");
    let ticket = second.enqueue().await.unwrap();
    let seen = inspect(&one, PATH).await.unwrap();
    let [holder, waiter] = seen.as_slice() else {
        panic!("{seen:?}");
    };
    assert!(holder.holds && !waiter.holds);
    assert_eq!((holder.ahead, waiter.ahead), (0, 1));
    let paths = [&holder.path, &waiter.path];
    assert_eq!(paths, [&guard.path(), &ticket.path()]);
    let sessions = [holder, waiter].map(|it| it.stat.ephemeral_owner);
    let expected = [one.snapshot().session_id, other.snapshot().session_id];
    assert_eq!(sessions, expected);
}

#[tokio::test]
async fn readers_hold_together_and_writers_wait_for_all_of_them() {
    let (_server, client, _) = server_and_two().await;
    let named = |name: &str| {
        RwLock::new(&client, PATH)
            .unwrap()
            .with_data(name.to_owned())
    };
    let _first = named("r1").read().await.unwrap();
    let _second = named("r2").read().await.unwrap();
    let _writer = named("w3").enqueue_write().await.unwrap();
    let _third = named("r4").enqueue_read().await.unwrap();
    let expected = [
        contender(Kind::Read, 0, "r1"),
        contender(Kind::Read, 0, "r2"),
        contender(Kind::Write, 2, "w3"),
        contender(Kind::Read, 1, "r4"),
    ];
    assert_eq!(seen(&client).await, expected);
}

#[tokio::test]
async fn a_semaphore_lists_its_permits_and_then_its_waiters() {
    let (_server, client, _) = server_and_two().await;
    let named = |name: &str| {
        let semaphore = Semaphore::new(&client, PATH, 2).unwrap();
        semaphore.with_data(name.to_owned())
    };
    let _permits = named("a").acquire_many(2).await.unwrap();
    let _first = named("b").enqueue().await.unwrap();
    let _second = named("c").enqueue().await.unwrap();
    let waiter = |ahead, name: &str| (Kind::Semaphore, false, ahead, name.to_owned());
    let expected = [
        contender(Kind::Semaphore, 0, "a"),
        contender(Kind::Semaphore, 0, "a"),
        waiter(0, "b"),
        waiter(1, "c"),
    ];
    assert_eq!(seen(&client).await, expected);
}

/// The first waiter creates its permit before there is room for it.
#[tokio::test]
async fn a_waiter_of_a_semaphore_is_no_holder() {
    let (server, client, other) = server_and_two().await;
    let named = |client, name: &str| {
        let semaphore = Semaphore::new(client, PATH, 1).unwrap();
        semaphore.with_data(name.to_owned())
    };
    let _held = named(&client, "a").acquire().await.unwrap();
    let semaphore = named(&other, "b");
    let waiting = semaphore.clone();
    let waiting = tokio::spawn(async move { waiting.acquire().await.map(drop) });
    let permits = format!("{PATH}/leases");
    until!(below(&server, &permits) == 2);
    let expected = [
        contender(Kind::Semaphore, 0, "a"),
        (Kind::Semaphore, false, 0, "b".to_owned()),
    ];
    assert_eq!(seen(&client).await, expected);
    waiting.abort();
}

/// The next waiter has entered before the permit was created, and has none itself yet.
#[tokio::test]
async fn a_permit_that_is_newer_than_the_place_of_the_first_waiter_is_held() {
    let (_server, client, other) = server_and_two().await;
    let enqueue = async |client, name: &str| {
        let semaphore = Semaphore::new(client, PATH, 1).unwrap();
        semaphore.with_data(name.to_owned()).enqueue().await
    };
    let first = enqueue(&client, "a").await.unwrap();
    let _next = enqueue(&other, "b").await.unwrap();
    let _permit = first.wait().await.unwrap();
    let expected = [
        contender(Kind::Semaphore, 0, "a"),
        (Kind::Semaphore, false, 0, "b".to_owned()),
    ];
    assert_eq!(seen(&client).await, expected);
}

#[tokio::test]
async fn a_plain_lock_and_a_leader_are_listed_too() {
    let (_server, client, _) = server_and_two().await;
    let election = Election::new(&client, PATH).unwrap().with_data("leader");
    let latch = election.latch();
    latch.elected().await.unwrap();
    // A plain lock does not look for other kinds. They would refuse to be second.
    let plain = PlainMutex::new(&client, PATH).unwrap().with_data("plain");
    let _guard = plain.lock().await.unwrap();
    let expected = [
        contender(Kind::Latch, 0, "leader"),
        contender(Kind::Plain, 0, "plain"),
    ];
    assert_eq!(seen(&client).await, expected);
}

#[tokio::test]
async fn contenders_of_other_implementations_are_listed_and_foreign_nodes_are_not() {
    let (_server, client, _) = server_and_two().await;
    let hex = "0f9e8d7c6b5a49388271605f4e3d2c1b";
    let nodes = [
        (String::new(), CreateMode::Persistent),
        (format!("/{hex}__lock__"), CreateMode::EphemeralSequential),
        (format!("/{hex}__rlock__"), CreateMode::EphemeralSequential),
        ("/_c_x-lock-".to_owned(), CreateMode::EphemeralSequential),
        (format!("/{hex}"), CreateMode::Ephemeral),
        ("-__lock__".to_owned(), CreateMode::Persistent),
        (
            format!("-__lock__/{hex}__lock__"),
            CreateMode::EphemeralSequential,
        ),
        ("/README".to_owned(), CreateMode::Persistent),
        ("/lock".to_owned(), CreateMode::Persistent),
    ];
    client
        .create("/locks", "", CreateMode::Persistent)
        .await
        .unwrap();
    for (name, mode) in nodes {
        let path = format!("{PATH}{name}");
        client.create(&path, name.clone(), mode).await.unwrap();
    }
    let recipes = seen(&client).await.into_iter();
    let recipes: Vec<_> = recipes.map(|(recipe, holds, ..)| (recipe, holds)).collect();
    let expected = [
        (Kind::Mutex, true),
        (Kind::Read, false),
        (Kind::Mutex, false),
        (Kind::Semaphore, true),
        (Kind::Semaphore, false),
    ];
    assert_eq!(recipes, expected);
}

/// CURATOR-337, -358: the leader left between the listing and the read of its data, and the caller
/// got an error.
#[tokio::test]
async fn a_contender_that_leaves_meanwhile_is_left_out() {
    let (server, client, _) = server_and_two().await;
    let mutex = Mutex::new(&client, PATH).unwrap();
    let _left = mutex.lock().await.unwrap();
    let waiter = mutex.enqueue().await.unwrap();
    let read = When::op(OpCode::GET_DATA);
    server.faults().refuse(read, ErrorCode::NO_NODE);
    let seen = inspect(&client, PATH).await.unwrap();
    let paths: Vec<_> = seen.into_iter().map(|it| it.path).collect();
    assert_eq!(paths, [waiter.path()]);
}

#[tokio::test]
async fn a_contender_that_cannot_be_read_now_is_an_error() {
    let (server, client, _) = server_and_two().await;
    let _held = Mutex::new(&client, PATH).unwrap().lock().await.unwrap();
    let read = When::op(OpCode::GET_DATA);
    server.faults().refuse(read, ErrorCode::THROTTLED_OP);
    let error = inspect(&client, PATH).await.unwrap_err();
    assert!(error.to_string().contains("throttled"), "{error}");
}
