//! Tests of the plain lock beyond the rules. All its contenders use the same node name, which makes
//! deletes dangerous.
//!
//! The tests that need faults run on the embedded server (`on_the_embedded_arm`), the others on
//! both arms.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use lockkeeper::{
    Client, CreateMode, LockError, Version,
    error::Loss,
    locks::{PlainMutex, QueueEntry, inspect},
    proto::{OpCode, path},
};
use lockkeeper_server::When;

use crate::{
    kinds::Kind,
    rig::{on_the_embedded_arm, soon, until_another_session, until_free, until_quiet},
    support::{Ensemble, on_both_arms},
};

async fn holder_at(client: &Client, path: &str) -> Option<QueueEntry> {
    inspect(client, path).await.unwrap().pop()
}

fn lock(client: &Client, path: &str) -> PlainMutex {
    PlainMutex::new(client, path).unwrap()
}

on_the_embedded_arm! {
    a_guard_of_an_expired_session_deletes_nothing
    a_node_of_the_same_session_may_belong_to_another_task
}

on_both_arms! {
    /// Excludes every client that locks by creating this node, and is excluded by it.
    async fn the_lock_is_one_node_with_a_fixed_name(ensemble: &Ensemble) {
        let path = ensemble.unique_path("node");
        let (client, other) = (ensemble.client().await, ensemble.client().await);
        let node = path::join(&path, "lock");
        let guard = lock(&client, &path).with_data("host 7").lock().await.unwrap();
        assert_eq!(guard.path(), node);
        let refused = other.create(&node, "", CreateMode::Ephemeral).await.unwrap_err();
        assert!(refused.is_node_exists());
        let holder = holder_at(&other, &path).await.unwrap();
        assert_eq!(holder.data.as_deref(), Some(&b"host 7"[..]));
        assert_eq!(holder.stat.ephemeral_owner, client.snapshot().session_id);
        let czxid = u64::try_from(holder.stat.czxid.0).unwrap();
        assert_eq!(czxid, guard.fencing_token().get());
        guard.release().await.unwrap();
        assert_eq!(holder_at(&other, &path).await, None);

        other.create_all(&node, "foreign", CreateMode::Ephemeral).await.unwrap();
        assert!(lock(&client, &path).try_lock().await.unwrap().is_none());
        let holder = holder_at(&client, &path).await.unwrap();
        assert_eq!(holder.data.as_deref(), Some(&b"foreign"[..]));
        let waiting = tokio::spawn(async move { lock(&client, &path).lock().await });
        other.delete(&node, Version::ANY).await.unwrap();
        soon(waiting).await.unwrap().unwrap().release().await.unwrap();
    }
}

/// A guard of an expired session must not delete the node of a later holder, which has the same
/// name.
async fn a_guard_of_an_expired_session_deletes_nothing(ensemble: &Ensemble) {
    let faults = ensemble.server().expect("the embedded server").faults();
    let path = ensemble.unique_path("former");
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let mut guards = Vec::new();
    for _ in 0..3 {
        guards.push(soon(lock(&client, &path).lock()).await.unwrap());
        let session = client.snapshot().session_id;
        faults.expire_early(session);
        until_another_session(&client, session).await;
    }
    let later = soon(lock(&other, &path).lock()).await.unwrap();
    let [dropped, released, written] = guards.try_into().unwrap();
    let delete = written.transaction().delete(&later.path(), Version::ANY);
    let refused = delete.commit().await.unwrap_err();
    assert_eq!(refused.loss(), Some(Loss::Expired));
    written.limit_hold(Duration::ZERO);
    drop(dropped);
    let refused = released.release().await.unwrap_err();
    assert_eq!(refused.loss(), Some(Loss::Expired));
    drop(written);
    until_quiet(ensemble, &client).await;
    let holder = holder_at(&other, &path).await.unwrap();
    assert_eq!(holder.stat.ephemeral_owner, other.snapshot().session_id);
    later.release().await.unwrap();
}

/// Two tasks of one session have both lost the reply to their create. The node belongs to the
/// session, but only one task may hold the lock. Runs on the embedded server, which loses the
/// replies.
async fn a_node_of_the_same_session_may_belong_to_another_task(ensemble: &Ensemble) {
    let faults = ensemble.server().expect("the embedded server").faults();
    let path = ensemble.unique_path("tasks");
    let client = ensemble.client().await;
    let mutex = lock(&client, &path);
    mutex.lock().await.unwrap().release().await.unwrap();
    let session = client.snapshot().session_id;
    faults.lose_reply(When::op(OpCode::CREATE2).of_session(session));
    let held = AtomicUsize::new(0);
    let turn = async || {
        let guard = soon(mutex.lock()).await.unwrap();
        assert_eq!(held.fetch_add(1, Ordering::SeqCst), 0, "both hold it");
        // On a busy machine the server may not have answered in time.
        let mut wait = Duration::from_millis(20);
        loop {
            let error = mutex.try_lock_for(wait).await.unwrap_err();
            assert_eq!(error.path(), Some(mutex.path()));
            let LockError::TimedOut {
                waited,
                ahead,
                obstacle: None,
                ..
            } = error
            else {
                panic!("{error}");
            };
            assert_eq!(waited, wait);
            if ahead == Some(1) {
                break;
            }
            assert_eq!(ahead, None);
            wait *= 2;
        }
        held.fetch_sub(1, Ordering::SeqCst);
        guard.release().await.unwrap();
    };
    tokio::join!(turn(), turn());
    assert_eq!(faults.pending(), 0);
    until_free(Kind::Plain, &client, &path).await;
    until_quiet(ensemble, &client).await;
}
