//! Rows 25 to 29: nodes that stay behind semaphores, tries, sessions that end in between, and clients that are closed.

use std::{collections::HashSet, pin::pin, time::Duration};

use lockkeeper::{Client, ErrorCode, Semaphore, proto::OpCode};
use lockkeeper_server::{Server, When};

use crate::rig::{
    PATH, below, client, driven, idle, line, mutex, poll_once, server, session, soon, until,
    until_other_session,
};

fn semaphore(client: &Client) -> Semaphore {
    Semaphore::new(client, PATH, 1).unwrap()
}

fn leases(server: &Server) -> usize {
    below(server, "/lock/leases").len()
}

fn heads(server: &Server) -> usize {
    below(server, "/lock/locks").len()
}

/// CURATOR-315, -335, -462: the lease was there, then the listing failed or the wait was interrupted, and the lease was
/// never returned.
#[tokio::test]
async fn row_25_an_attempt_that_fails_after_its_lease_was_made_returns_it() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    let held = semaphore(&holder).acquire().await.unwrap();
    // The first listing is refused; then that which goes with the wait; then the wait is given up.
    for number in 1..=3 {
        let listing = When::op(OpCode::GET_CHILDREN).within("/lock/leases");
        let refused = ErrorCode::NO_AUTH;
        let listing = listing.of_session(session(&client)).nth(number);
        server.faults().refuse(listing, refused);
        let semaphore = semaphore(&client);
        let mut waiting = Box::pin(semaphore.acquire());
        let outcome = driven(&client, waiting.as_mut()).await;
        match outcome {
            Some(refused) => drop(refused.unwrap_err()),
            None => assert_eq!((leases(&server), heads(&server)), (2, 1)),
        }
        drop(waiting);
        until("the holder is alone", async || {
            (leases(&server), heads(&server)) == (1, 0)
        })
        .await;
        server.faults().clear();
    }
    held.release().await.unwrap();
    let lease = soon(semaphore(&client).acquire()).await.unwrap();
    lease.release().await.unwrap();
}

/// CURATOR-48, -190, -489: a session that ended during the create failed the attempt; a prefix grew with each repetition;
/// one that was missing gave all clients the same name.
#[tokio::test]
async fn row_26_each_repetition_has_a_name_of_its_own_and_of_the_same_length() {
    let server = server().await;
    let client = client(&server).await;
    let lock = mutex(&client);
    let mut attempt = pin!(lock.lock());
    // What it asked for; the server appended ten digits.
    let name = |path: &str| path[..path.len() - 10].to_owned();
    let mut names = HashSet::new();
    for _ in 0..4 {
        server.faults().lose_reply(When::op(OpCode::CREATE2));
        while line(&server).is_empty() {
            assert!(poll_once(attempt.as_mut()).is_none());
            idle(&client).await;
        }
        names.insert(name(&line(&server)[0]));
        let old = session(&client);
        server.faults().expire(old);
        until_other_session(&client, old).await;
    }
    let guard = soon(attempt).await.unwrap();
    names.insert(name(&guard.path()));
    assert_eq!(names.len(), 5, "{names:?}");
    assert_eq!(line(&server), [guard.path()]);
    let lengths: HashSet<_> = names.iter().map(String::len).collect();
    assert_eq!(lengths.len(), 1);
    let owner = client.exists(&guard.path()).await.unwrap().unwrap();
    assert_eq!(owner.ephemeral_owner, session(&client));
}

/// CURATOR-3: the lock was closed while its watcher was at work, which then created the next node.
#[tokio::test]
async fn row_27_no_node_is_made_after_the_client_is_closed() {
    let server = server().await;
    let (holder, looker) = (client(&server).await, client(&server).await);
    let guard = mutex(&holder).lock().await.unwrap();
    for number in 1.. {
        let closing = client(&server).await;
        let unanswered = When::any().of_session(session(&closing)).nth(number);
        let delay = Duration::from_millis(20);
        server.faults().delay_reply(unanswered, delay);
        let attempt = tokio::spawn({
            let mutex = mutex(&closing);
            async move { mutex.lock().await.map(drop) }
        });
        let met = until("the request is heard", async || {
            server.faults().pending() == 0
        });
        let is_met = tokio::select! {
            () = met => true,
            () = idle(&closing) => false,
        };
        closing.close().await;
        soon(attempt).await.unwrap().unwrap_err();
        assert_eq!(line(&server), [guard.path()]);
        server.faults().clear();
        if !is_met {
            assert!(number > 3, "it waits after {number} requests");
            break;
        }
    }
    let report = server.report();
    assert_eq!(report.sessions.len(), 2, "{report:?}");
    assert_eq!(looker.get_children(PATH).await.unwrap().len(), 1);
}

/// kazoo #732: a try that was refused deleted its node and took no notice when that failed.
#[tokio::test]
async fn row_28_a_try_that_is_cut_off_in_its_clean_up_leaves_nothing() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    // Its server lags: it looks, sees nobody, and creates a node in vain.
    server.faults().freeze_reads();
    let guard = mutex(&holder).lock().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(session(&client));
    server.faults().cut_before(delete);
    assert!(mutex(&client).try_lock().await.unwrap().is_none());
    server.faults().thaw();
    until("the clean-up is cut off, and done", async || {
        server.faults().pending() == 0 && line(&server) == [guard.path()]
    })
    .await;
    let creates = server.counters().requests_of(OpCode::CREATE2);
    assert_eq!(
        creates, 3,
        "that of the directory, the holder's, and the one in vain"
    );
}

/// kazoo #429: a try at a semaphore left its node in the line behind.
#[tokio::test]
async fn row_29_a_try_at_a_semaphore_leaves_no_place_in_its_line() {
    let server = server().await;
    let (holder, client) = (client(&server).await, client(&server).await);
    server.faults().freeze_reads();
    let held = semaphore(&holder).acquire().await.unwrap();
    let delete = When::op(OpCode::DELETE).of_session(session(&client));
    server.faults().cut_before(delete);
    assert!(semaphore(&client).try_acquire().await.unwrap().is_none());
    server.faults().thaw();
    until("the clean-up is cut off, and done", async || {
        server.faults().pending() == 0 && heads(&server) == 0
    })
    .await;
    assert_eq!(leases(&server), 1);
    held.release().await.unwrap();
}
