//! Requests to the servers themselves: `sync`, `get_config`, `reconfig`.
//!
//! Not here: reconfiguration of a real ensemble (`tests/real/reconfiguration`).

use lockkeeper::{Client, error::ErrorCode};

use crate::{
    rig::two_and_a_node,
    support::{Ensemble, on_both_arms},
};

on_both_arms! {
    async fn sync_succeeds_on_a_node_that_does_not_exist(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "sync").await;
        client.sync(&path).await.unwrap();
        client.sync(&format!("{path}/x")).await.unwrap();
    }

    async fn the_configuration_lists_the_members_of_an_ensemble(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "config").await;
        let servers = ensemble.servers().split(',').count();
        // A standalone server has an empty one.
        let members = if servers > 1 { servers } else { 0 };
        let inside = Client::connect(&format!("{}{path}", ensemble.servers())).await.unwrap();
        for client in [client, inside] {
            let config = client.get_config().await.unwrap();
            let data = config.data.unwrap_or_default();
            let lines = std::str::from_utf8(&data).unwrap().lines();
            assert_eq!(lines.filter(|line| line.starts_with("server.")).count(), members);
            let (again, watcher) = client.get_config_and_watch().await.unwrap();
            assert_eq!((again.stat, client.metrics().watches), (config.stat, 1));
            drop(watcher);
            assert_eq!(client.metrics().watches, 0);
        }
    }

    async fn a_disabled_reconfiguration_is_refused(ensemble: &Ensemble) {
        let client = ensemble.client().await;
        let joined = client.reconfig("server.9=localhost:2888:3888;2181", "", None).await;
        let replaced = client.reconfig_to_members("server.9=localhost:2888:3888;2181", Some(1)).await;
        for refused in [joined, replaced] {
            assert_eq!(refused.unwrap_err().code(), Some(ErrorCode::RECONFIG_DISABLED));
        }
        assert_eq!(client.snapshot().connections, 1);
    }
}
