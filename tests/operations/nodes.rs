//! Creating, reading, changing and deleting one node, and the end of ephemeral nodes.

use std::time::Duration;

use lockkeeper::{
    Client, CreateMode, Version,
    client::OpResult,
    error::{ErrorCode, ErrorKind},
    node::Acl,
    proto::{OpCode, SessionId},
};

use crate::{
    rig::{create, two_and_a_node},
    support::{Ensemble, on_both_arms, waiting},
};

on_both_arms! {
    async fn every_mode_creates_its_kind_of_node(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "modes").await;
        let hour = Duration::from_secs(3600);
        let modes = [
            (CreateMode::Persistent, "0"),
            (CreateMode::PersistentSequential, "0000000001"),
            (CreateMode::Ephemeral, "2"),
            (CreateMode::EphemeralSequential, "0000000003"),
            (CreateMode::Container, "4"),
            (CreateMode::PersistentWithTtl(hour), "5"),
            (CreateMode::PersistentSequentialWithTtl(hour), "0000000006"),
        ];
        let session = client.snapshot().session_id;
        for (number, (mode, name)) in modes.into_iter().enumerate() {
            let asked = if mode.is_sequential() {
                format!("{root}/")
            } else {
                format!("{root}/{number}")
            };
            let made = client.create(&asked, "data", mode).await.unwrap();
            assert_eq!(made.path, format!("{root}/{name}"), "{mode:?}");
            assert_eq!(made.stat.ephemeral_owner == session, mode.is_ephemeral(), "{mode:?}");
            assert_eq!((made.stat.version, made.stat.data_length), (Version(0), 4), "{mode:?}");
        }
    }

    async fn empty_containers_and_expired_nodes_are_deleted(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "reaped").await;
        let (container, brief) = (format!("{root}/c"), format!("{root}/t"));
        client.create(&container, "", CreateMode::Container).await.unwrap();
        create(&client, &format!("{container}/child")).await;
        client.delete(&format!("{container}/child"), Version::ANY).await.unwrap();
        let ttl = CreateMode::PersistentWithTtl(Duration::from_millis(1));
        client.create(&brief, "", ttl).await.unwrap();
        for path in [&container, &brief] {
            waiting::until("the node is reaped", async || client.exists(path).await.unwrap().is_none()).await;
        }
    }

    async fn a_time_to_live_out_of_range_is_refused(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "ttl").await;
        for ttl in [Duration::ZERO, Duration::from_secs(1 << 40)] {
            let mode = CreateMode::PersistentWithTtl(ttl);
            let refused = client.create(&format!("{root}/x"), "", mode).await.unwrap_err();
            assert_eq!(refused.code(), Some(ErrorCode::BAD_ARGUMENTS), "{ttl:?}");
        }
    }

    async fn a_create_without_stat_answers_the_path(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "plain").await;
        for (mode, name) in [(CreateMode::Persistent, ""), (CreateMode::EphemeralSequential, "0000000001")] {
            let asked = format!("{root}/x");
            let path = client.create_without_stat(&asked, "", mode).await.unwrap();
            assert_eq!(path, format!("{asked}{name}"));
        }
        let refused = client.create_without_stat(&root, "", CreateMode::Persistent).await.unwrap_err();
        let ErrorKind::Refused { op, path, code, .. } = refused.kind().clone() else { panic!("{refused}") };
        assert_eq!((op, path, code), (OpCode::CREATE, root, ErrorCode::NODE_EXISTS));
    }

    async fn a_refused_create_says_why(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "refused").await;
        let own = format!("{root}/own");
        client.create(&own, "", CreateMode::Ephemeral).await.unwrap();
        for (path, code) in [
            (root.clone(), ErrorCode::NODE_EXISTS),
            (format!("{root}/a/b"), ErrorCode::NO_NODE),
            (format!("{own}/x"), ErrorCode::NO_CHILDREN_FOR_EPHEMERALS),
        ] {
            let error = client.create(&path, "", CreateMode::Persistent).await.unwrap_err();
            assert_eq!(error.code(), Some(code), "{path}");
        }
        let empty: Vec<Acl> = Vec::new();
        let made = client.create_with_acl(&format!("{root}/x"), "", CreateMode::Persistent, empty).await;
        assert_eq!(made.unwrap_err().code(), Some(ErrorCode::INVALID_ACL));
    }

    async fn missing_parents_are_created_with_the_node(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "parents").await;
        let deep = format!("{root}/a/b/c");
        let created = client.create_all(&deep, "data", CreateMode::Ephemeral).await.unwrap();
        assert_eq!((&created.path, created.stat.ephemeral_owner), (&deep, client.snapshot().session_id));
        for parent in [format!("{root}/a"), format!("{root}/a/b")] {
            let node = other.get_data(&parent).await.unwrap();
            assert_eq!((node.data.as_deref(), node.stat.ephemeral_owner), (Some(&b""[..]), SessionId::NONE));
            assert_eq!(other.get_acl(&parent).await.unwrap().acl, Acl::OPEN_UNSAFE);
        }
        // Like `create` when the node is there.
        let again = client.create_all(&deep, "", CreateMode::Persistent).await.unwrap_err();
        let ErrorKind::Refused { path, code, .. } = again.kind().clone() else { panic!("{again}") };
        assert_eq!((path, code), (deep, ErrorCode::NODE_EXISTS));
        for (asked, path) in [("s/job-", "s/job-0000000000"), ("t/", "t/0000000000")] {
            let mode = CreateMode::PersistentSequential;
            let created = client.create_all(&format!("{root}/{asked}"), "", mode).await.unwrap();
            assert_eq!(created.path, format!("{root}/{path}"));
        }
        let bad = client.create_all("/a//b", "", CreateMode::Persistent).await.unwrap_err();
        assert!(matches!(bad.kind(), ErrorKind::BadPath(_)), "{bad}");
    }

    async fn a_path_that_may_exist_is_created_by_whoever_comes_first(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "ensured").await;
        let deep = format!("{root}/a/b/c");
        let (one, two) = tokio::join!(client.ensure_path(&deep), other.ensure_path(&deep));
        assert_eq!((one, two), (Ok(()), Ok(())));
        let made = client.exists(&deep).await.unwrap().expect("the node");
        assert_eq!((made.ephemeral_owner, made.data_length), (SessionId::NONE, 0));
        // What is there stays, also where this client may create nothing.
        let (closed, kept) = (format!("{root}/closed"), format!("{root}/closed/kept"));
        client.create(&closed, "", CreateMode::Persistent).await.unwrap();
        client.create(&kept, "data", CreateMode::Ephemeral).await.unwrap();
        client.set_acl(&closed, Acl::READ_UNSAFE, Version::ANY).await.unwrap();
        client.ensure_path(&kept).await.unwrap();
        assert_eq!(other.get_data(&kept).await.unwrap().data.as_deref(), Some(&b"data"[..]));
        let refused = client.ensure_path(&format!("{closed}/new/deep")).await.unwrap_err();
        let ErrorKind::Refused { path, code, .. } = refused.kind().clone() else { panic!("{refused}") };
        assert_eq!((path, code), (format!("{closed}/new"), ErrorCode::NO_AUTH));
        client.ensure_path("/").await.unwrap();
        let servers = format!("{}{root}/apps/shop", ensemble.servers());
        Client::connect(&servers).await.unwrap().ensure_path("/").await.unwrap();
        assert_eq!(client.get_children(&format!("{root}/apps")).await.unwrap(), ["shop"]);
    }

    async fn a_tree_is_deleted_with_everything_below_it(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "tree").await;
        let top = format!("{root}/top");
        for below in ["a/b/c", "a/d", "e"] {
            client.ensure_path(&format!("{top}/{below}")).await.unwrap();
        }
        other.create(&format!("{top}/a/of-another"), "", CreateMode::Ephemeral).await.unwrap();
        create(&client, &format!("{root}/top-of-another")).await;
        client.delete_all(&top).await.unwrap();
        assert_eq!(client.get_children(&root).await.unwrap(), ["top-of-another"]);
        assert!(client.delete_all(&top).await.unwrap_err().is_no_node());
        // The servers keep the nodes that they need, and these keep what is below them.
        let before = client.get_all_children_number("/zookeeper").await.unwrap();
        for kept in ["/", "/zookeeper"] {
            let refused = client.delete_all(kept).await.unwrap_err();
            assert_eq!(refused.code(), Some(ErrorCode::BAD_ARGUMENTS), "{kept}");
        }
        assert_eq!(client.get_all_children_number("/zookeeper").await.unwrap(), before);
        assert!(client.exists(&root).await.unwrap().is_some());
        let servers = format!("{}{root}", ensemble.servers());
        Client::connect(&servers).await.unwrap().delete_all("/").await.unwrap();
        assert_eq!(client.exists(&root).await.unwrap(), None);
    }

    async fn what_is_left_of_a_tree_is_named(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "left").await;
        let closed = format!("{root}/a/closed");
        for below in ["one", "two", "two/below"] {
            client.ensure_path(&format!("{closed}/{below}")).await.unwrap();
        }
        client.ensure_path(&format!("{root}/b/c")).await.unwrap();
        client.set_acl(&closed, Acl::READ_UNSAFE, Version::ANY).await.unwrap();
        let error = client.delete_all(&root).await.unwrap_err();
        assert_eq!(error.code(), Some(ErrorCode::NO_AUTH));
        let ErrorKind::NotAllDeleted { left, .. } = error.kind() else { panic!("{error}") };
        let path = |error: &lockkeeper::Error| match error.kind() {
            ErrorKind::Refused { path, .. } => path.clone(),
            _ => panic!("{error}"),
        };
        let mut left: Vec<_> = left.iter().map(path).collect();
        left.sort_unstable();
        assert_eq!(left, ["one", "two"].map(|it| format!("{closed}/{it}")));
        assert_eq!(client.get_all_children_number(&root).await.unwrap(), 4);
        // Nothing goes of a tree whose root may not go, or that this client may not see.
        let below = format!("{root}/a/closed/two");
        client.ensure_path(&format!("{below}/again")).await.unwrap();
        assert_eq!(client.delete_all(&below).await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
        let blind = Acl::new(lockkeeper::node::Perms::CREATE, "world", "anyone");
        client.set_acl(&below, vec![blind], Version::ANY).await.unwrap();
        client.ensure_path(&format!("{root}/z")).await.unwrap();
        assert_eq!(client.delete_all(&root).await.unwrap_err().code(), Some(ErrorCode::NO_AUTH));
        assert_eq!(client.get_all_children_number(&root).await.unwrap(), 6);
    }

    /// Two clients delete one tree, and a third one creates nodes in it.
    async fn a_tree_is_deleted_although_nodes_come_and_go(ensemble: &Ensemble) {
        let (client, other, root) = two_and_a_node(ensemble, "busy").await;
        let third = ensemble.client().await;
        for round in 0..10 {
            let top = format!("{root}/{round}");
            for below in 0..30 {
                client.ensure_path(&format!("{top}/{}/{below}", below % 3)).await.unwrap();
            }
            let come = async {
                for below in 0..5 {
                    // Until a parent is gone.
                    let path = format!("{top}/{}/new-{below}", below % 3);
                    let _ = third.create(&path, "", CreateMode::Persistent).await;
                }
            };
            let (one, two, ()) = tokio::join!(client.delete_all(&top), other.delete_all(&top), come);
            for deleted in [one, two] {
                assert!(deleted.as_ref().err().is_none_or(lockkeeper::Error::is_no_node), "{deleted:?}");
            }
            assert_eq!(client.exists(&top).await.unwrap(), None);
        }
    }

    async fn a_missing_chroot_is_created_with_the_node(ensemble: &Ensemble) {
        let (_, other, root) = two_and_a_node(ensemble, "chroot").await;
        let servers = format!("{}{root}/apps/shop", ensemble.servers());
        let client = Client::connect(&servers).await.unwrap();
        let made = client.create_all("/a/b", "", CreateMode::Persistent).await.unwrap();
        assert_eq!(made.path, "/a/b");
        assert!(other.exists(&format!("{root}/apps/shop/a/b")).await.unwrap().is_some());
    }

    /// Once, it was a sibling of the chroot: `/app0000000000`.
    async fn a_sequential_node_of_a_chroots_root_is_in_the_chroot(ensemble: &Ensemble) {
        let (_, other, root) = two_and_a_node(ensemble, "sequential").await;
        let servers = format!("{}{root}/app", ensemble.servers());
        let client = Client::connect(&servers).await.unwrap();
        let mode = CreateMode::EphemeralSequential;
        client.create_all("/first", "", CreateMode::Persistent).await.unwrap();
        assert_eq!(client.create("/", "", mode).await.unwrap().path, "/0000000001");
        assert_eq!(client.create_without_stat("/", "", mode).await.unwrap(), "/0000000002");
        assert_eq!(client.create_all("/", "", mode).await.unwrap().path, "/0000000003");
        let results = client.transaction().create("/", "", mode).commit().await.unwrap();
        assert!(matches!(&results[..], [OpResult::Created { path, .. }] if path == "/0000000004"), "{results:?}");
        assert_eq!(client.get_children("/").await.unwrap().len(), 5);
        assert_eq!(other.get_children(&root).await.unwrap(), ["app"]);
    }

    async fn a_parent_that_cannot_be_created_is_named(ensemble: &Ensemble) {
        let (client, _, root) = two_and_a_node(ensemble, "closed").await;
        let (closed, own) = (format!("{root}/closed"), format!("{root}/own"));
        let mode = CreateMode::Persistent;
        client.create_with_acl(&closed, "", mode, Acl::READ_UNSAFE).await.unwrap();
        client.create(&own, "", CreateMode::Ephemeral).await.unwrap();
        for (above, expected) in [(&closed, ErrorCode::NO_AUTH), (&own, ErrorCode::NO_CHILDREN_FOR_EPHEMERALS)] {
            let error = client.create_all(&format!("{above}/a/b/c"), "", mode).await.unwrap_err();
            let ErrorKind::Refused { path, code, .. } = error.kind().clone() else { panic!("{error}") };
            assert_eq!((path, code), (format!("{above}/a"), expected));
        }
        // A level that exists may be refused: what matters is the node.
        let below = format!("{closed}/open");
        assert!(client.create_all(&below, "", mode).await.is_err());
    }

    async fn data_are_read_and_set_by_version(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "data").await;
        assert_eq!(client.get_data(&path).await.unwrap().data.as_deref(), Some(&b""[..]));
        let stat = client.set_data(&path, "one", Version(0)).await.unwrap();
        assert_eq!((stat.version, stat.data_length), (Version(1), 3));
        let late = client.set_data(&path, "two", Version(0)).await.unwrap_err();
        assert_eq!(late.code(), Some(ErrorCode::BAD_VERSION));
        client.set_data(&path, "two", Version::ANY).await.unwrap();
        let read = other.get_data(&path).await.unwrap();
        assert_eq!((read.data.as_deref(), read.stat.version), (Some(&b"two"[..]), Version(2)));
        let missing = client.set_data(&format!("{path}/x"), "", Version::ANY).await.unwrap_err();
        assert!(missing.is_no_node());
    }

    async fn data_too_long_for_a_server_are_refused_before_they_are_sent(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "long").await;
        let long = client.set_data(&path, vec![0; 1 << 20], Version::ANY).await.unwrap_err();
        assert!(matches!(long.kind(), ErrorKind::TooLarge { limit: 1_048_575, .. }), "{long}");
        // The longest data that fit: the limit less the header, the path with its length, the
        // data's length, the version.
        let longest = 1_048_575 - (8 + 4 + path.len() + 4 + 4);
        let stat = client.set_data(&path, vec![0; longest], Version::ANY).await.unwrap();
        assert_eq!(usize::try_from(stat.data_length), Ok(longest));
        assert_eq!(client.snapshot().connections, 1);
    }

    async fn metadata_are_read_and_a_missing_node_is_no_error(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "exists").await;
        let stat = client.exists(&path).await.unwrap().unwrap();
        assert_eq!(stat, client.get_data(&path).await.unwrap().stat);
        assert_eq!(client.exists(&format!("{path}/x")).await.unwrap(), None);
        assert!(client.get_data(&format!("{path}/x")).await.unwrap_err().is_no_node());
    }

    async fn a_node_is_deleted_by_version_and_without_children(ensemble: &Ensemble) {
        let (client, _, path) = two_and_a_node(ensemble, "delete").await;
        let child = format!("{path}/x");
        create(&client, &child).await;
        let full = client.delete(&path, Version::ANY).await.unwrap_err();
        assert_eq!(full.code(), Some(ErrorCode::NOT_EMPTY));
        let wrong = client.delete(&child, Version(1)).await.unwrap_err();
        assert_eq!(wrong.code(), Some(ErrorCode::BAD_VERSION));
        client.delete(&child, Version(0)).await.unwrap();
        client.delete(&path, Version::ANY).await.unwrap();
        assert!(client.delete(&path, Version::ANY).await.unwrap_err().is_no_node());
    }

    async fn closing_a_session_deletes_its_ephemeral_nodes(ensemble: &Ensemble) {
        let (client, other, path) = two_and_a_node(ensemble, "close").await;
        let own = format!("{path}/own");
        client.create(&own, "", CreateMode::Ephemeral).await.unwrap();
        assert!(other.exists(&own).await.unwrap().is_some());
        client.close().await;
        other.sync(&own).await.unwrap();
        assert_eq!(other.exists(&own).await.unwrap(), None);
    }

    async fn a_session_without_requests_is_kept_alive(ensemble: &Ensemble) {
        let client = ensemble.client().await;
        let before = client.snapshot();
        let path = ensemble.unique_path("pinged");
        client.create(&path, "", CreateMode::Ephemeral).await.unwrap();
        // The server would expire a silent session in this time. The test has to wait in real time.
        tokio::time::sleep(before.session_timeout + Duration::from_millis(1500)).await;
        let stat = client.exists(&path).await.unwrap().expect("the session lives");
        assert_eq!(stat.ephemeral_owner, before.session_id);
        assert_eq!(client.snapshot().connections, 1, "pings keep the session alive, not a new connection");
    }
}
