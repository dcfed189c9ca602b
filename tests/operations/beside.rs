//! Several kinds of watch on one node.
//!
//! A server before 3.9 keeps only one kind of watch for each path and connection: the last one that
//! was requested. On such a server, a read with a watch turns a persistent watch into a one-shot
//! watch, which is silent after the next event. The client hides this, so these tests pass on all
//! servers.

use crate::{
    rig::{
        CHANGED, CHILDREN, CREATED, DELETED, PERSISTENT, RECURSIVE, create, delete, event, fired,
        set, silent, two_and_a_node,
    },
    support::{Ensemble, on_both_arms},
};
use lockkeeper::watch::WatcherType;

on_both_arms! {
    async fn a_read_with_a_watch_does_not_silence_a_persistent_one(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "beside").await;
            let mut lasting = client.add_watch(&path, mode).await.unwrap();
            for _ in 0..2 {
                let (_, data) = client.get_data_and_watch(&path).await.unwrap();
                let (_, there) = client.exists_and_watch(&path).await.unwrap();
                set(&other, &path).await;
                assert_eq!(fired(data).await, (CHANGED, path.clone()));
                assert_eq!(fired(there).await, (CHANGED, path.clone()));
                set(&other, &path).await;
                for _ in 0..2 {
                    assert_eq!(event(&mut lasting).await, (CHANGED, path.clone()), "{mode}");
                }
            }
            silent(&client, &mut lasting).await;
        }
    }

    async fn a_persistent_watch_does_not_silence_earlier_watches(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "there").await;
            let (_, data) = client.get_data_and_watch(&path).await.unwrap();
            let (_, list) = client.get_children_and_watch(&path).await.unwrap();
            let mut lasting = client.add_watch(&path, mode).await.unwrap();
            create(&other, &format!("{path}/x")).await;
            set(&other, &path).await;
            assert_eq!(fired(list).await, (CHILDREN, path.clone()), "{mode}");
            assert_eq!(fired(data).await, (CHANGED, path.clone()));
            let of_child = if mode == PERSISTENT { (CHILDREN, path.clone()) } else { (CREATED, format!("{path}/x")) };
            assert_eq!(event(&mut lasting).await, of_child);
            assert_eq!(event(&mut lasting).await, (CHANGED, path.clone()));
            silent(&client, &mut lasting).await;
        }
    }

    async fn a_watch_on_children_works_beside_a_persistent_watch(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "list").await;
            let mut lasting = client.add_watch(&path, mode).await.unwrap();
            for name in ["a", "b"] {
                let (_, list) = client.get_children_and_watch(&path).await.unwrap();
                let child = format!("{path}/{name}");
                create(&other, &child).await;
                assert_eq!(fired(list).await, (CHILDREN, path.clone()), "{mode}");
                let of_child = if mode == PERSISTENT { (CHILDREN, path.clone()) } else { (CREATED, child) };
                assert_eq!(event(&mut lasting).await, of_child);
            }
            silent(&client, &mut lasting).await;
        }
    }

    async fn persistent_and_recursive_watches_on_one_node_hear_what_each_hears_alone(ensemble: &Ensemble) {
        for persistent_first in [true, false] {
            let (client, other, path) = two_and_a_node(ensemble, "both").await;
            let modes = if persistent_first { [PERSISTENT, RECURSIVE] } else { [RECURSIVE, PERSISTENT] };
            let [first, second] = modes.map(|mode| client.add_watch(&path, mode));
            let (first, second) = (first.await.unwrap(), second.await.unwrap());
            let (mut persistent, mut recursive) = if persistent_first { (first, second) } else { (second, first) };
            let child = format!("{path}/x");
            create(&other, &child).await;
            set(&other, &child).await;
            delete(&other, &child).await;
            set(&other, &path).await;
            for expected in [(CREATED, &child), (CHANGED, &child), (DELETED, &child), (CHANGED, &path)] {
                assert_eq!(event(&mut recursive).await, (expected.0, expected.1.clone()));
            }
            for expected in [CHILDREN, CHILDREN, CHANGED] {
                assert_eq!(event(&mut persistent).await, (expected, path.clone()), "{persistent_first}");
            }
            silent(&client, &mut persistent).await;
            silent(&client, &mut recursive).await;

            // One watch is dropped, and the other works as before.
            let (mut left, of_child) = if persistent_first {
                drop(recursive);
                (persistent, (CHILDREN, path.clone()))
            } else {
                drop(persistent);
                (recursive, (CREATED, child.clone()))
            };
            create(&other, &child).await;
            assert_eq!(event(&mut left).await, of_child);
            silent(&client, &mut left).await;
            drop(left);
            assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap());
        }
    }

    async fn one_shot_watches_outlive_the_persistent_watch_that_they_relied_on(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "outlive").await;
            let lasting = client.add_watch(&path, mode).await.unwrap();
            let (_, data) = client.get_data_and_watch(&path).await.unwrap();
            let (_, list) = client.get_children_and_watch(&path).await.unwrap();
            drop(lasting);
            create(&other, &format!("{path}/x")).await;
            set(&other, &path).await;
            assert_eq!(fired(list).await, (CHILDREN, path.clone()), "{mode}");
            assert_eq!(fired(data).await, (CHANGED, path.clone()));
            // No watch is left, on the server or in the client.
            client.sync("/").await.unwrap();
            assert!(!client.check_watches(&path, WatcherType::ANY).await.unwrap(), "{mode}");
            assert_eq!(client.metrics().watches, 0);
        }
    }

    async fn watching_a_known_node_does_not_silence_a_persistent_watch(ensemble: &Ensemble) {
        for mode in [PERSISTENT, RECURSIVE] {
            let (client, other, path) = two_and_a_node(ensemble, "known-beside").await;
            let mut lasting = client.add_watch(&path, mode).await.unwrap();
            for _ in 0..2 {
                let known = client.raw().watch_nodes(&[&path]).unwrap().remove(0);
                client.sync("/").await.unwrap();
                set(&other, &path).await;
                assert_eq!(fired(known).await, (CHANGED, path.clone()));
                assert_eq!(event(&mut lasting).await, (CHANGED, path.clone()), "{mode}");
            }
            set(&other, &path).await;
            assert_eq!(event(&mut lasting).await, (CHANGED, path.clone()), "{mode}");
        }
    }
}
