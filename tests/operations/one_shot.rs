//! Watches that fire once: the events of each kind, and how watches end.
//!
//! Not here: after a lost connection (`reconnect`), and all events of watches on the existence or the
//! children of a node (`stories`).

use lockkeeper::{Version, error::ErrorKind, raw::AsRaw, watch::WatcherType};

use crate::{
    rig::{CHANGED, CHILDREN, DELETED, create, delete, fired, set, two_and_a_node},
    support::{
        Ensemble, on_both_arms,
        waiting::{poll_once, soon},
    },
};

on_both_arms! {
    async fn a_watch_on_data_hears_of_its_change_or_deletion(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "data-watch").await;
        let (_, watcher) = client.get_data_and_watch(&path).await.unwrap();
        create(&other, &format!("{path}/child")).await;
        delete(&other, &format!("{path}/child")).await;
        set(&other, &path).await;
        assert_eq!(fired(watcher).await, (CHANGED, path.clone()));
        let (node, watcher) = client.get_data_and_watch(&path).await.unwrap();
        assert_eq!(node.stat.version, Version(1));
        delete(&other, &path).await;
        assert_eq!(fired(watcher).await, (DELETED, path.clone()));
        assert!(client.get_data_and_watch(&path).await.unwrap_err().is_no_node());
        assert_eq!(client.metrics().watches, 0, "a refused read leaves no watch");
    }

    async fn an_event_arrives_before_the_reply_that_shows_the_change(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "order").await;
        for _ in 0..50 {
            let (before, watcher) = client.get_data_and_watch(&path).await.unwrap();
            set(&other, &path).await;
            let mut watcher = Box::pin(watcher);
            while client.get_data(&path).await.unwrap().stat.version == before.stat.version {}
            assert!(poll_once(watcher.as_mut()).is_some());
        }
    }

    async fn known_nodes_are_watched_with_one_request(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "known").await;
        let [a, b] = ["a", "b"].map(|name| format!("{root}/{name}"));
        for path in [&a, &b] {
            create(&client, path).await;
        }
        set(&other, &a).await;
        let group = client.raw().watch_group();
        group.watch(&client.raw().server_path(&root), ["a", "b", "c"].map(Into::into).to_vec());
        let next = async || soon(group.next()).await.map(|event| (event.event_type, event.name.to_string())).unwrap();
        let mut now = [next().await, next().await];
        now.sort_by(|(_, one), (_, other)| one.cmp(other));
        let [changed, missing] = now;
        assert_eq!(changed, (CHANGED, "a".to_owned()), "the change is newer than the client's last zxid");
        assert_eq!(missing, (DELETED, "c".to_owned()), "the node never existed");
        delete(&other, &b).await;
        assert_eq!(next().await, (DELETED, "b".to_owned()));
        assert_eq!(client.metrics().watches, 0);
    }

    async fn dropping_the_last_watcher_removes_the_watch_from_the_server(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "dropped").await;
        let kinds = [WatcherType::DATA, WatcherType::CHILDREN];
        let (_, first) = client.get_data_and_watch(&path).await.unwrap();
        let (_, second) = client.exists_and_watch(&path).await.unwrap();
        let (_, list) = client.get_children_and_watch(&path).await.unwrap();
        for kind in kinds {
            assert!(client.check_watches(&path, kind).await.unwrap(), "{kind}");
        }
        drop((first, list));
        assert!(client.check_watches(&path, WatcherType::DATA).await.unwrap(), "one listener is left");
        assert!(!client.check_watches(&path, WatcherType::CHILDREN).await.unwrap());
        drop(second);
        assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap());
        assert_eq!(client.metrics().watches, 0);
    }

    async fn a_dropped_future_leaves_no_watch(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "abandoned").await;
        let below = format!("{path}/x");
        create(&other, &below).await;
        let mut read = Box::pin(client.get_data_and_watch(&path));
        assert!(poll_once(read.as_mut()).is_none(), "the request was sent");
        drop(read);
        let mut add = Box::pin(client.add_watch(&below, crate::rig::PERSISTENT));
        assert!(poll_once(add.as_mut()).is_none());
        drop(add);
        // The replies to both requests come before the reply to `sync`. The client sends the
        // removals before the next request.
        client.sync("/").await.unwrap();
        for path in [&path, &below] {
            assert!(!client.check_watches(path, WatcherType::ANY).await.unwrap());
        }
        assert_eq!(client.metrics().watches, 0);
    }

    async fn watches_are_removed_by_kind_and_their_listeners_are_told(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "removed").await;
        let (_, first) = client.get_data_and_watch(&path).await.unwrap();
        let (_, second) = client.get_data_and_watch(&path).await.unwrap();
        let (_, list) = client.get_children_and_watch(&path).await.unwrap();
        assert_eq!(client.remove_watches(&path, WatcherType::DATA).unwrap(), 2);
        assert_eq!(client.remove_watches(&path, WatcherType::DATA).unwrap(), 0, "no such watch");
        for watcher in [first, second] {
            assert_eq!(soon(watcher).await, Err(ErrorKind::WatchRemoved.into()));
        }
        assert!(!client.check_watches(&path, WatcherType::DATA).await.unwrap());
        set(&other, &path).await;
        create(&other, &format!("{path}/x")).await;
        assert_eq!(fired(list).await, (CHILDREN, path));
    }

    async fn the_end_of_a_session_ends_its_watches_with_an_error(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "ended").await;
        let (_, once) = client.get_data_and_watch(&path).await.unwrap();
        let mut persistent = client.add_watch(&format!("{path}/x"), crate::rig::PERSISTENT).await.unwrap();
        let expires = ensemble.server().is_some_and(|server| {
            server.faults().expire_early(client.snapshot().session_id)
        });
        if !expires {
            client.clone().close().await;
        }
        let said = [soon(once).await.map(drop), soon(persistent.next()).await.unwrap().map(drop)];
        for end in said {
            match end.unwrap_err().kind() {
                ErrorKind::SessionExpired => assert!(expires),
                ErrorKind::Closed => assert!(!expires),
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(soon(persistent.next()).await, None);
        assert_eq!(client.metrics().watches, 0);
    }
}
