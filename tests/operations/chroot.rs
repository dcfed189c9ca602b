//! A handle whose paths lie below another root: `Client::with_chroot`.
//!
//! Not here: the chroot of a connect string, which is the same for the operations (`nodes`, `lists`,
//! `persistent`).

use lockkeeper::{
    Client, CreateMode, Mutex, Version,
    client::{OpResult, Read, ReadResult},
    error::ErrorKind,
    node::Acl,
    watch::WatcherType,
};

use crate::{
    rig::{CHANGED, CHILDREN, CREATED, RECURSIVE, create, event, fired, set, two_and_a_node},
    support::{Ensemble, on_both_arms, waiting::soon},
};

/// A client, a handle of it below `/<new node>/app`, and that path. `app` does not exist.
async fn handle(ensemble: &Ensemble, name: &str) -> (Client, Client, String) {
    let (client, _, root) = two_and_a_node(ensemble, name).await;
    // Each step is below the one before.
    let app = client
        .with_chroot(&root)
        .unwrap()
        .with_chroot("/app")
        .unwrap();
    (client, app, format!("{root}/app"))
}

on_both_arms! {
    async fn every_operation_of_a_handle_is_below_its_root(ensemble: &Ensemble) {
        let (client, app, root) = handle(ensemble, "below").await;
        let at = |path: &str| format!("{root}{path}");
        let mode = CreateMode::Persistent;
        assert_eq!(app.exists("/").await.unwrap(), None);
        app.ensure_path("/").await.unwrap();
        assert_eq!(app.create_all("/a/b", "1", mode).await.unwrap().path, "/a/b");
        assert_eq!(app.create("/c", "", mode).await.unwrap().path, "/c");
        assert_eq!(app.create_without_stat("/d", "", mode).await.unwrap(), "/d");
        let sequential = app.create("/", "", CreateMode::EphemeralSequential).await.unwrap();
        assert_eq!(app.get_ephemerals("/").await.unwrap(), [&*sequential.path]);
        app.create_with_acl("/e", "", mode, Acl::OPEN_UNSAFE).await.unwrap();
        let mut names = client.get_children(&root).await.unwrap();
        names.sort();
        assert_eq!(names, [&sequential.path[1..], "a", "c", "d", "e"]);

        app.set_data("/a/b", "2", Version(0)).await.unwrap();
        let data = client.get_data(&at("/a/b")).await.unwrap();
        assert_eq!((data.data.as_deref(), app.get_data("/a/b").await.unwrap()), (Some(&b"2"[..]), data.clone()));
        assert_eq!(app.exists("/a/b").await.unwrap(), Some(data.stat));
        assert_eq!(app.get_children("/a").await.unwrap(), ["b"]);
        assert_eq!(app.get_children_with_stat("/a").await.unwrap().stat, client.exists(&at("/a")).await.unwrap().unwrap());
        assert_eq!(app.get_all_children_number("/").await.unwrap(), 6);
        app.set_acl("/e", Acl::READ_UNSAFE, Version::ANY).await.unwrap();
        assert_eq!(client.get_acl(&at("/e")).await.unwrap(), app.get_acl("/e").await.unwrap());
        app.sync("/").await.unwrap();
        let reads = app.multi_read(&[Read::Children("/a"), Read::Data("/nowhere")]).await.unwrap();
        assert_eq!(reads[0], Ok(ReadResult::Children(vec!["b".into()])));
        let missing = app.get_data("/nowhere").await.unwrap_err();
        for error in [reads[1].as_ref().unwrap_err(), &missing] {
            assert!(matches!(error.kind(), ErrorKind::Refused { path, .. } if path == "/nowhere"), "{error}");
        }

        let writes = app.transaction().check("/a/b", Version(1)).create("/f", "", mode).set_data("/f", "1", Version(0)).delete("/c", Version::ANY);
        let results = writes.commit().await.unwrap();
        assert!(matches!(&results[1], OpResult::Created { path, .. } if path == "/f"), "{results:?}");
        assert_eq!(client.exists(&at("/c")).await.unwrap(), None);
        app.delete("/d", Version::ANY).await.unwrap();
        assert_eq!(client.exists(&at("/d")).await.unwrap(), None);
        app.delete_all("/a").await.unwrap();
        assert_eq!(client.exists(&at("/a")).await.unwrap(), None);
        app.get_config().await.unwrap();
    }

    async fn watches_of_a_handle_tell_its_own_paths(ensemble: &Ensemble) {
        let (client, app, root) = handle(ensemble, "told").await;
        let node = format!("{root}/x");
        create(&client, &root).await;
        let (_, created) = app.exists_and_watch("/x").await.unwrap();
        let (_, children) = app.get_children_and_watch("/").await.unwrap();
        let (_, same) = client.exists_and_watch(&node).await.unwrap();
        create(&client, &node).await;
        assert_eq!(fired(created).await, (CREATED, "/x".to_owned()));
        assert_eq!(fired(children).await, (CHILDREN, "/".to_owned()));
        assert_eq!(fired(same).await, (CREATED, node.clone()));
        let (_, data) = app.get_data_and_watch("/x").await.unwrap();
        assert!(app.check_watches("/x", WatcherType::DATA).await.unwrap());
        set(&client, &node).await;
        assert_eq!(fired(data).await, (CHANGED, "/x".to_owned()));

        let mut below = app.add_watch("/", RECURSIVE).await.unwrap();
        let mut all = client.add_watch(&root, RECURSIVE).await.unwrap();
        assert_eq!((below.path(), all.path()), ("/", &*root));
        set(&client, &node).await;
        set(&app, "/").await;
        for (inside, outside) in [("/x", &*node), ("/", &*root)] {
            assert_eq!(event(&mut below).await, (CHANGED, inside.to_owned()));
            assert_eq!(event(&mut all).await, (CHANGED, outside.to_owned()));
        }
        // It is one session: another handle sees and ends the same watches.
        assert_eq!(app.remove_watches("/", WatcherType::ANY).unwrap(), 2);
        for watcher in [&mut below, &mut all] {
            assert_eq!(soon(watcher.next()).await, Some(Err(ErrorKind::WatchRemoved.into())));
        }
    }

    async fn a_lock_of_a_handle_is_the_lock_of_the_whole_path(ensemble: &Ensemble) {
        let (client, app, root) = handle(ensemble, "locks").await;
        let (inside, outside) = (Mutex::new(&app, "/lock").unwrap(), Mutex::new(&client, &format!("{root}/lock")).unwrap());
        let guard = inside.lock().await.unwrap();
        assert!(guard.path().starts_with("/lock/"), "{}", guard.path());
        assert!(client.exists(&format!("{root}{}", guard.path())).await.unwrap().is_some());
        assert!(outside.try_lock().await.unwrap().is_none());
        // The contenders of one client, which know each other.
        let mut waiting = Vec::new();
        for mutex in [&outside, &inside, &outside] {
            waiting.push(mutex.enqueue().await.unwrap());
        }
        let places: Vec<_> = waiting.iter().map(lockkeeper::locks::Ticket::position).collect();
        assert_eq!(places, [1, 2, 3]);
        let (mut token, mut held) = (guard.fencing_token(), guard);
        for ticket in waiting {
            held.release().await.unwrap();
            held = soon(ticket.wait()).await.unwrap();
            assert!(token < held.fencing_token());
            token = held.fencing_token();
        }
        assert!(inside.try_lock().await.unwrap().is_none());
        held.release().await.unwrap();
        inside.try_lock().await.unwrap().unwrap().release().await.unwrap();
    }

    async fn a_handle_keeps_its_deadline_and_shares_the_session(ensemble: &Ensemble) {
        let (client, app, _) = handle(ensemble, "shared").await;
        let past = client.with_deadline(std::time::Duration::ZERO).with_chroot("/app").unwrap();
        let late = past.get_data("/x").await.unwrap_err();
        assert!(matches!(late.kind(), ErrorKind::DeadlineExceeded { .. }), "{late}");
        for bad in ["", "app", "/app/", "/a//b", "/../a"] {
            assert!(client.with_chroot(bad).is_err(), "{bad}");
        }
        assert!(client.with_chroot("/").unwrap().exists("/zookeeper").await.unwrap().is_some());
        // The session lives as long as one handle.
        let session = client.snapshot().session_id;
        drop((client, past));
        app.sync("/").await.unwrap();
        assert_eq!(app.snapshot().session_id, session);
    }
}
