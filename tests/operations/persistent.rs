//! Persistent watches: shared watches, and slow listeners. Not here: which events they report
//! (`stories`).
//!
//! Not here: after a lost connection (`reconnect`), beside other kinds of watch (`beside`).

use futures::StreamExt;
use lockkeeper::{
    CreateMode, Version,
    error::ErrorKind,
    watch::{WatchNotice, WatcherType},
};

use crate::{
    rig::{
        CHANGED, CREATED, DELETED, PERSISTENT, RECURSIVE, create, delete, event, missed, set,
        silent, two_and_a_node,
    },
    support::{Ensemble, on_both_arms, waiting::soon},
};

on_both_arms! {
    async fn a_watch_is_a_stream(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "stream").await;
        let watcher = client.add_watch(&path, PERSISTENT).await.unwrap();
        set(&other, &path).await;
        delete(&other, &path).await;
        let events: Vec<_> = soon(watcher.take(2).collect()).await;
        let kinds = events.into_iter().map(|notice| match notice {
            Ok(WatchNotice::Event(event)) => event.event_type,
            other => panic!("{other:?}"),
        });
        assert_eq!(kinds.collect::<Vec<_>>(), [CHANGED, DELETED]);
    }

    async fn in_a_chroot_events_have_paths_inside_it(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "chroot-watch").await;
        let inside = lockkeeper::Client::connect(&format!("{}{root}", ensemble.servers())).await.unwrap();
        let mut all = inside.add_watch("/", RECURSIVE).await.unwrap();
        create(&other, &format!("{root}/x")).await;
        set(&other, &root).await;
        assert_eq!(event(&mut all).await, (CREATED, "/x".to_owned()));
        assert_eq!(event(&mut all).await, (CHANGED, "/".to_owned()));
        drop(client);
    }

    async fn all_listeners_hear_of_everything_and_share_one_watch(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "shared").await;
        for mode in [PERSISTENT, RECURSIVE] {
            let mut listeners = Vec::new();
            for _ in 0..3 {
                listeners.push(client.add_watch(&path, mode).await.unwrap());
            }
            assert_eq!(client.metrics().watches, 3);
            assert_eq!((listeners[0].path(), listeners[0].mode()), (&*path, mode));
            while !listeners.is_empty() {
                set(&other, &path).await;
                for listener in &mut listeners {
                    assert_eq!(event(listener).await, (CHANGED, path.clone()));
                    silent(&client, listener).await;
                }
                assert!(client.check_watches(&path, WatcherType::ANY).await.unwrap());
                listeners.pop();
            }
            assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap(), "{mode}");
            if let Some(server) = ensemble.server() {
                let watches = server.report().watches;
                assert_eq!(watches, 0);
            }
        }
    }

    async fn a_slow_listener_is_told_where_and_how_much_it_has_missed(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "slow").await;
        let mut slow = client.add_watch_with_queue(&path, PERSISTENT, 3).await.unwrap();
        let mut quick = client.add_watch(&path, PERSISTENT).await.unwrap();
        for _ in 0..10 {
            set(&other, &path).await;
        }
        for _ in 0..10 {
            assert_eq!(event(&mut quick).await.0, CHANGED);
        }
        for _ in 0..3 {
            assert_eq!(event(&mut slow).await.0, CHANGED);
        }
        let gap = missed(&mut slow).await;
        assert_eq!((gap.dropped, gap.reconnected), (7, false));
        delete(&other, &path).await;
        assert_eq!(event(&mut slow).await.0, DELETED);
        silent(&client, &mut slow).await;
    }

    async fn an_event_after_the_reply_of_add_watch_is_delivered(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "behind").await;
        for number in 0..20 {
            let mut watcher = client.add_watch(&path, PERSISTENT).await.unwrap();
            let stat = other.set_data(&path, "", Version(number)).await.unwrap();
            assert_eq!(stat.version, Version(number + 1));
            while client.exists(&path).await.unwrap() != Some(stat) {}
            let told = tokio::time::timeout(std::time::Duration::ZERO, watcher.next()).await;
            assert!(matches!(told, Ok(Some(Ok(WatchNotice::Event(_))))), "before the reply: {told:?}");
        }
    }

    async fn persistent_watches_are_removed_by_kind_and_their_listeners_are_told(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "removed-persistent").await;
        let mut watcher = client.add_watch(&path, PERSISTENT).await.unwrap();
        set(&other, &path).await;
        client.sync("/").await.unwrap();
        assert_eq!(client.remove_watches(&path, WatcherType::PERSISTENT_RECURSIVE).unwrap(), 0);
        assert_eq!(client.remove_watches(&path, WatcherType::PERSISTENT).unwrap(), 1);
        assert_eq!(event(&mut watcher).await.0, CHANGED, "an event from before the removal is not lost");
        assert_eq!(soon(watcher.next()).await, Some(Err(ErrorKind::WatchRemoved.into())));
        assert_eq!(soon(watcher.next()).await, None);
        assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap());
    }

    async fn a_watch_of_an_unknown_mode_is_refused_by_the_server(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "mode").await;
        let refused = client.add_watch(&path, lockkeeper::watch::AddWatchMode(7)).await.unwrap_err();
        assert_eq!(refused.code(), Some(lockkeeper::error::ErrorCode::MARSHALLING_ERROR));
        assert_eq!(client.metrics().watches, 0);
        client.create(&format!("{path}/x"), "", CreateMode::Persistent).await.unwrap();
    }
}
