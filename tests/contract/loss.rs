//! Losses: the holder learns of the loss before another contender can hold the lock, and a late
//! release returns an error.

use std::{pin::pin, time::Duration};

use futures_lite::future::poll_once;
use lockkeeper::{Client, CreateMode, LockError, Version, error::Loss, locks::GuardView};

use crate::{
    kinds::Kind,
    rig::{
        lose_to_a_rival, nodes, rival, soon, until, until_another_session, until_free,
        until_waiting,
    },
    support::Ensemble,
};

/// The server no longer hears the holder's session. The holder learns of the loss from its own
/// clock, before a rival gets the lock.
///
/// Runs on the embedded server alone: a real one cannot be told to ignore a session.
pub(crate) async fn the_holder_is_told_before_another_contender_holds_it(
    kind: Kind,
    ensemble: &Ensemble,
) {
    let server = ensemble.server().expect("the embedded server");
    let path = ensemble.unique_path("stall");
    let builder = Client::builder(&ensemble.servers()).unwrap();
    let short = builder.session_timeout(Duration::from_secs(2));
    let (client, other) = (short.connect().await.unwrap(), ensemble.client().await);
    let held = kind.at(&client, &path).lock().await.unwrap();
    let session = client.snapshot().session_id;
    let stall = || server.faults().stall_session(session);
    let (loss, rival) = lose_to_a_rival(kind, &*held, &other, &path, stall).await;
    assert!(matches!(loss, None | Some(Loss::Elapsed)), "{loss:?}");
    server.faults().resume_session(session);
    until_another_session(&client, session).await;
    let released = held.release().await;
    if loss.is_some() {
        assert_eq!(released.unwrap_err().loss(), Some(Loss::Expired));
    }
    drop(rival);
    until("it can be had again", async || {
        let wait = Duration::from_millis(100);
        kind.at(&client, &path).try_lock_for(wait).await.is_ok()
    })
    .await;
}

/// An operator deletes one of the holder's nodes. The holder learns of it, and its release fails.
pub(crate) async fn a_holder_whose_node_is_deleted_is_told(kind: Kind, ensemble: &Ensemble) {
    let (client, operator) = (ensemble.client().await, ensemble.client().await);
    for index in 0.. {
        let path = ensemble.unique_path("deleted-holder");
        let held = soon(kind.at(&client, &path).lock()).await.unwrap();
        let Some(node) = held.nodes().get(index).cloned() else {
            break;
        };
        let lost = tokio::spawn(held.lost());
        operator.delete(&node, Version::ANY).await.unwrap();
        assert_eq!(soon(lost).await.unwrap(), Some(Loss::Deleted));
        let error = held.release().await.unwrap_err();
        assert_eq!(error.loss(), Some(Loss::Deleted));
        names(&error, &path);
        until_free(kind, &operator, &path).await;
    }
}

/// A handler on another task knows of the loss when this client does, although nobody asks the guard.
pub(crate) async fn a_view_of_a_hold_sees_its_loss(kind: Kind, ensemble: &Ensemble) {
    let (client, operator) = (ensemble.client().await, ensemble.client().await);
    for index in 0.. {
        let path = ensemble.unique_path("viewed");
        // It has waited, so the servers tell the client of its node.
        let rival = rival(kind, &operator, &path).await;
        let lock = kind.at(&client, &path);
        let waiting = tokio::spawn(async move { lock.lock().await });
        until_waiting(kind, &operator, &path, 1).await;
        drop(rival);
        let held = soon(waiting).await.unwrap().unwrap();
        let (nodes, views) = (held.nodes(), held.views());
        let Some((node, view)) = nodes.get(index).zip(views.get(index).cloned()) else {
            break;
        };
        assert_eq!(views[0].fencing_token(), held.token());
        operator.delete(node, Version::ANY).await.unwrap();
        let lost = soon(tokio::spawn(async move {
            while view.is_valid() {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
            names(&view.ensure_valid().unwrap_err(), &path);
            view.lost().await
        }));
        assert_eq!(lost.await.unwrap(), Some(Loss::Deleted));
        assert_eq!(
            held.release().await.unwrap_err().loss(),
            Some(Loss::Deleted)
        );
    }
}

/// A view ends before another contender can get the lock, and before the release has done anything.
pub(crate) async fn a_view_of_a_hold_ends_with_its_release(kind: Kind, ensemble: &Ensemble) {
    let client = ensemble.client().await;
    let path = ensemble.unique_path("released-view");
    let held = soon(kind.at(&client, &path).lock()).await.unwrap();
    let views = held.views();
    let lost: Vec<_> = views.iter().map(|view| tokio::spawn(view.lost())).collect();
    assert!(views.iter().all(GuardView::is_valid));
    {
        let mut release = pin!(held.release());
        let released = poll_once(release.as_mut()).await;
        assert!(views.is_empty() || !views.iter().all(GuardView::is_valid));
        match released {
            Some(released) => released.unwrap(),
            None => soon(release).await.unwrap(),
        }
    }
    assert!(!views.iter().any(GuardView::is_valid));
    for lost in lost {
        assert_eq!(soon(lost).await.unwrap(), None);
    }
    // A view keeps no session open.
    let (session, other) = (client.snapshot().session_id, ensemble.client().await);
    let node = format!("{path}-of-the-session");
    client
        .create(&node, "", CreateMode::Ephemeral)
        .await
        .unwrap();
    assert_eq!(client.snapshot().session_id, session);
    drop(client);
    until("the session is closed", async || {
        other.exists(&node).await == Ok(None)
    })
    .await;
}

/// Nobody waits for the event of the loss: the release itself finds out.
pub(crate) async fn releasing_a_lost_lock_is_an_error(kind: Kind, ensemble: &Ensemble) {
    let (client, operator) = (ensemble.client().await, ensemble.client().await);
    let path = ensemble.unique_path("lost-release");
    let held = kind.at(&client, &path).lock().await.unwrap();
    for node in held.nodes() {
        operator.delete(&node, Version::ANY).await.unwrap();
    }
    let error = held.release().await.unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted));
    names(&error, &path);
    let held = soon(kind.at(&client, &path).lock()).await.unwrap();
    held.release().await.unwrap();
}

/// An operator deletes the node of a waiter. The waiter gets an error and is never granted the
/// lock.
pub(crate) async fn a_waiter_whose_node_is_deleted_is_told(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("deleted-waiter");
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let rival = rival(kind, &other, &path).await;
    let before = nodes(kind, &other, &path).await;
    let lock = kind.at(&client, &path);
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    let place = kind.directories(&path).pop().expect("a directory");
    let mut node = None;
    until("it waits", async || {
        let now = nodes(kind, &other, &path).await;
        node = now
            .into_iter()
            .find(|node| node.starts_with(&place) && !before.contains(node));
        node.is_some()
    })
    .await;
    other.delete(&node.unwrap(), Version::ANY).await.unwrap();
    drop(rival);
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Deleted));
    names(&error, &path);
    until_free(kind, &other, &path).await;
}

/// Another part of the program closes the client. Its holders and waiters get an error, and a new
/// attempt fails at once.
pub(crate) async fn a_closed_client_ends_holds_and_waits(kind: Kind, ensemble: &Ensemble) {
    let path = ensemble.unique_path("closed");
    let (client, other) = (ensemble.client().await, ensemble.client().await);
    let looker = ensemble.client().await;
    let rival = rival(kind, &other, &path).await;
    let lock = kind.at(&client, &path);
    let late = lock.clone();
    let waiting = tokio::spawn(async move { lock.lock().await.map(drop) });
    until_waiting(kind, &looker, &path, 1).await;
    client.close().await;
    let error = soon(waiting).await.unwrap().unwrap_err();
    assert_eq!(error.loss(), Some(Loss::Closed));
    names(&error, &path);
    let error = soon(late.lock()).await.err().expect("a closed client");
    assert_eq!(error.loss(), Some(Loss::Closed));
    names(&error, &path);
    drop(rival);
    until_free(kind, &looker, &path).await;

    let held = kind.at(&other, &path).lock().await.unwrap();
    let lost = held.lost();
    other.close().await;
    assert!(matches!(soon(lost).await, None | Some(Loss::Closed)));
    if let Err(error) = held.release().await {
        assert_eq!(error.loss(), Some(Loss::Closed));
    }
    until_free(kind, &looker, &path).await;
}

/// The error names the lock, or what belongs to it.
fn names(error: &LockError, path: &str) {
    let named = error.path().unwrap_or_default();
    assert!(named.starts_with(path), "{error}");
    assert!(error.to_string().contains(named), "{error}");
}
