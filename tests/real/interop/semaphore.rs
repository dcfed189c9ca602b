//! Curator's `InterProcessSemaphoreV2` and `SharedCount`, and our `Semaphore`.

use lockkeeper::Semaphore;

use crate::interop::{actors::Curator, support::Ensemble, waiting};

mod needs_java {
    with_others! { a_limit_set_by_either_side_holds_for_both }
}

async fn a_limit_set_by_either_side_holds_for_both(ensemble: &Ensemble) {
    let path = ensemble.unique_path("semaphore");
    let limit = ensemble.unique_path("limit");
    let client = ensemble.client().await;
    let semaphore = Semaphore::with_shared_limit(&client, &path, &limit).unwrap();
    let mut curator = Curator::start(ensemble).await;
    let lease = format!("a lease {path} {limit}");
    assert_eq!(curator.does(&format!("a follow {limit}")).await, "0");

    // Curator sets the limit. Our semaphore follows, even while a contender waits.
    curator.does(&format!("a count {limit} 1")).await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let one = semaphore.acquire().await.unwrap();
    let two = waiting(semaphore.acquire()).await;
    curator.does(&format!("a count {limit} 2")).await;
    let two = two.await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);

    // We set the limit. Curator follows, even while a contender waits.
    curator.tell(&lease).await;
    curator.does_not_say("a lease").await;
    semaphore.set_limit(3).await.unwrap();
    curator.says("a lease").await;
    curator.does(&format!("a unlease {path}")).await;

    // One permit is released, but as many as the new limit are still held. So neither side gets in.
    semaphore.set_limit(1).await.unwrap();
    // The limit was 1 before, too. What comes after the 3 is new.
    for limit in ["3", "1"] {
        while curator.says("a now").await != limit {}
    }
    one.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    curator.tell(&lease).await;
    curator.does_not_say("a lease").await;
    two.release().await.unwrap();
    curator.says("a lease").await;

    // Curator holds the only permit, and we wait.
    let last = waiting(semaphore.acquire()).await;
    curator.does(&format!("a unlease {path}")).await;
    last.await.unwrap().release().await.unwrap();
    client.close().await;
}
