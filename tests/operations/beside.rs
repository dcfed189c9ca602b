//! Two kinds of watch on one node: a server before 3.9 keeps only the last one that was requested,
//! so the client refuses one of them, on every server. Locks, which wait with one-shot watches, are
//! never refused.

use std::time::Duration;

use lockkeeper::{Mutex, error::ErrorKind, watch::WatcherType};

use crate::{
    rig::{CHANGED, PERSISTENT, RECURSIVE, create, event, fired, set, silent, two_and_a_node},
    support::{Ensemble, on_both_arms, waiting::soon},
};

on_both_arms! {
    async fn a_persistent_watch_is_refused_beside_another_kind(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "refused").await;
        let (_, data) = client.get_data_and_watch(&path).await.unwrap();
        for mode in [PERSISTENT, RECURSIVE] {
            let refused = client.add_watch(&path, mode).await.map(drop);
            assert_eq!(refused, Err(ErrorKind::WatchConflict.into()));
        }
        set(&other, &path).await;
        assert_eq!(fired(data).await, (CHANGED, path.clone()));
        for (mode, not) in [(PERSISTENT, RECURSIVE), (RECURSIVE, PERSISTENT)] {
            let mut persistent = client.add_watch(&path, mode).await.unwrap();
            assert_eq!(client.add_watch(&path, not).await.map(drop), Err(ErrorKind::WatchConflict.into()));
            // Another client is not concerned.
            let mut others = other.add_watch(&path, not).await.unwrap();
            set(&other, &path).await;
            assert_eq!(event(&mut persistent).await, (CHANGED, path.clone()));
            assert_eq!(event(&mut others).await, (CHANGED, path.clone()));
            silent(&client, &mut persistent).await;
        }
    }

    async fn a_read_with_a_watch_ends_a_persistent_watch(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "ended").await;
            let mut persistent = client.add_watch(&path, mode).await.unwrap();
            let (_, data) = client.get_data_and_watch(&path).await.unwrap();
            assert_eq!(soon(persistent.next()).await, Some(Err(ErrorKind::WatchConflict.into())));
            assert_eq!(soon(persistent.next()).await, None);
            set(&other, &path).await;
            assert_eq!(fired(data).await, (CHANGED, path.clone()));
            // No watch is left, on the server or in the client.
            assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap(), "{mode}");
            assert_eq!(client.metrics().watches, 0);
        }
    }

    /// Watches of the program that waits: on the lock node ahead, on its own, on the directory, and
    /// above.
    async fn no_watch_of_the_program_keeps_a_lock_from_its_turn(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "lock").await;
            let lock = format!("{path}/lock");
            let held = Mutex::new(&other, &lock).unwrap().lock().await.unwrap();
            let mut above = client.add_watch(&path, RECURSIVE).await.unwrap();
            let on_directory = client.add_watch(&lock, mode).await.unwrap();
            let ahead = held.path();
            let mut on_ahead = client.add_watch(&ahead, mode).await.unwrap();
            let mutex = Mutex::new(&client, &lock).unwrap();
            let waiter = tokio::spawn(async move { mutex.lock().await });
            assert_eq!(soon(on_ahead.next()).await, Some(Err(ErrorKind::WatchConflict.into())), "{mode}");
            let again = client.add_watch(&ahead, mode).await.map(drop);
            assert_eq!(again, Err(ErrorKind::WatchConflict.into()));
            held.release().await.unwrap();
            let guard = tokio::time::timeout(Duration::from_secs(5), waiter).await.unwrap().unwrap().unwrap();
            let mine = client.add_watch(&guard.path(), mode).await.map(drop);
            drop(mine);
            assert!(guard.is_valid());
            guard.release().await.unwrap();
            drop(on_directory);
            create(&other, &format!("{path}/last")).await;
            let last = format!("{path}/last");
            while event(&mut above).await.1 != last {}
        }
    }
}
