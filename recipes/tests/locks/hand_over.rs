//! A lock that is handed over to another process.
//!
//! Not here: the session below it (`session/src/machine/tests/hand_over.rs`).

use std::time::Duration;

use futures::future::{FutureExt, join};
use lockkeeper_proto::{Acl, CreateMode, ErrorCode, OpCode, Version};
use lockkeeper_recipes::{
    Guard, LockError, LockTicket, Loss, Mutex, NotHandedOver, PlainMutex, RwLock, Semaphore, revoke,
};
use lockkeeper_server::{Server, When};
use lockkeeper_session::{Builder, Client};

use crate::support::{
    below, client, server,
    waiting::{soon, until},
};

/// The guard of a take-over comes with a lease that a sixth of this has proved.
const TIMEOUT: Duration = Duration::from_secs(3);

fn settings(server: &Server) -> Builder {
    let builder = Client::builder(&server.connect_string()).unwrap();
    builder.session_timeout(TIMEOUT)
}

/// A lock of a client of its own.
async fn locked(server: &Server) -> Guard {
    let client = settings(server).connect().await.unwrap();
    let mutex = Mutex::new(&client, "/l").unwrap();
    mutex.with_data("who").lock().await.unwrap()
}

/// The ticket as the other process gets it.
fn sent(ticket: &LockTicket) -> LockTicket {
    LockTicket::from_bytes(&ticket.to_bytes()).unwrap()
}

/// The other connection has taken the session away, for as long as it was there.
async fn is_held(guard: &Guard) {
    while let Err(error) = guard.confirm().await {
        assert_eq!(error.loss(), None, "{error}");
    }
}

fn why(refused: Result<impl Sized, LockError>) -> NotHandedOver {
    match refused.err() {
        Some(LockError::NotHandedOver { path, reason, .. }) => {
            assert_eq!(path, "/l");
            reason
        }
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn the_next_process_holds_the_lock_with_the_same_token_and_no_waiter_gets_in() {
    let server = server().await;
    let guard = locked(&server).await;
    let (token, node) = (guard.fencing_token(), guard.path());
    let (view, lost) = (guard.view(), tokio::spawn(guard.lost()));
    let other = client(&server).await;
    let mutex = Mutex::new(&other, "/l").unwrap();
    let mut waiter = Box::pin(mutex.lock());
    until("the waiter is in the queue", async || {
        (&mut waiter).now_or_never().is_none() && below(&server, "/l") == 2
    })
    .await;
    let ticket = guard.hand_over().await.unwrap();
    assert!(!view.is_valid());
    assert_eq!(soon(lost).await.unwrap(), None);
    assert_eq!(ticket.lock_path(), "/l");
    let guard = sent(&ticket).take_over(settings(&server)).await.unwrap();
    assert!(guard.is_valid());
    assert_eq!((guard.fencing_token(), guard.path()), (token, node));
    assert_eq!(guard.data().await.unwrap().unwrap(), "who");
    let create = |write: &str| {
        let transaction = guard.transaction();
        transaction
            .create(write, "", CreateMode::Persistent)
            .commit()
    };
    create("/written").await.unwrap();
    assert!((&mut waiter).now_or_never().is_none());
    guard.release().await.unwrap();
    assert!(soon(waiter).await.unwrap().fencing_token() > token);
    let sessions = || server.report().sessions.len();
    until("the session is over", async || sessions() == 1).await;
    assert_eq!(server.counters().expired, 0, "it was closed");
}

#[tokio::test]
async fn a_ticket_is_spent_once_and_the_second_process_leaves_the_session_alone() {
    let server = server().await;
    let ticket = locked(&server).await.hand_over().await.unwrap();
    let guard = ticket.clone().take_over(settings(&server)).await.unwrap();
    soon(async {
        // Both take the session from each other.
        loop {
            match ticket.clone().take_over(settings(&server)).await {
                Err(error) if error.is_transient() => {}
                second => return assert_eq!(why(second), NotHandedOver::Spent),
            }
        }
    })
    .await;
    soon(is_held(&guard)).await;
    let again = sent(&guard.hand_over().await.unwrap());
    let guard = again.take_over(settings(&server)).await.unwrap();
    assert!(guard.is_valid());
}

/// Another answer than the own one would make two holders.
///
/// Each takes the session from the other. A write whose connection ended has spent the ticket, perhaps,
/// and its caller does not claim the lock: then nobody has it. So the story is told until one of the
/// two has held the lock several times.
#[tokio::test]
async fn of_two_that_take_over_at_once_one_holds_the_lock() {
    const HOLDERS: usize = 4;
    const STORIES: usize = 64;
    let server = server().await;
    let mut holders = 0;
    for story in 0.. {
        assert!(story < STORIES, "{holders} holders in {story} stories");
        let ticket = locked(&server).await.hand_over().await.unwrap();
        let [one, two] = [(); 2].map(|()| ticket.clone().take_over(settings(&server)));
        let taken = tokio::join!(one, two);
        let mut guards = Vec::new();
        for taken in [taken.0, taken.1] {
            match taken {
                Ok(guard) => guards.push(guard),
                Err(error) if error.is_transient() => {}
                refused => assert_eq!(why(refused), NotHandedOver::Spent),
            }
        }
        assert!(guards.len() < 2, "{guards:?}");
        if guards.is_empty() {
            server.advance(2 * TIMEOUT);
        }
        for guard in guards {
            soon(is_held(&guard)).await;
            holders += 1;
        }
        if holders == HOLDERS {
            break;
        }
        until("the node is gone", async || below(&server, "/l") == 0).await;
    }
}

#[tokio::test]
async fn a_ticket_that_is_not_used_in_time_is_worth_nothing() {
    let server = server().await;
    let ticket = locked(&server).await.hand_over().await.unwrap();
    server.advance(2 * TIMEOUT);
    let late = ticket.take_over(settings(&server)).await.unwrap_err();
    assert_eq!(
        (late.loss(), late.path()),
        (Some(Loss::Expired), Some("/l"))
    );
    assert!(locked(&server).await.is_valid());
}

/// Nobody would own the other node.
#[tokio::test]
async fn a_session_with_another_node_is_not_handed_over_and_its_lock_is_released() {
    let server = server().await;
    let guard = locked(&server).await;
    let client = guard.client().clone();
    let other = client.create("/other", "", CreateMode::Ephemeral);
    other.await.unwrap();
    let refused = guard.hand_over().await;
    assert_eq!(why(refused), NotHandedOver::OtherNode("/other".to_owned()));
    until("the node is gone", async || below(&server, "/l") == 0).await;
    assert!(
        client.exists("/other").await.unwrap().is_some(),
        "the client goes on"
    );
}

/// It is made when the other nodes have been looked for, and before the last request.
#[tokio::test]
async fn a_node_that_is_made_meanwhile_is_seen_before_there_is_a_ticket() {
    let server = server().await;
    let guard = locked(&server).await;
    let client = guard.client().clone();
    let first = When::op(OpCode::GET_EPHEMERALS);
    server
        .faults()
        .delay_reply(first, Duration::from_millis(50));
    let mut leaving = Box::pin(guard.hand_over());
    until("the nodes are listed", async || {
        (&mut leaving).now_or_never().is_none() && server.faults().pending() == 0
    })
    .await;
    let other = client.create("/other", "", CreateMode::Ephemeral);
    let (refused, other) = soon(join(leaving, other)).await;
    assert_eq!(why(refused), NotHandedOver::OtherNode("/other".to_owned()));
    assert!(other.is_ok() && client.is_closed());
    server.advance(2 * TIMEOUT);
    until("the nodes are gone", async || server.paths() == ["/l"]).await;
}

/// They do not say which nodes a session has.
#[tokio::test]
async fn servers_before_3_6_refuse_and_the_lock_is_released() {
    let server = server().await;
    let guard = locked(&server).await;
    let client = guard.client().clone();
    let listing = When::op(OpCode::GET_EPHEMERALS);
    server.faults().refuse(listing, ErrorCode::UNIMPLEMENTED);
    let refused = guard.hand_over().await.unwrap_err().to_string();
    let why = "the server does not support getEphemerals, which needs ZooKeeper 3.6.0 or later";
    assert!(refused.contains(why), "{refused}");
    until("the node is gone", async || below(&server, "/l") == 0).await;
    assert!(!client.is_closed(), "the client goes on");
}

/// The session has no identity by itself: each connection logs in.
#[tokio::test]
async fn who_takes_a_lock_over_needs_the_identity_of_the_holder() {
    let server = server().await;
    let anns = || settings(&server).auth("digest", "ann:secret");
    for (path, others) in [("/closed", &[][..]), ("/open", Acl::READ_UNSAFE)] {
        let mutex = Mutex::new(&anns().connect().await.unwrap(), path).unwrap();
        let mutex = mutex.with_acl([Acl::CREATOR_ALL, others].concat());
        let ticket = mutex.lock().await.unwrap().hand_over().await.unwrap();
        drop(mutex);
        let refused = ticket.clone().take_over(settings(&server)).await;
        let Err(LockError::Session(refused)) = refused else {
            panic!("{refused:?}");
        };
        assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH), "{refused}");
        assert_eq!(below(&server, path), 1, "the session is left alone");
        // That has not spent the ticket.
        let guard = ticket.take_over(anns()).await.unwrap();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_plain_lock_is_not_handed_over() {
    let server = server().await;
    let plain = PlainMutex::new(&client(&server).await, "/l").unwrap();
    let refused = plain.lock().await.unwrap().hand_over().await;
    assert_eq!(why(refused), NotHandedOver::Plain);
}

/// The version of the data says who was first. So each change of the data spends the ticket.
#[tokio::test]
async fn data_that_are_set_meanwhile_spend_the_ticket() {
    let server = server().await;
    let guard = locked(&server).await;
    let node = guard.path();
    let ticket = guard.hand_over().await.unwrap();
    let other = client(&server).await;
    other.set_data(&node, "please", Version::ANY).await.unwrap();
    let refused = ticket.take_over(settings(&server)).await;
    assert_eq!(why(refused), NotHandedOver::Spent);
    assert_eq!(below(&server, "/l"), 1, "the session is left alone");
}

/// The reply to the write that spends the ticket is lost: nobody knows who holds the lock.
#[tokio::test]
async fn a_take_over_whose_effect_is_unknown_leaves_the_session_alone() {
    let server = server().await;
    let ticket = locked(&server).await.hand_over().await.unwrap();
    server.faults().lose_reply(When::op(OpCode::SET_DATA));
    let unknown = ticket.take_over(settings(&server)).await.unwrap_err();
    assert_eq!(unknown.effect(), lockkeeper_session::Effect::Unknown);
    assert_eq!(below(&server, "/l"), 1);
    server.advance(2 * TIMEOUT);
    until("the node is gone", async || below(&server, "/l") == 0).await;
}

/// A future that is dropped before it has the lock must not end the session of who has it.
#[tokio::test]
async fn a_take_over_that_is_dropped_leaves_the_session_alone() {
    let server = server().await;
    let ticket = locked(&server).await.hand_over().await.unwrap();
    let reply = When::op(OpCode::SET_DATA);
    server
        .faults()
        .delay_reply(reply, Duration::from_secs(3600));
    let mut taking = Box::pin(ticket.take_over(settings(&server)));
    until("the write is under way", async || {
        (&mut taking).now_or_never().is_none() && server.faults().pending() == 0
    })
    .await;
    drop(taking);
    let other = client(&server).await;
    other.sync("/").await.unwrap();
    assert_eq!(below(&server, "/l"), 1);
}

/// The proof of the lease takes a sixth of the session timeout: two seconds here.
#[tokio::test]
async fn a_node_that_is_deleted_while_the_lease_is_proved_is_a_loss() {
    let server = server().await;
    let settings = || settings(&server).session_timeout(4 * TIMEOUT);
    let holder = settings().connect().await.unwrap();
    let guard = Mutex::new(&holder, "/l").unwrap().lock().await.unwrap();
    let (node, other) = (guard.path(), client(&server).await);
    let ticket = guard.hand_over().await.unwrap();
    let deletes = async {
        let is_spent = async || other.get_data(&node).await.unwrap().stat.version > Version(0);
        until("the ticket is spent", is_spent).await;
        other.delete(&node, Version::ANY).await.unwrap();
    };
    let (taken, ()) = join(ticket.take_over(settings()), deletes).await;
    assert_eq!(taken.unwrap_err().loss(), Some(Loss::Deleted));
}

#[tokio::test]
async fn permits_and_readers_are_handed_over_below_a_chroot() {
    let server = server().await;
    let root = client(&server).await;
    root.ensure_path("/app").await.unwrap();
    drop(root);
    let app = || async { client(&server).await.with_chroot("/app").unwrap() };
    let semaphore = Semaphore::new(&app().await, "/l", 1).unwrap();
    let permit = semaphore
        .acquire()
        .await
        .unwrap()
        .hand_over()
        .await
        .unwrap();
    drop(semaphore);
    let permit = sent(&permit).take_over(settings(&server)).await.unwrap();
    assert!(permit.path().starts_with("/l/leases/"), "{}", permit.path());
    assert_eq!(below(&server, "/app/l/leases"), 1);
    permit.release().await.unwrap();
    let lock = RwLock::new(&app().await, "/rw").unwrap();
    let writer = lock.write().await.unwrap();
    let token = writer.fencing_token();
    let reader = writer.downgrade().await.unwrap();
    drop(lock);
    let reader = reader.hand_over().await.unwrap();
    let reader = sent(&reader).take_over(settings(&server)).await.unwrap();
    assert_eq!(reader.fencing_token(), token);
    reader.release().await.unwrap();
    until("the node is gone", async || below(&server, "/app/rw") == 0).await;
}

/// Whoever took the lock over is asked as any holder.
#[tokio::test]
async fn who_took_a_lock_over_hears_of_requests_to_release_it() {
    let server = server().await;
    let other = client(&server).await;
    for is_handed_over in [false, true] {
        let mut guard = locked(&server).await;
        if is_handed_over {
            let ticket = guard.hand_over().await.unwrap();
            guard = ticket.take_over(settings(&server)).await.unwrap();
        }
        let asked = tokio::spawn(guard.revoked());
        until!(server.report().watches > 0);
        revoke(&other, &guard.path()).await.unwrap();
        soon(asked).await.unwrap();
        assert!(guard.is_valid(), "the holder decides when it releases");
        guard.release().await.unwrap();
    }
}

#[test]
fn bytes_that_are_no_ticket_are_refused_and_a_ticket_is_not_shown() {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = server().await;
        let ticket = locked(&server).await.hand_over().await.unwrap();
        assert_eq!(format!("{ticket:?}"), r#"LockTicket { path: "/l", .. }"#);
        let bytes = ticket.to_bytes();
        for at in 0..bytes.len() {
            assert!(LockTicket::from_bytes(&bytes[..at]).is_err(), "{at}");
            let mut other = bytes.clone();
            other[at] ^= 0xff;
            let _no_panic = LockTicket::from_bytes(&other);
        }
        // The name without its number.
        let text = b"-lock-0000000000";
        let at = bytes.windows(text.len()).position(|it| it == text).unwrap();
        let mut other = bytes.clone();
        other[at + 6] = b'/';
        let error = LockTicket::from_bytes(&other).unwrap_err();
        assert!(error.to_string().starts_with("LockTicket.name"), "{error}");
    });
}

/// The other process sends requests with what the ticket says.
#[tokio::test]
async fn a_ticket_names_a_node_in_a_directory() {
    let server = server().await;
    let ticket = locked(&server).await.hand_over().await.unwrap();
    let bytes = ticket.to_bytes();
    let with = |at: &[u8], other: &[u8]| {
        let place = bytes.windows(at.len()).position(|it| it == at).unwrap();
        let mut bytes = bytes.clone();
        bytes[place..place + at.len()].copy_from_slice(other);
        LockTicket::from_bytes(&bytes)
    };
    assert!(with(b"/l", b"/m").is_ok());
    for (at, other) in [(b"/l", b"l/"), (b"_c", b"_/"), (b"-l", b"/l")] {
        let error = with(at, other).unwrap_err();
        assert_eq!(error.field, "LockTicket.name", "{other:?}");
    }
}
