//! The mutexes of Curator, kazoo and go-zk against ours; revocation between Curator and us.

use lockkeeper::{
    Mutex,
    locks::{REVOKE, inspect, revoke},
};

use tokio::time::timeout;

use crate::interop::{
    SILENCE,
    actors::Curator,
    support::{
        Ensemble,
        exclusion::{
            self, start, their_round, they_and_we_exclude_each_other, until_line, until_line_has,
            value_of,
        },
        programs::{self, Running},
        waiting::LONG,
    },
    waiting,
};

mod needs_go {
    with_others! { go_zk_and_we_exclude_each_other }
}

mod needs_kazoo {
    with_others! {
        kazoo_under_curators_names_and_we_exclude_each_other
        kazoo_with_default_names_ignores_us_but_we_wait_for_it
        kazoo_that_waits_for_our_names_and_we_exclude_each_other
        kazoo_is_migrated_by_its_option_and_not_by_other_names
    }
}

mod needs_java {
    with_others! {
        curator_and_we_exclude_each_other
        curator_receives_our_revocation
        we_receive_curators_revocation
    }
}

async fn go_zk_and_we_exclude_each_other(ensemble: &Ensemble) {
    they_and_we_exclude_each_other(ensemble, programs::go_contender(), &[]).await;
}

async fn curator_and_we_exclude_each_other(ensemble: &Ensemble) {
    they_and_we_exclude_each_other(ensemble, programs::java("CuratorContender"), &[]).await;
}

async fn kazoo_under_curators_names_and_we_exclude_each_other(ensemble: &Ensemble) {
    let kazoo = programs::python("kazoo_contender.py");
    they_and_we_exclude_each_other(ensemble, kazoo, &["curator"]).await;
}

/// The documentation warns of this: kazoo with its default names must have a path for itself.
async fn kazoo_with_default_names_ignores_us_but_we_wait_for_it(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let (client, counter) = exclusion::counter(ensemble).await;
    let mutex = Mutex::new(&client, &path).unwrap();
    let kazoo = programs::python("kazoo_contender.py");
    let mut kazoo = start(ensemble, kazoo, &path, &counter);
    kazoo.args(["1", "2", "line", "kazoo"]);
    let mut kazoo = Running::start(kazoo);
    assert_eq!(kazoo.line().await, "ready");

    // kazoo takes the lock although we hold it.
    let ours = mutex.lock().await.unwrap();
    kazoo.say("go").await;
    until_line_has(&client, &path, 2).await;
    kazoo.say("that will do").await;
    assert_eq!(their_round(&kazoo.line().await).value, 1);
    assert!(ours.is_valid());

    // kazoo queues again at once, with the third node. We wait for its release, although it did not
    // wait for ours.
    let again = |names: &[String]| {
        names
            .iter()
            .any(|name| name.ends_with("__lock__0000000002"))
    };
    until_line(&client, &path, again).await;
    ours.release().await.unwrap();
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position(), 1);
    let ours = waiting(ticket.wait()).await;
    kazoo.say("that will do").await;
    let theirs = their_round(&kazoo.line().await);
    let ours = exclusion::round(ours.await.unwrap(), &counter).await;
    assert!(theirs.end <= ours.start, "{theirs:?} and {ours:?}");
    assert_eq!(value_of(&client, &counter).await, "3");
    assert_eq!(kazoo.line().await, "done 2");
    kazoo.end().await;
    client.close().await;
}

/// The second step of a migration.
async fn kazoo_that_waits_for_our_names_and_we_exclude_each_other(ensemble: &Ensemble) {
    let kazoo = programs::python("kazoo_contender.py");
    they_and_we_exclude_each_other(ensemble, kazoo, &["both"]).await;
}

/// The first step of a migration, in which some programs have the option and some have not. Under
/// Curator's names instead, kazoo and kazoo hold the lock at once.
async fn kazoo_is_migrated_by_its_option_and_not_by_other_names(ensemble: &Ensemble) {
    for (before, after, exclude) in [
        ("kazoo", "both", true),
        ("both", "kazoo", true),
        ("kazoo", "curator", false),
        ("curator", "kazoo", false),
    ] {
        let path = ensemble.unique_path("lock");
        let (client, counter) = exclusion::counter(ensemble).await;
        let begin = async |names| {
            let kazoo = programs::python("kazoo_contender.py");
            let mut kazoo = start(ensemble, kazoo, &path, &counter);
            kazoo.args(["1", "1", "line", names]);
            let mut kazoo = Running::start(kazoo);
            assert_eq!(kazoo.line().await, "ready");
            kazoo.say("go").await;
            kazoo
        };
        let mut first = begin(before).await;
        until_line_has(&client, &path, 1).await;
        let mut second = begin(after).await;
        until_line_has(&client, &path, 2).await;
        // The first one holds the lock until it gets a line; the second one ends with its first.
        second.say("that will do").await;
        let mut line = Box::pin(second.line());
        let patience = if exclude { SILENCE } else { LONG };
        let early = timeout(patience, &mut line).await.ok();
        assert!(exclude || early.is_some(), "{after} waits for {before}");
        first.say("that will do").await;
        let held = their_round(&first.line().await);
        let late = match early {
            Some(line) => their_round(&line),
            None => their_round(&line.await),
        };
        assert_eq!(held.end <= late.start, exclude, "{held:?} and {late:?}");
        client.close().await;
    }
}

async fn curator_receives_our_revocation(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let client = ensemble.client().await;
    let mutex = Mutex::new(&client, &path).unwrap();
    let mut curator = Curator::start(ensemble).await;
    curator.does(&format!("a revocable {path}")).await;
    let ticket = mutex.enqueue().await.unwrap();
    let holder = inspect(&client, &path).await.unwrap().remove(0);
    curator.does_not_say("a asked").await;
    revoke(&client, &holder.path).await.unwrap();
    curator.says("a asked").await;
    let asked = client.get_data(&holder.path).await.unwrap();
    assert_eq!(asked.data.as_deref(), Some(REVOKE));

    // Curator is asked to release the lock, but it is not forced to.
    let ours = waiting(ticket.wait()).await;
    curator.does(&format!("a unmutex {path}")).await;
    ours.await.unwrap().release().await.unwrap();
    client.close().await;
}

async fn we_receive_curators_revocation(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let client = ensemble.client().await;
    let mutex = Mutex::new(&client, &path).unwrap();
    let mut curator = Curator::start(ensemble).await;
    let ours = mutex.lock().await.unwrap();
    curator.tell(&format!("a mutex {path}")).await;
    until_line_has(&client, &path, 2).await;
    let revoked = waiting(ours.revoked()).await;
    curator.does(&format!("b revoke {}", ours.path())).await;
    revoked.await;
    assert!(ours.is_valid());
    curator.does_not_say("a mutex").await;
    ours.release().await.unwrap();
    curator.says("a mutex").await;
    curator.does(&format!("a unmutex {path}")).await;
    client.close().await;
}
