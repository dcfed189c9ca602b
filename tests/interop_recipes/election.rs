//! Curator's `LeaderLatch` and our `Election`; its `LeaderSelector` and our `Mutex`.

use lockkeeper::{Election, Guard, locks::Participant};
use tokio::sync::Mutex;

use crate::{
    actors::Curator,
    assert_waits,
    support::{
        Ensemble,
        exclusion::{self, HOLD, until_line_has, value_of},
    },
};

/// Candidates of each side, each with a session of its own.
const CANDIDATES: usize = 3;

/// How often each of them leads.
const TERMS: usize = 10;

mod needs_java {
    with_others! {
        the_lead_passes_between_both_latches
        there_is_one_leader_at_a_time
        the_lead_passes_between_a_selector_and_a_mutex
    }
}

async fn the_lead_passes_between_both_latches(ensemble: &Ensemble) {
    let path = ensemble.unique_path("election");
    let client = ensemble.client().await;
    let election = Election::new(&client, &path).unwrap().with_id("ours");
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
    assert_eq!(ids(&election.participants().await.unwrap()), expected);
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
    let lead = election.lead(work);
    tokio::pin!(lead);
    assert_waits(&mut lead).await;
    let step = format!("b unlatch {path}");
    curator.lock().await.does(&step).await;
    assert_eq!(lead.await.unwrap().loss, None);
    curator.lock().await.says("a leads").await;
    client.close().await;
}

/// Every leader increments a counter without an atomic operation.
async fn there_is_one_leader_at_a_time(ensemble: &Ensemble) {
    let path = ensemble.unique_path("election");
    let (first, counter) = exclusion::counter(ensemble).await;
    let mut curator = Curator::start(ensemble).await;
    let (terms, hold) = (TERMS, HOLD.as_millis());
    let mut tasks = Vec::new();
    let election = Election::new(&first, &path).unwrap();

    // All candidates queue while we lead, Curator's first.
    let mut all = Vec::new();
    let term = election.lead(async |guard| {
        for actor in 0..CANDIDATES {
            let rounds = format!("{actor} terms {path} {counter} {terms} {hold}");
            curator.tell(&rounds).await;
        }
        until_line_has(&first, &path, 1 + CANDIDATES).await;
        for _ in 0..CANDIDATES {
            let (client, counter, path) = (ensemble.client().await, counter.clone(), path.clone());
            tasks.push(tokio::spawn(async move {
                let election = Election::new(&client, &path).unwrap();
                let mut led = Vec::new();
                for _ in 0..TERMS {
                    let work = async |guard: &_| exclusion::write(guard, &counter).await;
                    let term = election.lead(work).await.unwrap();
                    assert_eq!(term.loss, None);
                    led.extend(term.output);
                }
                client.close().await;
                led
            }));
        }
        until_line_has(&first, &path, 1 + 2 * CANDIDATES).await;
        exclusion::write(guard, &counter).await
    });
    let term = term.await.unwrap();
    assert_eq!(term.loss, None);
    all.extend(term.output);

    for _ in 0..CANDIDATES * TERMS {
        all.push(curator.round().await.1);
    }
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), 1 + 2 * CANDIDATES * TERMS);
    exclusion::assert_exclusive(all, &value_of(&first, &counter).await);
    first.close().await;
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
    assert_eq!(ids(&mutex.participants().await.unwrap()), expected);
    assert_eq!(
        curator.does(&format!("b selectors {path}")).await,
        expected.join(" ")
    );

    let ours = ticket.wait();
    tokio::pin!(ours);
    assert_waits(&mut ours).await;
    curator.does(&format!("a unselect {path}")).await;
    let ours = ours.await.unwrap();
    curator.does_not_say("b leads").await;
    ours.release().await.unwrap();
    curator.says("b leads").await;
    curator.does(&format!("b unselect {path}")).await;
    client.close().await;
}

fn ids(participants: &[Participant]) -> Vec<&str> {
    let ids = participants.iter().map(|one| one.data.as_deref().unwrap());
    ids.map(|id| std::str::from_utf8(id).unwrap()).collect()
}
