//! Curator's `InterProcessSemaphoreV2` and `SharedCount`, and our `Semaphore`.

use lockkeeper::Semaphore;

use crate::{
    actors::Curator,
    assert_waits,
    support::{
        Ensemble,
        exclusion::{self, HOLD, Held, Side, assert_took_turns, until_line_has},
    },
};

/// Contenders of each side, each with a session of its own.
const CONTENDERS: usize = 4;

/// How often each contender takes a lease.
const ROUNDS: usize = 12;

/// How many leases there are.
const LIMIT: usize = 3;

mod needs_java {
    with_others! {
        leases_stay_within_the_limit_and_every_contender_is_served
        a_limit_set_by_either_side_holds_for_both
    }
}

async fn leases_stay_within_the_limit_and_every_contender_is_served(ensemble: &Ensemble) {
    let path = ensemble.unique_path("semaphore");
    let first = ensemble.client().await;
    let semaphore = Semaphore::new(&first, &path, LIMIT).unwrap();
    let mut curator = Curator::start(ensemble).await;

    // We hold all leases and all contenders wait for us; Curator's queue first.
    let leases = semaphore.acquire_many(LIMIT).await.unwrap();
    for actor in 0..CONTENDERS {
        let (rounds, hold) = (ROUNDS, HOLD.as_millis());
        let rounds = format!("{actor} leases {path} {LIMIT} {rounds} {hold}");
        curator.tell(&rounds).await;
    }
    let line = format!("{path}/locks");
    until_line_has(&first, &line, CONTENDERS).await;
    let mut tasks = Vec::new();
    for _ in 0..CONTENDERS {
        let client = ensemble.client().await;
        let semaphore = Semaphore::new(&client, &path, LIMIT).unwrap();
        let mut ticket = Some(semaphore.enqueue().await.unwrap());
        tasks.push(tokio::spawn(async move {
            let mut rounds = Vec::new();
            for round in 1..=ROUNDS as u64 {
                let lease = match ticket.take() {
                    Some(ticket) => ticket.wait().await.unwrap(),
                    None => semaphore.acquire().await.unwrap(),
                };
                let start = exclusion::now();
                tokio::time::sleep(HOLD).await;
                rounds.push(Held {
                    value: round,
                    side: Side::Ours,
                    start,
                    end: exclusion::now(),
                    token: None,
                });
                lease.release().await.unwrap();
            }
            client.close().await;
            rounds
        }));
    }
    assert_eq!(
        semaphore.waiters().await.unwrap().len(),
        2 * CONTENDERS,
        "all contenders still wait"
    );
    for lease in leases {
        lease.release().await.unwrap();
    }

    let mut all = Vec::new();
    for _ in 0..CONTENDERS * ROUNDS {
        all.push(curator.round().await.1);
    }
    for task in tasks {
        all.extend(task.await.unwrap());
    }
    assert_eq!(all.len(), 2 * CONTENDERS * ROUNDS);
    all.sort_by_key(|held| held.start);
    for held in &all {
        let with_it = |other: &&Held| other.start <= held.start && held.start < other.end;
        let together: Vec<_> = all.iter().filter(with_it).collect();
        assert!(together.len() <= LIMIT, "{together:?}");
    }
    assert_took_turns(&all.iter().map(|held| held.side).collect::<Vec<_>>());
    first.close().await;
}

async fn a_limit_set_by_either_side_holds_for_both(ensemble: &Ensemble) {
    let path = ensemble.unique_path("semaphore");
    let limit = ensemble.unique_path("limit");
    let client = ensemble.client().await;
    let semaphore = Semaphore::with_shared_limit(&client, &path, &limit).unwrap();
    let mut curator = Curator::start(ensemble).await;
    let curators_round = format!("a sharedleases {path} {limit} 1 0");
    assert_eq!(curator.does(&format!("a follow {limit}")).await, "0");

    // Curator sets the limit. Our semaphore follows, even while a contender waits.
    curator.does(&format!("a count {limit} 1")).await;
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let one = semaphore.acquire().await.unwrap();
    let two = semaphore.acquire();
    tokio::pin!(two);
    assert_waits(&mut two).await;
    curator.does(&format!("a count {limit} 2")).await;
    let two = two.await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);

    // We set the limit. Curator follows, even while a contender waits.
    curator.tell(&curators_round).await;
    curator.does_not_say("a sharedleases").await;
    semaphore.set_limit(3).await.unwrap();
    curator.says("a sharedleases").await;

    // One lease is released, but as many as the new limit are still held. So neither side gets in.
    semaphore.set_limit(1).await.unwrap();
    // The limit was 1 before, too. What comes after the 3 is new.
    for limit in ["3", "1"] {
        while curator.says("a now").await != limit {}
    }
    one.release().await.unwrap();
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    curator.tell(&curators_round).await;
    curator.does_not_say("a sharedleases").await;
    two.release().await.unwrap();
    curator.says("a sharedleases").await;
    semaphore.acquire().await.unwrap().release().await.unwrap();
    client.close().await;
}
