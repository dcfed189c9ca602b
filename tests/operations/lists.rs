//! Listings: children, descendants, and the session's own ephemeral nodes.

use lockkeeper::{Client, CreateMode};

use crate::{
    rig::{create, two_and_a_node},
    support::{Ensemble, on_both_arms},
};

fn sorted(mut names: Vec<String>) -> Vec<String> {
    names.sort();
    names
}

on_both_arms! {
    async fn children_are_listed_by_name(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "children").await;
        assert_eq!(client.get_children(&path).await.unwrap(), Vec::<String>::new());
        for name in ["b", "a", "c"] {
            create(&client, &format!("{path}/{name}")).await;
        }
        create(&client, &format!("{path}/a/below")).await;
        assert_eq!(sorted(client.get_children(&path).await.unwrap()), ["a", "b", "c"]);
        assert!(client.get_children(&format!("{path}/x")).await.unwrap_err().is_no_node());
    }

    async fn children_are_listed_with_the_metadata_of_the_same_moment(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "children2").await;
        create(&client, &format!("{path}/a")).await;
        let list = client.get_children_with_stat(&path).await.unwrap();
        assert_eq!((list.names, list.stat.num_children), (["a"].into_iter().collect(), 1));
        assert_eq!(Some(list.stat), client.exists(&path).await.unwrap());
    }

    async fn descendants_are_counted_at_any_depth(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "count").await;
        for below in ["/a", "/a/b", "/a/b/c", "/d"] {
            create(&client, &format!("{path}{below}")).await;
        }
        assert_eq!(client.get_all_children_number(&path).await.unwrap(), 4);
        assert_eq!(client.get_all_children_number(&format!("{path}/d")).await.unwrap(), 0);
        assert!(client.get_all_children_number("/").await.unwrap() >= 4 + 3);
        assert!(client.get_all_children_number(&format!("{path}/x")).await.unwrap_err().is_no_node());
    }

    async fn the_sessions_own_ephemeral_nodes_are_listed_by_prefix(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "ephemerals").await;
        let own = ["a", "ab", "b"].map(|name| format!("{path}/{name}"));
        for path in &own {
            client.create(path, "", CreateMode::Ephemeral).await.unwrap();
        }
        other.create(&format!("{path}/other"), "", CreateMode::Ephemeral).await.unwrap();
        create(&client, &format!("{path}/stays")).await;
        assert_eq!(sorted(client.get_ephemerals("/").await.unwrap()), own);
        let found = client.get_ephemerals(&format!("{path}/a")).await.unwrap();
        assert_eq!(sorted(found), own[..2]);
        assert_eq!(client.get_ephemerals("/nowhere").await.unwrap(), Vec::<String>::new());
        assert!(client.get_ephemerals("a").await.is_err(), "a path begins with /");
    }

    async fn in_a_chroot_ephemeral_nodes_have_paths_inside_it(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "chroot").await;
        // `chroot-neighbour` is outside the chroot, although its path begins in the same way.
        let inside = Client::connect(&format!("{}{path}", ensemble.servers())).await.unwrap();
        inside.create("/own", "", CreateMode::Ephemeral).await.unwrap();
        let neighbour = ensemble.unique_path("chroot-neighbour");
        create(&client, &neighbour).await;
        for prefix in ["/", "/o", "/own"] {
            assert_eq!(inside.get_ephemerals(prefix).await.unwrap(), ["/own"], "{prefix}");
        }
        assert_eq!(inside.get_ephemerals("/x").await.unwrap(), Vec::<String>::new());
        inside.close().await;
    }
}
