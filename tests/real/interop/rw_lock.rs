//! Curator's `InterProcessReadWriteLock` and our `RwLock`.

use lockkeeper::{CreateMode, RwLock, Version, locks::inspect};

use crate::interop::{
    actors::Curator,
    support::{Ensemble, exclusion::until_line_has, on_both_arms},
    waiting,
};

mod needs_java {
    with_others! {
        readers_share_and_writers_exclude_in_the_order_of_the_queue
        curators_writer_that_becomes_a_reader_keeps_our_writer_waiting
        our_writer_that_becomes_a_reader_keeps_curators_writer_waiting
    }
}

async fn readers_share_and_writers_exclude_in_the_order_of_the_queue(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let client = ensemble.client().await;
    let lock = RwLock::new(&client, &path).unwrap();
    let mut curator = Curator::start(ensemble).await;

    // One reader of each side holds the lock. A third reader joins before either of them releases.
    curator.does(&format!("a read {path}")).await;
    let ours = lock.read().await.unwrap();
    curator.does(&format!("b read {path}")).await;
    assert!(lock.try_write().await.unwrap().is_none());

    // Behind them queue a writer of each side, then a reader of each side.
    curator.tell(&format!("c write {path}")).await;
    until_line_has(&client, &path, 4).await;
    let our_writer = lock.enqueue_write().await.unwrap();
    assert_eq!(our_writer.position(), 4);
    let our_reader = lock.enqueue_read().await.unwrap();
    assert_eq!(our_reader.position(), 2, "a reader waits for writers only");
    curator.tell(&format!("d read {path}")).await;
    until_line_has(&client, &path, 7).await;
    assert_eq!(inspect(&client, &path).await.unwrap().len(), 7);

    // The release of the last reader lets the first writer in, across implementations.
    curator.does(&format!("a unread {path}")).await;
    curator.does(&format!("b unread {path}")).await;
    curator.does_not_say("c write").await;
    ours.release().await.unwrap();
    curator.says("c write").await;

    let our_writer = waiting(our_writer.wait()).await;
    curator.does(&format!("c unwrite {path}")).await;
    let our_writer = our_writer.await.unwrap();

    let our_reader = waiting(our_reader.wait()).await;
    curator.does_not_say("d read").await;
    our_writer.release().await.unwrap();
    let our_reader = our_reader.await.unwrap();
    curator.says("d read").await;
    our_reader.release().await.unwrap();
    curator.does(&format!("d unread {path}")).await;
    client.close().await;
}

/// Since Curator 5.5 the reader takes its writer's place, before our writer that was already
/// waiting. Older versions (CURATOR-621) put the reader at the end of the queue. No other
/// implementation can respect it there, nor can Curator.
async fn curators_writer_that_becomes_a_reader_keeps_our_writer_waiting(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let client = ensemble.client().await;
    let lock = RwLock::new(&client, &path).unwrap();
    let mut curator = Curator::start(ensemble).await;
    curator.does(&format!("a write {path}")).await;
    let early = lock.enqueue_write().await.unwrap();
    assert_eq!(early.position(), 1);
    curator.does(&format!("a read {path}")).await;
    let late = lock.enqueue_write().await.unwrap();
    assert_eq!(late.position(), 3);

    let line = inspect(&client, &path).await.unwrap();
    let line: Vec<_> = line.iter().map(|one| one.path.as_str()).collect();
    let reader = line.iter().position(|path| path.contains("__READ__"));
    let reader = reader.expect("Curator's reader");
    let keeps_its_place = line[reader][line[reader].len() - 10..] == line[0][line[0].len() - 10..];
    assert_eq!(reader, if keeps_its_place { 1 } else { 2 }, "{line:?}");

    curator.does(&format!("a unwrite {path}")).await;
    if keeps_its_place {
        let early = waiting(early.wait()).await;
        curator.does(&format!("a unread {path}")).await;
        early.await.unwrap().release().await.unwrap();
        late.wait().await.unwrap().release().await.unwrap();
    } else {
        early.wait().await.unwrap().release().await.unwrap();
        let late = waiting(late.wait()).await;
        curator.does(&format!("a unread {path}")).await;
        late.await.unwrap().release().await.unwrap();
    }
    client.close().await;
}

on_both_arms! {
    /// The test makes the nodes of Curator 5.5 itself, because packaged versions of Curator are
    /// older.
    async fn a_reader_in_its_writers_place_keeps_our_writer_waiting(ensemble: &Ensemble) {
        const PROTECTED: &str = "_c_37f2a2a2-6f2c-4c70-9f0e-3f1c7a3e9a11-";
        let path = ensemble.unique_path("lock");
        let client = ensemble.client().await;
        let curator = ensemble.client().await;
        curator.create(&path, "", CreateMode::Container).await.unwrap();
        let writer = format!("{path}/{PROTECTED}__WRIT__");
        let mode = CreateMode::EphemeralSequential;
        let writer = curator.create(&writer, "", mode).await.unwrap().path;
        let ours = RwLock::new(&client, &path).unwrap().enqueue_write().await.unwrap();
        assert_eq!(ours.position(), 1);
        let ours = waiting(ours.wait()).await;

        let reader = writer.replace("__WRIT__", "__READ__");
        curator.create(&reader, "", CreateMode::Ephemeral).await.unwrap();
        curator.delete(&writer, Version::ANY).await.unwrap();
        let ours = waiting(ours).await;
        curator.delete(&reader, Version::ANY).await.unwrap();
        ours.await.unwrap().release().await.unwrap();
        client.close().await;
        curator.close().await;
    }
}

async fn our_writer_that_becomes_a_reader_keeps_curators_writer_waiting(ensemble: &Ensemble) {
    let path = ensemble.unique_path("lock");
    let client = ensemble.client().await;
    let lock = RwLock::new(&client, &path).unwrap();
    let mut curator = Curator::start(ensemble).await;
    let writer = lock.write().await.unwrap();
    curator.tell(&format!("a read {path}")).await;
    until_line_has(&client, &path, 2).await;
    curator.tell(&format!("b write {path}")).await;
    until_line_has(&client, &path, 3).await;
    curator.does_not_say("a read").await;

    // Curator's reader queued before its writer, so it gets in beside our reader. The writer waits
    // for both.
    let token = writer.fencing_token();
    let reader = writer.downgrade().await.unwrap();
    assert_eq!(reader.fencing_token(), token);
    curator.says("a read").await;
    curator.does(&format!("a unread {path}")).await;
    curator.does_not_say("b write").await;
    assert!(reader.is_valid());
    reader.release().await.unwrap();
    curator.says("b write").await;
    curator.does(&format!("b unwrite {path}")).await;
    client.close().await;
}
