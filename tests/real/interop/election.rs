//! Curator's `LeaderLatch` and our `Election`; its `LeaderSelector` and our `Mutex`.

use lockkeeper::{Client, Election, Guard, locks::inspect};
use tokio::sync::Mutex;

use crate::interop::{
    actors::Curator,
    support::{Ensemble, exclusion::until_line_has},
    waiting,
};

mod needs_java {
    with_others! {
        the_lead_passes_between_both_latches
        the_lead_passes_between_a_selector_and_a_mutex
    }
}

async fn the_lead_passes_between_both_latches(ensemble: &Ensemble) {
    let path = ensemble.unique_path("election");
    let client = ensemble.client().await;
    let election = Election::new(&client, &path).unwrap().with_data("ours");
    let mut curator = Curator::start(ensemble).await;
    curator.does(&format!("a latch {path} curators-a")).await;
    curator.says("a leads").await;
    let latch = election.latch();
    until_line_has(&client, &path, 2).await;
    curator.does(&format!("b latch {path} curators-b")).await;
    until_line_has(&client, &path, 3).await;

    // Each candidate sees all the others.
    assert!(!latch.is_leader());
    let expected = ["curators-a", "ours", "curators-b"];
    assert_eq!(ids(&client, &path).await, expected);
    assert_eq!(
        curator.does(&format!("b ids {path}")).await,
        expected.join(" ")
    );

    // From Curator to us, and on to Curator.
    curator.does(&format!("a unlatch {path}")).await;
    let token = latch.elected().await.unwrap();
    assert_eq!(latch.token(), Some(token));
    curator.does_not_say("b leads").await;
    drop(latch);
    curator.says("b leads").await;

    // The same with the loop.
    let (curator, looking) = (Mutex::new(curator), client.clone());
    let work = async |guard: &Guard| {
        assert!(guard.is_valid() && guard.fencing_token() > token);
        let mut curator = curator.lock().await;
        curator.does(&format!("a latch {path} curators-a")).await;
        until_line_has(&looking, &path, 2).await;
        curator.does_not_say("a leads").await;
    };
    let lead = waiting(election.lead(work)).await;
    let step = format!("b unlatch {path}");
    curator.lock().await.does(&step).await;
    lead.await.unwrap();
    curator.lock().await.says("a leads").await;
    client.close().await;
}

async fn the_lead_passes_between_a_selector_and_a_mutex(ensemble: &Ensemble) {
    let path = ensemble.unique_path("selector");
    let client = ensemble.client().await;
    let mutex = lockkeeper::Mutex::new(&client, &path)
        .unwrap()
        .with_data("ours");
    let mut curator = Curator::start(ensemble).await;
    curator.does(&format!("a select {path} curators-a")).await;
    curator.says("a leads").await;
    let ticket = mutex.enqueue().await.unwrap();
    assert_eq!(ticket.position(), 1);
    curator.does(&format!("b select {path} curators-b")).await;
    until_line_has(&client, &path, 3).await;
    let expected = ["curators-a", "ours", "curators-b"];
    assert_eq!(ids(&client, &path).await, expected);
    assert_eq!(
        curator.does(&format!("b selectors {path}")).await,
        expected.join(" ")
    );

    let ours = waiting(ticket.wait()).await;
    curator.does(&format!("a unselect {path}")).await;
    let ours = ours.await.unwrap();
    curator.does_not_say("b leads").await;
    ours.release().await.unwrap();
    curator.says("b leads").await;
    curator.does(&format!("b unselect {path}")).await;
    client.close().await;
}

async fn ids(client: &Client, path: &str) -> Vec<String> {
    let contenders = inspect(client, path).await.unwrap();
    let ids = contenders.into_iter().map(|one| one.data.unwrap());
    ids.map(|id| String::from_utf8(id.to_vec()).unwrap())
        .collect()
}
