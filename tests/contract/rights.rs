//! Access control lists: what contenders make has the list of their client, or that of their lock.
//!
//! Not here: a contender that may not read the node ahead of it (`long_waits`).

use lockkeeper::{
    Client, CreateMode, Election, LockError, Mutex, RwLock, Semaphore,
    client::digest,
    error::ErrorCode,
    locks::{PlainMutex, ReentrantMutex},
    node::{Acl, Acls, Perms},
    proto::path,
};

use crate::{
    kinds::Kind,
    rig::{soon, until},
    support::{Ensemble, on_both_arms},
};

/// Ann may do everything.
fn anns() -> Acl {
    digest::acl(Perms::ALL, "ann", "secret")
}

/// A client of Ann, with this default.
async fn ann(ensemble: &Ensemble, default: impl Into<Acls>) -> Client {
    let builder = Client::builder(&ensemble.servers()).unwrap();
    let builder = builder.auth("digest", "ann:secret").default_acl(default);
    builder.connect().await.unwrap()
}

/// Checks the list of this node and of all below it, and returns their number. A container that is
/// removed meanwhile does not count.
async fn all_have(client: &Client, top: &str, acl: &[Acl]) -> usize {
    let (mut left, mut count) = (vec![top.to_owned()], 0);
    while let Some(node) = left.pop() {
        match client.get_acl(&node).await {
            Err(error) => assert!(error.is_no_node(), "{node}: {error}"),
            Ok(read) => {
                assert_eq!(read.acl, acl, "{node}");
                count += 1;
            }
        }
        let names = client.get_children(&node).await.unwrap_or_default();
        left.extend(names.iter().map(|name| path::join(&node, name)));
    }
    count
}

/// Contenders with the same identity exclude each other.
pub(crate) async fn what_it_makes_is_closed_to_strangers(kind: Kind, ensemble: &Ensemble) {
    let top = ensemble.unique_path("closed");
    let (path, other) = (format!("{top}/above/lock"), ensemble.client().await);
    let [one, two] = [(); 2].map(|()| ann(ensemble, Acl::CREATOR_ALL));
    let (one, two) = (one.await, two.await);
    let held = soon(kind.at(&one, &path).lock()).await.unwrap();
    assert!(all_have(&one, &top, &[anns()]).await >= 4);
    for node in held.nodes() {
        let refused = other.get_data(&node).await.unwrap_err();
        assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH));
    }
    let rival = tokio::spawn({
        let (two, path) = (two.clone(), path.clone());
        async move { kind.rival(&two, &path).await.map(drop) }
    });
    until!(two.metrics().watches > 0);
    assert!(!rival.is_finished());
    held.release().await.unwrap();
    soon(rival).await.unwrap().unwrap();
}

/// Also if its directory is missing, and the client may not make it. Once, the error was "no node".
pub(crate) async fn who_may_not_enter_is_told_so(kind: Kind, ensemble: &Ensemble) {
    let top = ensemble.unique_path("refused");
    let (ann, other) = (ann(ensemble, vec![anns()]).await, ensemble.client().await);
    let path = format!("{top}/lock");
    for directory in kind.directories(&path) {
        ann.create_all(&directory, "", CreateMode::Persistent)
            .await
            .unwrap();
    }
    for path in [path, format!("{top}/beside/lock")] {
        let refused = soon(kind.at(&other, &path).lock()).await.err().unwrap();
        assert!(refused.path().is_some_and(|at| at.starts_with(&path)));
        let LockError::Session(refused) = refused else {
            panic!("{path}: {refused}");
        };
        assert_eq!(refused.code(), Some(ErrorCode::NO_AUTH), "{path}");
    }
}

on_both_arms! {
    async fn the_acl_of_a_lock_goes_before_that_of_its_client(ensemble: &Ensemble) {
        let top = ensemble.unique_path("own");
        let client = ann(ensemble, Acl::CREATOR_ALL).await;
        let own = vec![anns(), Acl::new(Perms::READ, "world", "anyone")];
        let at = |name: &str| format!("{top}/{name}/lock");
        let lock = RwLock::new(&client, &at("rw")).unwrap().with_acl(own.clone());
        let _held: [Box<dyn Send>; 6] = [
            Box::new(Mutex::new(&client, &at("mutex")).unwrap().with_acl(own.clone()).lock().await.unwrap()),
            Box::new(PlainMutex::new(&client, &at("plain")).unwrap().with_acl(own.clone()).lock().await.unwrap()),
            Box::new(ReentrantMutex::new(&client, &at("reentrant")).unwrap().with_acl(own.clone()).lock("me").await.unwrap()),
            Box::new(Semaphore::new(&client, &at("semaphore"), 2).unwrap().with_acl(own.clone()).acquire().await.unwrap()),
            Box::new(lock.write().await.unwrap().downgrade().await.unwrap()),
            Box::new(lock.read().await.unwrap()),
        ];
        let latch = Election::new(&client, &at("election")).unwrap().with_acl(own.clone()).latch();
        soon(latch.elected()).await.unwrap();
        // The top, two directories for each lock, their nodes, and the semaphore's directories.
        let count = all_have(&client, &top, &own).await;
        assert!((1 + 12 + 7 + 1..).contains(&count), "{count}");
    }

    /// A server refuses it before anything is made.
    async fn an_empty_acl_is_refused_by_its_name(ensemble: &Ensemble) {
        let (client, path) = (ensemble.client().await, ensemble.unique_path("empty"));
        let mutex = Mutex::new(&client, &path).unwrap();
        let error = mutex.clone().with_acl(Vec::new()).lock().await.unwrap_err().to_string();
        let expected = format!("create2 {path} refused: invalid ACL (-114)");
        assert!(error.starts_with(&expected), "{error}");
        assert!(mutex.try_lock().await.unwrap().is_some());
    }
}
