//! A lost connection: the client restores watches and identities, and tells listeners that events
//! may be missing.
//!
//! Not here: expired sessions (`one_shot`).

use lockkeeper::{CreateMode, Version, node::Acl};

use crate::{
    rig::{
        CHANGED, CHILDREN, CREATED, DELETED, PERSISTENT, RECURSIVE, away, behind_a_proxy, create,
        delete, event, fired, missed, set, silent, two_and_a_node,
    },
    support::{Ensemble, on_both_arms},
};

on_both_arms! {
    async fn one_shot_watches_report_missed_changes_and_stay_on_unchanged_nodes(ensemble: &Ensemble) {
        let (_, other, root) = two_and_a_node(ensemble, "missed").await;
        let (client, proxy) = behind_a_proxy(ensemble).await;
        let at = |name: &str| format!("{root}/{name}");
        for name in ["data", "gone", "still"] {
            create(&other, &at(name)).await;
        }
        client.sync("/").await.unwrap();
        let (_, data) = client.get_data_and_watch(&at("data")).await.unwrap();
        let (_, gone) = client.get_data_and_watch(&at("gone")).await.unwrap();
        let (_, absent) = client.exists_and_watch(&at("absent")).await.unwrap();
        let (_, list) = client.get_children_and_watch(&root).await.unwrap();
        let (_, still) = client.get_data_and_watch(&at("still")).await.unwrap();
        away(&client, &proxy, async {
            set(&other, &at("data")).await;
            delete(&other, &at("gone")).await;
            create(&other, &at("absent")).await;
        }).await;
        assert_eq!(fired(data).await, (CHANGED, at("data")));
        assert_eq!(fired(gone).await, (DELETED, at("gone")));
        assert_eq!(fired(absent).await, (CREATED, at("absent")));
        assert_eq!(fired(list).await, (CHILDREN, root.clone()));
        set(&other, &at("still")).await;
        assert_eq!(fired(still).await, (CHANGED, at("still")));
    }

    async fn persistent_watches_report_that_events_may_be_missing_and_go_on(ensemble: &Ensemble) {
        let (_, other, root) = two_and_a_node(ensemble, "persistent").await;
        let (client, proxy) = behind_a_proxy(ensemble).await;
        let [p, r] = ["p", "r"].map(|name| format!("{root}/{name}"));
        for path in [&p, &r] {
            create(&other, path).await;
        }
        let mut persistent = client.add_watch(&p, PERSISTENT).await.unwrap();
        let mut recursive = client.add_watch(&r, RECURSIVE).await.unwrap();
        for round in 0..2 {
            away(&client, &proxy, async {
                for path in [&p, &r] {
                    set(&other, path).await;
                }
            }).await;
            for watcher in [&mut persistent, &mut recursive] {
                let gap = missed(watcher).await;
                assert_eq!((gap.dropped, gap.reconnected), (0, true), "events during the outage are not delivered");
                silent(&client, watcher).await;
            }
            let child = |path: &str| format!("{path}/{round}");
            for path in [&p, &r] {
                create(&other, &child(path)).await;
                set(&other, path).await;
            }
            for (watcher, path, of_child) in [
                (&mut persistent, &p, (CHILDREN, p.clone())),
                (&mut recursive, &r, (CREATED, child(&r))),
            ] {
                assert_eq!(event(watcher).await, of_child);
                assert_eq!(event(watcher).await, (CHANGED, path.clone()));
                silent(&client, watcher).await;
            }
        }
    }

    async fn an_added_identity_is_sent_again_after_a_reconnect(ensemble: &Ensemble) {
        let (_, _, root) = two_and_a_node(ensemble, "auth-again").await;
        let (client, proxy) = behind_a_proxy(ensemble).await;
        let path = format!("{root}/mine");
        client.add_auth("digest", "ann:secret").await.unwrap();
        client.create_with_acl(&path, "", CreateMode::Persistent, Acl::CREATOR_ALL).await.unwrap();
        for _ in 0..3 {
            away(&client, &proxy, async {}).await;
            client.set_data(&path, "", Version::ANY).await.unwrap();
        }
        client.delete(&path, Version::ANY).await.unwrap();
    }
}
